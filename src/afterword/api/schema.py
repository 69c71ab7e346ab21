"""The OpenAPI description of what FastAPI cannot see: handlers read and write their bodies themselves, byte by byte.

The completion request's schema is the one that validates it; all other shapes are written out here, in wire order.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import PlainTextResponse

from afterword.completions.body import body_schema

REF = "#/components/schemas/{model}"

_STRING: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_FLAG: dict[str, Any] = {"type": "boolean"}


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": REF.format(model=name)}


_MODEL_FACTS: dict[str, Any] = {
    "max_model_len": _COUNT,
    "aliases": _array(_STRING),
    "system_fingerprint": _STRING,
    "capabilities": _object(
        {
            "suffix": _FLAG,
            "max_logprobs": _COUNT,
            "reproducible": _FLAG,
            "prefix_cache": _FLAG,
            "n_streams": _COUNT,
        }
    ),
    "infill_tokens": _or_null(_object({"prefix": _COUNT, "suffix": _COUNT, "middle": _COUNT})),
    "card": {"type": "object"},
}

SCHEMAS: dict[str, dict[str, Any]] = {
    "Logprobs": _object(
        {
            "tokens": _array(_STRING),
            "token_logprobs": _array(_or_null({"type": "number"})),
            "top_logprobs": _or_null(_array(_or_null({"type": "object", "additionalProperties": {"type": "number"}}))),
            "text_offset": _array(_COUNT),
        }
    ),
    "Choice": _object(
        {
            "text": _STRING,
            "index": _COUNT,
            "logprobs": _or_null(_ref("Logprobs")),
            "finish_reason": _or_null({"enum": ["stop", "length", "content_filter"]}),
            "prompt_logprobs": _array(_or_null({"type": "object", "additionalProperties": _ref("PromptToken")})),
        },
        "prompt_logprobs",
    ),
    "PromptToken": _object({"logprob": {"type": "number"}, "rank": _COUNT, "decoded_token": _STRING}),
    "Usage": _object(
        {
            "prompt_tokens": _COUNT,
            "completion_tokens": _COUNT,
            "total_tokens": _COUNT,
            "prompt_tokens_details": _object({"cached_tokens": _COUNT, "audio_tokens": _COUNT}),
            "completion_tokens_details": _object(
                {
                    "reasoning_tokens": _COUNT,
                    "audio_tokens": _COUNT,
                    "accepted_prediction_tokens": _COUNT,
                    "rejected_prediction_tokens": _COUNT,
                }
            ),
        }
    ),
    "Completion": _object(
        {
            "id": _STRING,
            "object": {"const": "text_completion"},
            "created": _COUNT,
            "model": _STRING,
            "system_fingerprint": _STRING,
            "choices": _array(_ref("Choice")),
            "usage": _ref("Usage"),
        }
    ),
    "CompletionChunk": _object(
        {
            "id": _STRING,
            "object": {"const": "text_completion"},
            "created": _COUNT,
            "choices": _array(_ref("Choice")),
            "model": _STRING,
            "system_fingerprint": _STRING,
            "usage": _or_null(_ref("Usage")),
            "obfuscation": _STRING,
        },
        "usage",
        "obfuscation",
    ),
    # Events, not what they hold: a stream as a whole has no schema, and its last event holds no JSON.
    "CompletionEvent": _object(
        {
            "data": {
                **_STRING,
                "contentMediaType": "application/json",
                "contentSchema": {"anyOf": [_ref("CompletionChunk"), _ref("Error")]},
            }
        }
    ),
    "End": _object({"data": {"const": "[DONE]"}}),
    "NamedEnd": _object({"event": {"const": "done"}, "data": {"const": "[DONE]"}}),
    "Model": _object(
        {"id": _STRING, "object": {"const": "model"}, "created": _COUNT, "owned_by": _STRING, **_MODEL_FACTS}
    ),
    "ModelList": _object({"object": {"const": "list"}, "data": _array(_ref("Model"))}),
    "InferenceModel": _object(
        {
            "id": _STRING,
            "object": {"const": "model"},
            "name": _STRING,
            "model_vendor": _STRING,
            "model_type": {"const": "completion"},
            "model_availability": {"enum": ["available", "unavailable"]},
            "status": {"enum": ["ready", "deploying", "failed"]},
            "status_reason": _or_null(_STRING),
            "created_at": {**_STRING, "format": "date-time"},
            "created_by_identity_type": {"const": "service_account"},
            "created_by_user_id": _STRING,
            "vendor_configuration": {"type": "null"},
            "model_metadata": _object(_MODEL_FACTS),
        }
    ),
    "InferenceModelPage": _object({"items": _array(_ref("InferenceModel")), "has_more": _FLAG}),
    "TokenizeBody": _object(
        {
            "prompt": _STRING,
            "model": _or_null(_STRING),
            "add_special_tokens": _or_null(_FLAG),
            "return_token_strs": _or_null(_FLAG),
        },
        "model",
        "add_special_tokens",
        "return_token_strs",
    ),
    "Tokens": _object(
        {
            "count": _COUNT,
            "max_model_len": _COUNT,
            "tokens": _array(_COUNT),
            "token_strs": _or_null(_array(_STRING)),
        }
    ),
    "DetokenizeBody": _object({"tokens": _array(_COUNT), "model": _or_null(_STRING)}, "model"),
    "Detokenized": _object({"prompt": _STRING}),
    "TokenizerInfo": _object(
        {
            "tokenizer_class": _STRING,
            "bos_token": _or_null(_STRING),
            "eos_token": _or_null(_STRING),
            "pad_token": _or_null(_STRING),
            "add_bos_token": _FLAG,
            "vocab_size": _COUNT,
            "model_max_length": _COUNT,
            "chat_template": _or_null(_STRING),
        }
    ),
    "Welcome": _object(
        {
            "name": _STRING,
            "version": _STRING,
            "completions": _STRING,
            "models": _STRING,
            "documentation": _STRING,
            "default_model": _STRING,
        }
    ),
    "Status": _object({"status": _STRING, "models": {"type": "object", "additionalProperties": _STRING}}),
    "Error": _object(
        {"error": _object({"message": _STRING, "type": _STRING, "param": _or_null(_STRING), "code": _or_null(_STRING)})}
    ),
}


def _answer(meaning: str, name: str) -> dict[str, Any]:
    return {"description": meaning, "content": {"application/json": {"schema": _ref(name)}}}


_NO_KEY = {401: _answer("No API key, or a wrong one.", "Error")}
_NO_MODEL = {403: _answer("The key may not use the model.", "Error"), 404: _answer("No such model.", "Error")}
_BAD_BODY = {
    400: _answer("The request breaks a rule; `param` names the field.", "Error"),
    408: _answer("The body stopped coming for half a minute.", "Error"),
    413: _answer("The body is too large.", "Error"),
    415: _answer("The body has an encoding other than gzip.", "Error"),
}


def _docs(responses: dict[int, dict[str, Any]], **extra: Any) -> dict[str, Any]:
    return {"responses": responses, "openapi_extra": extra}


def _body(name: str) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": _ref(name)}}}


def _parameter(name: str, where: str, schema: dict[str, Any] = _STRING) -> dict[str, Any]:
    return {"name": name, "in": where, "required": where == "path", "schema": schema}


def _completion_docs(end: str, event: dict[str, Any]) -> dict[str, Any]:
    """Of a completions route whose streams end with `end`, each event being an `event`."""
    return _docs(
        {
            200: {
                "description": f"The completion; with `stream`, chunks as server-sent events that end with {end}.",
                "content": {
                    "application/json": {"schema": _ref("Completion")},
                    "text/event-stream": {"schema": event},
                },
            },
            **_BAD_BODY,
            **_NO_KEY,
            **_NO_MODEL,
            429: _answer("A limit of the key is used up; `Retry-After` says when to come back.", "Error"),
            503: _answer("The server is full; `Retry-After` says when to come back.", "Error"),
        },
        requestBody=_body("CompletionBody"),
    )


COMPLETION_DOCS = _completion_docs("`[DONE]`", {"anyOf": [_ref("CompletionEvent"), _ref("End")]})
"""What the completions route declares beside its path; the others below, likewise."""
SCALE_COMPLETION_DOCS = _completion_docs(
    "an event named `done`", {"anyOf": [_ref("CompletionEvent"), _ref("NamedEnd")]}
)

MODELS_DOCS = _docs({200: _answer("Every model that the key may use.", "ModelList"), **_NO_KEY})
MODEL_DOCS = _docs(
    {200: _answer("The model.", "Model"), **_NO_KEY, **_NO_MODEL}, parameters=[_parameter("model_id", "path")]
)
SCALE_MODELS_DOCS = _docs(
    {
        200: _answer("A page of models.", "InferenceModelPage"),
        400: _answer("A parameter breaks a rule; `param` names it.", "Error"),
        **_NO_KEY,
    },
    parameters=[
        _parameter("name", "query"),
        _parameter("model_vendor", "query"),
        _parameter("sort_by", "query", {"enum": ["id", "name", "model_vendor", "created_at"]}),
        _parameter("sort_order", "query", {"enum": ["asc", "desc"]}),
        _parameter("starting_after", "query"),
        _parameter("ending_before", "query"),
        _parameter("limit", "query", {"type": "integer", "minimum": 1}),
    ],
)
SCALE_MODEL_DOCS = _docs(
    {200: _answer("The model.", "InferenceModel"), **_NO_KEY, **_NO_MODEL},
    parameters=[_parameter("model_id", "path")],
)
TOKENIZE_DOCS = _docs(
    {200: _answer("The text's tokens.", "Tokens"), **_BAD_BODY, **_NO_KEY, **_NO_MODEL},
    requestBody=_body("TokenizeBody"),
)
DETOKENIZE_DOCS = _docs(
    {200: _answer("The tokens' text.", "Detokenized"), **_BAD_BODY, **_NO_KEY, **_NO_MODEL},
    requestBody=_body("DetokenizeBody"),
)
TOKENIZER_INFO_DOCS = _docs(
    {200: _answer("The tokenizer.", "TokenizerInfo"), **_NO_KEY, **_NO_MODEL},
    parameters=[_parameter("model", "query")],
)
WELCOME_DOCS = _docs({200: _answer("Names and places.", "Welcome")})
HEALTH_DOCS = _docs({200: _answer("Alive.", "Status"), 503: _answer("An engine has failed.", "Status")})
READY_DOCS = _docs({200: _answer("Ready.", "Status"), 503: _answer("Not ready.", "Status")})
METRICS_DOCS = _docs({200: {"description": "Metrics.", "content": {"text/plain": {"schema": _STRING}}}, **_NO_KEY})
# FastAPI adds JSON to what a route declares unless its response class is of another type.
METRICS_DOCS["response_class"] = PlainTextResponse


def describe_api(app: FastAPI) -> None:
    """Make `app.openapi` include the schemas that the routes refer to."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = get_openapi(title=app.title, version=app.version, routes=app.routes)
            schemas = described.setdefault("components", {}).setdefault("schemas", {})
            schemas.update(SCHEMAS | {"CompletionBody": body_schema()})
            app.openapi_schema = described
        return app.openapi_schema

    # FastAPI's documented way to extend the description is to replace this method on the instance.
    app.openapi = openapi  # type: ignore[method-assign]

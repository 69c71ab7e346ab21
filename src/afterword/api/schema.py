"""The OpenAPI description of what FastAPI cannot see: handlers read their bodies themselves, byte by byte.

The request's schema is the one that validates it; the response's is written out here, in wire order.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from afterword.completions.body import body_schema

REF = "#/components/schemas/{model}"

_STRING: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": REF.format(model=name)}


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
    "Error": _object(
        {"error": _object({"message": _STRING, "type": _STRING, "param": _or_null(_STRING), "code": _or_null(_STRING)})}
    ),
}


def _error(meaning: str) -> dict[str, Any]:
    return {"description": meaning, "content": {"application/json": {"schema": _ref("Error")}}}


COMPLETION_DOCS: dict[str, Any] = {
    "responses": {
        200: {
            "description": "The completion; with `stream`, chunks as server-sent events that end with `[DONE]`.",
            "content": {
                "application/json": {"schema": _ref("Completion")},
                "text/event-stream": {"schema": _ref("CompletionChunk")},
            },
        },
        400: _error("The request breaks a rule; `param` names the field."),
        401: _error("No API key, or a wrong one."),
        404: _error("No such model."),
        413: _error("The body is too large."),
        503: _error("The server is full; `Retry-After` says when to come back."),
    },
    "openapi_extra": {
        "requestBody": {"required": True, "content": {"application/json": {"schema": _ref("CompletionBody")}}}
    },
}
"""What the completions route declares beside its path."""


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

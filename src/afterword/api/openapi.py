"""The OpenAPI description of bodies, which FastAPI cannot derive: handlers read and write them as bytes.

What each route takes and returns; the JSON schemas are in `json_schemas.py`.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import PlainTextResponse

from afterword.api.json_schemas import SCHEMAS, STRING, ref
from afterword.completions.parse import body_schema
from afterword.completions.scoring.score_body import score_schema


def _answer(meaning: str, name: str) -> dict[str, Any]:
    return {"description": meaning, "content": {"application/json": {"schema": ref(name)}}}


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
    return {"required": True, "content": {"application/json": {"schema": ref(name)}}}


def _parameter(name: str, where: str, schema: dict[str, Any] = STRING) -> dict[str, Any]:
    return {"name": name, "in": where, "required": where == "path", "schema": schema}


_ACCEPTED = {
    429: _answer("A limit of the key is used up; `Retry-After` says when to come back.", "Error"),
    503: _answer("The server is full; `Retry-After` says when to come back.", "Error"),
    504: _answer("Nothing was generated within `x-request-timeout` seconds.", "Error"),
}


def _completion_docs(end: str, event: dict[str, Any]) -> dict[str, Any]:
    """Of a completions route whose streams end with `end`, each event being an `event`."""
    return _docs(
        {
            200: {
                "description": f"The completion; with `stream`, chunks as server-sent events that end with {end}.",
                "content": {
                    "application/json": {"schema": ref("Completion")},
                    "text/event-stream": {"schema": event},
                },
            },
            **_BAD_BODY,
            **_NO_KEY,
            **_NO_MODEL,
            **_ACCEPTED,
        },
        requestBody=_body("CompletionBody"),
    )


COMPLETION_DOCS = _completion_docs("`[DONE]`", {"anyOf": [ref("CompletionEvent"), ref("End")]})
"""Declarations of the completions route; below, those of the others."""
SCALE_COMPLETION_DOCS = _completion_docs("an event named `done`", {"anyOf": [ref("CompletionEvent"), ref("NamedEnd")]})

SCORE_DOCS = _docs(
    {200: _answer("The scores.", "Scores"), **_BAD_BODY, **_NO_KEY, **_NO_MODEL, **_ACCEPTED},
    requestBody=_body("ScoreBody"),
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
READY_DOCS = _docs({200: _answer("Ready.", "Readiness"), 503: _answer("Not ready.", "Readiness")})
METRICS_DOCS = _docs({200: {"description": "Metrics.", "content": {"text/plain": {"schema": STRING}}}, **_NO_KEY})
# FastAPI adds JSON to what a route declares unless its response class is of another type.
METRICS_DOCS["response_class"] = PlainTextResponse


def describe_api(app: FastAPI) -> None:
    """Make `app.openapi` include the schemas that the routes refer to."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            # Beside the description itself: a proxy may have put both below a path.
            beside = [{"url": "."}]
            described = get_openapi(title=app.title, version=app.version, routes=app.routes, servers=beside)
            schemas = described.setdefault("components", {}).setdefault("schemas", {})
            schemas.update(SCHEMAS | {"CompletionBody": body_schema(), "ScoreBody": score_schema()})
            app.openapi_schema = described
        return app.openapi_schema

    # FastAPI's documented way to extend the description is to replace this method on the instance.
    app.openapi = openapi  # type: ignore[method-assign]

"""The models routes: the served models and what each supports. Read only.

Those of the Scale GP dialect, which have another shape, are in `scale_models.py`.
"""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from afterword.api.auth import find_model, permitted_models
from afterword.api.dialect import OPENAI
from afterword.api.openapi import MODEL_DOCS, MODELS_DOCS
from afterword.api.serving import serving
from afterword.api.wire import json_response
from afterword.completions.resolve import most_logprobs
from afterword.config.tree import ServerConfig
from afterword.engine.base import UNKNOWN_CONTEXT
from afterword.registry import ServedModel

router = APIRouter(tags=["models"])


@router.get("/v1/models", **MODELS_DOCS)
@router.get("/openai/v1/models", include_in_schema=False)
@router.get("/openai/models", include_in_schema=False)
async def list_models(request: Request) -> Response:
    """Every model that the key may use, in the order of registration; the first of all answers requests without one."""
    ours = serving(request)
    cards = [model_card(served, ours.server) for served in permitted_models(ours.registry, request.scope)]
    return json_response({"object": "list", "data": cards})


@router.get("/v1/models/{model_id:path}", **MODEL_DOCS)
@router.get("/openai/v1/models/{model_id:path}", include_in_schema=False)
@router.get("/openai/models/{model_id:path}", include_in_schema=False)
async def retrieve_model(request: Request) -> Response:
    """One model by its name, alone or after its vendor's (`vendor/name`), or by an alias."""
    ours = serving(request)
    served = find_model(OPENAI, ours.registry, request.path_params["model_id"], request.scope)
    return json_response(model_card(served, ours.server))


def model_card(served: ServedModel, server: ServerConfig) -> dict[str, Any]:
    """The documented fields of a model, then those of this server."""
    documented = {"id": served.name, "object": "model", "created": served.created, "owned_by": served.owned_by}
    return documented | model_facts(served, server)


def model_facts(served: ServedModel, server: ServerConfig) -> dict[str, Any]:
    """A model's context length and everything that it, on this server, can and cannot do."""
    engine = served.engine
    can = engine.capabilities
    infill, template = served.infill, served.infill_template
    return {
        "max_model_len": None if can.context == UNKNOWN_CONTEXT else can.context,
        "aliases": list(served.aliases),
        "state": engine.stats().state,
        "system_fingerprint": engine.fingerprint,
        "capabilities": {
            "suffix": infill is not None or template is not None,
            "max_logprobs": most_logprobs(served, server),
            "reproducible": can.reproducible,
            "prefix_cache": can.prefix_cache,
            "n_slots": can.n_slots,
            "n_cells": can.n_cells,
            "exact_tokens": can.exact_tokens,
            "lacks": sorted(can.lacks),
        },
        "infill_tokens": None
        if infill is None
        else {"prefix": infill.prefix, "suffix": infill.suffix, "middle": infill.middle},
        "card": served.card if template is None else {**served.card, "infill_template": template.text},
    }

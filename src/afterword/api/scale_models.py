"""The models routes of the Scale GP dialect: the same models in the shape that Scale's SDK reads. Read only."""

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from afterword.api.auth import find_model, permitted_models
from afterword.api.dialect import SCALE_GP
from afterword.api.models_routes import model_facts
from afterword.api.openapi import SCALE_MODEL_DOCS, SCALE_MODELS_DOCS
from afterword.api.pages import read_page_query
from afterword.api.serving import serving
from afterword.api.wire import json_response
from afterword.config.tree import ServerConfig
from afterword.registry import ServedModel

FILTERS = ("name", "model_vendor")
SORTABLE = ("id", "name", "model_vendor", "created_at")

STATUS = {
    "ready": ("ready", None),
    "unloaded": ("ready", "The model is loaded when it is asked for."),
    "starting": ("ready", "The model is being loaded for a request."),
    "loading": ("deploying", "The model is being loaded."),
    "unreachable": ("failed", "No server behind the model answers at present; it is asked again from time to time."),
    "failed": ("failed", "The engine has failed; the server's log says why."),
    "closed": ("failed", "The server is shutting down."),
}
"""The SDK's status for each state of an engine, with a reason."""

router = APIRouter(tags=["models"])


@router.get("/v5/models", **SCALE_MODELS_DOCS)
async def list_models_for_scale_gp(request: Request) -> Response:
    """Every model that the key may use, in pages, with filters and an order; without those as `/v1/models` has them."""
    query = read_page_query(request.query_params, filters=FILTERS, sortable=SORTABLE)
    ours = serving(request)
    items, has_more = query.page(
        [inference_model(served, ours.server) for served in permitted_models(ours.registry, request.scope)]
    )
    return json_response({"items": items, "has_more": has_more})


@router.get("/v5/models/{model_id:path}", **SCALE_MODEL_DOCS)
async def retrieve_model_for_scale_gp(request: Request) -> Response:
    """One model by its full name (`vendor/name`) or an alias."""
    ours = serving(request)
    served = find_model(SCALE_GP, ours.registry, request.path_params["model_id"], request.scope)
    return json_response(inference_model(served, ours.server))


def inference_model(served: ServedModel, server: ServerConfig) -> dict[str, Any]:
    """The SDK's `InferenceModel`, with all that `/v1/models` says besides as its `model_metadata`."""
    status, reason = STATUS[served.engine.stats().state]
    return {
        "id": served.full_name,
        "object": "model",
        "name": served.name,
        "model_vendor": served.vendor,
        "model_type": "completion",
        "model_availability": "available" if status == "ready" else "unavailable",
        "status": status,
        "status_reason": reason,
        "created_at": datetime.fromtimestamp(served.created, UTC).isoformat(),
        "created_by_identity_type": "service_account",
        "created_by_user_id": served.owned_by,
        "vendor_configuration": None,
        "model_metadata": model_facts(served, server),
    }

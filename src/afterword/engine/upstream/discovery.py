"""What an upstream's model routes say of a model: its context, its fingerprint, whether it is reproducible.

Read once, at start. Nothing of it is required: the configuration has the rest, or it stays unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from afterword.config.vendor import VendorConfig
from afterword.engine.upstream.connection import request_headers


@dataclass(frozen=True, slots=True)
class About:
    """What is known; None where the upstream does not say."""

    context: int | None = None
    fingerprint: str | None = None
    reproducible: bool = False
    problem: str | None = None
    """Why nothing could be learned, for the log."""


def ask_about(vendor: VendorConfig, model: str) -> About:
    """Read it, with the vendor's connect time-out for each request. Never raises. Blocks: not for the event loop."""
    try:
        with httpx.Client(headers=request_headers(vendor), timeout=vendor.connect_timeout) as client:
            card = _card(_json(client.get(f"{vendor.url}/models")), model)
            if vendor.kind == "afterword":
                card = _json(client.get(f"{vendor.url}/models/{model}"))
            slot = _slot(client, vendor) if vendor.kind == "llama-server" else {}
    except httpx.HTTPError as error:
        return About(problem=f"it did not answer: {error!r}")
    except ValueError as error:
        return About(problem=str(error))
    fingerprint = card.get("system_fingerprint")
    return About(
        context=_count(slot.get("n_ctx")) or _count(card.get("max_model_len")),
        fingerprint=fingerprint if isinstance(fingerprint, str) else None,
        reproducible=_object(card.get("capabilities")).get("reproducible") is True,
    )


def _card(listing: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The entry of the model. If there is only one, that one: llama-server accepts any name."""
    found = listing.get("data")
    cards = [_object(card) for card in found] if isinstance(found, list) else []
    named = [card for card in cards if card.get("id") == model]
    if named:
        return named[0]
    if len(cards) == 1:
        return cards[0]
    names = ", ".join(str(card.get("id")) for card in cards[:10])
    raise ValueError(f"it has no model {model!r}; it has {names or 'none'}")


def _slot(client: httpx.Client, vendor: VendorConfig) -> dict[str, Any]:
    """The settings of one of llama-server's slots; the route may be switched off."""
    response = client.get(vendor.url.removesuffix("/v1") + "/props")
    return _object(_json(response).get("default_generation_settings")) if response.is_success else {}


def _json(response: httpx.Response) -> dict[str, Any]:
    if not response.is_success:
        raise ValueError(f"{response.request.url.path} was answered with HTTP status {response.status_code}")
    return _object(orjson.loads(response.content))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

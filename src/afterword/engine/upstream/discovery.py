"""What an upstream's model routes say of a model: its context, its fingerprint, whether it is reproducible.

Read once, at start. Nothing of it is required: the configuration has the rest, or it stays unknown.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from afterword.config.vendor import VendorConfig
from afterword.engine.upstream.connection import check_plain, request_headers

MAX_BODY = 8 * 2**20
"""Bytes of a description; the longest list of models at a hosted vendor has half a million."""


@dataclass(frozen=True, slots=True)
class About:
    """What is known; None where the upstream does not say."""

    context: int | None = None
    fingerprint: str | None = None
    reproducible: bool = False
    problem: str | None = None
    """Why nothing could be learned, for the log."""


def ask_about(vendor: VendorConfig, model: str) -> About:
    """Read it, `MAX_BODY` of each answer at most, in the vendor's connect time-out. Never raises. Blocks: not for the
    event loop.
    """
    try:
        with httpx.Client(headers=request_headers(vendor), timeout=vendor.connect_timeout) as client:
            card = _card(_read(client, f"{vendor.url}/models", vendor), model)
            if vendor.kind == "afterword":
                card = _read(client, f"{vendor.url}/models/{model}", vendor)
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
    try:
        return _object(_read(client, vendor.url.removesuffix("/v1") + "/props", vendor)["default_generation_settings"])
    except (KeyError, ValueError):
        return {}


def _read(client: httpx.Client, url: str, vendor: VendorConfig) -> dict[str, Any]:
    """The JSON object there. Raises `ValueError`, with a reason as the end of a sentence, and `httpx.HTTPError`."""
    deadline = time.monotonic() + vendor.connect_timeout
    body = bytearray()
    with client.stream("GET", url) as response:
        if not response.is_success:
            raise ValueError(f"{response.request.url.path} was answered with HTTP status {response.status_code}")
        check_plain(response)
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > MAX_BODY:
                raise ValueError(f"{response.request.url.path} has more than {MAX_BODY} bytes")
            if time.monotonic() > deadline:
                raise ValueError(f"{response.request.url.path} took longer than {vendor.connect_timeout} s")
    return _object(orjson.loads(body))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

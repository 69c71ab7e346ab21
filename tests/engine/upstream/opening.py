"""Opens upstream engines that are pointed at a server under test."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from afterword.config.vendor import PRESETS, Supports, UpstreamKind, VendorConfig
from afterword.engine.capacity import Capacity
from afterword.engine.upstream.capabilities import upstream_capabilities
from afterword.engine.upstream.discovery import ask_about
from afterword.engine.upstream.learned_tokenizer import LearnedTokenizer
from afterword.engine.upstream.outgoing import Target
from afterword.engine.upstream.upstream_engine import UpstreamEngine, UpstreamModel
from afterword.tokens import Tokenizer


def vendor(
    url: str,
    *,
    kind: UpstreamKind = "openai",
    supports: Supports | None = None,
    settings: Mapping[str, Any] = {},
) -> VendorConfig:
    """A vendor at `url`, which has no `/v1` at its end; one that waits and tries less, where `settings` say nothing."""
    impatient = {"max_concurrent": 4, "first_event_timeout": 20, "idle_timeout": 20, "retries": 0}
    return VendorConfig(
        name="there",
        url=f"{url}/v1",
        kind=kind,
        supports=PRESETS[kind] if supports is None else supports,
        **{**impatient, **settings},
    )


def upstream_engine(
    settings: VendorConfig, model: str, tokenizer: Tokenizer | None, *, max_waiting: int = 64
) -> UpstreamEngine:
    """An engine for `model` there; None: without a tokenizer."""
    known = LearnedTokenizer() if tokenizer is None else tokenizer
    exact = tokenizer is not None
    about = ask_about(settings, model)
    capabilities = upstream_capabilities(
        settings, context=about.context or 0, exact=exact, reproducible=about.reproducible
    )
    target = Target(settings, model, known.end_ids, exact)
    capacity = Capacity(settings.max_concurrent, max_waiting)
    return UpstreamEngine(UpstreamModel(target, known, capabilities, about.fingerprint or ""), capacity, time.monotonic)


@asynccontextmanager
async def opened(
    url: str, model: str, tokenizer: Tokenizer | None, *, kind: UpstreamKind, max_waiting: int = 64
) -> AsyncIterator[UpstreamEngine]:
    """The same for a while."""
    engine = upstream_engine(vendor(url, kind=kind), model, tokenizer, max_waiting=max_waiting)
    try:
        yield engine
    finally:
        await engine.aclose()

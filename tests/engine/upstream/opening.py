"""Opens upstream engines that are pointed at a server under test."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from afterword.engine.upstream.asking import Target
from afterword.engine.upstream.capabilities import upstream_capabilities
from afterword.engine.upstream.discovery import ask_about
from afterword.engine.upstream.engine import UpstreamEngine, UpstreamModel
from afterword.engine.upstream.learned import LearnedTokenizer
from afterword.engine.upstream.room import Room
from afterword.engine.upstream.settings import (
    PRESETS,
    Caution,
    Patience,
    Supports,
    UpstreamKind,
    VendorSettings,
)
from afterword.tokens import Tokenizer

IMPATIENT = Patience(connect=5.0, first_event=20.0, idle=20.0, retries=0)


def vendor(
    url: str,
    *,
    kind: UpstreamKind = "openai",
    patience: Patience = IMPATIENT,
    caution: Caution | None = None,
    supports: Supports | None = None,
    max_concurrent: int = 4,
) -> VendorSettings:
    """A vendor at `url`, which has no `/v1` at its end."""
    return VendorSettings(
        name="there",
        url=f"{url}/v1",
        kind=kind,
        max_concurrent=max_concurrent,
        patience=patience,
        caution=Caution() if caution is None else caution,
        supports=PRESETS[kind] if supports is None else supports,
    )


def upstream_engine(
    settings: VendorSettings, model: str, tokenizer: Tokenizer | None, *, max_waiting: int = 64
) -> UpstreamEngine:
    """An engine for `model` there; None: without a tokenizer."""
    known = LearnedTokenizer() if tokenizer is None else tokenizer
    exact = tokenizer is not None
    about = ask_about(settings, model)
    capabilities = upstream_capabilities(
        settings, context=about.context or 0, exact=exact, reproducible=about.reproducible
    )
    target = Target(settings, model, known.end_ids, exact)
    room = Room(settings.max_concurrent, max_waiting)
    return UpstreamEngine(UpstreamModel(target, known, capabilities, about.fingerprint or ""), room, time.monotonic)


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

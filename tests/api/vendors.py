"""An application in front of a fake vendor whose tokens nobody knows, for a key with limits and a ledger in memory."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI
from tests.api.gateways import ListedRows, gateway_of
from tests.api.served import client_of
from tests.engine.upstream.fakes import Answer, Fake, fake_upstream
from tests.engine.upstream.opening import upstream_engine, vendor

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.config.vendor import PRESETS
from afterword.engine.base import Engine
from afterword.gateway.grant import Grant, KeyLimits
from afterword.gateway.interfaces import LimitState
from afterword.gateway.limiter import RateLimiter, memory_limiter
from afterword.registry import Registry, ServedModel

KEY = "limited"
LIMITS = KeyLimits(requests_per_minute=1000, tokens_per_minute=10_000, concurrent_requests=2)


@dataclass(frozen=True, slots=True)
class Counting:
    """Everything that counts for one key, and the application in front of it."""

    app: FastAPI
    ledger: ListedRows
    limiter: RateLimiter
    grant: Grant

    def client(self) -> httpx.AsyncClient:
        """A client with the key, without a socket."""
        return client_of(self.app, authorization=f"Bearer {KEY}")

    async def limits(self) -> LimitState:
        """What the key has left."""
        return await self.limiter.limit_state(self.grant)

    async def tokens_used(self) -> int:
        """Tokens of the key that count, reserved or used."""
        tokens = (await self.limits()).tokens
        assert tokens is not None
        return tokens.limit - tokens.remaining


def counting_of(engine: Engine, limits: KeyLimits = LIMITS) -> Counting:
    """`engine` as the model `m`."""
    grant = Grant("k1", "acme", None, limits)
    ledger, limiter = ListedRows(), memory_limiter()
    gateway = gateway_of({KEY: grant}, ledger=ledger, limiter=limiter)
    app = create_app(Registry([ServedModel("m", engine, 0)]), ServerConfig(), gateway)
    return Counting(app, ledger, limiter, grant)


def vendor_engine(url: str, settings: Mapping[str, Any] = {}, **supports: Any) -> Engine:
    """A model at the vendor at `url`, which gives no log-probabilities and whose tokenizer is not configured."""
    chosen = PRESETS["openai"].model_copy(update={"logprobs": False, **supports})
    return upstream_engine(vendor(url, supports=chosen, settings=settings), "m", None)


@asynccontextmanager
async def at_a_vendor(
    *answers: Answer, limits: KeyLimits = LIMITS, **settings: Any
) -> AsyncIterator[tuple[Fake, Counting]]:
    """A vendor that answers so, and the application in front of it."""
    with fake_upstream(*answers) as fake:
        engine = vendor_engine(fake.url, settings)
        try:
            yield fake, counting_of(engine, limits)
        finally:
            await engine.aclose()

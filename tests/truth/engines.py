"""Engines that can be brought to a moment of a request, and what does their work."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from tests.api.served import BreakingEngine
from tests.api.vendors import vendor_engine
from tests.cluster.in_process import LocalReplicas, cluster_engine
from tests.engine.llama.fake_runner import FakeRunner
from tests.engine.llama.test_llama_engine import N_VOCAB, GatedRunner
from tests.engine.upstream.fakes import (
    Answer,
    Fake,
    breaks_after,
    fake_upstream,
    hangs,
    refuses,
    says,
    text_event,
    usage_event,
)
from tests.engine.upstream.opening import upstream_engine, vendor
from tests.engine.vllm.fake_core import FakeCore
from tests.live import run_server
from tests.models.engines import open_tiny
from tests.models.tiny import Tiny
from typing_extensions import override

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.base import Capabilities, Engine, EngineStats
from afterword.engine.echo import EchoEngine
from afterword.engine.llama.arithmetic import QUANTISED
from afterword.engine.llama.engine_thread import Loaded
from afterword.engine.llama.kv import KVSlots
from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.runner import Computed
from afterword.engine.llama.scheduler import Scheduler
from afterword.engine.llama.sequence import Span
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.engine.vllm.plan import Limits
from afterword.engine.vllm.vllm_engine import VllmEngine
from afterword.errors import EngineFailed
from afterword.registry import Registry, ServedModel
from afterword.tokens import ByteTokenizer

Moment = Literal[
    "queued", "begun", "after 1", "after 3", "unread", "last", "all", "fails first", "fails later", "closed"
]

MANY = 400
"""Tokens of a request that is not meant to end."""

FEW = 5
"""Tokens of one that is."""

LONG = "a long prompt, of which the engine takes its time to say anything " * 30
"""2,010 bytes."""


@dataclass(slots=True)
class Bench:
    """An engine, and how far it is."""

    engine: Engine
    stats: Callable[[], EngineStats]
    """Of what does the work."""
    has_begun: Callable[[], bool] = lambda: False
    """At the moment `begun`: somebody works on the prompt."""
    body: dict[str, Any] = field(default_factory=dict)
    """Fields of the request that are its own."""
    counts_exactly: bool = True
    """Nothing is computed beyond what the engine has said when a client leaves."""
    fails_as: int = 500
    fails_after: int = 2
    """Tokens, at the moment `fails later`."""
    estimates: bool = False
    """Somebody else counts, at the end of an answer."""
    closing: asyncio.Task[None] | None = None
    """Closes the engine, at the moment `closed`."""


class OpenBench(Protocol):
    """An engine with one slot, on which a request comes to the moment."""

    def __call__(self, moment: Moment) -> AbstractAsyncContextManager[Bench]: ...


@asynccontextmanager
async def closing(engine: Engine) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await engine.aclose()


def echo_for(moment: Moment) -> EchoEngine:
    """With pauses that no test waits for where others must not end."""
    broken = EngineFailed("It broke.")
    match moment:
        case "fails first":
            return BreakingEngine(broken, after=0)
        case "fails later":
            return BreakingEngine(broken, after=3)
        case _:
            return EchoEngine(n_slots=1, token_delay=60 if moment == "queued" else 0)


SLOWLY = {"prompt": LONG, "echo": True, "logprobs": 1}
"""The echo engine scores a long prompt in several turns of the loop."""


@asynccontextmanager
async def open_echo(moment: Moment) -> AsyncIterator[Bench]:
    engine = echo_for(moment)
    body = SLOWLY if moment == "begun" else {}
    async with closing(engine):
        yield Bench(engine, engine.stats, lambda: engine.stats().running == 1, body)


@asynccontextmanager
async def open_cluster(moment: Moment) -> AsyncIterator[Bench]:
    replica = echo_for(moment)
    engine = cluster_engine(LocalReplicas([replica]))
    body = SLOWLY if moment == "begun" else {}
    async with closing(replica), closing(engine):
        yield Bench(engine, replica.stats, lambda: replica.stats().running == 1, body, counts_exactly=False)


class SteppedRunner(GatedRunner):
    """Computes as often as it may."""

    steps: threading.Semaphore

    @override
    def forward(self, spans: Sequence[Span]) -> list[Computed]:
        self.steps.acquire(timeout=60)
        return super().forward(spans)


@asynccontextmanager
async def open_llama(moment: Moment) -> AsyncIterator[Bench]:
    """A tiny model; where it must be held, a fake in its place."""
    if moment == "begun" or moment.startswith("fails"):
        async with open_fake_llama(moment) as bench:
            yield bench
        return
    async with open_tiny(Tiny("Q8_0", add_bos=True), parallel=1) as engine:
        yield Bench(engine, engine.stats, counts_exactly=False)


@asynccontextmanager
async def open_fake_llama(moment: Moment) -> AsyncIterator[Bench]:
    runner = SteppedRunner(FakeRunner(1, N_VOCAB), fails_at={"fails first": 1, "fails later": 4}.get(moment))
    runner.gate.set()
    runner.steps = threading.Semaphore(1 if moment == "begun" else 1000)
    kv = KVSlots(1, 3000)
    scheduler = Scheduler(kv, runner, LogSoftmax(N_VOCAB), QUANTISED)
    engine = LlamaEngine(
        ByteTokenizer(),
        Capabilities(context=2999, max_logprobs=100, reproducible=True, prefix_cache=True, n_slots=1),
        "fp_0123456789",
        Loaded(scheduler, kv, lambda: None),
        max_waiting=64,
    )
    # The first piece of the prompt is computed and the second is not: the first step's events were delivered by then.
    body = {"prompt": LONG} if moment == "begun" else {}
    try:
        yield Bench(engine, engine.stats, lambda: scheduler.counters.steps == 2, body)
    finally:
        runner.steps.release(1000)
        await engine.aclose()


@asynccontextmanager
async def open_vllm(moment: Moment) -> AsyncIterator[Bench]:
    held = {"after 1": 1, "after 3": 3, "unread": 5, "closed": 3}
    core = FakeCore(
        at_once=held.get(moment, 1),
        stalls=moment in held,
        n_missing={"fails first": FEW, "fails later": FEW - 1}.get(moment, 0),
    )
    if moment in ("queued", "begun"):
        core.hold = lambda _: True
    tokenizer = ByteTokenizer()
    capabilities = Capabilities(500, 5, reproducible=False, prefix_cache=True, n_slots=1)
    limits = Limits(tokenizer.n_vocab, None, None)
    engine = VllmEngine(core, tokenizer, capabilities, "fp_0123456789", limits, max_waiting=16)

    async with closing(engine):
        yield Bench(engine, engine.stats, lambda: core.n_open == 1, fails_after=1)


@asynccontextmanager
async def open_vendor(moment: Moment) -> AsyncIterator[Bench]:
    """A vendor that counts at the end of its answers."""
    fake: Fake
    texts = [text_event("a")] * 5
    end = (text_event("", finish="stop"), usage_event(9, 5))
    answers: dict[Moment, Answer] = {
        "queued": hangs(lambda: fake),
        "begun": hangs(lambda: fake),
        "after 1": hangs(lambda: fake, *texts[:1]),
        "after 3": hangs(lambda: fake, *texts[:3]),
        "unread": hangs(lambda: fake, *texts),
        "last": says(*texts, *end),
        "all": says(*texts, *end),
        "fails first": refuses(500),
        "fails later": breaks_after(*texts[:2]),
        "closed": hangs(lambda: fake, *texts[:3]),
    }
    with fake_upstream(answers[moment]) as fake:
        engine = vendor_engine(fake.url, {"max_concurrent": 1})
        async with closing(engine):

            def stats() -> EngineStats:
                # It counts its own tokens at an answer's end.
                own = engine.stats()
                n_said = len(texts) if fake.calls else 0
                return EngineStats(running=own.running, waiting=own.waiting, completion_tokens=n_said)

            yield Bench(engine, stats, lambda: len(fake.calls) == 1, counts_exactly=False, fails_as=502, estimates=True)


@asynccontextmanager
async def open_upstream(moment: Moment) -> AsyncIterator[Bench]:
    """Our own server over HTTP, whose tokens are known."""
    behind = echo_for(moment)
    with run_server(create_app(Registry([ServedModel("echo", behind, 0)]), ServerConfig())) as url:
        engine = upstream_engine(vendor(url, kind="afterword", settings={"max_concurrent": 1}), "echo", ByteTokenizer())
        async with closing(engine):
            body = SLOWLY if moment == "begun" else {}

            def stats() -> EngineStats:
                return replace(engine.stats(), completion_tokens=behind.stats().completion_tokens)

            yield Bench(engine, stats, lambda: behind.stats().running == 1, body, counts_exactly=False, fails_as=502)

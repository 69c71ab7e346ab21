import asyncio
import gc
import math
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
import structlog
from tests.engine.llama.fake_runner import FakeRunner
from tests.engine.llama.harness import WARM, words
from tests.fakes import Told, complete, eventually, generation_request, tell, until_prompt_is_done

from afterword.engine.base import Capabilities
from afterword.engine.events import Chunk, Finished, PromptDone
from afterword.engine.llama import engine_thread, llama_engine
from afterword.engine.llama.arithmetic import QUANTISED
from afterword.engine.llama.checkpoints import State
from afterword.engine.llama.engine_thread import Loaded, Progress
from afterword.engine.llama.kv import KVSlots
from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.runner import Computed
from afterword.engine.llama.scheduler import Scheduler
from afterword.engine.llama.sequence import Group, Message, Saved, Span
from afterword.engine.llama.sequence import Sequence as Candidate
from afterword.engine.request import GenerationRequest
from afterword.engine.sampling.bias import EveryTokenBanned
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.errors import AfterwordError, EngineFailed, InvalidRequest, Overloaded
from afterword.fields.sampling import Sampling
from afterword.tokens import ByteTokenizer

N_VOCAB = ByteTokenizer().n_vocab
BAN_ALL = Sampling(logit_bias=tuple((token, -100.0) for token in range(N_VOCAB)))
OUTSIDE = Sampling(logit_bias=((N_VOCAB + 1, 1.0),))


@dataclass(slots=True)
class GatedRunner:
    """A fake runner that computes while its gate is open and raises in its `fails_at`-th call."""

    inner: FakeRunner
    fails_at: int | None = None
    error: BaseException = field(default_factory=lambda: RuntimeError("llama_decode failed with code -3"))
    gate: threading.Event = field(default_factory=threading.Event)
    n_calls: int = 0

    def forward(self, spans: Sequence[Span]) -> list[Computed]:
        assert self.gate.wait(timeout=60)
        self.n_calls += 1
        if self.n_calls == self.fails_at:
            raise self.error
        return self.inner.forward(spans)

    def copy(self, source: int, target: int, n: int, state: State | None = None) -> None:
        self.inner.copy(source, target, n, state)

    def truncate(self, slot: int, n: int, state: State | None = None) -> None:
        self.inner.truncate(slot, n, state)

    def state(self, slot: int) -> State:
        return self.inner.state(slot)

    def can_be_saved(self, slot: int) -> bool:
        return self.inner.can_be_saved(slot)

    def exchange(self, a: int, b: int, n_a: int, n_b: int) -> None:
        self.inner.exchange(a, b, n_a, n_b)

    def save(self, slot: int) -> Saved:
        return self.inner.save(slot)

    def load(self, slot: int, saved: Saved) -> None:
        self.inner.load(slot, saved)


class Bench:
    """An engine over a gated runner. `freed_on` are the threads that freed its scheduler."""

    def __init__(self, *, n_slots: int = 4, max_waiting: int = 64, reproducible: bool = True) -> None:
        self.runner = GatedRunner(FakeRunner(n_slots, N_VOCAB))
        self.runner.gate.set()
        self.freed_on: list[str] = []
        self.engine = LlamaEngine(
            ByteTokenizer(),
            Capabilities(context=2999, max_logprobs=100, reproducible=reproducible, prefix_cache=True, n_slots=n_slots),
            "fp_0123456789",
            self._loaded(),
            max_waiting=max_waiting,
        )

    def _loaded(self) -> Loaded:
        kv = KVSlots(self.runner.inner.n_slots, 3000)
        return Loaded(Scheduler(kv, self.runner, LogSoftmax(N_VOCAB), QUANTISED), kv, self._free)

    def _free(self) -> None:
        self.freed_on.append(threading.current_thread().name)

    async def idle(self) -> None:
        await eventually(lambda: self.engine.stats().running == self.engine.stats().waiting == 0)


@asynccontextmanager
async def opened(**changes: Any) -> AsyncIterator[Bench]:
    bench = Bench(**changes)
    try:
        yield bench
    finally:
        bench.runner.gate.set()
        await bench.engine.aclose()


def ask(n_prompt: int = 40, book: int = 0, **changes: Any) -> GenerationRequest:
    return generation_request(words(n_prompt, book), **({"sampling": WARM, "logprobs": 1, "max_tokens": 8} | changes))


async def test_events_come_in_order_from_the_first_to_the_last() -> None:
    async with opened() as bench:
        told = await complete(bench.engine, ask(100, n_candidates=3))
    assert told.prompt == PromptDone(0, None)
    assert [told.finished(index).n_tokens for index in range(3)] == [8, 8, 8]
    assert isinstance(told.events[-1], Finished)


async def test_a_prompt_says_how_long_it_waited_for_a_slot() -> None:
    async with opened(n_slots=1) as bench:
        first, second = await asyncio.gather(*(complete(bench.engine, ask(100, max_tokens=20)) for _ in range(2)))
    assert first.prompt.waited is not None
    assert second.prompt.waited is not None
    assert 0 <= first.prompt.waited < second.prompt.waited


@pytest.mark.parametrize(
    ("streamed", "seconds", "together"),
    [(True, math.inf, False), (False, math.inf, True), (False, 0.0, False)],
    ids=["streamed", "kept back", "the time is over"],
)
async def test_chunks_that_nobody_reads_as_they_come_are_told_together(
    streamed: bool, seconds: float, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[list[Message]] = []
    report = LlamaEngine.report

    def noted(self: LlamaEngine, messages: list[Message], progress: Progress) -> None:
        reports.append(messages)
        report(self, messages, progress)

    monkeypatch.setattr(engine_thread, "SECONDS_BETWEEN", seconds)
    monkeypatch.setattr(LlamaEngine, "report", noted)
    async with opened() as bench:
        await complete(bench.engine, ask(streamed=streamed))
    with_chunks = [messages for messages in reports if any(isinstance(event, Chunk) for _, event in messages)]
    # The first comes with the end of the prompt, the last with the end of the candidate.
    assert (len(with_chunks) == 2) == together


async def test_chunks_kept_back_are_told_with_what_another_prompt_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_thread, "SECONDS_BETWEEN", math.inf)
    async with opened() as bench, bench.engine.generate(ask(max_tokens=500, streamed=False)) as kept_back:
        await until_prompt_is_done(kept_back)
        await complete(bench.engine, ask(max_tokens=50))
        n_tokens = [event.n_tokens for event in kept_back.unread() if isinstance(event, Chunk)]
        assert n_tokens[-1] >= 50


async def test_engine_without_work_gives_up_its_workers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up_by: list[str] = []
    monkeypatch.setattr(engine_thread, "release_workers", lambda: given_up_by.append(threading.current_thread().name))
    async with opened() as bench:
        await eventually(lambda: given_up_by == ["afterword-engine"])
        await complete(bench.engine, ask())
        await eventually(lambda: given_up_by == ["afterword-engine"] * 2)
        assert bench.runner.n_calls > 1


async def test_answers_are_the_same_alone_and_beside_others() -> None:
    request = ask(200, n_candidates=2, seed=9, prompt_logprobs=2)
    async with opened() as bench:
        alone = await complete(bench.engine, request)
    async with opened(n_slots=3) as bench:
        others = [ask(200 - number, max_tokens=number, seed=number, reproducible=False) for number in range(1, 12)]
        *_, told = await asyncio.gather(*(complete(bench.engine, each) for each in [*others, request]))
    assert [told.tokens(index) for index in (0, 1)] == [alone.tokens(index) for index in (0, 1)]
    assert told.prompt.scores is not None
    assert alone.prompt.scores is not None
    assert told.prompt.scores.logprobs.tobytes() == alone.prompt.scores.logprobs.tobytes()


async def test_model_is_freed_by_the_thread_that_used_it() -> None:
    async with opened() as bench:
        await complete(bench.engine, ask())
        assert bench.freed_on == []
    assert bench.freed_on == ["afterword-engine"]


async def test_readers_hear_of_a_failure_though_the_log_cannot_be_written(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as closed:
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=closed))
    async with opened() as bench:
        bench.runner.fails_at = 1
        with pytest.raises(EngineFailed):
            await complete(bench.engine, ask())
    assert bench.engine.stats().state == "failed"


@pytest.mark.parametrize("fails_at", [1, 2, 5])
async def test_failed_call_fails_every_reader_and_everybody_after(fails_at: int) -> None:
    async with opened(n_slots=2) as bench:
        bench.runner.fails_at = fails_at
        bench.runner.gate.clear()
        generations = [bench.engine.generate(ask(book=number, max_tokens=50)) for number in range(5)]
        bench.runner.gate.set()
        ends = await asyncio.gather(*(tell(each) for each in generations), return_exceptions=True)
        assert [type(end) for end in ends] == [EngineFailed] * 5
        await eventually(lambda: bench.engine.stats().state == "failed")
        with pytest.raises(EngineFailed) as refused:
            bench.engine.generate(ask())
    assert "llama_decode" not in str(refused.value)
    assert isinstance(refused.value.__cause__, RuntimeError)
    assert (bench.engine.stats().running, bench.engine.stats().waiting) == (0, 0)
    assert bench.freed_on == ["afterword-engine"]
    assert bench.engine.stats().state == "failed"


class Panic(BaseException):
    """What a library of another language may raise: no `Exception`."""


@pytest.mark.parametrize(
    "error", [MemoryError(), Panic("a panic"), SystemExit(1), InvalidRequest("not for this reader")]
)
async def test_thread_that_dies_of_anything_leaves_nobody_waiting(error: BaseException) -> None:
    async with opened(n_slots=2) as bench:
        bench.runner.fails_at, bench.runner.error = 2, error
        ends = await asyncio.gather(
            *(complete(bench.engine, ask(book=number, max_tokens=50)) for number in range(4)), return_exceptions=True
        )
        assert all(isinstance(end, AfterwordError) for end in ends), ends
        assert bench.engine.stats().state == "failed"
        with pytest.raises(EngineFailed):
            bench.engine.generate(ask())
    assert bench.freed_on == ["afterword-engine"]


async def test_thread_that_dies_even_of_telling_so_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_memory(*_: object) -> AfterwordError:
        raise MemoryError

    monkeypatch.setattr(llama_engine, "public_error", out_of_memory)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    async with opened() as bench:
        bench.runner.fails_at = 1
        with pytest.raises(EngineFailed):
            await complete(bench.engine, ask())
        assert bench.engine.stats().state == "failed"


class LateRequest(GenerationRequest):
    """A request during whose `generate` something else happens: when its candidates are counted."""

    meanwhile: ClassVar[list[Callable[[], None]]] = []

    def __getattribute__(self, name: str) -> Any:
        if name == "n_candidates" and LateRequest.meanwhile:
            LateRequest.meanwhile.pop()()
        return super().__getattribute__(name)


async def test_request_that_comes_while_the_engine_fails_is_refused() -> None:
    async with opened() as bench:
        bench.runner.fails_at = 1
        bench.runner.gate.clear()
        first = bench.engine.generate(ask())
        late = LateRequest((1,), 1, 1, WARM, 0, reproducible=True)

        def fail() -> None:
            bench.runner.gate.set()
            while bench.engine.stats().state != "failed":
                pass

        LateRequest.meanwhile.append(fail)
        with pytest.raises(EngineFailed):
            bench.engine.generate(late)
        with pytest.raises(EngineFailed):
            await tell(first)


async def test_closing_tells_even_who_has_just_come() -> None:
    for _ in range(20):
        async with opened() as bench:
            generation = bench.engine.generate(ask(max_tokens=2000))
            await bench.engine.aclose()
            with pytest.raises(EngineFailed):
                await tell(generation)
            with pytest.raises(EngineFailed):
                bench.engine.generate(ask())
            assert bench.engine.stats().state == "closed"


async def test_request_the_engine_cannot_take_fails_alone() -> None:
    async with opened() as bench:
        bench.runner.gate.clear()
        running = bench.engine.generate(ask())
        bad, good = bench.engine.generate(ask(sampling=OUTSIDE)), bench.engine.generate(ask(book=1))
        bench.runner.gate.set()
        with pytest.raises(EngineFailed):
            await tell(bad)
        assert (await tell(running)).finished().n_tokens == (await tell(good)).finished().n_tokens == 8
        assert bench.engine.stats().state == "ready"


async def test_refused_request_ends_alone() -> None:
    async with opened() as bench:
        bad = bench.engine.generate(ask(n_candidates=3, sampling=BAN_ALL))
        good = bench.engine.generate(ask(book=1))
        with pytest.raises(EveryTokenBanned):
            await tell(bad)
        assert (await tell(good)).finished().n_tokens == 8
        await bench.idle()


async def test_waiting_room_takes_as_many_as_it_says() -> None:
    async with opened(n_slots=2, max_waiting=3) as bench, AsyncExitStack() as stack:
        bench.runner.gate.clear()
        for number in range(5):
            await stack.enter_async_context(bench.engine.generate(ask(book=number)))
        with pytest.raises(Overloaded) as refused:
            bench.engine.generate(ask())
        assert refused.value.retry_after >= 1
        with pytest.raises(Overloaded):
            bench.engine.check_capacity(1)
        bench.runner.gate.set()


async def test_waiting_sequences_are_counted_from_the_moment_they_come() -> None:
    async with opened(n_slots=2) as bench, AsyncExitStack() as stack:
        bench.runner.gate.clear()
        await stack.enter_async_context(bench.engine.generate(ask(n_candidates=3)))
        assert bench.engine.stats().waiting + bench.engine.stats().running == 3
        await stack.enter_async_context(bench.engine.generate(ask(n_candidates=2)))
        assert bench.engine.stats().waiting + bench.engine.stats().running == 5
        bench.runner.gate.set()


async def test_candidates_are_counted_one_by_one() -> None:
    async with opened(n_slots=2, max_waiting=3) as bench, AsyncExitStack() as stack:
        bench.runner.gate.clear()
        with pytest.raises(Overloaded):
            bench.engine.generate(ask(n_candidates=6))
        await stack.enter_async_context(bench.engine.generate(ask(n_candidates=4)))
        bench.engine.check_capacity(1)
        with pytest.raises(Overloaded):
            bench.engine.generate(ask(n_candidates=2))
        bench.runner.gate.set()


async def test_room_is_empty_again_after_a_hundred_cancelled_requests() -> None:
    async with opened(n_slots=2, max_waiting=300) as bench:
        for number in range(100):
            async with bench.engine.generate(ask(book=number % 8, n_candidates=1 + number % 3, max_tokens=900)) as told:
                if number % 4 == 0:
                    await until_prompt_is_done(told)
        await bench.idle()
        assert 100 <= bench.engine.stats().cancelled <= 200
        bench.engine.check_capacity(302)
        with pytest.raises(Overloaded):
            bench.engine.check_capacity(303)
        assert bench.engine.stats().slots_free + bench.engine.stats().slots_idle == 2


async def test_cancelled_request_in_the_waiting_room_is_never_computed() -> None:
    async with opened(n_slots=1) as bench:
        bench.runner.gate.clear()
        first = bench.engine.generate(ask(30))
        async with bench.engine.generate(ask(100, book=1)):
            pass
        bench.runner.gate.set()
        await tell(first)
        await bench.idle()
        assert bench.engine.stats().prefill_tokens == 30


async def test_more_candidates_than_slots_all_finish() -> None:
    async with opened(n_slots=2) as bench:
        told = await complete(bench.engine, ask(n_candidates=7))
        assert [told.finished(index).n_tokens for index in range(7)] == [8] * 7


async def _mixed_work(bench: Bench) -> None:
    async def leave_early(number: int) -> Told | None:
        async with bench.engine.generate(ask(book=number % 8, max_tokens=900)) as generation:
            await until_prompt_is_done(generation)
        return None

    finished = [complete(bench.engine, ask(n_candidates=2, book=number % 8)) for number in range(10)]
    one_step = [complete(bench.engine, ask(max_tokens=1, book=number % 8)) for number in range(3)]
    await asyncio.gather(*finished, *(leave_early(number) for number in range(10)), *one_step)
    with pytest.raises(EveryTokenBanned):
        await complete(bench.engine, ask(sampling=BAN_ALL))
    with pytest.raises(EngineFailed):
        await complete(bench.engine, ask(sampling=OUTSIDE))
    await complete(bench.engine, ask(max_tokens=1))
    await bench.idle()


def _n_alive() -> int:
    gc.collect()
    return sum(isinstance(each, Group | Candidate) for each in gc.get_objects())


async def test_nothing_keeps_a_request_alive_after_its_end() -> None:
    before = _n_alive()
    async with opened() as bench:
        await _mixed_work(bench)
        # The thread tells a reader of the end first and lets go then.
        await eventually(lambda: _n_alive() == before)


@pytest.mark.parametrize(("reproducible", "n_cached"), [(True, 40), (False, 47)])
async def test_seeded_requests_spare_what_was_sampled_only_where_the_model_can_keep_the_promise(
    reproducible: bool, n_cached: int
) -> None:
    async with opened(reproducible=reproducible) as bench:
        said = await complete(bench.engine, ask(40, reproducible=True))
        longer = words(40) + tuple(token.id for token in said.tokens())
        told = await complete(bench.engine, generation_request(longer, sampling=WARM, reproducible=True))
    assert told.prompt.n_cached == n_cached

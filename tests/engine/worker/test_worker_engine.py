"""What becomes of requests when the process of their model ends, and that all others are as before."""

import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.engine.worker.opening import FAULTY, TINY, idle, open_worker
from tests.fakes import Told, complete, eventually, generation_request, tell
from tests.models.tiny import Tiny, write_tiny

from afterword.engine.base import Generation
from afterword.engine.events import Chunk
from afterword.engine.request import GenerationRequest
from afterword.engine.worker import process, supervisor
from afterword.engine.worker.worker_engine import LOST, MOST_ENDS
from afterword.errors import EngineLost
from afterword.fields.sampling import Sampling

LONG = 400
"""Tokens of a request that still runs when something happens to its process."""


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes with faults that prompts ask for."""
    monkeypatch.setattr(process, "CHILD", FAULTY)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """There are no pauses; the list gets what they would have been for."""
    asked: list[int] = []

    def pause(n_ends: int) -> float:
        asked.append(n_ends)
        return 0.01

    monkeypatch.setattr(supervisor, "pause", pause)
    return asked


def ask(text: str, **changes: Any) -> GenerationRequest:
    fields = {"sampling": Sampling(temperature=1.0), "seed": 5, "logprobs": 1}
    return generation_request(list(text.encode()), **(fields | changes))


def said(told: Told) -> list[object]:
    """What each candidate's reader got, to the bit."""
    indices = sorted({chunk.index for chunk in told.events if isinstance(chunk, Chunk)})
    return [(told.chunks(index), told.finished(index)) for index in indices]


async def until(kind: type, generation: Generation) -> None:
    """Read a generation until an event of that kind."""
    async for event in generation:
        if isinstance(event, kind):
            return
    raise AssertionError(f"there was no {kind.__name__}")


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize(
    ("fault", "how"),
    [
        ("A", "signal 6"),
        ("B", "signal 7"),
        ("K", "signal 9"),
        ("S", "signal 11"),
        ("M", "code 1"),
        ("E", "code 1"),
    ],
    ids=["abort", "bus error", "kill -9", "segmentation fault", "out of memory", "end of the thread"],
)
async def test_what_runs_fails_once_and_what_waits_is_served_to_the_same_bytes(fault: str, how: str) -> None:
    async with open_worker(parallel=2) as engine:
        waiting = [ask(text, n_candidates=n) for text, n in (("one", 1), ("two", 2), ("three", 1))]
        expected = [said(await complete(engine, request)) for request in waiting]
        before = engine.stats()
        with capture_logs() as logs:
            beside = engine.generate(ask("beside it", max_tokens=LONG))
            failing = engine.generate(ask("a prompt with a fault: " + fault, max_tokens=LONG))
            told = [engine.generate(request) for request in waiting]
            for generation in (beside, failing):
                with pytest.raises(EngineLost, match="send the request once more"):
                    await tell(generation)
            assert [said(await tell(generation)) for generation in told] == expected
        (ended,) = (line for line in logs if line["event"] == "the process of a model ended")
        assert how in ended["how"]
        assert (ended["prompts_failed"], ended["prompts_waiting"]) == (2, 3)
        await idle(engine)
        after = engine.stats()
        assert (after.state, after.restarts, after.problem) == ("ready", 1, None)
        assert after.completion_tokens >= before.completion_tokens + 16 * 4
        engine.check_capacity(66)


async def test_seeded_answers_and_the_fingerprint_outlive_the_process() -> None:
    async with open_worker() as engine:
        fingerprint, request = engine.fingerprint, ask("once upon a time", prompt_logprobs=2)
        before = await complete(engine, request)
        os.kill(engine.pid, signal.SIGKILL)
        after = await complete(engine, request)
        assert before.prompt.scores is not None
        assert after.prompt.scores is not None
        assert after.prompt.scores.logprobs.tobytes() == before.prompt.scores.logprobs.tobytes()
        assert after.tokens() == before.tokens()
        assert engine.fingerprint == fingerprint


@pytest.mark.parametrize("busy", [True, False])
async def test_an_idle_process_that_ends_is_replaced_unasked(busy: bool) -> None:
    async with open_worker() as engine:
        engine.start()
        if busy:
            await complete(engine, ask("x"))
        first = engine.pid
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: engine.stats().state == "loading")
        assert "signal 9" in str(engine.stats().problem)
        await eventually(lambda: engine.stats().state == "ready")
        assert engine.pid != first


@pytest.mark.usefixtures("faulty")
async def test_a_process_that_stands_still_is_replaced() -> None:
    async with open_worker(step_seconds=5) as engine:
        with capture_logs() as logs, pytest.raises(EngineLost):
            await complete(engine, ask("it hangs: H", max_tokens=LONG))
        assert (await complete(engine, ask("another"))).finished().n_tokens == 16
    assert any("step_timeout" in str(line.get("how")) for line in logs)


@pytest.mark.usefixtures("faulty")
async def test_pauses_grow_while_processes_only_start_and_end(pauses: list[int]) -> None:
    async with open_worker() as engine:
        await complete(engine, ask("x"))
        for n_ends in (0, 1, 2):
            pauses.clear()
            with pytest.raises(EngineLost):
                await complete(engine, ask("S", max_tokens=LONG))
            assert set(pauses) == {n_ends}
            await eventually(lambda: engine.stats().state == "ready")
        await complete(engine, ask("x"))
        pauses.clear()
        with pytest.raises(EngineLost):
            await complete(engine, ask("S", max_tokens=LONG))
        assert set(pauses) == {0}


@pytest.mark.usefixtures("faulty", "pauses")
async def test_a_prompt_that_ends_processes_before_it_starts_is_given_up() -> None:
    async with open_worker(parallel=1) as engine:
        with pytest.raises(EngineLost, match="again and again"):
            await complete(engine, ask("Q"))
        assert engine.stats().restarts <= MOST_ENDS
        assert (await complete(engine, ask("x"))).finished().n_tokens == 16
        await idle(engine)


@pytest.mark.usefixtures("faulty", "pauses")
async def test_another_file_in_the_place_of_the_first_is_refused_until_it_is_back(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, TINY)
    kept = path.read_bytes()
    async with open_worker(path, parallel=1) as engine, AsyncExitStack() as stack:
        running = engine.generate(ask("it hangs: H", max_tokens=LONG))
        await stack.enter_async_context(running)
        await until(Chunk, running)
        waiting = engine.generate(ask("it waits", n_candidates=2))
        path.unlink()
        write_tiny(tmp_path, Tiny("Q8_0", seed=1))
        os.kill(engine.pid, signal.SIGKILL)
        with pytest.raises(EngineLost, match=LOST):
            await tell(running)
        with pytest.raises(EngineLost, match="cannot be started again for now"):
            await tell(waiting)
        with pytest.raises(EngineLost) as refused:
            engine.generate(ask("x"))
        assert refused.value.retry_after >= 1
        assert "is not the one that the server was started with" in str(engine.stats().problem)
        assert str(tmp_path) not in str(engine.stats().problem)
        assert (engine.stats().running, engine.stats().waiting) == (0, 0)
        path.write_bytes(kept)
        await eventually(lambda: engine.stats().state == "ready")
        assert (await complete(engine, ask("x"))).finished().n_tokens == 16
        engine.check_capacity(65)


@pytest.mark.usefixtures("faulty")
async def test_what_was_cancelled_while_there_was_no_process_is_not_computed() -> None:
    async with open_worker(parallel=1) as engine:
        await complete(engine, ask("x"))
        os.kill(engine.pid, signal.SIGSTOP)
        cancelled = engine.generate(ask("a long prompt that nobody wants any more", n_candidates=3))
        os.kill(engine.pid, signal.SIGKILL)
        await eventually(lambda: engine.stats().state == "loading")
        async with cancelled:
            pass
        assert (engine.stats().waiting, engine.stats().cancelled) == (0, 3)
        await complete(engine, ask("y"))
        await idle(engine)
        assert engine.stats().prompt_tokens == 2


@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize("moment", ["never started", "idle", "running", "loading again"])
async def test_closing_leaves_no_process(moment: str) -> None:
    async with open_worker() as engine, AsyncExitStack() as stack:
        if moment != "never started":
            engine.start()
        if moment == "running":
            generation = engine.generate(ask("it hangs: H", max_tokens=LONG))
            await stack.enter_async_context(generation)
            await until(Chunk, generation)
        if moment == "loading again":
            os.kill(engine.pid, signal.SIGKILL)
            await eventually(lambda: engine.stats().restarts == 1)
        await engine.aclose()
        await engine.aclose()
        assert engine.stats().state == "closed"
    with pytest.raises(ProcessLookupError):
        os.kill(engine.pid, 0)


async def test_a_process_ends_with_the_server(tmp_path: Path) -> None:
    """The server's end of the connection is closed however it ends."""
    async with open_worker() as engine:
        connection = os.dup(engine._supervisor._worker.connection.fileno())
        engine._supervisor._worker.connection.close()
        assert not _has_ended(engine.pid)
        os.close(connection)
        await eventually(lambda: _has_ended(engine.pid))


def _has_ended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

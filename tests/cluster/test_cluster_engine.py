"""The engine over replicas that say what a test tells them to; with real ones, tests/contract has the rules."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.cluster.in_process import LocalReplicas, cluster_engine
from tests.fakes import Told, complete, eventually, generation_request

from afterword.cluster.cluster_engine import ATTEMPTS, ClusterEngine, ReplicaLost
from afterword.cluster.messages import Accepted, Message
from afterword.engine.echo import EchoEngine
from afterword.engine.engine_refusal import Refusal
from afterword.engine.events import Chunk, Event, Finished, PromptDone
from afterword.engine.request import GenerationRequest
from afterword.errors import EngineFailed, InvalidRequest, Overloaded

TAKEN = Accepted("r", "fp_0000000001")
BEGUN = (PromptDone(0, None), Chunk(0, "a", (), 1))
END = (Finished(0, "length", 2, 0.0, 0),)
LOST = ReplicaLost("gone")

HANGS = None
"""In a script: nothing more comes."""

Script = Sequence[Message | Exception | None]


class Saying:
    """A `ReplicaAnswer` of messages, and of errors in their places."""

    def __init__(self, script: Script) -> None:
        self._left = list(script)
        self.n_cancelled = 0

    async def __anext__(self) -> Message:
        if not self._left:
            raise StopAsyncIteration
        said = self._left.pop(0)
        if said is HANGS:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                # As Ray does.
                raise (ReplicaLost("cancelled") if self.n_cancelled else asyncio.CancelledError) from None
            raise AssertionError
        if isinstance(said, Exception):
            raise said
        return said

    def cancel(self) -> None:
        self.n_cancelled += 1


class Scripted(LocalReplicas):
    """Answers requests by one script after another."""

    def __init__(self, *scripts: Script) -> None:
        super().__init__([EchoEngine()])
        self._scripts = list(scripts)
        self.answers: list[Saying] = []

    def ask(self, request: GenerationRequest) -> Saying:  # type: ignore[override]
        self.answers.append(Saying(self._scripts[len(self.answers)]))
        return self.answers[-1]


async def told_by(*scripts: Script) -> tuple[Told, ClusterEngine, list[Saying]]:
    replicas = Scripted(*scripts)
    engine = cluster_engine(replicas)
    return await complete(engine, generation_request(b"p")), engine, replicas.answers


async def test_the_replica_that_takes_a_request_is_whose_fingerprint_counts() -> None:
    told, engine, answers = await told_by([TAKEN, BEGUN, END])
    assert told.events == [*BEGUN, *END]
    assert engine.fingerprint == TAKEN.fingerprint
    assert [answer.n_cancelled for answer in answers] == [0]


@pytest.mark.parametrize("script", [[LOST], [TAKEN, LOST]], ids=["before it is accepted", "before it has begun"])
async def test_a_replica_that_dies_before_its_first_event_is_replaced(script: Script) -> None:
    told, _, answers = await told_by(script, script, [TAKEN, BEGUN, END])
    assert told.events == [*BEGUN, *END]
    assert len(answers) == 3


async def test_enough_replicas_that_die_are_a_failure() -> None:
    silent: list[Script] = [[LOST]] * ATTEMPTS
    with pytest.raises(ReplicaLost):
        await told_by(*silent)
    accepting: list[Script] = [[TAKEN, LOST]] * ATTEMPTS
    with pytest.raises(ReplicaLost):
        await told_by(*accepting)


async def test_a_replica_that_dies_later_fails_the_request_after_what_it_has_said() -> None:
    engine = cluster_engine(Scripted([TAKEN, BEGUN, LOST]))
    seen: list[Event] = []
    async with engine.generate(generation_request(b"p")) as generation:
        with pytest.raises(ReplicaLost):
            seen.extend([event async for event in generation])
        assert list(generation.unread()) == []


async def test_a_replica_that_stops_early_leaves_nobody_waiting() -> None:
    with pytest.raises(EngineFailed, match="stopped before"):
        await told_by([TAKEN, BEGUN])


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        pytest.param([Refusal("invalid", "no")], InvalidRequest, id="refused"),
        pytest.param([Overloaded("full", retry_after=1)], Overloaded, id="none takes it"),
        pytest.param([TAKEN, Refusal("failed", "broke")], EngineFailed, id="fails later"),
    ],
)
async def test_what_a_replica_says_instead_is_raised_here(script: Script, kind: type[Exception]) -> None:
    replicas = Scripted(script)
    with pytest.raises(kind):
        await complete(cluster_engine(replicas), generation_request(b"p"))
    assert [answer.n_cancelled for answer in replicas.answers] == [0]


async def test_an_error_of_our_own_stops_the_replica() -> None:
    replicas = Scripted([TAKEN, BEGUN, ZeroDivisionError()])
    with pytest.raises(EngineFailed, match="server's log"):
        await complete(cluster_engine(replicas), generation_request(b"p"))
    assert [answer.n_cancelled for answer in replicas.answers] == [1]


async def test_leaving_early_stops_the_replica() -> None:
    replicas = Scripted([TAKEN, BEGUN, HANGS])
    async with cluster_engine(replicas).generate(generation_request(b"p")) as generation:
        events = [await anext(aiter(generation))]
    assert [*events, *generation.unread()] == [*BEGUN]
    await eventually(lambda: [answer.n_cancelled for answer in replicas.answers] == [1])


@pytest.mark.parametrize("n_turns", [0, 3])
async def test_leaving_before_the_first_event_asks_no_other_replica(n_turns: int) -> None:
    replicas = Scripted([TAKEN, HANGS], [TAKEN, BEGUN, END])
    async with cluster_engine(replicas).generate(generation_request(b"p")):
        for _ in range(n_turns):
            await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert [answer.n_cancelled for answer in replicas.answers] == [1]


async def test_ending_the_last_candidate_stops_the_replica() -> None:
    replicas = Scripted([TAKEN, BEGUN, HANGS])
    engine = cluster_engine(replicas)
    events: list[Event] = []
    async with engine.generate(generation_request(b"p", n_candidates=2)) as generation:
        generation.end(1)
        async for event in generation:
            events.append(event)
            if isinstance(event, Chunk):
                generation.end(0)
    assert [event.reason for event in events if isinstance(event, Finished)] == ["content_filter"] * 2
    await eventually(lambda: replicas.answers[0].n_cancelled > 0)
    assert [answer.n_cancelled for answer in replicas.answers] == [1]

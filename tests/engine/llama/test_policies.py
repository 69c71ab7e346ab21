"""Whatever the policy and the kernels: seeded answers do not depend on what else runs, and everybody finishes.

The fake context's logits depend on how each token was computed, so a policy or a layout that breaks a rule changes
answers. `policies.py` has the other policies; a new one is written there, and no other file knows of it.
"""

import inspect
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.llama import policies
from tests.engine.llama.fake_context import KERNELS, Kernels
from tests.engine.llama.harness import Harness, Reading, ask, words

from afterword.engine.events import PromptDone, Started
from afterword.engine.line import Claim
from afterword.engine.llama.arithmetic import FLOATS, INDEPENDENT, QUANTISED, Arithmetic
from afterword.engine.llama.policy import Policy, next_batch
from afterword.engine.llama.sequence import Group
from afterword.engine.request import GenerationRequest

LAST_ARRIVAL = 25
"""The step before which the last job comes."""
MAX_PROMPT = 700
CAPACITY = MAX_PROMPT + 12
"""Little room for rows that are thrown away."""


@dataclass(frozen=True, slots=True)
class Job:
    request: GenerationRequest
    arrives: int
    leaves: int | None
    """Step before which the client goes away."""
    continues: bool
    """Its prompt follows what the job before it has said by then, as typing clients do."""


@st.composite
def plays(draw: st.DrawFn) -> list[Job]:
    """Two to seven jobs over two contexts, so that most have something in common."""
    lengths = st.sampled_from([0, 1, 2, 20, 31, 32, 33, 64, 100, 128, 200, 255, 256, 257, 300, 400, 511, 512, 513])
    contexts = [words(draw(lengths), book) for book in (0, draw(st.integers(0, 1)))]
    n_jobs = draw(st.integers(2, 7))
    return [draw(jobs(contexts)) for _ in range(n_jobs)]


@st.composite
def jobs(draw: st.DrawFn, contexts: list[tuple[int, ...]]) -> Job:
    tail = words(draw(st.sampled_from([0, 0, 1, 2, 12, 63, 64, 65, 130])), draw(st.integers(2, 3)))
    arrives = draw(st.integers(0, LAST_ARRIVAL))
    stay = draw(st.none() | st.none() | st.integers(0, 20))
    request = ask(
        (draw(st.sampled_from(contexts)) + tail) or words(1),
        n_candidates=draw(st.sampled_from([1, 1, 2, 4])),
        max_tokens=draw(st.sampled_from([0, 1, 2, 5, 12])),
        seed=draw(st.integers(0, 2)),
        reproducible=draw(st.booleans()),
        logprobs=draw(st.sampled_from([None, 0, 3])),
        prompt_logprobs=draw(st.sampled_from([None, None, None, None, 1, 4])),
        end_ids=frozenset({3, 4}),
        claim=draw(claims()),
    )
    return Job(request, arrives, None if stay is None else arrives + stay, draw(st.booleans()))


def claims() -> st.SearchStrategy[Claim]:
    return st.builds(Claim, st.sampled_from("abc"), st.sampled_from("xy"), st.sampled_from([0, 0, 0, -1, 2]))


def play(harness: Harness, played: list[Job]) -> list[Reading]:
    """What the readers were told; `Reading.request` has the prompt that a continuing job really had."""
    groups: list[Group | None] = [None] * len(played)
    readings = [Reading(job.request) for job in played]
    for now in range(2000):
        for number, job in enumerate(played):
            if job.arrives == now:
                before = readings[number - 1] if job.continues and number else None
                groups[number], readings[number] = harness.add(job.request if before is None else _after(before, job))
        for group, job in zip(groups, played, strict=True):
            if job.leaves == now and group is not None:
                harness.cancel(group)
        harness.step()
        if now >= LAST_ARRIVAL and harness.scheduler.idle:
            return readings
    raise AssertionError("the work never ends")


def _after(before: Reading, job: Job) -> GenerationRequest:
    said = tuple(token.id for token in before.listed(0))
    return replace(job.request, prompt=(before.request.prompt + said + job.request.prompt[-3:])[-MAX_PROMPT:])


def assert_same(reading: Reading, alone: Reading, *, left: bool) -> None:
    if left and reading.prompt is None:
        assert reading.told in ([], [Started()])
        return
    assert reading.scores() == alone.scores()
    for index in range(reading.request.n_candidates):
        tokens, end = reading.tokens(index), reading.finished(index)
        if left and end is None:
            assert tokens == alone.tokens(index)[: len(tokens)]
        else:
            assert tokens == alone.tokens(index)
            assert end == alone.finished(index)


ARITHMETICS = {"quantised": QUANTISED, "floats": FLOATS, "independent": INDEPENDENT}
OTHERS: dict[str, Policy] = {
    name: made
    for name, made in vars(policies).items()
    if inspect.isfunction(made) and made.__module__ == policies.__name__
}
"""Every function of `policies.py`."""


def assert_played_as_alone(played: list[Job], n_slots: int, arithmetic: Arithmetic, policy: Policy) -> None:
    """Everybody finishes, and those who ask for it are answered as alone under the engine's own policy."""
    harness = Harness(n_slots, capacity=CAPACITY, arithmetic=arithmetic, policy=policy)
    readings = play(harness, played)
    assert harness.kv.n_running == 0
    for job, reading in zip(played, readings, strict=True):
        left = job.leaves is not None
        if job.request.reproducible:
            alone = Harness(6, capacity=CAPACITY, arithmetic=arithmetic).complete(reading.request)
            assert_same(reading, alone, left=left)
        elif not left:
            assert reading.prompt is not None
            assert (reading.prompt.scores is None) == (job.request.prompt_logprobs is None)
            assert all(reading.finished(index) is not None for index in range(job.request.n_candidates))


@pytest.mark.parametrize("arithmetic", ARITHMETICS.values(), ids=ARITHMETICS)
@settings(max_examples=25)
@given(played=plays(), n_slots=st.integers(1, 6))
def test_answers_of_a_reproducible_request_do_not_depend_on_the_others(
    arithmetic: Arithmetic, played: list[Job], n_slots: int
) -> None:
    assert_played_as_alone(played, n_slots, arithmetic, next_batch)


@pytest.mark.parametrize("arithmetic", ARITHMETICS.values(), ids=ARITHMETICS)
@pytest.mark.parametrize("policy", OTHERS.values(), ids=OTHERS)
@settings(max_examples=8)
@given(played=plays(), n_slots=st.integers(1, 6))
def test_answers_of_a_reproducible_request_do_not_depend_on_the_policy(
    policy: Policy, arithmetic: Arithmetic, played: list[Job], n_slots: int
) -> None:
    assert_played_as_alone(played, n_slots, arithmetic, policy)


@pytest.mark.parametrize("policy", [next_batch, *OTHERS.values()], ids=["next_batch", *OTHERS])
@settings(max_examples=15)
@given(played=plays(), n_slots=st.integers(1, 4), n_checkpoints=st.sampled_from([0, 1, 3, 1000]))
def test_memory_that_cannot_be_cut_changes_no_answer_whatever_is_kept_of_it(
    policy: Policy, played: list[Job], n_slots: int, n_checkpoints: int
) -> None:
    harness = Harness(n_slots, capacity=CAPACITY, can_cut=False, n_checkpoints=n_checkpoints, policy=policy)
    readings = play(harness, played)
    assert harness.kv.n_running == 0
    for job, reading in zip(played, readings, strict=True):
        alone = Harness(6, capacity=CAPACITY, can_cut=False).complete(reading.request)
        assert_same(reading, alone, left=job.leaves is not None)


@settings(max_examples=25)
@given(played=plays(), n_slots=st.integers(1, 6), window=st.sampled_from([1, 40, 300]))
def test_no_slot_of_a_window_is_moved_without_what_has_left_it(played: list[Job], n_slots: int, window: int) -> None:
    harness = Harness(n_slots, capacity=CAPACITY, arithmetic=INDEPENDENT, window=window)
    readings = play(harness, played)
    assert harness.kv.n_running == 0
    for job, reading in zip(played, readings, strict=True):
        alone = Harness(6, capacity=CAPACITY, arithmetic=INDEPENDENT, window=window).complete(reading.request)
        assert_same(reading, alone, left=job.leaves is not None)


@pytest.mark.parametrize("policy", [next_batch, *OTHERS.values()], ids=["next_batch", *OTHERS])
def test_what_was_computed_of_a_group_that_ends_within_the_step_is_not_taken_for_cached(policy: Policy) -> None:
    harness = Harness(2, capacity=CAPACITY, can_cut=False, policy=policy)
    one = Job(ask((5,), max_tokens=0), arrives=0, leaves=None, continues=False)
    # Ends with its first candidate's prompt; the second one's was computed in the same step.
    two = Job(ask((5, 6), n_candidates=2, max_tokens=0), arrives=3, leaves=None, continues=False)
    later = Job(ask((5, 7), n_candidates=2, max_tokens=2), arrives=6, leaves=None, continues=False)
    *_, reading = play(harness, [one, one, two, later])
    assert [reading.finished(index) is None for index in range(2)] == [False, False]


@settings(max_examples=10)
@given(played=plays(), n_slots=st.integers(1, 6))
def test_independent_rows_have_none_added_to_them(played: list[Job], n_slots: int) -> None:
    harness = Harness(n_slots, capacity=CAPACITY, arithmetic=INDEPENDENT)
    play(harness, played)
    for call in harness.runner.calls:
        assert all(n_rows == n for _, n, n_rows in call)
    assert harness.runner.context.n_rows == sum(n for call in harness.runner.calls for _, n, _ in call)


@pytest.mark.parametrize(
    ("arithmetic", "kernels", "n_reused", "same"),
    [
        pytest.param(QUANTISED, KERNELS[QUANTISED], 300, True, id="another-thing"),
        pytest.param(INDEPENDENT, KERNELS[INDEPENDENT], 311, True, id="the-same"),
        # The proof that these tests could tell.
        pytest.param(INDEPENDENT, KERNELS[QUANTISED], 311, False, id="wrongly-taken-for-the-same"),
    ],
)
def test_seeded_request_reuses_what_was_sampled_where_it_equals_a_prompt(
    arithmetic: Arithmetic, kernels: Kernels, n_reused: int, same: bool
) -> None:
    harness = Harness(2, arithmetic=arithmetic, kernels=kernels)
    said = harness.complete(ask(words(300), max_tokens=12)).listed(0)
    after = harness.complete(ask(words(300) + tuple(token.id for token in said), max_tokens=3))
    assert after.prompt == PromptDone(n_reused, None)
    alone = Harness(1, arithmetic=arithmetic, kernels=kernels).complete(after.request)
    assert (after.tokens(0) == alone.tokens(0)) == same


@pytest.mark.parametrize(("arithmetic", "same"), [(FLOATS, True), (QUANTISED, False)], ids=["floats", "quantised"])
def test_lone_sequence_samples_as_beside_others_only_with_a_row_beside_its_own(
    arithmetic: Arithmetic, same: bool
) -> None:
    answers = []
    for n_others in (0, 1):
        harness = Harness(3, arithmetic=arithmetic, kernels=KERNELS[FLOATS])
        for _ in range(n_others):
            harness.add(ask(words(40, 1), max_tokens=30))
        answers.append(harness.complete(ask(words(40), max_tokens=10)).tokens(0))
    assert (answers[0] == answers[1]) == same

"""Guesses change how many steps an answer takes, and nothing of it."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.llama.fake_context import N_VOCAB
from tests.engine.llama.harness import Harness, Reading, words
from tests.fakes import generation_request

from afterword.engine.llama.arithmetic import INDEPENDENT, QUANTISED, Arithmetic
from afterword.engine.request import Beams, GenerationRequest
from afterword.fields.sampling import Sampling

FEW = tuple((token, 100.0) for token in range(3))
"""With three tokens to draw from, every text repeats itself."""


def repeating(*, seed: int = 1, temperature: float = 0.0, **fields: object) -> GenerationRequest:
    sampling = Sampling(temperature=temperature, logit_bias=FEW)
    return generation_request(
        words(20), sampling=sampling, seed=seed, reproducible=True, max_tokens=60, logprobs=2, **fields
    )


def steps_and_readings(*requests: GenerationRequest, drafts: bool, **shape: object) -> tuple[int, list[Reading]]:
    harness = Harness(4, arithmetic=INDEPENDENT, drafts=drafts, **shape)  # type: ignore[arg-type]
    readings = [harness.add(request)[1] for request in requests]
    harness.finish()
    return harness.scheduler.counters.steps, readings


def test_a_text_that_repeats_itself_takes_fewer_steps() -> None:
    n_with, (guessed,) = steps_and_readings(repeating(), drafts=True)
    n_without, (alone,) = steps_and_readings(repeating(), drafts=False)
    assert guessed.tokens(0) == alone.tokens(0)
    assert n_with < n_without


requests = st.builds(
    repeating,
    seed=st.integers(0, 50),
    temperature=st.sampled_from([0.0, 0.3, 1.2]),
    n_candidates=st.integers(1, 3),
    stops=st.sampled_from([(), (chr(1),), (chr(0) + chr(2),)]),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(requests, min_size=1, max_size=5))
def test_answers_are_the_same_with_and_without_alone_and_in_a_crowd(asked: list[GenerationRequest]) -> None:
    _, crowd = steps_and_readings(*asked, drafts=True)
    for request, reading in zip(asked, crowd, strict=True):
        _, (alone,) = steps_and_readings(request, drafts=False)
        for index in range(request.n_candidates):
            assert reading.tokens(index) == alone.tokens(index)
            assert reading.finished(index) == alone.finished(index)


@pytest.mark.parametrize(
    ("request_", "shape"),
    [
        pytest.param(repeating(beams=Beams(1.0, False), n_candidates=2), {}, id="a beam search"),
        pytest.param(repeating(), {"can_cut": False}, id="memory that cannot be cut"),
    ],
)
def test_nothing_is_guessed_for(request_: GenerationRequest, shape: dict[str, object]) -> None:
    harness = Harness(4, **{"arithmetic": INDEPENDENT, "drafts": True, **shape})  # type: ignore[arg-type]
    harness.add(request_)
    harness.finish()
    assert harness.scheduler.counters.draft_tokens == 0


@pytest.mark.parametrize(("arithmetic", "some"), [(INDEPENDENT, True), (QUANTISED, False)])
def test_guesses_need_rows_with_the_numbers_of_lone_ones(arithmetic: Arithmetic, some: bool) -> None:
    harness = Harness(2, arithmetic=arithmetic, drafts=True)
    harness.add(repeating())
    harness.finish()
    counters = harness.scheduler.counters
    assert (counters.draft_tokens > 0) == some
    assert counters.accepted_draft_tokens <= counters.draft_tokens
    assert counters.completion_tokens == 60
    assert len(FEW) < N_VOCAB


def test_what_was_guessed_wrong_is_no_part_of_the_cache() -> None:
    harness = Harness(2, arithmetic=INDEPENDENT, drafts=True)
    _, first = harness.add(repeating(temperature=1.2))
    harness.finish()
    assert harness.scheduler.counters.accepted_draft_tokens < harness.scheduler.counters.draft_tokens
    grown = (*words(20), *(token.id for token in first.listed(0)))
    _, again = harness.add(generation_request(grown, max_tokens=1, reproducible=True))
    harness.finish()
    assert again.prompt is not None
    assert again.prompt.n_cached >= len(grown) - 1


def test_pieces_that_go_together_have_the_same_length() -> None:
    harness = Harness(3, arithmetic=INDEPENDENT, drafts=True)
    for seed in range(3):
        harness.add(repeating(seed=seed, temperature=1.2))
    harness.finish()
    assert harness.scheduler.counters.draft_tokens > 0
    sampling = [call for call in harness.runner.calls if len(call) == 3 and all(n < 20 for _, n, _ in call)]
    assert all(len({n for _, n, _ in call}) == 1 for call in sampling)

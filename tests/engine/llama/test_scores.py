"""Scores of a prompt's end, as many continuations of one context need them: what is computed, and the same numbers."""

from typing import Any

import numpy as np
import pytest
from tests.engine.llama.fake_context import N_VOCAB
from tests.engine.llama.harness import Harness, Reading, ask, words

from afterword.engine.events import PromptScores
from afterword.engine.line import Claim

CONTEXT = words(200)


def claim(party: str) -> Claim:
    return Claim(party, party, 0)


ENDINGS = [words(n, book) for book, n in enumerate((3, 9, 1, 5), start=1)]


def score(harness: Harness, ending: tuple[int, ...], **changes: Any) -> Reading:
    return score_after(harness, CONTEXT, ending, **changes)


def score_after(harness: Harness, context: tuple[int, ...], ending: tuple[int, ...], **changes: Any) -> Reading:
    request = {"max_tokens": 0, "prompt_logprobs": 1, "score_from": len(context) - 1, "reproducible": True}
    return harness.add(ask(context + ending, **(request | changes)))[1]


def scores_of(reading: Reading) -> PromptScores:
    assert reading.prompt is not None
    assert reading.prompt.scores is not None
    return reading.prompt.scores


@pytest.mark.parametrize("can_cut", [True, False])
def test_a_context_is_computed_once_for_all_its_endings(can_cut: bool) -> None:
    harness = Harness(4, can_cut=can_cut)
    for ending in ENDINGS:
        score(harness, ending)
    harness.finish()
    # Each begins with the context's last token, whose row says how likely its own first is; none computes its last.
    first, *others = (len(CONTEXT) + len(ending) - 1 for ending in ENDINGS)
    assert harness.scheduler.counters.prefill_tokens == first + sum(n - len(CONTEXT) + 1 for n in others)


@pytest.mark.parametrize("can_cut", [True, False])
@pytest.mark.parametrize("n_context", [20, 100])
@pytest.mark.parametrize("n_contexts", [2, 7])
def test_contexts_are_computed_once_however_many_there_are(n_contexts: int, n_context: int, can_cut: bool) -> None:
    harness = Harness(3, can_cut=can_cut)
    contexts = [words(n_context, book) for book in range(n_contexts)]
    expected = 0
    for context in contexts:
        for number, ending in enumerate(((1, 2, 3), (4, 5, 6), (7, 8, 9), tuple(range(10, 12)))):
            score_after(harness, context, ending)
            expected += len(ending) - 1 + (n_context if number == 0 else 1)
    harness.finish()
    if can_cut:
        assert harness.scheduler.counters.prefill_tokens == expected
    # Endings of several contexts are computed together.
    assert harness.scheduler.counters.steps <= 6 * n_contexts


def test_a_request_does_not_keep_slots_from_others() -> None:
    harness = Harness(2)
    mine = [score_after(harness, words(100, book), (1, 2, 3), claim=claim("me")) for book in range(4) for _ in range(3)]
    other = score_after(harness, words(100, 7), (1, 2, 3), claim=claim("you"))
    n_steps = 0
    while other.prompt is None:
        harness.step()
        n_steps += 1
    assert n_steps <= 4
    harness.finish()
    assert all(reading.prompt is not None for reading in mine)


def test_scores_are_the_same_alone_and_in_a_crowd_and_those_of_a_prompt_that_is_scored_whole() -> None:
    crowd = Harness(3)
    readings = [score(crowd, ending) for ending in ENDINGS]
    crowd.finish()
    for ending, reading in zip(ENDINGS, readings, strict=True):
        alone = Harness(1)
        lone = score(alone, ending)
        whole = score(alone, ending, score_from=0)
        alone.finish()
        assert scores_of(reading).logprobs.tobytes() == scores_of(lone).logprobs.tobytes()
        assert scores_of(lone).logprobs.tobytes() == scores_of(whole).logprobs[-len(ending) :].tobytes()
        assert (scores_of(lone).start, len(scores_of(lone).logprobs)) == (len(CONTEXT) - 1, len(ending))


def test_rows_before_the_wanted_ones_are_not_asked_of_the_model() -> None:
    harness = Harness(1)
    harness.add(ask(CONTEXT, max_tokens=0, prompt_logprobs=1, score_from=195))
    harness.finish()
    rows = next(iter(harness.kv)).rows
    assert [row is not None for row in rows] == [False] * 195 + [True] * 4


def test_named_tokens_have_the_numbers_that_their_own_prompts_have() -> None:
    named = (7, 0, N_VOCAB - 1)
    harness = Harness(2)
    reading = score(harness, (7,), named_ids=named)
    others = [score(harness, (token,)) for token in named]
    harness.finish()
    values = scores_of(reading).named_logprobs
    assert values is not None
    assert values.tolist() == [[scores_of(other).logprobs[0] for other in others]]


def test_a_row_without_the_named_tokens_is_not_reused_for_them() -> None:
    harness = Harness(2)
    score(harness, ENDINGS[1])
    harness.finish()
    reading = score(harness, ENDINGS[1], named_ids=(3, 4))
    harness.finish()
    again = score(harness, ENDINGS[1])
    harness.finish()
    values = scores_of(reading).named_logprobs
    assert values is not None
    assert values.shape == (len(ENDINGS[1]), 2)
    assert np.isfinite(values).all()
    assert again.prompt is not None
    # What has more than is wanted is reused.
    assert again.prompt.n_cached == len(CONTEXT) + len(ENDINGS[1]) - 2


def test_of_many_likeliest_tokens_few_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afterword.engine.llama.demand.MOST_KEPT", 3)
    harness = Harness(1)
    whole = score(harness, ENDINGS[1], prompt_logprobs=N_VOCAB)
    harness.finish()
    assert scores_of(whole).top_ids.shape == (len(ENDINGS[1]), N_VOCAB)
    assert {len(row.ids) for slot in harness.kv for row in slot.rows if row is not None} == {3}
    again = score(harness, ENDINGS[1], prompt_logprobs=N_VOCAB)
    harness.finish()
    assert scores_of(again).top_logprobs.tobytes() == scores_of(whole).top_logprobs.tobytes()


def test_a_named_token_may_be_one_of_several_candidates_prompts() -> None:
    harness = Harness(3)
    reading = harness.add(ask(CONTEXT, n_candidates=3, max_tokens=2, prompt_logprobs=0, named_ids=(1,)))[1]
    harness.finish()
    values = scores_of(reading).named_logprobs
    assert values is not None
    assert values.shape == (len(CONTEXT) - 1, 1)

"""Beams in slots, over a fake runner: what is found depends on the request alone, and every slot is given back."""

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.engine.beam_reference import beam_search
from tests.engine.llama.fake_context import ANY, Cells, logits_of
from tests.engine.llama.harness import Harness, Reading, ask, words

from afterword.engine.events import Finished, PromptDone, Started
from afterword.engine.line import Claim
from afterword.engine.llama.arithmetic import FLOATS, INDEPENDENT, QUANTISED
from afterword.engine.request import Beams, GenerationRequest
from afterword.engine.sampling.bias import EveryTokenBanned
from afterword.fields.sampling import Sampling

GREEDY = Sampling(temperature=0.0)


def search(prompt: tuple[int, ...], width: int, **changes: Any) -> GenerationRequest:
    beams = Beams(changes.pop("length_penalty", 1.0), changes.pop("early_stopping", False))
    return ask(prompt, **({"sampling": GREEDY, "n_candidates": width, "beams": beams, "max_tokens": 8} | changes))


def answers(reading: Reading) -> list[object]:
    told = [(reading.tokens(i), reading.finished(i)) for i in range(reading.request.n_candidates)]
    return [*told, reading.scores()]


def scores_after(prompt: Sequence[int]) -> Any:
    """Log-probabilities of the fake model with kernels for which nothing but the tokens matters."""

    def scores(tokens: tuple[int, ...]) -> list[float]:
        cells = Cells()
        for token in (*prompt, *tokens):
            cells.append(token, ANY)
        logits = logits_of(cells.states[-1], 64).astype(np.float64)
        found: list[float] = (logits - np.log(np.exp(logits).sum())).tolist()
        return found

    return scores


@pytest.mark.parametrize("can_cut", [True, False], ids=["cells", "recurrent"])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_slots_hold_what_the_definition_needs(width: int, can_cut: bool) -> None:
    prompt, ends = words(40), frozenset({7, 9})
    for early_stopping in (False, True):
        harness = Harness(4, arithmetic=INDEPENDENT, can_cut=can_cut)
        request = search(prompt, width, end_ids=ends, early_stopping=early_stopping, length_penalty=0.5)
        reading = harness.complete(request)
        expected = beam_search(
            scores_after(prompt),
            width=width,
            max_tokens=8,
            ends=ends,
            length_penalty=0.5,
            early_stopping=early_stopping,
        )
        assert [tuple(token.id for token in reading.listed(i)) for i in range(width)] == [
            one.tokens for one in expected
        ]
        assert harness.kv.n_running == 0


@pytest.mark.parametrize("arithmetic", [QUANTISED, FLOATS, INDEPENDENT])
def test_neighbours_change_no_bit(arithmetic: Any) -> None:
    request = search(words(70), 3, prompt_logprobs=2, end_ids=frozenset({5}))
    alone = answers(Harness(3, arithmetic=arithmetic).complete(request))
    for number in range(12):
        chance = Random(number)
        harness = Harness(chance.choice([4, 6, 9]), arithmetic=arithmetic)
        readings = []
        for _ in range(chance.randint(1, 5)):
            harness.add(ask(words(chance.randint(1, 90), chance.randint(0, 7)), max_tokens=chance.randint(1, 30)))
        for _ in range(chance.randint(0, 6)):
            harness.step()
        readings.append(harness.add(request)[1])
        harness.add(ask(words(60), n_candidates=2, max_tokens=12))
        readings.append(harness.add(request)[1])
        harness.finish()
        assert [answers(reading) for reading in readings] == [alone, alone]


def test_the_prompt_is_computed_once_and_each_token_of_a_beam_too() -> None:
    harness = Harness(4)
    reading = harness.complete(search(words(300), 4, max_tokens=5))
    counters = harness.scheduler.counters
    assert counters.prefill_tokens == 300
    assert counters.rows == 300 + 4 * 4
    assert counters.completion_tokens == 4 * 5
    assert reading.told[:2] == [Started(), PromptDone(0, None)]
    assert isinstance(reading.told[-1], Finished)


@pytest.mark.parametrize("n_prompt", [10, 300, 1000])
def test_a_beam_that_left_another_one_lately_is_computed_again_instead_of_copied(n_prompt: int) -> None:
    again, copied = Harness(4, arithmetic=INDEPENDENT), Harness(4, arithmetic=INDEPENDENT, can_cut=False)
    request = search(words(n_prompt), 4, max_tokens=40, early_stopping="never", end_ids=frozenset({3}))
    assert answers(again.complete(request)) == answers(copied.complete(request))
    # The first copies have the prompt.
    prompts = [(target, n) for _, target, n in again.runner.copies if n == n_prompt]
    assert len(prompts) == 3
    n_copied = sum(n for _, _, n in copied.runner.copies)
    if n_prompt > 10:
        assert sum(n for _, _, n in again.runner.copies) < n_copied / 5
        assert again.scheduler.counters.rows > copied.scheduler.counters.rows
    else:
        assert again.runner.copies == copied.runner.copies
    assert again.runner.context.n_rows == again.scheduler.counters.rows


def test_a_search_waits_until_there_is_a_slot_for_each_beam() -> None:
    harness = Harness(4)
    first = harness.add(ask(words(20), max_tokens=10))[1]
    group, second = harness.add(search(words(50, 1), 4))
    third = harness.add(ask(words(30, 2), max_tokens=2))[1]
    harness.step()
    assert [s.group is group for s in harness.scheduler.running] == [False]
    while first.finished(0) is None:
        harness.step()
        assert third.finished(0) is None, "nobody passes it"
    harness.finish()
    assert all(second.finished(i) is not None for i in range(4))
    assert third.finished(0) is not None


def test_two_searches_do_not_lock_each_other_out() -> None:
    harness = Harness(4)
    readings = [harness.add(search(words(40, book), 3, claim=Claim(str(book))))[1] for book in range(6)]
    harness.finish()
    assert all(reading.finished(i) is not None for reading in readings for i in range(3))


def test_no_beam_makes_room_for_others() -> None:
    harness = Harness(2)
    group, reading = harness.add(search(words(40), 2, max_tokens=300, claim=Claim("a"), early_stopping="never"))
    harness.step()
    harness.add(ask(words(30, 1), max_tokens=300, claim=Claim("b", priority=-1)))
    while reading.finished(0) is None:
        assert all(s.slot is not None for s in group.sequences)
        harness.step()
    harness.finish()


@pytest.mark.parametrize("n_steps", [0, 1, 2, 5])
def test_a_cancelled_search_gives_all_its_slots_back(n_steps: int) -> None:
    harness = Harness(4)
    group, _ = harness.add(search(words(300), 4, max_tokens=50, early_stopping="never"))
    for _ in range(n_steps):
        harness.step()
    harness.cancel(group)
    assert harness.kv.n_running == 0
    assert answers(harness.complete(search(words(50), 2))) == answers(Harness(2).complete(search(words(50), 2)))


def test_what_a_search_leaves_behind_is_a_prefix_for_others() -> None:
    harness = Harness(3, arithmetic=INDEPENDENT)
    best = harness.complete(search(words(100), 3, max_tokens=20))
    longer = words(100) + tuple(token.id for token in best.listed(0))
    next_one = harness.complete(ask(longer, max_tokens=2))
    assert next_one.prompt is not None
    assert next_one.prompt.n_cached >= 100
    assert next_one.tokens(0) == Harness(1, arithmetic=INDEPENDENT).complete(next_one.request).tokens(0)


def test_a_search_that_fails_fails_alone() -> None:
    harness = Harness(4)
    bans = Sampling(temperature=0.0, logit_bias=tuple((token, -100.0) for token in range(64)))
    failing = harness.add(search(words(20), 2, sampling=bans))[1]
    other = harness.add(ask(words(40, 1), max_tokens=5))[1]
    harness.finish()
    assert isinstance(failing.told[-1], EveryTokenBanned)
    assert other.finished(0) is not None
    assert harness.kv.n_running == 0


@pytest.mark.parametrize("window", [30, 100])
def test_models_with_a_window_search_alike(window: int) -> None:
    request = search(words(60), 3, max_tokens=12)
    with_window = Harness(4, arithmetic=INDEPENDENT, window=window).complete(request)
    assert answers(with_window) == answers(Harness(4, arithmetic=INDEPENDENT).complete(request))

"""Guided candidates in slots, over a fake runner: both sequences of each go on together."""

from random import Random
from typing import Any

import numpy as np
import pytest
from tests.engine.llama.fake_context import ANY, N_VOCAB, Cells, logits_of
from tests.engine.llama.harness import Harness, Reading, ask, words

from afterword.engine.events import Finished, PromptDone, Started
from afterword.engine.line import Claim
from afterword.engine.llama.arithmetic import FLOATS, INDEPENDENT, QUANTISED
from afterword.engine.request import GenerationRequest, Guidance
from afterword.engine.sampling.guidance import guided
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.engine.sampling.random_stream import RandomStream
from afterword.engine.sampling.sampler import Sampler, Workspace


def guide(prompt: tuple[int, ...], negative: tuple[int, ...], scale: float = 1.8, **changes: Any) -> GenerationRequest:
    return ask(prompt, **({"guidance": Guidance(scale, "", negative), "max_tokens": 9} | changes))


def answers(reading: Reading) -> list[object]:
    told = [(reading.tokens(i), reading.finished(i)) for i in range(reading.request.n_candidates)]
    return [*told, reading.scores()]


def row_after(tokens: tuple[int, ...]) -> Any:
    cells = Cells()
    for token in tokens:
        cells.append(token, ANY)
    return logits_of(cells.states[-1], N_VOCAB)


@pytest.mark.parametrize("can_cut", [True, False], ids=["cells", "recurrent"])
def test_tokens_are_drawn_from_what_both_prompts_say(can_cut: bool) -> None:
    request = guide(words(40), words(70, 1), n_candidates=2)
    reading = Harness(4, arithmetic=INDEPENDENT, can_cut=can_cut).complete(request)
    log_softmax = LogSoftmax(N_VOCAB)
    for index in range(2):
        sampler = Sampler(request.sampling, Workspace(N_VOCAB), RandomStream(request.seed, 0, index))
        sampled: tuple[int, ...] = ()
        for listed in reading.listed(index):
            row, negative = row_after(words(40) + sampled), row_after(words(70, 1) + sampled)
            token = sampler.sample(guided(row, negative, 1.8, log_softmax), len(sampled))
            assert listed.id == token
            assert listed.logprob == log_softmax.logprob(row, log_softmax.lse(row), token)
            sampled += (token,)
        assert len(sampled) == 9


@pytest.mark.parametrize("arithmetic", [QUANTISED, FLOATS, INDEPENDENT])
def test_neighbours_change_no_bit(arithmetic: Any) -> None:
    request = guide(words(70), words(50, 1), n_candidates=2, prompt_logprobs=1, end_ids=frozenset({5}))
    alone = answers(Harness(4, arithmetic=arithmetic).complete(request))
    for number in range(12):
        chance = Random(number)
        harness = Harness(chance.choice([2, 3, 5, 9]), arithmetic=arithmetic)
        for _ in range(chance.randint(1, 5)):
            harness.add(ask(words(chance.randint(1, 90), chance.randint(0, 7)), max_tokens=chance.randint(1, 30)))
        for _ in range(chance.randint(0, 6)):
            harness.step()
        readings = [harness.add(request)[1]]
        harness.add(guide(words(60), words(50, 1), seed=number))
        readings.append(harness.add(request)[1])
        harness.finish()
        assert [answers(reading) for reading in readings] == [alone, alone]


def test_both_prompts_are_computed_once_for_all_candidates() -> None:
    harness = Harness(8)
    reading = harness.complete(guide(words(300), words(200, 1), n_candidates=4, max_tokens=3))
    counters = harness.scheduler.counters
    assert counters.prefill_tokens == 500 + 2 * 3
    assert counters.completion_tokens == 4 * 3
    assert reading.told[:2] == [Started(), PromptDone(0, None)]
    again = harness.complete(guide(words(300), words(200, 1), max_tokens=1))
    assert again.prompt == PromptDone(299, None)
    assert harness.scheduler.counters.prefill_tokens == 500 + 2 * 3 + 2


def test_the_prompt_alone_is_told_and_scored() -> None:
    reading = Harness(2).complete(guide(words(400), words(3, 1), prompt_logprobs=2))
    alone = Harness(2).complete(ask(words(400), max_tokens=9, prompt_logprobs=2))
    assert reading.scores() == alone.scores() != ()
    assert reading.prompt is not None
    assert reading.told.index(reading.prompt) == 1


def test_a_pair_waits_for_two_slots() -> None:
    harness = Harness(2)
    first = harness.add(ask(words(20), max_tokens=10))[1]
    group, second = harness.add(guide(words(50, 1), words(40, 2)))
    while first.finished(0) is None:
        harness.step()
        assert not any(s.group is group for s in harness.scheduler.running)
    harness.finish()
    assert second.finished(0) is not None


def test_more_candidates_than_pairs_of_slots_take_turns() -> None:
    request = guide(words(200), words(100, 1), n_candidates=5, max_tokens=3)
    few, many = Harness(3).complete(request), Harness(10).complete(request)
    assert answers(few) == answers(many)


@pytest.mark.parametrize("n_steps", [0, 1, 2, 5])
def test_both_slots_are_given_back(n_steps: int) -> None:
    harness = Harness(4)
    group, _ = harness.add(guide(words(300), words(400, 1), n_candidates=3, max_tokens=50))
    for _ in range(n_steps):
        harness.step()
    harness.cancel(group)
    assert harness.kv.n_running == 0


def test_one_candidate_ends_with_both_of_its_sequences() -> None:
    harness = Harness(4)
    group, reading = harness.add(guide(words(30), words(20, 1), n_candidates=2, max_tokens=20))
    while not group.prompt_done or harness.kv.n_running < 4:
        harness.step()
    ended = group.of_candidate(1)
    assert ended.candidate.index == 1
    ended.candidate.end()
    harness.scheduler.end(ended)
    assert harness.kv.n_running == 2
    harness.finish()
    assert isinstance(reading.finished(0), Finished)


def test_no_half_of_a_pair_makes_room() -> None:
    harness = Harness(2)
    group, reading = harness.add(guide(words(40), words(30, 1), max_tokens=300, claim=Claim("a")))
    harness.step()
    harness.add(ask(words(30, 1), max_tokens=300, claim=Claim("b", priority=-1)))
    while reading.finished(0) is None:
        assert all(s.slot is not None for s in group.sequences)
        harness.step()
    harness.finish()
    assert np.isfinite([token.logprob for token in reading.listed(0)]).all()

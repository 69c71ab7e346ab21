import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.beam_reference import Answer, beam_search, every_answer
from tests.fakes import Told, generation_request

from afterword.engine.beam_search import Beam, BeamSearch
from afterword.engine.candidate import Candidate
from afterword.engine.grammars.grammar_compiler import compiled
from afterword.engine.request import Beams, GenerationRequest
from afterword.engine.sampling.bias import EveryTokenBanned
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.engine.sampling.masks import Masks
from afterword.engine.sampling.random_stream import RandomStream
from afterword.engine.sampling.sampler import Sampler, Workspace
from afterword.fields.grammars import Grammar
from afterword.fields.repeats import Repeats
from afterword.fields.sampling import Sampling
from afterword.tokens import ByteTokenizer


class Model:
    """Logits that follow from the tokens so far."""

    def __init__(self, n_vocab: int, number: int = 0) -> None:
        self.n_vocab = n_vocab
        self._number = number

    def row(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        rows = np.random.default_rng([self._number, len(tokens), *tokens])
        return rows.standard_normal(self.n_vocab, dtype=np.float32)

    def logprobs(self, tokens: Sequence[int]) -> list[float]:
        logits = self.row(tokens).astype(np.float64)
        normalised: list[float] = (logits - np.log(np.exp(logits).sum())).tolist()
        return normalised


def ask(width: int, *, length_penalty: float = 1.0, early_stopping: Any = False, **changes: Any) -> GenerationRequest:
    beams = Beams(length_penalty, early_stopping)
    return generation_request([1], n_candidates=width, beams=beams, **({"logprobs": 0} | changes))


def search(model: Model, request: GenerationRequest, masks: Masks | None = None) -> Told:
    """A whole search; the model is asked once for each beam and step."""
    tokenizer = ByteTokenizer()
    workspace = Workspace(model.n_vocab)
    mask = None if masks is None or request.grammar is None else masks.open(request.grammar, 1).result()[0]
    sampler = Sampler(
        request.sampling,
        workspace,
        RandomStream(0, 0, 0),
        prompt=request.prompt,
        end_ids=request.end_ids,
        min_tokens=request.min_tokens,
        mask=mask,
    )
    running = BeamSearch(request, LogSoftmax(model.n_vocab), Beam(Candidate(0, request, tokenizer), sampler))
    texts: list[tuple[int, ...]] = [()]
    while running.beams:
        extensions = [one for i, text in enumerate(texts) for one in running.extensions(i, model.row(text))]
        parents = running.choose(extensions)
        texts = [(*texts[parent], beam.token) for parent, beam in zip(parents, running.beams, strict=True)]
        assert len(texts) <= request.n_candidates
    return Told([event for _, events in running.answers() for event in events])


def found(told: Told, width: int, length_penalty: float) -> list[Answer]:
    answers = []
    for index in range(width):
        end = told.finished(index)
        if end.n_scored:
            tokens = tuple(token.id for token in told.tokens(index))
            answers.append(Answer(tokens, end.sum_logprob / end.n_scored**length_penalty))
    return answers


def assert_same(answers: list[Answer], expected: list[Answer]) -> None:
    assert [answer.tokens for answer in answers] == [answer.tokens for answer in expected]
    assert [answer.score for answer in answers] == pytest.approx([answer.score for answer in expected], abs=1e-4)


RULES = [*product((1, 2, 3, 5), (1.0, 0.0, 2.0, -1.0), (False, True, "never"))]


@pytest.mark.parametrize(("width", "length_penalty", "early_stopping"), RULES)
@pytest.mark.parametrize("ends", [frozenset[int](), frozenset({2}), frozenset({0, 3, 5})])
def test_what_is_found_is_what_the_definition_says(
    width: int, length_penalty: float, early_stopping: Any, ends: frozenset[int]
) -> None:
    for number in range(8):
        model = Model(7, number)
        rules = {"length_penalty": length_penalty, "early_stopping": early_stopping}
        told = search(model, ask(width, max_tokens=6, end_ids=ends, **rules))
        expected = beam_search(model.logprobs, width=width, max_tokens=6, ends=ends, **rules)
        assert_same(found(told, width, length_penalty), expected)


@pytest.mark.parametrize(("n_vocab", "length"), [(2, 4), (3, 3), (5, 2), (9, 1)])
def test_the_best_of_as_many_beams_as_there_are_texts_is_the_likeliest_text(n_vocab: int, length: int) -> None:
    for number in range(10):
        model = Model(n_vocab, number)
        width = n_vocab**length
        told = search(model, ask(width, max_tokens=length))
        assert_same(found(told, width, 0.0), every_answer(model.logprobs, n_vocab, length))


def test_fewer_beams_may_miss_it() -> None:
    misses = 0
    for number in range(30):
        model = Model(4, number)
        told = search(model, ask(1, max_tokens=3))
        misses += found(told, 1, 0.0)[0].tokens != every_answer(model.logprobs, 4, 3)[0].tokens
    assert 0 < misses < 30


def test_answers_that_do_not_exist_are_empty() -> None:
    told = search(Model(2), ask(5, max_tokens=1, end_ids=frozenset({1})))
    assert [told.finished(index).reason for index in range(5)][2:] == ["stop"] * 3
    assert [told.text(index) for index in range(5)][2:] == [""] * 3
    assert [told.finished(index).n_scored for index in range(5)] == [1, 1, 0, 0, 0]


def test_equally_good_tokens_come_in_the_order_of_their_ids() -> None:
    class Indifferent(Model):
        def row(self, tokens: Sequence[int]) -> NDArray[np.float32]:
            return np.zeros(self.n_vocab, dtype=np.float32)

    told = search(Indifferent(5), ask(3, max_tokens=2))
    assert [answer.tokens for answer in found(told, 3, 1.0)] == [(0, 0), (0, 1), (0, 2)]


def test_a_stop_ends_a_beam_and_counts_the_tokens_that_complete_it() -> None:
    letters = tuple((token, 100.0) for token in b"abc")
    sampling = Sampling(temperature=0.0, logit_bias=letters)
    reasons = set()
    for number in range(5):
        told = search(
            Model(128, number), ask(4, max_tokens=5, sampling=sampling, stops=("ab", "ca"), include_stop=True)
        )
        texts = [bytes(answer.tokens).decode() for answer in found(told, 4, 1.0)]
        assert len(set(texts)) == 4
        assert [told.text(index) for index in range(4)] == texts
        for index, text in enumerate(texts):
            ends = [text.find(stop) + 2 for stop in ("ab", "ca") if stop in text]
            assert len(text) == min(ends, default=5)
            assert told.finished(index).reason == ("stop" if ends else "length")
            reasons.add(told.finished(index).reason)
    assert reasons == {"stop", "length"}


def test_no_end_comes_before_min_tokens() -> None:
    for number in range(20):
        told = search(Model(4, number), ask(3, max_tokens=6, min_tokens=3, end_ids=frozenset({0, 1})))
        assert all(told.finished(index).n_tokens >= 3 for index in range(3))


def test_bias_and_penalties_count_in_the_search_and_not_in_what_is_shown() -> None:
    model = Model(6, 1)
    bias = {2: 4.0, 5: -3.0, 1: -100.0}
    sampling = Sampling(temperature=0.0, logit_bias=tuple(bias.items()), presence_penalty=0.5)

    def scores(tokens: Sequence[int]) -> list[float]:
        added = [bias.get(token, 0.0) - 0.5 * (token in tokens) for token in range(6)]
        return [-math.inf if more < -99 else lp + more for lp, more in zip(model.logprobs(tokens), added, strict=True)]

    told = search(model, ask(3, max_tokens=5, sampling=sampling, end_ids=frozenset({3})))
    expected = beam_search(scores, width=3, max_tokens=5, ends={3}, length_penalty=1.0, early_stopping=False)
    answers = found(told, 3, 0.0)
    assert [answer.tokens for answer in answers] == [answer.tokens for answer in expected]
    for answer in answers:
        shown = sum(model.logprobs(answer.tokens[:i])[token] for i, token in enumerate(answer.tokens))
        assert answer.score == pytest.approx(shown, abs=1e-4)


def test_beams_that_share_a_beginning_remember_apart() -> None:
    model = Model(5, 2)
    sampling = Sampling(temperature=0.0, repeats=Repeats(no_repeat_ngram_size=1), repetition_penalty=1.3)
    told = search(model, ask(4, max_tokens=4, sampling=sampling))
    for answer in found(told, 4, 1.0):
        assert len({1, *answer.tokens}) == 5


def test_every_answer_is_of_the_grammar() -> None:
    masks = Masks(ByteTokenizer())
    try:
        grammar = compiled(Grammar("regex", "(ab|ba|bb)c{1,3}"))
        ends = frozenset({ByteTokenizer.END})
        request = ask(5, max_tokens=8, grammar=grammar, end_ids=ends)
        told = search(Model(ByteTokenizer().n_vocab), request, masks)
        texts = [told.text(index) for index in range(5)]
        assert len(set(texts)) == 5
        assert set(texts) <= {a + "c" * n for a in ("ab", "ba", "bb") for n in (1, 2, 3)}
    finally:
        masks.close()


def test_a_search_that_bans_leave_nothing_is_refused() -> None:
    bans = Sampling(temperature=0.0, logit_bias=tuple((token, -100.0) for token in range(4)))
    with pytest.raises(EveryTokenBanned, match="logit_bias bans every token"):
        search(Model(4), ask(2, sampling=bans))

"""Samplers that llama.cpp has too leave the same tokens with the same probabilities."""

import ctypes
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.models.tiny import Tiny, write_tiny

from afterword.completions.parse import parse_body
from afterword.engine.llama.binding import LlamaModel
from afterword.engine.llama.vocabulary import Vocabulary
from afterword.engine.sampling.adaptive import AdaptiveP, Mirostat1, Mirostat2
from afterword.engine.sampling.candidates import Candidates
from afterword.engine.sampling.recurrence import Dry
from afterword.engine.sampling.truncation import TRUNCATIONS, exclude_top_choices
from afterword.fields.repeats import Repeats
from afterword.fields.sampling import Sampling

N = 200
Shares = dict[int, float]


def rows() -> Iterator[NDArray[np.float32]]:
    for seed, scale in itertools.product(range(6), (0.3, 2.0, 5.0)):
        yield (np.random.default_rng(seed).standard_normal(N) * scale).astype(np.float32)


def theirs(sampler: Any, logits: NDArray[np.float32]) -> Shares:
    """What a sampler of llama.cpp leaves of a row."""
    data = (llama_cpp.llama_token_data * N)()
    for token in range(N):
        data[token] = llama_cpp.llama_token_data(token, float(logits[token]), 0.0)
    array = llama_cpp.llama_token_data_array(data, N, -1, False)
    llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
    left = [(array.data[place].id, array.data[place].logit) for place in range(array.size)]
    weights = np.exp(np.array([logit for _, logit in left], dtype=np.float64) - max(logit for _, logit in left))
    return {token: float(weight) for (token, _), weight in zip(left, weights / weights.sum(), strict=True)}


def ours(candidates: Candidates) -> Shares:
    shares = candidates.weights.astype(np.float64) / candidates.total
    return {int(token): float(share) for token, share in zip(candidates.ids, shares, strict=True)}


def sampling(**fields: Any) -> Sampling:
    return parse_body(fields, strict=False).sampling


@pytest.mark.parametrize(
    ("name", "fields", "theirs_of"),
    [
        ("typical_p", {"typical_p": 0.7}, lambda: llama_cpp.llama_sampler_init_typical(0.7, 0)),
        ("top_n_sigma", {"top_n_sigma": 1.5}, lambda: llama_cpp.llama_sampler_init_top_n_sigma(1.5)),
        ("top_p", {"top_p": 0.8}, lambda: llama_cpp.llama_sampler_init_top_p(0.8, 0)),
        ("top_p", {"top_p": 0.1, "min_keep": 7}, lambda: llama_cpp.llama_sampler_init_top_p(0.1, 7)),
        ("min_p", {"min_p": 0.1}, lambda: llama_cpp.llama_sampler_init_min_p(0.1, 0)),
        ("min_p", {"min_p": 0.9, "min_keep": 5}, lambda: llama_cpp.llama_sampler_init_min_p(0.9, 5)),
        ("top_k", {"top_k": 20}, lambda: llama_cpp.llama_sampler_init_top_k(20)),
        ("temperature", {"temperature": 0.6}, lambda: llama_cpp.llama_sampler_init_temp(0.6)),
        (
            "temperature",
            {"temperature": 1.2, "dynatemp_range": 0.8, "dynatemp_exponent": 1.7},
            lambda: llama_cpp.llama_sampler_init_temp_ext(1.2, 0.8, 1.7),
        ),
    ],
)
def test_truncations(name: str, fields: dict[str, Any], theirs_of: Callable[[], Any]) -> None:
    sampler = theirs_of()
    for logits in rows():
        candidates = Candidates.of_row(logits)
        TRUNCATIONS[name](candidates, sampling(**fields))
        expected = {token: share for token, share in theirs(sampler, logits).items() if share > 0}
        assert ours(candidates) == pytest.approx(expected, rel=1e-4, abs=1e-9)
    llama_cpp.llama_sampler_free(sampler)


def test_xtc() -> None:
    sampler = llama_cpp.llama_sampler_init_xtc(1.0, 0.03, 0, 1)
    for logits in rows():
        candidates = Candidates.of_row(logits)
        exclude_top_choices(candidates, sampling(xtc_probability=1.0, xtc_threshold=0.03))
        assert ours(candidates) == pytest.approx(theirs(sampler, logits), rel=1e-4)
    llama_cpp.llama_sampler_free(sampler)


@pytest.mark.parametrize("tau", [1.0, 3.0, 5.0])
def test_mirostat_2_begins_alike(tau: float) -> None:
    for logits in rows():
        sampler = llama_cpp.llama_sampler_init_mirostat_v2(1, tau, 0.1)
        candidates = Candidates.of_row(logits)
        Mirostat2(tau, 0.1).apply(candidates)
        assert ours(candidates) == pytest.approx(theirs(sampler, logits), rel=1e-4)
        llama_cpp.llama_sampler_free(sampler)


@pytest.mark.parametrize("tau", [1.0, 3.0, 5.0])
def test_mirostat_1_begins_alike(tau: float) -> None:
    """Its k is the whole part of the estimate, the paper's is rounded; in flat rows it overflows there."""
    for logits in rows():
        sampler = llama_cpp.llama_sampler_init_mirostat(N, 1, tau, 0.1, 100)
        candidates = Candidates.of_row(logits)
        Mirostat1(tau, 0.1).apply(candidates)
        left = len(theirs(sampler, logits))
        assert abs(left - candidates.ids.size) <= 1 or (left, candidates.ids.size) == (1, N)
        llama_cpp.llama_sampler_free(sampler)


def test_adaptive_p_begins_alike() -> None:
    for target in (0.0, 0.3, 1.0):
        for logits in rows():
            sampler = llama_cpp.llama_sampler_init_adaptive_p(target, 0.9, 1)
            candidates = Candidates.of_row(logits)
            AdaptiveP(target, 0.9).apply(candidates)
            assert ours(candidates) == pytest.approx(theirs(sampler, logits), rel=1e-3, abs=1e-9)
            llama_cpp.llama_sampler_free(sampler)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaModel]:
    opened = LlamaModel(write_tiny(tmp_path_factory.mktemp("dry"), Tiny("Q8_0")))
    yield opened
    opened.close()


def their_costs(model: LlamaModel, repeats: Repeats, tokens: Sequence[int]) -> dict[int, float]:
    breakers = [breaker.encode() for breaker in repeats.dry_sequence_breakers]
    sampler = llama_cpp.llama_sampler_init_dry(
        model.vocab,
        repeats.dry_multiplier,
        repeats.dry_base,
        repeats.dry_allowed_length,
        1024 if repeats.dry_penalty_last_n < 0 else repeats.dry_penalty_last_n,
        (ctypes.c_char_p * len(breakers))(*breakers),
        len(breakers),
    )
    for token in tokens:
        llama_cpp.llama_sampler_accept(sampler, token)
    data = (llama_cpp.llama_token_data * model.n_vocab)()
    for token in range(model.n_vocab):
        data[token] = llama_cpp.llama_token_data(token, 0.0, 0.0)
    array = llama_cpp.llama_token_data_array(data, model.n_vocab, -1, False)
    llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
    costs = {data[place].id: -data[place].logit for place in range(model.n_vocab) if data[place].logit != 0}
    llama_cpp.llama_sampler_free(sampler)
    return costs


@pytest.mark.parametrize("breakers", [("\n", ":"), ("e",), ()], ids=["usual", "frequent", "none"])
@pytest.mark.parametrize("last", [-1, 12])
@pytest.mark.parametrize("allowed", [1, 2, 4])
def test_dry(model: LlamaModel, breakers: tuple[str, ...], last: int, allowed: int, tmp_path: Path) -> None:
    repeats = Repeats(
        dry_multiplier=0.8,
        dry_base=1.5,
        dry_allowed_length=allowed,
        dry_penalty_last_n=last,
        dry_sequence_breakers=breakers,
    )
    vocabulary = Vocabulary(model)
    texts = ("the cat sat: the cat sat on the cat sa", "abcabcabcabcab", "one\ntwo\none\ntw", "ee ee ee e", "no repeat")
    for text in texts:
        tokens = vocabulary.encode(text, add_bos=False, parse_special=False)
        ids, costs = Dry(repeats, tokens, vocabulary.piece).found()
        mine = {int(token): float(cost) for token, cost in zip(ids, costs, strict=True)}
        assert mine == pytest.approx(their_costs(model, repeats, tokens), rel=1e-5), text


def test_dry_says_the_same_of_a_text_that_grew(model: LlamaModel) -> None:
    vocabulary = Vocabulary(model)
    repeats = Repeats(dry_multiplier=0.8)
    tokens = vocabulary.encode("the cat sat on: the cat sat on: the cat", add_bos=False, parse_special=False)
    grown = Dry(repeats, tokens[:3], vocabulary.piece)
    for n, token in enumerate(tokens[3:], start=4):
        grown.accept(token)
        for found, expected in zip(
            grown.copy().found(), Dry(repeats, tokens[:n], vocabulary.piece).found(), strict=True
        ):
            np.testing.assert_array_equal(found, expected)

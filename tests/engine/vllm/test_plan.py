"""What vLLM is told for each thing that a request can ask."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes import generation_request

from afterword.engine.grammars.grammar_compiler import compiled
from afterword.engine.sampling.bias import TokenBias
from afterword.engine.vllm.plan import Limits, Plan, missing_features, plan_of, sampling_arguments, seed_of
from afterword.errors import InvalidRequest
from afterword.fields.bans import TextBans
from afterword.fields.field import RequestField
from afterword.fields.grammars import Grammar
from afterword.fields.sampling import SAMPLING_FIELDS, Sampling
from afterword.fields.table import ONLY_HERE

LIMITS = Limits(n_vocab=10, max_listed=None, max_end_ids=None)


def plan(index: int = 0, *, limits: Limits = LIMITS, **changes: Any) -> Plan:
    return plan_of(generation_request([1, 2], **changes), index, limits)


def banning(tokens: Iterable[int]) -> Sampling:
    return Sampling(logit_bias=tuple((token, -100.0) for token in tokens))


@pytest.mark.parametrize(
    "sampling",
    [
        pytest.param(Sampling(temperature=0.0, top_p=0.5, top_k=3, min_p=0.1), id="temperature 0"),
        pytest.param(Sampling(temperature=9e-6), id="almost 0"),
        pytest.param(Sampling(top_p=0.0), id="top_p 0"),
        pytest.param(Sampling(top_k=1), id="top_k 1"),
        pytest.param(Sampling(min_p=1.0), id="min_p 1"),
    ],
)
def test_whatever_leaves_only_the_top_token_is_greedy(sampling: Sampling) -> None:
    found = plan(sampling=sampling).sampling
    assert (found.temperature, found.top_p, found.top_k, found.min_p) == (0.0, 1.0, 0, 0.0)


def test_sampling_is_passed_on_as_it_is() -> None:
    warm = Sampling(
        temperature=0.7,
        top_p=0.9,
        top_k=5,
        min_p=0.05,
        frequency_penalty=1.5,
        presence_penalty=-0.5,
        repetition_penalty=1.2,
    )
    found = plan(sampling=replace(warm, logit_bias=((3, 2.5),)))
    assert (found.sampling, found.bias) == (warm, TokenBias(None, {3: 2.5}))


def test_bans_are_passed_on_as_they_are() -> None:
    found = plan(sampling=Sampling(allowed_token_ids=(3, 1), logit_bias=((3, 2.5),)), bans=TextBans(("no", "so")))
    assert (found.bias, found.bad_words) == (TokenBias((1, 3), {3: 2.5}), ("no", "so"))


def test_sampling_is_said_by_vllm_s_own_names() -> None:
    assert sampling_arguments(Sampling(top_k=5, logit_bias=((3, 2.5),))) == {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 5,
        "min_p": 0.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "repetition_penalty": 1.0,
    }


def test_what_vllm_has_no_name_for_is_lacking() -> None:
    elsewhere = RequestField(name="typical", default=1.0, doc="", place="Sampling", vendors=("llama-server",))
    assert missing_features([elsewhere]).keys() == {"typical", *ONLY_HERE, "grammars_guidance"}
    lacking = missing_features(SAMPLING_FIELDS).keys()
    assert {"dry_multiplier", "mirostat", "tfs"} <= lacking
    assert not lacking & {"top_k", "min_p", "penalties", "repetition_penalty", "logit_bias"}


def test_a_form_is_for_vllm_to_hold_the_text_to() -> None:
    grammar = Grammar("regex", "a+")
    assert plan(grammar=compiled(grammar)).form == grammar
    assert plan().form is None


def test_top_k_of_the_whole_vocabulary_is_none() -> None:
    assert plan(sampling=Sampling(top_k=10)).sampling.top_k == 0
    assert plan(sampling=Sampling(top_k=9)).sampling.top_k == 9


def test_minus_100_bans_whatever_the_logit_is() -> None:
    assert plan(sampling=Sampling(logit_bias=((3, -100.0), (4, -99.0)))).bias.added == {3: -math.inf, 4: -99.0}


def test_100_leaves_only_the_forced_tokens_and_their_logits() -> None:
    found = plan(sampling=Sampling(logit_bias=((7, 100.0), (3, 100.0), (4, 5.0), (5, -100.0))))
    assert found.bias == TokenBias((3, 7), {})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param(
            {"sampling": Sampling(logit_bias=tuple((t, -100.0) for t in range(10)))}, "logit_bias bans", id="all"
        ),
        pytest.param(
            {
                "sampling": banning(range(9)),
                "min_tokens": 1,
                "end_ids": frozenset({9}),
            },
            "min_tokens together",
            id="all but an end token",
        ),
        pytest.param(
            {"sampling": Sampling(logit_bias=((9, 100.0),)), "min_tokens": 1, "end_ids": frozenset({8, 9})},
            "min_tokens together",
            id="an end token forced",
        ),
    ],
)
def test_request_that_leaves_no_token_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as refusal:
        plan(**changes)
    assert refusal.value.param == "logit_bias"
    assert plan(**changes, max_tokens=0).max_tokens == 1, "where nothing is sampled nothing is missing"


def test_end_token_may_be_the_only_one_left_if_it_may_come_at_once() -> None:
    assert plan(sampling=banning(range(9)), end_ids=frozenset({9})).end_ids == {9}


def test_vllm_always_samples_a_token() -> None:
    found = plan(max_tokens=0, min_tokens=5)
    assert (found.max_tokens, found.min_tokens) == (1, 1)


def test_only_the_first_candidate_scores_the_prompt() -> None:
    assert [plan(index, n_candidates=2, prompt_logprobs=3).prompt_logprobs for index in (0, 1)] == [3, None]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        pytest.param({"sampling": Sampling(logit_bias=((1, 1.0), (2, 1.0), (3, 1.0)))}, "logit_bias", id="bias"),
        pytest.param(
            {"sampling": Sampling(logit_bias=((1, 100.0), (2, 100.0), (3, 100.0)))}, "logit_bias", id="forced"
        ),
        pytest.param({"end_ids": frozenset({1, 2})}, "stop_token_ids", id="ends"),
    ],
)
def test_more_than_the_engine_takes_is_refused_by_name(changes: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest, match="takes at most") as refusal:
        plan(limits=Limits(10, max_listed=2, max_end_ids=1), **changes)
    assert refusal.value.param == param


SIGNED = st.integers(-(2**63), 2**63 - 1)


@given(SIGNED, st.integers(0, 2000), st.integers(0, 2000))
def test_seeds_are_never_negative_as_minus_one_is_no_seed(seed: int, prompt_index: int, candidate: int) -> None:
    assert 0 <= seed_of(seed, prompt_index, candidate) < 2**63


def test_seeds_never_change() -> None:
    assert seed_of(0, 0, 0) == 5592748514312920242


def test_every_place_has_its_own_seed() -> None:
    seeds = {seed_of(seed, prompt, candidate) for seed in (-1, 0, 1) for prompt in range(5) for candidate in range(5)}
    assert len(seeds) == 75

"""What is drawn with the samplers of writers' programs, against their definitions."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2
from tests.engine.sampling.definitions import DEFINED, mirostat_1, mirostat_2, shares_of, xtc
from tests.engine.sampling.test_sampler import Grid

from afterword.completions.parse import parse_body
from afterword.engine.sampling.chain import active_samplers, needs_chain
from afterword.engine.sampling.random_stream import RandomStream
from afterword.engine.sampling.sampler import Sampler, Workspace
from afterword.errors import InvalidRequest
from afterword.fields.order import DEFAULT_ORDER
from afterword.fields.sampling import Sampling


def sampling(**fields: Any) -> Sampling:
    return parse_body(fields, strict=False).sampling.applied()


def row(n: int, seed: int, scale: float) -> NDArray[np.float32]:
    logits = (np.random.default_rng(seed).standard_normal(n) * scale).astype(np.float32)
    logits.setflags(write=False)
    return logits


ROWS = [
    pytest.param(row(40, 1, 2.0), id="peaked"),
    pytest.param(row(40, 2, 0.5), id="flat"),
    pytest.param(row(40, 3, 6.0), id="sure"),
    pytest.param(row(300, 4, 3.0), id="long"),
    pytest.param(np.zeros(7, dtype=np.float32), id="equal"),
    pytest.param(np.array([2.5], dtype=np.float32), id="single"),
]

REQUESTS: dict[str, dict[str, Any]] = {
    "typical": {"typical_p": 0.6},
    "typical_all_but_all": {"typical_p": 0.999},
    "top_n_sigma": {"top_n_sigma": 1.2},
    "top_a": {"top_a": 0.4},
    "tfs": {"tfs": 0.9},
    "tfs_little": {"tfs": 0.3},
    "epsilon": {"epsilon_cutoff": 300},
    "eta": {"eta_cutoff": 500},
    "dynatemp": {"dynatemp_range": 0.7, "dynatemp_exponent": 1.5},
    "dynamic_temperature": {"dynamic_temperature": True, "dynatemp_low": 0.3, "dynatemp_high": 2.5},
    "quadratic": {"smoothing_factor": 0.4},
    "cubic": {"smoothing_factor": 0.2, "smoothing_curve": 2.5},
    "bent_upwards": {"smoothing_factor": 0.05, "smoothing_curve": 5},
    "skew_up": {"skew": 0.8},
    "skew_down": {"skew": -0.8},
    "mirostat_1": {"mirostat": 1, "mirostat_tau": 1.2},
    "mirostat_2": {"mirostat": 2, "mirostat_tau": 1.1},
    "adaptive": {"adaptive_target": 0.2},
    "adaptive_likely": {"adaptive_target": 0.9, "adaptive_decay": 0.5},
    "min_keep": {"min_p": 0.9, "top_k": 1 + 1, "min_keep": 4},
    "min_keep_of_typical": {"typical_p": 0.05, "top_p": 0.05, "min_keep": 3, "samplers": ["top_p"]},
    "temperature_last": {"temperature": 1.8, "min_p": 0.2, "temperature_last": True},
    "order": {"temperature": 1.5, "top_k": 9, "top_p": 0.7, "samplers": ["top_p", "temperature", "top_k"]},
    "left_out": {"temperature": 0.3, "top_p": 0.7, "typical_p": 0.3, "samplers": ["top_p"]},
    "koboldcpp": {"top_p": 0.8, "top_a": 0.1, "temperature": 0.6, "sampler_order": [6, 0, 1, 3, 4, 2, 5]},
    "webui": {"top_p": 0.8, "typical_p": 0.9, "temperature": 1.6, "sampler_priority": "top_p\ntemperature\ntypical_p"},
    "all": {
        "temperature": 1.3,
        "dynatemp_range": 0.4,
        "smoothing_factor": 0.1,
        "top_n_sigma": 2.5,
        "epsilon_cutoff": 2,
        "eta_cutoff": 3,
        "min_p": 0.01,
        "top_a": 0.02,
        "top_k": 30,
        "tfs": 0.99,
        "typical_p": 0.97,
        "top_p": 0.96,
        "mirostat": 2,
        "mirostat_tau": 3,
        "skew": 0.2,
    },
}


@pytest.mark.parametrize("logits", ROWS)
@pytest.mark.parametrize("fields", REQUESTS.values(), ids=REQUESTS)
def test_draws_have_the_shares_of_the_definition(fields: dict[str, Any], logits: NDArray[np.float32]) -> None:
    asked = sampling(**fields)
    expected = shares_of(logits.astype(np.float64), asked)
    assert fits(draws(asked, logits, 2000), expected)


@pytest.mark.parametrize(("name", "greedy"), [("top_n_sigma", False), ("smoothing_factor", True)])
def test_a_number_too_large_for_single_precision_is_a_large_number(name: str, greedy: bool) -> None:
    # In the tests a warning of numpy's is an error.
    for huge in (1e39, 1e300):
        drawn = draws(sampling(**{name: huge}), row(40, 1, 2.0), 200)
        assert (len(set(drawn)) == 1) is greedy


def draws(asked: Sampling, logits: NDArray[np.float32], n: int) -> list[int]:
    """First tokens: as none is accepted, samplers that remember have nothing to remember."""
    sampler = Sampler(asked, Workspace(logits.size), RandomStream(5, 0, 0))
    return [sampler.sample(logits, position) for position in range(n)]


def fits(drawn: list[int], expected: NDArray[np.float64]) -> bool:
    """Chi-square; one fit in a million fails by chance, and seeds are fixed, so none does."""
    counts = np.bincount(drawn, minlength=expected.size).astype(np.float64)
    assert not counts[expected <= 0].any(), "a token that was dropped is drawn"
    wanted = expected * len(drawn) / expected.sum()
    rare = (wanted < 5) & (wanted > 0)
    groups = [(counts[place], wanted[place]) for place in np.flatnonzero(wanted >= 5)]
    if rare.any():
        groups.append((counts[rare].sum(), wanted[rare].sum()))
    statistic = sum((seen - share) ** 2 / share for seen, share in groups)
    return bool(statistic <= chi2.isf(1e-6, max(len(groups) - 1, 1)))


@pytest.mark.parametrize("name", DEFINED)
def test_each_definition_tells_apart(name: str) -> None:
    """A chi-square that passes whatever is drawn would hold nothing."""
    drawn = draws(sampling(), row(40, 1, 2.0), 3000)
    one: dict[str, Any] = {
        "temperature": {"temperature": 0.7},
        "smoothing": {"smoothing_factor": 0.3},
        "top_k": {"top_k": 5},
    }
    others = {"top_p": {"top_p": 0.7}, "min_p": {"min_p": 0.2}, "tfs": {"tfs": 0.5}, "typical_p": {"typical_p": 0.5}}
    cuts = {"epsilon_cutoff": {"epsilon_cutoff": 100}, "eta_cutoff": {"eta_cutoff": 300}, "top_a": {"top_a": 0.2}}
    fields: dict[str, Any] = (one | others | cuts | {"top_n_sigma": {"top_n_sigma": 1}})[name]
    expected = shares_of(row(40, 1, 2.0).astype(np.float64), sampling(**fields))
    with pytest.raises(AssertionError):
        assert fits(drawn, expected)


def test_xtc_drops_all_but_the_least_of_the_likely_as_often_as_asked() -> None:
    asked = sampling(xtc_probability=0.4, xtc_threshold=0.05)
    logits = row(40, 1, 2.0)
    with_it, without = xtc(logits.astype(np.float64), asked), logits.astype(np.float64)
    expected = 0.4 * np.exp(with_it) / np.exp(with_it).sum() + 0.6 * np.exp(without) / np.exp(without).sum()
    assert np.isneginf(with_it).sum() >= 2
    assert fits(draws(asked, logits, 6000), expected)


@pytest.mark.parametrize("fields", [{"xtc_threshold": 0.6}, {"xtc_threshold": 0.5}, {"min_keep": 40}])
def test_xtc_leaves_everything_where_no_two_are_likely_or_too_few_would_be_left(fields: dict[str, Any]) -> None:
    asked = sampling(xtc_probability=1.0, **fields)
    logits = row(40, 3, 6.0) if "min_keep" not in fields else row(40, 1, 2.0)
    assert fits(draws(asked, logits, 3000), shares_of(logits.astype(float), asked))


@pytest.mark.parametrize(("version", "defined"), [(1, mirostat_1), (2, mirostat_2)])
def test_mirostat_corrects_its_bound_by_the_surprise_of_each_token(
    version: int, defined: Callable[[NDArray[np.float64], float], NDArray[np.float64]]
) -> None:
    sampler = Sampler(sampling(mirostat=version, mirostat_tau=2.0, mirostat_eta=0.3), Workspace(300), Grid(40))
    mu, bounds = 4.0, []
    for position in range(40):
        logits = row(300, position % 7, 2.0)
        shares = np.exp(defined(logits.astype(np.float64), mu))
        shares /= shares.sum()
        token = sampler.sample(logits, position)
        assert shares[token] > 0
        sampler.accept(token)
        mu -= 0.3 * (-math.log2(shares[token]) - 2.0)
        bounds.append(mu)
    assert max(bounds) - min(bounds) > 0.5


def test_adaptive_p_brings_the_average_to_its_target() -> None:
    averages = []
    for target in (0.05, 0.3):
        sampler = Sampler(sampling(adaptive_target=target), Workspace(50), RandomStream(1, 0, 0))
        drawn = []
        for position in range(400):
            logits = row(50, position, 1.5)
            token = sampler.sample(logits, position)
            sampler.accept(token)
            shares = np.exp(logits.astype(np.float64))
            drawn.append(shares[token] / shares.sum())
        averages.append(sum(drawn[50:]) / 350)
    assert averages[0] < averages[1]
    assert averages[1] == pytest.approx(0.2, abs=0.1)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, []),
        ({"temperature": 0.5, "top_p": 0.9}, ["temperature", "top_p"]),
        ({"top_n_sigma": -1, "adaptive_target": -0.01, "mirostat_tau": 3}, []),
        ({"mirostat": 2, "tfs": 0.9}, ["tfs", "mirostat"]),
        ({"temperature": 0.5, "top_p": 0.9, "temperature_last": True}, ["top_p", "temperature"]),
        ({"top_k": 5, "top_p": 0.9, "samplers": ["top_p", "top_k"]}, ["top_p", "top_k"]),
        ({"top_k": 5, "top_p": 0.9, "samplers": ["top_p"]}, ["top_p"]),
        ({"top_k": 5, "min_p": 0.1, "sampler_priority": ["top_k"]}, ["min_p", "top_k"]),
        ({"top_k": 5, "top_a": 0.1, "sampler_order": [6, 1, 0]}, ["top_a", "top_k"]),
    ],
)
def test_what_is_applied_and_in_which_order(fields: dict[str, Any], names: list[str]) -> None:
    assert active_samplers(sampling(**fields)) == names


def test_the_usual_samplers_in_the_usual_order_need_no_chain() -> None:
    usual = {"temperature": 0.7, "min_p": 0.05, "top_k": 40, "top_p": 0.9}
    assert not needs_chain(sampling(**usual))
    assert not needs_chain(sampling(**usual, samplers=list(DEFAULT_ORDER)))
    assert needs_chain(sampling(**usual, temperature_last=True))
    assert not needs_chain(sampling(temperature_last=True))
    assert needs_chain(sampling(skew=0.1))


def test_a_greedy_request_takes_the_likeliest_whatever_else_it_has() -> None:
    asked = sampling(temperature=0, xtc_probability=1, typical_p=0.2, mirostat=2, skew=3)
    sampler = Sampler(asked, Workspace(40), RandomStream(1, 0, 0))
    logits = row(40, 1, 2.0)
    assert sampler.sample(logits, 0) == int(logits.argmax())
    sampler.accept(int(logits.argmax()))


def test_banned_tokens_are_never_drawn_and_the_row_stays() -> None:
    asked = sampling(typical_p=0.9, top_n_sigma=2, logit_bias={"3": -100, "5": -100})
    logits = np.zeros(8, dtype=np.float32)
    logits.setflags(write=False)
    assert set(draws(asked, logits, 300)) == {0, 1, 2, 4, 6, 7}


@pytest.mark.parametrize("scale", [1e-3, 1e4, 1e30])
def test_extreme_logits_still_give_a_token(scale: float) -> None:
    logits = row(100, 1, scale)
    for fields in REQUESTS.values():
        assert 0 <= draws(sampling(**fields), logits, 1)[0] < 100


@pytest.mark.parametrize(
    ("value", "param", "words"),
    [
        ({"samplers": ["top_k", "penalties"]}, "samplers", "before all others"),
        ({"samplers": ["nonsense"]}, "samplers", "'nonsense', which is the name of no sampler"),
        ({"samplers": [7]}, "samplers", "has 7"),
        ({"samplers": 5}, "samplers", "must be an array"),
        ({"sampler_order": [0, 6]}, "sampler_order", "before all others"),
        ({"mirostat": 3}, "mirostat", "at most 2"),
        ({"dynamic_temperature": True, "dynatemp_low": 2, "dynatemp_high": 1}, "dynatemp_low", "must not be above"),
    ],
)
def test_what_cannot_be_applied_is_refused(value: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises((InvalidRequest, ValueError), match=words) as refused:
        sampling(**value)
    if isinstance(refused.value, InvalidRequest):
        assert refused.value.param == param

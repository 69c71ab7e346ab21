import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from afterword.engine.sampling.bias import EveryTokenBanned
from afterword.engine.sampling.random_stream import RandomStream
from afterword.engine.sampling.sampler import Sampler, Workspace
from afterword.fields.sampling import Sampling

INF = float("inf")
LN2 = math.log(2.0)


@dataclass(frozen=True, slots=True)
class Always:
    """The same number at every position."""

    u: float

    def uniform(self, position: int) -> float:
        return self.u

    def chance(self, position: int) -> float:
        return self.u


@dataclass(frozen=True, slots=True)
class Grid:
    """Position i of n gives the middle of the i-th n-th of [0, 1)."""

    n: int

    def uniform(self, position: int) -> float:
        return (position + 0.5) / self.n

    def chance(self, position: int) -> float:
        return 0.5


def frozen(logits: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float32]:
    """A row that raises when somebody writes to it."""
    row = np.array(logits, dtype=np.float32)
    row.setflags(write=False)
    return row


def logs(*shares: float) -> list[float]:
    return [math.log(share) if share else -INF for share in shares]


def noise(n: int, *, seed: int = 0, scale: float = 3.0) -> NDArray[np.float32]:
    return frozen(np.random.default_rng(seed).standard_normal(n) * scale)


def chi_square_passes(drawn: Sequence[int], expected: Sequence[float]) -> bool:
    """Whether draws fit the probabilities; one fit in a million fails by chance (seeds are fixed, so none does)."""
    shares = np.array(expected) / math.fsum(expected)
    counts = np.bincount(drawn, minlength=shares.size)
    possible = shares > 0.0
    if counts[~possible].any():
        return False
    wanted = shares[possible] * len(drawn)
    statistic = ((counts[possible] - wanted) ** 2 / wanted).sum()
    return bool(statistic <= chi2.isf(1e-6, max(wanted.size - 1, 1)))


SIXTEENTHS = logs(8, 4, 2, 1, 1)

DISTRIBUTIONS = [
    pytest.param(Sampling(), SIXTEENTHS, (), (), [8, 4, 2, 1, 1], id="neutral"),
    pytest.param(Sampling(temperature=0.5), SIXTEENTHS, (), (), [64, 16, 4, 1, 1], id="temperature_below_1"),
    pytest.param(Sampling(temperature=2.0), logs(16, 9, 4, 1), (), (), [4, 3, 2, 1], id="temperature_above_1"),
    pytest.param(Sampling(temperature=1e-5), SIXTEENTHS, (), (), [1, 0, 0, 0, 0], id="tiny_temperature"),
    pytest.param(Sampling(temperature=1e-5), [0, 9, -3e38, 9], (), (), [0, 1, 0, 1], id="tiny_temperature_ties"),
    pytest.param(Sampling(temperature=0.0), logs(2, 3, 3), (), (), [0, 1, 0], id="greedy_takes_the_lowest_id"),
    pytest.param(Sampling(temperature=9e-6), logs(2, 3, 3), (), (), [0, 1, 0], id="greedy_below_1e-5"),
    pytest.param(Sampling(top_k=2), SIXTEENTHS, (), (), [2, 1, 0, 0, 0], id="top_k"),
    pytest.param(Sampling(top_k=1), logs(1, 3, 3), (), (), [0, 1, 0], id="top_k_1"),
    pytest.param(Sampling(top_k=4), SIXTEENTHS, (), (), [8, 4, 2, 1, 0], id="top_k_tie_keeps_the_lower_id"),
    pytest.param(Sampling(top_k=99), SIXTEENTHS, (), (), [8, 4, 2, 1, 1], id="top_k_beyond_the_vocabulary"),
    pytest.param(Sampling(top_p=0.6), SIXTEENTHS, (), (), [2, 1, 0, 0, 0], id="top_p_keeps_the_token_that_reaches_it"),
    pytest.param(Sampling(top_p=0.9), SIXTEENTHS, (), (), [8, 4, 2, 1, 0], id="top_p_tie_keeps_the_lower_id"),
    pytest.param(Sampling(top_p=0.5), [1, 1, 1, 1], (), (), [1, 1, 0, 0], id="top_p_reached_exactly"),
    pytest.param(Sampling(top_p=0.0), logs(1, 3, 3), (), (), [0, 1, 0], id="top_p_0_is_the_top_token"),
    pytest.param(Sampling(top_p=1e-9), SIXTEENTHS, (), (), [1, 0, 0, 0, 0], id="top_p_never_leaves_nothing"),
    pytest.param(Sampling(top_p=0.99999), [0] * 4, (), (), [1, 1, 1, 1], id="top_p_nearly_1"),
    pytest.param(Sampling(top_p=0.99), logs(1, 0, 1), (), (), [1, 0, 1], id="top_p_beside_impossible_tokens"),
    pytest.param(Sampling(min_p=0.3), SIXTEENTHS, (), (), [2, 1, 0, 0, 0], id="min_p"),
    pytest.param(Sampling(min_p=0.25), SIXTEENTHS, (), (), [4, 2, 1, 0, 0], id="min_p_keeps_equality"),
    pytest.param(Sampling(min_p=1.0), logs(1, 3, 3), (), (), [0, 1, 0], id="min_p_1_is_the_top_token"),
    pytest.param(
        Sampling(temperature=2.0, min_p=0.4),
        logs(16, 4, 1),
        (),
        (),
        [2, 1, 0],
        id="min_p_after_temperature",
    ),
    pytest.param(Sampling(min_p=0.2, top_p=0.8), SIXTEENTHS, (), (), [2, 1, 0, 0, 0], id="top_p_of_what_min_p_left"),
    pytest.param(Sampling(top_k=2, top_p=0.6), SIXTEENTHS, (), (), [1, 0, 0, 0, 0], id="top_p_of_what_top_k_left"),
    pytest.param(Sampling(top_k=4, min_p=0.2), SIXTEENTHS, (), (), [4, 2, 1, 0, 0], id="min_p_tighter_than_top_k"),
    pytest.param(Sampling(top_k=2, min_p=0.1), SIXTEENTHS, (), (), [2, 1, 0, 0, 0], id="top_k_tighter_than_min_p"),
    pytest.param(
        Sampling(temperature=2.0, min_p=0.2, top_k=3, top_p=0.9),
        logs(1, 16, 9, 4, 4),
        (),
        (),
        [0, 4, 3, 2, 0],
        id="all_cuts_at_once",
    ),
    pytest.param(Sampling(logit_bias=((2, 2 * LN2),)), SIXTEENTHS, (), (), [8, 4, 8, 1, 1], id="bias"),
    pytest.param(Sampling(logit_bias=((0, -100.0),)), SIXTEENTHS, (), (), [0, 4, 2, 1, 1], id="ban"),
    pytest.param(Sampling(logit_bias=((1, 100.0), (3, 100.0))), SIXTEENTHS, (), (), [0, 4, 0, 1, 0], id="force"),
    pytest.param(
        Sampling(temperature=0.0, logit_bias=((1, 1.0),)), logs(2, 1, 1), (), (), [0, 1, 0], id="bias_moves_greedy"
    ),
    pytest.param(
        Sampling(logit_bias=((0, -100.0),), top_k=2), SIXTEENTHS, (), (), [0, 2, 1, 0, 0], id="top_k_after_bans"
    ),
    pytest.param(
        Sampling(logit_bias=((0, -100.0), (1, -100.0)), top_k=4, top_p=0.999),
        logs(8, 4, 2, 1),
        (),
        (),
        [0, 0, 2, 1],
        id="fewer_left_than_top_k",
    ),
    pytest.param(Sampling(frequency_penalty=LN2), SIXTEENTHS, (), (0, 0, 0), [1, 4, 2, 1, 1], id="frequency_penalty"),
    pytest.param(Sampling(presence_penalty=LN2), SIXTEENTHS, (), (0, 0, 1), [4, 2, 2, 1, 1], id="presence_penalty"),
    pytest.param(
        Sampling(temperature=0.0, presence_penalty=2.0), logs(3, 2), (), (0,), [0, 1], id="penalty_moves_greedy"
    ),
    pytest.param(
        Sampling(repetition_penalty=2.0), [2 * LN2, -LN2, LN2], (0,), (1,), [8, 1, 8], id="repetition_penalty"
    ),
    pytest.param(
        Sampling(temperature=0.5, frequency_penalty=LN2, logit_bias=((2, LN2),), top_p=0.99),
        logs(8, 4, 2),
        (),
        (0,),
        [1, 1, 1],
        id="penalty_and_bias_before_temperature",
    ),
]


@pytest.mark.parametrize(("sampling", "logits", "prompt", "accepted", "expected"), DISTRIBUTIONS)
def test_shares_of_evenly_spaced_draws_are_the_probabilities(
    sampling: Sampling, logits: list[float], prompt: Sequence[int], accepted: Sequence[int], expected: list[float]
) -> None:
    n = 1000
    sampler = Sampler(sampling, Workspace(len(logits)), Grid(n), prompt=prompt)
    for token in accepted:
        sampler.accept(token)
    row = frozen(logits)
    counts = Counter(sampler.sample(row, position) for position in range(n))
    for token, weight in enumerate(expected):
        # Each end of a token's interval may fall one grid point to either side.
        assert counts[token] == pytest.approx(n * weight / sum(expected), abs=1.5 if weight else 0)


@pytest.mark.parametrize(("sampling", "logits", "prompt", "accepted", "expected"), DISTRIBUTIONS)
def test_random_draws_fit_the_probabilities(
    sampling: Sampling, logits: list[float], prompt: Sequence[int], accepted: Sequence[int], expected: list[float]
) -> None:
    sampler = Sampler(sampling, Workspace(len(logits)), RandomStream(17, 0, 0), prompt=prompt)
    for token in accepted:
        sampler.accept(token)
    row = frozen(logits)
    assert chi_square_passes([sampler.sample(row, position) for position in range(2000)], expected)


def softmax(logits: NDArray[np.float32], temperature: float) -> NDArray[np.float64]:
    scaled = logits.astype(np.float64) / temperature
    weights = np.exp(scaled - scaled.max())
    probabilities: NDArray[np.float64] = weights / weights.sum()
    return probabilities


def cut_by_rule(probabilities: NDArray[np.float64], sampling: Sampling) -> list[float]:
    """min_p, top_k and top_p said as plainly as can be."""
    kept = sorted(range(probabilities.size), key=lambda token: (-probabilities[token], token))
    kept = [token for token in kept if probabilities[token] >= sampling.min_p * probabilities.max()]
    kept = kept[: sampling.top_k or None]
    mass = sum(probabilities[token] for token in kept)
    shares, before = [0.0] * probabilities.size, 0.0
    for token in kept:
        if before < sampling.top_p * mass:
            shares[token] = float(probabilities[token])
        before += probabilities[token]
    return shares


@pytest.mark.parametrize(
    "sampling",
    [
        pytest.param(Sampling(temperature=1.3), id="temperature"),
        pytest.param(Sampling(temperature=1.3, top_p=0.8), id="top_p"),
        pytest.param(Sampling(temperature=0.7, top_k=100), id="top_k"),
        pytest.param(Sampling(temperature=2.0, min_p=0.3), id="min_p"),
        pytest.param(Sampling(temperature=1.1, min_p=0.1, top_k=300, top_p=0.7), id="all_cuts"),
    ],
)
def test_draws_from_a_thousand_tokens_fit(sampling: Sampling) -> None:
    row = noise(1000, seed=3, scale=0.7)
    sampler = Sampler(sampling, Workspace(1000), RandomStream(-5, 1, 2))
    drawn = [sampler.sample(row, position) for position in range(15_000)]
    assert chi_square_passes(drawn, cut_by_rule(softmax(row, sampling.temperature), sampling))


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 640, 1000, 4097])
@pytest.mark.parametrize(
    "sampling",
    [
        pytest.param(Sampling(top_p=0.9), id="top_p"),
        pytest.param(Sampling(temperature=2.0, top_p=0.999), id="flat_top_p"),
        pytest.param(Sampling(top_k=7), id="top_k"),
        pytest.param(Sampling(min_p=0.02, top_k=9, top_p=0.8), id="all_cuts"),
    ],
)
def test_likeliest_and_least_likely_survivor_are_at_the_ends_of_a_cut_draw(n: int, sampling: Sampling) -> None:
    row = frozen(np.random.default_rng(n).integers(-12, 12, n) / 2)
    shares = cut_by_rule(softmax(row, sampling.temperature), sampling)
    order = sorted((token for token in range(n) if shares[token]), key=lambda token: (-float(row[token]), token))
    workspace = Workspace(n)
    assert Sampler(sampling, workspace, Always(0.0)).sample(row, 0) == order[0]
    assert Sampler(sampling, workspace, Always(1.0 - 2.0**-53)).sample(row, 0) == order[-1]


@pytest.mark.parametrize(("u", "expected"), [(0.0, 0), (0.24, 0), (0.26, 1), (0.74, 1), (0.76, 2), (1.0 - 2.0**-53, 2)])
def test_the_whole_vocabulary_is_cumulated_in_order_of_ids(u: float, expected: int) -> None:
    assert Sampler(Sampling(), Workspace(4), Always(u)).sample(frozen(logs(1, 2, 1, 0)), 0) == expected


@pytest.mark.parametrize(("u", "expected"), [(0.0, 1), (0.49, 1), (0.51, 0), (0.74, 0), (0.76, 3)])
def test_what_a_cut_leaves_is_cumulated_in_order_of_likelihood(u: float, expected: int) -> None:
    row = frozen(logs(1, 2, 0.001, 1))
    assert Sampler(Sampling(top_k=3), Workspace(4), Always(u)).sample(row, 0) == expected


@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 3.0, 40.0])
@pytest.mark.parametrize(
    "sampling",
    [Sampling(top_p=0.95), Sampling(top_p=0.3), Sampling(top_p=0.9999), Sampling(top_k=3000), Sampling(min_p=1e-9)],
    ids=["top_p", "small_top_p", "top_p_nearly_1", "top_k", "min_p"],
)
def test_many_thousands_are_drawn_from_as_if_all_were_sorted(scale: float, sampling: Sampling) -> None:
    row = noise(20_000, seed=3, scale=scale)
    weights = np.exp(row.astype(np.float64) - float(row.max()))
    order = np.argsort(-row, kind="stable")
    order = order[: sampling.top_k] if sampling.top_k else order
    order = order[weights[order] >= sampling.min_p]
    ends = weights[order].cumsum()
    if sampling.top_p < 1.0:
        ends = ends[: int(ends.searchsorted(sampling.top_p * ends[-1])) + 1]
    n = 200
    sampler = Sampler(sampling, Workspace(row.size), Grid(n))
    drawn = [sampler.sample(row, position) for position in range(n)]
    expected = [int(ends.searchsorted((position + 0.5) / n * ends[-1], side="right")) for position in range(n)]
    places = {int(token): place for place, token in enumerate(order.tolist())}
    # Weights are float32 in the sampler: a draw may fall on the other side of an end, not further.
    off = [abs(places[token] - place) for token, place in zip(drawn, expected, strict=True)]
    assert max(off) <= 1


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000, 49_152])
def test_the_whole_vocabulary_is_within_reach(n: int) -> None:
    row = frozen(np.zeros(n))
    workspace = Workspace(n)
    drawn = [Sampler(Sampling(), workspace, Always((i + 0.5) / 97)).sample(row, 0) for i in range(97)]
    assert drawn == [int((i + 0.5) / 97 * n) for i in range(97)]
    assert Sampler(Sampling(), workspace, Always(1.0 - 2.0**-53)).sample(row, 0) == n - 1


@pytest.mark.parametrize("place", [0, 63, 64, 500, 999])
def test_rounding_at_the_end_never_reaches_an_impossible_token(place: int) -> None:
    logits = np.full(1000, -INF)
    logits[place] = 1.5
    for sampling in (
        Sampling(),
        Sampling(temperature=0.3),
        Sampling(top_p=0.5),
        Sampling(top_k=40),
        Sampling(top_k=900),
    ):
        sampler = Sampler(sampling, Workspace(1000), Always(1.0 - 2.0**-53))
        assert sampler.sample(frozen(logits), 0) == place


def test_block_sums_rounded_up_never_reach_an_impossible_token() -> None:
    workspace = Workspace(64)
    for seed in range(40):
        logits = np.random.default_rng(seed).standard_normal(64)
        logits[60:] = -INF
        assert Sampler(Sampling(), workspace, Always(1.0 - 2.0**-53)).sample(frozen(logits), 0) == 59


def test_a_long_unlikely_tail_counts_for_top_p() -> None:
    weight = math.exp(-9.0)
    row = frozen([-9.0] * 10_000 + [0.0])
    # Half of the weight is the likeliest token's 1 and so many of the tail.
    n_tail = math.ceil(((1.0 + 10_000 * weight) / 2 - 1.0) / weight)
    assert n_tail == 949
    sampler = Sampler(Sampling(top_p=0.5), Workspace(10_001), Always(1.0 - 2.0**-53))
    assert sampler.sample(row, 0) == n_tail - 1


def test_draws_do_not_depend_on_their_order() -> None:
    row = noise(1000)
    sampler = Sampler(Sampling(top_p=0.9), Workspace(1000), RandomStream(1, 0, 0))
    forwards = [sampler.sample(row, position) for position in range(50)]
    assert [sampler.sample(row, position) for position in reversed(range(50))] == forwards[::-1]
    assert len(set(forwards)) > 5


def test_candidates_draw_differently() -> None:
    row, workspace = noise(1000), Workspace(1000)
    runs = {
        tuple(
            Sampler(Sampling(), workspace, RandomStream(1, 0, candidate)).sample(row, position)
            for position in range(10)
        )
        for candidate in range(8)
    }
    assert len(runs) == 8


VARIETY = [
    Sampling(temperature=0.0),
    Sampling(),
    Sampling(temperature=0.8, top_p=0.95),
    Sampling(top_k=40, repetition_penalty=1.2),
    Sampling(min_p=0.05, logit_bias=((3, -100.0),), frequency_penalty=0.3),
]


def run(sampler: Sampler, rows: Sequence[NDArray[np.float32]]) -> list[int]:
    tokens: list[int] = []
    for row in rows:
        tokens.append(sampler.sample(row, len(tokens)))
        sampler.accept(tokens[-1])
    return tokens


def test_samplers_sharing_a_workspace_do_not_disturb_each_other() -> None:
    rows = [noise(1001, seed=seed) for seed in range(12)]
    alone = [run(Sampler(s, Workspace(1001), RandomStream(9, 0, 0), prompt=(1, 2)), rows) for s in VARIETY]
    workspace = Workspace(1001)
    samplers = [Sampler(s, workspace, RandomStream(9, 0, 0), prompt=(1, 2)) for s in VARIETY]
    together: list[list[int]] = [[] for _ in samplers]
    for row in rows:
        for sampler, tokens in zip(samplers, together, strict=True):
            tokens.append(sampler.sample(row, len(tokens)))
            sampler.accept(tokens[-1])
    assert together == alone


@pytest.mark.parametrize("sampling", VARIETY, ids=["greedy", "all", "top_p", "top_k", "min_p"])
def test_the_token_does_not_depend_on_where_the_row_lies(sampling: Sampling) -> None:
    row = noise(1001, seed=6)
    sampler = Sampler(sampling, Workspace(1001), RandomStream(2, 0, 0), prompt=(5,))
    expected = [sampler.sample(row, position) for position in range(30)]
    for offset in range(20):
        memory = np.full(1001 + 40, math.nan, dtype=np.float32)
        moved = memory[offset : offset + 1001]
        moved[:] = row
        assert [sampler.sample(moved, position) for position in range(30)] == expected


def test_end_tokens_are_banned_before_min_tokens() -> None:
    row = frozen(logs(90, 1, 9))
    sampler = Sampler(
        Sampling(temperature=0.0), Workspace(3), RandomStream(0, 0, 0), end_ids=frozenset({0, 2}), min_tokens=2
    )
    assert [sampler.sample(row, position) for position in range(4)] == [1, 1, 0, 0]


def test_end_tokens_are_banned_after_bias() -> None:
    sampler = Sampler(
        Sampling(logit_bias=((0, 50.0),)), Workspace(2), RandomStream(0, 0, 0), end_ids=frozenset({0}), min_tokens=1
    )
    assert [sampler.sample(frozen([0.0, 0.0]), position) for position in range(2)] == [1, 0]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("logits", "bias", "min_tokens", "message"),
    [
        pytest.param([1, 2], ((0, -100.0), (1, -100.0)), 0, "logit_bias bans every token.", id="all_banned"),
        pytest.param([-INF, 2], ((1, -100.0),), 0, "logit_bias bans every token.", id="all_possible_ones_banned"),
        pytest.param([1, 2], ((1, 100.0),), 1, "logit_bias and min_tokens together ban every token.", id="end_forced"),
        pytest.param([1, math.nan], (), 0, "the model's logits have nan as their largest value", id="nan"),
        pytest.param([1, INF], (), 0, "the model's logits have inf as their largest value", id="plus_infinity"),
        pytest.param([-INF, -INF], (), 0, "the model's logits have -inf as their largest value", id="nothing_possible"),
    ],
)
def test_no_token_is_an_error_never_a_guess(
    temperature: float, logits: list[float], bias: tuple[tuple[int, float], ...], min_tokens: int, message: str
) -> None:
    sampler = Sampler(
        Sampling(temperature=temperature, logit_bias=bias),
        Workspace(2),
        RandomStream(0, 0, 0),
        end_ids=frozenset({1}),
        min_tokens=min_tokens,
    )
    kind = EveryTokenBanned if message.startswith("logit_bias") else ValueError
    with pytest.raises(kind, match=f"^{message}$"):
        sampler.sample(frozen(logits), 0)


def test_http_22_what_a_request_gives_all_of_its_candidates_is_worked_out_once() -> None:
    workspace = Workspace(8)
    sampling, ends = Sampling(logit_bias=((1, 5),)), frozenset({2, 3})
    assert workspace.bias_of(sampling) is workspace.bias_of(sampling)
    assert workspace.places_of(ends) is workspace.places_of(ends)
    assert workspace.bias_of(Sampling(logit_bias=((1, 5),))) is not workspace.bias_of(sampling)

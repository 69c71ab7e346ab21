"""Samplers that drop or reweigh tokens by how likely they are: functions of the candidates and the request.

What each means for a user is docs/samplers.md. Pure but for the candidates, which they change.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from afterword.engine.sampling.candidates import Candidates
from afterword.fields.sampling import GREEDY_BELOW, Sampling

_TEN_THOUSANDTH: Final = 1e-4
"""The unit of `epsilon_cutoff` and `eta_cutoff`."""

_FARTHEST: Final = 1e30
"""Scores, and what is compared with them or multiplied by, count as this beyond it, up or down."""


_DEEPEST: Final = 18.0
"""Nats below the likeliest token to which tail-free sampling looks."""


def temperature(candidates: Candidates, sampling: Sampling) -> None:
    """With a range, the temperature rises with the entropy from its lower to its upper end (llama.cpp#4972)."""
    middle, spread = sampling.temperature, sampling.shaping.dynatemp_range
    if spread > 0 and candidates.ids.size > 1:
        low, high = max(middle - spread, GREEDY_BELOW), middle + spread
        part = min(max(candidates.entropy, 0.0) / math.log(candidates.ids.size), 1.0)
        middle = low + (high - low) * part**sampling.shaping.dynatemp_exponent
    candidates.scale(1.0 / middle)


def smoothing(candidates: Candidates, sampling: Sampling) -> None:
    """Quadratic sampling (text-generation-webui#5403), with a cubic part (#5551)."""
    factor, curve = sampling.shaping.smoothing_factor, sampling.shaping.smoothing_curve
    square, cube = _single(factor * (3 - curve) / 2), _single(factor * (curve - 1) / 2)
    scores = candidates.scores
    # Far below the likeliest token this falls beyond what a float can hold.
    with np.errstate(over="ignore", invalid="ignore"):
        smoothed, factors = scores * scores, cube * scores
        factors -= square
        smoothed *= factors
    # A NaN is the smallest and the largest of whatever it is among.
    if not (math.isfinite(smoothed.min()) and math.isfinite(smoothed.max())):
        np.nan_to_num(smoothed, copy=False, nan=-_FARTHEST, posinf=_FARTHEST, neginf=-_FARTHEST)
    candidates.reweigh(smoothed)


def top_n_sigma(candidates: Candidates, sampling: Sampling) -> None:
    """Tang and others, 2024: Top-n-sigma, not all logits are you need."""
    deviation = float(candidates.scores.std(dtype=np.float64))
    above = candidates.scores >= _single(-sampling.shaping.top_n_sigma * deviation)
    candidates.keep_above(above, sampling.shaping.min_keep)


def _single(value: float) -> np.float32:
    """With single precision, no farther from 0 than `_FARTHEST`."""
    return np.float32(min(max(value, -_FARTHEST), _FARTHEST))


def epsilon_cutoff(candidates: Candidates, sampling: Sampling) -> None:
    """Hewitt and others, 2022: Truncation sampling as language model desmoothing."""
    _keep_probable(candidates, sampling.shaping.epsilon_cutoff * _TEN_THOUSANDTH, sampling)


def eta_cutoff(candidates: Candidates, sampling: Sampling) -> None:
    """The same paper."""
    eta = sampling.shaping.eta_cutoff * _TEN_THOUSANDTH
    _keep_probable(candidates, min(eta, math.sqrt(eta) * math.exp(-candidates.entropy)), sampling)


def _keep_probable(candidates: Candidates, threshold: float, sampling: Sampling) -> None:
    """Drop tokens whose probability is below the threshold; the likeliest is always left."""
    above = candidates.weights >= np.float32(min(threshold * candidates.total, 1.0))
    candidates.keep_above(above, sampling.shaping.min_keep)


def min_p(candidates: Candidates, sampling: Sampling) -> None:
    """Nguyen and others, 2024: Min-p, of the likeliest token's probability."""
    candidates.keep_above(candidates.scores >= np.float32(math.log(sampling.min_p)), sampling.shaping.min_keep)


def top_a(candidates: Candidates, sampling: Sampling) -> None:
    """BlinkDL's RWKV-LM, 2022: a part of the square of the likeliest token's probability."""
    _keep_probable(candidates, sampling.shaping.top_a / candidates.total**2, sampling)


def top_k(candidates: Candidates, sampling: Sampling) -> None:
    """Fan and others, 2018: Hierarchical neural story generation."""
    candidates.keep_likeliest(max(sampling.top_k, sampling.shaping.min_keep))


def tfs(candidates: Candidates, sampling: Sampling) -> None:
    """Bricken, 2019: Tail free sampling, as its author's code centres the cut."""
    # What lies deeper bends by less than a millionth.
    candidates.keep(candidates.scores >= np.float32(-_DEEPEST))
    candidates.put_in_order()
    bends = np.abs(np.diff(candidates.weights.astype(np.float64), n=2))
    if not bends.any():
        return
    parts = bends.cumsum() / bends.sum()
    n = 1 + int(np.count_nonzero(parts <= sampling.shaping.tfs))
    candidates.keep(slice(max(n, sampling.shaping.min_keep)))


def typical_p(candidates: Candidates, sampling: Sampling) -> None:
    """Meister and others, 2022: Locally typical sampling."""
    surprise = np.float32(math.log(candidates.total)) - candidates.scores
    distance = np.abs(surprise - np.float32(candidates.entropy))
    candidates.keep_by(distance, sampling.shaping.typical_p, sampling.shaping.min_keep)


def top_p(candidates: Candidates, sampling: Sampling) -> None:
    """Holtzman and others, 2019: The curious case of neural text degeneration."""
    candidates.keep_head(sampling.top_p, sampling.shaping.min_keep)


def exclude_top_choices(candidates: Candidates, sampling: Sampling) -> None:
    """XTC (Weidmann, 2024: text-generation-webui#6335), where its chance has come."""
    shaping = sampling.shaping
    above = np.flatnonzero(candidates.weights >= np.float32(shaping.xtc_threshold * candidates.total))
    if above.size < 2 or candidates.ids.size - above.size + 1 < shaping.min_keep:
        return
    scores = candidates.scores[above]
    # Of equals the one with the highest id counts as the least likely.
    least = above[scores == scores.min()]
    dropped = np.zeros(candidates.ids.size, dtype=np.bool_)
    dropped[above] = True
    dropped[least[candidates.ids[least].argmax()]] = False
    candidates.drop(dropped)


TRUNCATIONS: Mapping[str, Callable[[Candidates, Sampling], None]] = {
    "temperature": temperature,
    "smoothing": smoothing,
    "top_n_sigma": top_n_sigma,
    "epsilon_cutoff": epsilon_cutoff,
    "eta_cutoff": eta_cutoff,
    "min_p": min_p,
    "top_a": top_a,
    "top_k": top_k,
    "tfs": tfs,
    "typical_p": typical_p,
    "top_p": top_p,
}
"""By their names in an order of samplers."""

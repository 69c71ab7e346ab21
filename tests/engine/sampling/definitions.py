"""What each sampler is by its definition, in float64 and over the whole vocabulary: as plain and as slow as can be.

Each takes the (n,) logits that are left, minus infinity for a token that was dropped, and returns what it leaves.
Written from the papers and descriptions that docs/samplers.md names, and sharing nothing with the server.
"""

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from afterword.fields.sampling import Sampling

Logits = NDArray[np.float64]


def softmax(logits: Logits) -> Logits:
    weights: Logits = np.exp(logits - logits.max())
    shares: Logits = weights / weights.sum()
    return shares


def entropy(logits: Logits) -> float:
    return -math.fsum(p * math.log(p) for p in softmax(logits) if p > 0)


def ranked(logits: Logits) -> list[int]:
    """Tokens that are left, the likeliest first."""
    left = [token for token in range(logits.size) if logits[token] > -math.inf]
    return sorted(left, key=lambda token: (-logits[token], token))


def only(logits: Logits, kept: list[int], least: int = 0) -> Logits:
    """Drop all but `kept` and the `least` likeliest."""
    kept = [*kept, *ranked(logits)[: max(least, 1)]]
    return np.array([logits[token] if token in kept else -math.inf for token in range(logits.size)])


def until(tokens: list[int], shares: Logits, mass: float) -> list[int]:
    kept, before = [], 0.0
    for token in tokens:
        if before < mass:
            kept.append(token)
        before += shares[token]
    return kept


def temperature(logits: Logits, s: Sampling) -> Logits:
    low, high = s.temperature - s.shaping.dynatemp_range, s.temperature + s.shaping.dynatemp_range
    n = len(ranked(logits))
    if s.shaping.dynatemp_range == 0 or n == 1:
        return logits / s.temperature
    part = (entropy(logits) / math.log(n)) ** s.shaping.dynatemp_exponent
    scaled: Logits = logits / (max(low, 1e-5) + (high - max(low, 1e-5)) * part)
    return scaled


def smoothing(logits: Logits, s: Sampling) -> Logits:
    factor, curve = s.shaping.smoothing_factor, s.shaping.smoothing_curve
    below = logits - logits.max()
    with np.errstate(invalid="ignore"):
        bent = -factor * (3 - curve) / 2 * below**2 + factor * (curve - 1) / 2 * below**3
    return np.where(np.isneginf(logits), -math.inf, bent)


def top_n_sigma(logits: Logits, s: Sampling) -> Logits:
    deviation = float(np.std(logits[np.isfinite(logits)]))
    lowest = logits.max() - s.shaping.top_n_sigma * deviation
    return only(logits, [token for token in ranked(logits) if logits[token] >= lowest], s.shaping.min_keep)


def above(logits: Logits, threshold: float, s: Sampling) -> Logits:
    shares = softmax(logits)
    return only(logits, [token for token in ranked(logits) if shares[token] >= threshold], s.shaping.min_keep)


def epsilon_cutoff(logits: Logits, s: Sampling) -> Logits:
    return above(logits, s.shaping.epsilon_cutoff / 10000, s)


def eta_cutoff(logits: Logits, s: Sampling) -> Logits:
    epsilon = s.shaping.eta_cutoff / 10000
    return above(logits, min(epsilon, math.sqrt(epsilon) * math.exp(-entropy(logits))), s)


def min_p(logits: Logits, s: Sampling) -> Logits:
    return above(logits, s.min_p * float(softmax(logits).max()), s)


def top_a(logits: Logits, s: Sampling) -> Logits:
    return above(logits, s.shaping.top_a * float(softmax(logits).max()) ** 2, s)


def top_k(logits: Logits, s: Sampling) -> Logits:
    return only(logits, ranked(logits)[: s.top_k], s.shaping.min_keep)


def tfs(logits: Logits, s: Sampling) -> Logits:
    tokens, shares = ranked(logits), softmax(logits)
    first = [shares[a] - shares[b] for a, b in pairwise(tokens)]
    second = [abs(a - b) for a, b in pairwise(first)]
    if sum(second) == 0:
        return logits
    n, before = 1, 0.0
    for bend in second:
        before += bend / sum(second)
        n += before <= s.shaping.tfs
    return only(logits, tokens[:n], s.shaping.min_keep)


def typical_p(logits: Logits, s: Sampling) -> Logits:
    shares, expected = softmax(logits), entropy(logits)
    nearest = sorted(ranked(logits), key=lambda token: (abs(-math.log(shares[token]) - expected), token))
    kept = until(nearest, shares, s.shaping.typical_p)
    return np.array([logits[token] if token in kept else -math.inf for token in range(logits.size)])


def top_p(logits: Logits, s: Sampling) -> Logits:
    return only(logits, until(ranked(logits), softmax(logits), s.top_p), s.shaping.min_keep)


def xtc(logits: Logits, s: Sampling) -> Logits:
    """Where its chance has come."""
    shares = softmax(logits)
    choices = [token for token in ranked(logits) if shares[token] >= s.shaping.xtc_threshold]
    return np.array([-math.inf if token in choices[:-1] else logits[token] for token in range(logits.size)])


def mirostat_2(logits: Logits, mu: float) -> Logits:
    shares = softmax(logits)
    return only(logits, [token for token in ranked(logits) if -math.log2(shares[token]) <= mu])


def mirostat_1(logits: Logits, mu: float) -> Logits:
    tokens, shares = ranked(logits), softmax(logits)
    top = [shares[token] for token in tokens[:100]]
    t = [math.log((i + 2) / (i + 1)) for i in range(len(top) - 1)]
    b = [math.log(top[i] / top[i + 1]) for i in range(len(top) - 1)]
    if len(tokens) == 1 or sum(b) == 0:
        return logits
    s = sum(x * y for x, y in zip(t, b, strict=True)) / sum(x * x for x in t)
    epsilon = s - 1
    k = (epsilon * 2**mu / (1 - len(tokens) ** -epsilon)) ** (1 / s)
    return only(logits, tokens[: max(1, min(round(k), len(tokens)))])


def adaptive_p(logits: Logits, target: float) -> Logits:
    distance = np.abs(softmax(logits) - target) / 0.3
    scores: Logits = np.where(np.isneginf(logits), -math.inf, 5 - 10 * distance**2 / (1 + distance))
    return scores


def skewed(logits: Logits, skew: float) -> Logits:
    """Shares of the draw: the distribution function in order of likelihood, to the power of exp(skew)."""
    shares, drawn, before = softmax(logits), np.zeros(logits.size), 0.0
    for token in ranked(logits):
        after = min(before + float(shares[token]), 1.0)
        drawn[token] = after ** math.exp(skew) - before ** math.exp(skew)
        before = after
    return drawn


DEFINED = {
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


def shares_of(logits: Logits, s: Sampling) -> Logits:
    """The probability of each token to be drawn first, with every sampler but XTC in the order of the request."""
    for name in s.shaping.order:
        match name:
            case "mirostat" if s.shaping.mirostat:
                left = mirostat_1 if s.shaping.mirostat == 1 else mirostat_2
                logits = left(logits, 2 * s.shaping.mirostat_tau)
            case "adaptive_p" if s.shaping.adaptive_target >= 0:
                logits = adaptive_p(logits, s.shaping.adaptive_target)
            case _ if name in DEFINED and _is_on(name, s):
                logits = DEFINED[name](logits, s)
    return skewed(logits, s.shaping.skew)


def _is_on(name: str, s: Sampling) -> bool:
    values = {"temperature": 1.0, "smoothing": s.shaping.smoothing_factor, "min_p": s.min_p, "top_k": s.top_k}
    value = values.get(name, s.top_p if name == "top_p" else getattr(s.shaping, name, 0))
    return value < 1 if name in ("top_p", "tfs", "typical_p") else value > 0

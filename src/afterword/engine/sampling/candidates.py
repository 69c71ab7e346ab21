"""The tokens that may still be drawn at one position, while samplers cut and reweigh them. Knows no sampler."""

from copy import copy
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from afterword.engine.sampling.largest import in_order, largest

_REACHES = (0.5, 1.0, 2.0, 4.0, 9.0, 18.0)
"""How far in nats to look for tokens that have some weight together, before all are sorted."""


@lru_cache(1)
def _all(n: int) -> NDArray[np.intp]:
    """All ids, for whoever only reads them."""
    ids = np.arange(n)
    ids.flags.writeable = False
    return ids


class Candidates:
    """Tokens and their scores, logits but for a common summand. At least one; all scores are finite."""

    def __init__(self, ids: NDArray[np.intp], scores: NDArray[np.float32]) -> None:
        """`ids`: (n,), ascending. `scores`: (n,), not written to."""
        self.ids = ids
        self.scores = scores - scores.max()
        """(n,) at most 0, and 0 at the likeliest token."""
        self._by_id, self._in_order = True, False
        """Whether they come by their ids, and whether the likeliest comes first."""
        self._weights: NDArray[np.float32] | None = None

    @classmethod
    def of_row(cls, logits: NDArray[np.float32]) -> Self:
        """Those tokens of an (n_vocab,) row that are not banned."""
        if logits.min() > -np.inf:
            return cls(_all(logits.size), logits)
        ids = np.flatnonzero(logits > -np.inf)
        return cls(ids, logits[ids])

    def copy(self) -> "Candidates":
        """As they are now; both may be changed."""
        return copy(self)

    @property
    def weights(self) -> NDArray[np.float32]:
        """(n,) probabilities but for a common factor; 1 at the likeliest token."""
        if self._weights is None:
            self._weights = np.exp(self.scores)
        return self._weights

    @property
    def total(self) -> float:
        """Weight of all together."""
        return float(self.weights.sum(dtype=np.float64))

    @property
    def entropy(self) -> float:
        """In nats."""
        products = np.multiply(self.weights, self.scores)
        total = self.total
        return float(np.log(total) - products.sum(dtype=np.float64) / total)

    def reweigh(self, scores: NDArray[np.float32]) -> None:
        """Give them other scores, of any peak."""
        self.scores = scores - scores.max()
        self._weights = None
        self._in_order = False
        if not self._by_id:
            by_id = self.ids.argsort()
            self.ids, self.scores = self.ids[by_id], self.scores[by_id]
            self._by_id = True

    def scale(self, factor: float) -> None:
        """Multiply all scores by a number above 0."""
        self.scores = self.scores * np.float32(factor)
        self._weights = None

    def keep(self, kept: NDArray[np.bool_] | NDArray[np.intp] | slice) -> None:
        """Drop all others, in the order they have."""
        self.ids = self.ids[kept]
        self.scores = self.scores[kept]
        self._weights = None if self._weights is None else self._weights[kept]

    def keep_above(self, kept: NDArray[np.bool_], least: int) -> None:
        """Drop all others, but leave the `least` likeliest whether or not they are among them.

        `kept` holds for all tokens above some score.
        """
        if np.count_nonzero(kept) >= min(least, self.ids.size):
            self.keep(kept)
        else:
            self.keep_likeliest(least)

    def keep_likeliest(self, k: int) -> None:
        """Drop all but the k likeliest, which come in order then; of equals the lower id first."""
        if self._in_order:
            self.keep(slice(k))
        elif k < self.ids.size:
            # They come by their ids here, so places order equals as ids do.
            self.keep(largest(self.scores, k))
            self._by_id, self._in_order = False, True

    def drop(self, dropped: NDArray[np.bool_]) -> None:
        """Drop tokens of any likelihood; at least one is left."""
        self.keep(~dropped)
        self.scores = self.scores - self.scores.max()
        self._weights = None

    def put_in_order(self) -> None:
        """The likeliest first, of equals the lower id."""
        if not self._in_order:
            self._sort_by(self.scores)
            self._in_order = True

    def keep_head(self, mass: float, least: int) -> None:
        """Drop all but the likeliest tokens that have this part of the weight together, in order.

        A token is left if less than `mass` comes before it, so one at least.
        """
        limit = mass * self.total
        self._keep_near(-self.scores, limit, least)
        self.put_in_order()
        n = 1 + int(self.weights.cumsum(dtype=np.float64).searchsorted(limit, side="left"))
        self.keep(slice(max(n, least)))

    def keep_by(self, distance: NDArray[np.float32], mass: float, least: int) -> None:
        """Drop all but the tokens of the smallest distance that have this part of the weight together, in order of it.

        `distance`: (n,) not negative.
        """
        limit = mass * self.total
        distance = distance[self._keep_near(distance, limit, least)]
        self._sort_by(-distance)
        sums = self.weights.cumsum(dtype=np.float64)
        n = 1 + int(sums.searchsorted(limit, side="left"))
        self.keep(slice(max(n, least)))
        self.reweigh(self.scores)

    def _keep_near(self, distance: NDArray[np.float32], weight: float, least: int) -> NDArray[np.bool_] | slice:
        """Drop tokens that are farther than some that have that weight together: sorting all takes long.

        Returns which are left.
        """
        for reach in _REACHES:
            near = distance <= np.float32(reach)
            if float(self.weights[near].sum(dtype=np.float64)) >= weight and np.count_nonzero(near) >= least:
                self.keep(near)
                return near
        return slice(None)

    def _sort_by(self, values: NDArray[np.float32]) -> None:
        """The largest value first, of equals the one that is first now."""
        self.keep(in_order(values, np.arange(self.ids.size)))
        self._by_id = False

    def probability(self, token: int) -> float:
        """Of one of them."""
        place = np.flatnonzero(self.ids == token)
        return float(self.weights[place[0]]) / self.total

    def draw(self, u: float) -> int:
        """The token at `u` in [0, 1) of their weight, in the order they have."""
        return self._at(u * self.total)

    def draw_ranked(self, u: float) -> int:
        """The same in order of likelihood. Others than those down to the drawn one are dropped."""
        target = u * self.total
        self._keep_near(-self.scores, target, 1)
        self.put_in_order()
        return self._at(target)

    def _at(self, target: float) -> int:
        """The first token with which the weight is above `target`; if rounding left none, the last that has any."""
        sums = self.weights.cumsum(dtype=np.float64)
        last = int(sums.searchsorted(sums[-1], side="left"))
        return int(self.ids[min(int(sums.searchsorted(target, side="right")), last)])

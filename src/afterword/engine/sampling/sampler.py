"""Drawing the next token of one candidate from a row of logits (docs/rules.md#sampling-order).

The token follows from the row, the candidate's earlier tokens and its random numbers alone, to the bit: not from other
rows, from the row's address in memory, or from earlier calls. Knows no model and no batch.
"""

import math
from collections.abc import Callable, Iterator, Sequence, Set
from copy import copy
from typing import Self

import numpy as np
from numpy.typing import NDArray

from afterword.engine.sampling.adjustment import Adjustment
from afterword.engine.sampling.bias import DenseBias, EveryTokenBanned, restricting
from afterword.engine.sampling.chain import Chain, Chances, needs_chain
from afterword.engine.sampling.largest import in_order, largest
from afterword.engine.sampling.logprobs import NoDistribution
from afterword.engine.sampling.masks import Mask
from afterword.engine.sampling.recurrence import Recurrence, recurrences
from afterword.engine.sampling.retries import NothingLeft, Retries
from afterword.fields.sampling import Sampling

_BLOCK = 64

_DEEPEST = 104.0
"""exp(-_DEEPEST) is 0 in float32."""

_DEPTH_STEP = 9.0
"""exp(-9) is a ten-thousandth: what lies below it seldom matters to `top_p`."""

_SORTED_AT_ONCE = 512
"""Up to this many tokens are sorted as a whole."""

_GROUPS_PER_NAT = 16
"""Groups of tokens in which the logarithm of the likelihood differs by less than a sixteenth."""


def _no_text(_: int) -> bytes:
    """The bytes of a token in a vocabulary without texts, in which no sequence breaker is ever found."""
    return b""


class Workspace:
    """What all samplers of one engine share. Nothing in its buffers outlives a call. Engine thread only."""

    def __init__(self, n_vocab: int) -> None:
        assert n_vocab >= 1
        padded = -(-n_vocab // _BLOCK) * _BLOCK
        self.n_vocab = n_vocab
        self.scores = np.empty(n_vocab, dtype=np.float32)
        """Adjusted logits."""
        self.shifted = np.full(padded, -np.inf, dtype=np.float32)
        """(score - highest score) / temperature, so at most 0; the padding stays minus infinity."""
        self.weights = np.zeros(padded, dtype=np.float32)
        """exp(shifted): probabilities but for a common factor; at most 1; the padding is 0."""
        self.starts = np.arange(0, padded, _BLOCK)
        self.block_sums = np.empty(padded // _BLOCK, dtype=np.float32)
        self._bias: tuple[Sampling, DenseBias] | None = None
        self._ends: tuple[Set[int], NDArray[np.intp]] | None = None
        self._begun: tuple[Sequence[int], Sampling, list[Recurrence]] | None = None

    def bias_of(self, sampling: Sampling) -> DenseBias:
        """The bias of a request, worked out once for its candidates, which come one after another."""
        if self._bias is None or self._bias[0] is not sampling:
            self._bias = (sampling, DenseBias(sampling, self.n_vocab))
        return self._bias[1]

    def recurrences_of(
        self, sampling: Sampling, prompt: Sequence[int], piece: Callable[[int], bytes]
    ) -> list[Recurrence]:
        """The recurrences of a request at the end of a prompt, found once for its candidates likewise."""
        if self._begun is None or self._begun[0] is not prompt or self._begun[1] is not sampling:
            self._begun = (prompt, sampling, recurrences(sampling.repeats, prompt, piece))
        return [recurrence.copy() for recurrence in self._begun[2]]

    def places_of(self, ids: Set[int]) -> NDArray[np.intp]:
        """Ids as what a vector is indexed with, worked out once likewise."""
        if self._ends is None or self._ends[0] is not ids:
            self._ends = (ids, np.fromiter(ids, dtype=np.intp, count=len(ids)))
        return self._ends[1]


_State = tuple[Adjustment, Mask | None, Chain | None]
"""What a sampler has counted."""


class Sampler:
    """One candidate's sampling. Engine thread only.

    `prompt` counts against repetition alone, and so does `piece`, the bytes of each token; `end_ids` are banned for
    the first `min_tokens` draws, unless `mask` allows nothing else. All ids are within the workspace's vocabulary.
    """

    def __init__(  # noqa: PLR0913
        self,
        sampling: Sampling,
        workspace: Workspace,
        random: Chances,
        *,
        piece: Callable[[int], bytes] = _no_text,
        prompt: Sequence[int] = (),
        end_ids: Set[int] = frozenset(),
        min_tokens: int = 0,
        mask: Mask | None = None,
    ) -> None:
        n_vocab = workspace.n_vocab
        self._sampling = sampling
        self._workspace = workspace
        self._random = random
        self._adjustment = Adjustment(
            sampling,
            n_vocab,
            prompt,
            workspace.bias_of(sampling),
            lambda: workspace.recurrences_of(sampling, prompt, piece),
        )
        self._end_ids = workspace.places_of(end_ids if min_tokens > 0 else frozenset())
        self._min_tokens = min_tokens
        self._mask = mask
        self._top_k = sampling.top_k if sampling.top_k < n_vocab else 0
        self._keeps_one = sampling.is_greedy
        self._chain = Chain(sampling, random) if needs_chain(sampling) else None
        self._keeps_all = sampling.top_p >= 1.0 and self._top_k == 0 and sampling.min_p <= 0.0
        self._retries: Retries[_State] = Retries()

    def accept(self, token: int, n_held: int = 0) -> None:
        """Count `token`, which was drawn last, as the next of the text.

        `n_held`: the last tokens, this one included, that may be taken back.
        """
        self._retries.accept(token, n_held, self._state)
        self._adjustment.accept(token)
        if self._mask is not None:
            self._mask.accept(token)
        if self._chain is not None and not self._keeps_one:
            self._chain.accept(token)

    def take_back(self, position: int, token: int, n: int) -> None:
        """The last n tokens are none of the text, down to that at `position`, which is not drawn there again.

        `token` is the last of them: it was drawn, and not accepted.
        """
        state = self._retries.take_back(position, token, n)
        if state is not None:
            self._adjustment, self._mask, self._chain = state

    def _state(self) -> _State:
        mask, chain = self._mask, self._chain
        return (
            self._adjustment.fork(),
            None if mask is None else mask.fork(),
            None if chain is None else chain.fork(),
        )

    def sample(self, row: NDArray[np.float32], position: int) -> int:
        """The next token's id, given its (n_vocab,) raw logits and how many tokens were sampled before it.

        The row does not change, and what the sampler has counted only by `accept` and `take_back`. Raises
        `EveryTokenBanned` if the request leaves no token, `NothingLeft` if what was taken back leaves none,
        `GrammarFailed`, a `NoDistribution` if the row is none.
        """
        draw = self._retries.draw_at(position)
        scores = self._scores(row, position)
        likeliest = int(scores.argmax())
        peak = scores[likeliest]
        if not np.isfinite(peak):
            raise self._nothing_to_sample(row, position)
        if self._keeps_one:
            return likeliest
        if self._chain is not None:
            return self._chain.draw(scores, draw)
        self._weigh(scores, peak)
        u = self._random.uniform(draw)
        if self._keeps_all:
            return _draw_from_all(self._workspace, u)
        return self._draw_from_likeliest(u)

    def likeliest(
        self, row: NDArray[np.float32], position: int, k: int
    ) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Ids of the k likeliest tokens, fewer if it leaves fewer, and their logits after bias, penalties and bans.

        In order, equal ones by id. Takes a row and raises as `sample` does.
        """
        scores = self._scores(row, position)
        ids = largest(scores, k)
        ids = ids[np.isfinite(scores[ids])]
        if ids.size == 0:
            raise self._nothing_to_sample(row, position)
        return ids, scores[ids]

    def fork(self) -> Self:
        """The same for another text that begins alike, of which `likeliest` is asked and nothing is drawn."""
        other = copy(self)
        other._adjustment = self._adjustment.fork()
        other._mask = None if self._mask is None else self._mask.fork()
        return other

    def _scores(self, row: NDArray[np.float32], position: int) -> NDArray[np.float32]:
        """Logits after bias, penalties and bans: the workspace's, or the row itself if they change nothing."""
        workspace = self._workspace
        assert row.shape == (workspace.n_vocab,)
        scores = self._adjustment.apply(row, workspace.scores, workspace.shifted[: workspace.n_vocab])
        bans_ends = self._bans_ends(position)
        banned = self._retries.banned_at(position)
        if scores is row and (bans_ends or banned or self._mask is not None):
            scores = workspace.scores
            np.copyto(scores, row)
        if self._mask is not None:
            self._mask.apply(scores)
        if bans_ends:
            scores[self._end_ids] = -np.inf
        if banned:
            scores[banned] = -np.inf
        return scores

    def _bans_ends(self, position: int) -> bool:
        too_early = position < self._min_tokens and self._end_ids.size > 0
        return too_early and (self._mask is None or not self._mask.ended)

    def _nothing_to_sample(
        self, row: NDArray[np.float32], position: int
    ) -> NoDistribution | EveryTokenBanned | NothingLeft:
        """The error for a row of which no token can be sampled: the request's fault, or the model's."""
        peak = row.max()
        if not np.isfinite(peak):
            return NoDistribution(peak)
        if self._retries.banned_at(position):
            return NothingLeft()
        if self._sampling.repeats.no_repeat_ngram_size > 0:
            return EveryTokenBanned("no_repeat_ngram_size")
        by_min_tokens = self._bans_ends(position)
        if self._mask is not None:
            return EveryTokenBanned("grammar", "logit_bias", *(["min_tokens"] if by_min_tokens else []))
        return EveryTokenBanned(restricting(self._sampling), *(["min_tokens"] if by_min_tokens else []))

    def _weigh(self, scores: NDArray[np.float32], peak: np.float32) -> None:
        """Fill `shifted` and `weights`. The likeliest token's weight is 1, so a tiny temperature cannot overflow."""
        shifted = self._workspace.shifted[: self._workspace.n_vocab]
        with np.errstate(over="ignore"):
            np.subtract(scores, peak, out=shifted)
            if self._sampling.temperature != 1.0:
                np.multiply(shifted, np.float32(1.0 / self._sampling.temperature), out=shifted)
        np.exp(self._workspace.shifted, out=self._workspace.weights)

    def _draw_from_likeliest(self, u: float) -> int:
        """Cut by min_p, top_k and top_p, each on what the one before left; draw in order of likelihood."""
        workspace, top_p = self._workspace, self._sampling.top_p
        ids = self._cut_by_min_p_and_top_k()
        if ids is None:
            limit = top_p * _mass(workspace)
            return _likeliest_with(workspace, limit).draw(u, limit)
        mass = float(workspace.weights[ids].sum(dtype=np.float64))
        return _Ranking(workspace, ids).draw(u, top_p * mass if top_p < 1.0 else math.inf)

    def _cut_by_min_p_and_top_k(self) -> NDArray[np.intp] | None:
        """Ids that min_p and top_k leave, in any order; None if neither is set."""
        workspace, min_p, top_k = self._workspace, self._sampling.min_p, self._top_k
        if min_p <= 0.0:
            return largest(workspace.shifted[: workspace.n_vocab], top_k) if top_k else None
        ids = np.flatnonzero(workspace.shifted >= np.float32(math.log(min_p)))
        if top_k:
            ids = ids[largest(workspace.shifted[ids], top_k)]
        return ids


class _Ranking:
    """Tokens in order of likelihood, sorted lazily: of many thousands, few decide a draw.

    They are put into groups of similar likelihood; a group is sorted by `in_order` only when a draw needs it.
    """

    def __init__(self, workspace: Workspace, ids: NDArray[np.intp]) -> None:
        self._workspace = workspace
        self._ids = ids
        if ids.size <= _SORTED_AT_ONCE:
            self._groups = np.zeros(ids.size, dtype=np.intp)
        else:
            depths = np.minimum(-workspace.shifted[ids], np.float32(_DEEPEST))
            self._groups = (depths * np.float32(_GROUPS_PER_NAT)).astype(np.intp)
        self._ends = np.bincount(self._groups, weights=workspace.weights[ids]).cumsum()
        """Weight of each group and all before it."""

    @property
    def weight(self) -> float:
        """Of all tokens together."""
        return float(self._ends[-1])

    def draw(self, u: float, limit: float) -> int:
        """The token at `u` of those kept: each that less than `limit` of weight comes before, so at least the first."""
        # Without a limit it is the last group with a weight above 0.
        last = int(self._ends.searchsorted(min(limit, self.weight), side="left"))
        ids, ends = self._inside(last)
        n_before = int(ends.searchsorted(limit, side="left"))
        # The token that reaches the limit is kept too.
        ids, ends = ids[: n_before + 1], ends[: n_before + 1]
        target = u * float(ends[-1])
        group = int(self._ends.searchsorted(target, side="right"))
        if group < last:
            ids, ends = self._inside(group)
        return int(ids[_first_above(ends, target)])

    def _inside(self, group: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """A group's ids, the likeliest first, and the weight of each with all before it."""
        workspace = self._workspace
        ids = self._ids[self._groups == group]
        ids = in_order(workspace.shifted[ids], ids)
        ends = workspace.weights[ids].cumsum(dtype=np.float64)
        if group > 0:
            ends += self._ends[group - 1]
        return ids, ends


def _draw_from_all(workspace: Workspace, u: float) -> int:
    """The token at `u` of the whole distribution, cumulated in order of ids: first the block, then the token in it."""
    np.add.reduceat(workspace.weights, workspace.starts, out=workspace.block_sums)
    cumulative = workspace.block_sums.cumsum(dtype=np.float64)
    target = u * float(cumulative[-1])
    block = _first_above(cumulative, target)
    before = float(cumulative[block - 1]) if block else 0.0
    start = block * _BLOCK
    inside = workspace.weights[start : start + _BLOCK].cumsum(dtype=np.float64)
    return start + _first_above(inside, target - before)


def _first_above(cumulative: NDArray[np.float64], target: float) -> int:
    """Index of the first sum above `target`; if rounding left none, of the last token with a weight above 0."""
    last = int(cumulative.searchsorted(cumulative[-1], side="left"))
    return min(int(cumulative.searchsorted(target, side="right")), last)


def _mass(workspace: Workspace) -> float:
    """The weight of all tokens."""
    return float(np.add.reduce(workspace.weights.reshape(8, -1), axis=0).sum(dtype=np.float64))


def _likeliest_with(workspace: Workspace, weight: float) -> _Ranking:
    """All tokens likelier than some threshold, which together have at least `weight`.

    The threshold is lowered until that is so; the first one is enough for nearly all rows of a language model.
    """
    for depth in _depths():
        ranking = _Ranking(workspace, np.flatnonzero(workspace.shifted >= np.float32(-depth)))
        if ranking.weight >= weight:
            break
    return ranking


def _depths() -> Iterator[float]:
    """How far below the likeliest token's logarithm to look, ending where weights are 0."""
    depth = _DEPTH_STEP
    while depth < _DEEPEST:
        yield depth
        depth += _DEPTH_STEP
    yield _DEEPEST

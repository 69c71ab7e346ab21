"""Which tokens a grammar allows next, by llguidance, on threads of its own: while the model computes, not after it.

A grammar was read before its request is accepted (`grammars/`). It may still fail while it is followed, if a text makes
it too complex; then its request fails.
"""

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import Final, Self, TypeVar

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from numpy.typing import NDArray

from afterword.engine.grammars.grammar_compiler import Compiled, GrammarFailed
from afterword.engine.grammars.read_grammar import LIMITS
from afterword.engine.request import GenerationRequest
from afterword.tokens import Tokenizer

T = TypeVar("T")

KEPT: Final = 16
"""Grammars whose beginning is kept for the next request."""


_BANNED, _LEFT = np.float32(-np.inf), np.float32(0)


@dataclass(frozen=True, slots=True)
class _Next:
    """What may come next."""

    bans: NDArray[np.float32]
    """(n_vocab,) what is added to each token's logit: nothing, or minus infinity."""
    ended: bool
    """Nothing but an end."""


class Mask:
    """One candidate's place in its grammar. Engine thread only."""

    def __init__(self, pool: ThreadPoolExecutor, matcher: "Future[LLMatcher]", first: "Future[_Next]") -> None:
        """`first`: what may come at the place of `matcher`, which is this candidate's own."""
        self._pool = pool
        self._matcher = matcher
        self._next = first

    def fork(self) -> Self:
        """The same place, for another text that begins alike. Waits for nothing."""
        other, matcher = copy(self), self._matcher
        other._matcher = self._pool.submit(lambda: matcher.result().deep_copy())
        return other

    @property
    def ended(self) -> bool:
        """Whether nothing but an end may come next. Waits; raises `GrammarFailed`."""
        return self._next.result().ended

    def apply(self, scores: NDArray[np.float32]) -> None:
        """Ban every other token in an (n_vocab,) row. Waits; raises `GrammarFailed`."""
        np.add(scores, self._next.result().bans, out=scores)

    def accept(self, token: int) -> None:
        """The text goes on with `token`, which was allowed."""
        self._next = self._pool.submit(self._step, token)

    def _step(self, token: int) -> _Next:
        return _look(self._matcher.result(), token)


def _look(matcher: LLMatcher, *tokens: int) -> _Next:
    """What may come after `tokens`, which come first."""
    try:
        matcher.consume_tokens(list(tokens))
        allowed = np.frombuffer(matcher.compute_logit_bias(), dtype=np.uint8)
    except BaseException as error:  # a panic of Rust's is no `Exception`
        raise GrammarFailed(f"The grammar cannot be followed any further: {error}") from None
    if matcher.is_error():
        raise GrammarFailed(f"The grammar cannot be followed any further: {matcher.get_error().strip()}")
    return _Next(np.where(allowed == 0, _BANNED, _LEFT), matcher.is_stopped())


class Masks:
    """The grammars of one vocabulary. Its threads begin with the first of them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._opening = ThreadPoolExecutor(1, thread_name_prefix="afterword-grammar-opening")
        """Takes up to a second for a large grammar; the others' next tokens do not wait for that."""
        self._following = ThreadPoolExecutor(1, thread_name_prefix="afterword-grammar")
        self._vocabulary: LLTokenizer | None = None
        self._kept: OrderedDict[str, tuple[LLMatcher, Future[_Next]]] = OrderedDict()

    def open(self, grammar: Compiled, n: int) -> "Future[list[Mask]]":
        """The beginning of a compiled grammar, for each of n candidates. Waits for nothing."""
        return self._opening.submit(self._open, grammar.text, n)

    def close(self) -> None:
        """End the threads. What is still asked for raises `CancelledError`."""
        for pool in (self._opening, self._following):
            pool.shutdown(wait=False, cancel_futures=True)

    def _open(self, grammar: str, n: int) -> list[Mask]:
        if grammar not in self._kept:
            self._kept[grammar] = self._begun(grammar)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(grammar)
        matcher, first = self._kept[grammar]
        return [Mask(self._following, _known(matcher.deep_copy()), first) for _ in range(n)]

    def _begun(self, grammar: str) -> tuple[LLMatcher, "Future[_Next]"]:
        if self._vocabulary is None:
            self._vocabulary = LLTokenizer(
                TokenizerWrapper(_Vocabulary(self._tokenizer)),
                n_vocab=self._tokenizer.n_vocab,
                eos_token=sorted(ends_of(self._tokenizer)),
            )
        matcher = LLMatcher(self._vocabulary, grammar, log_level=0, limits=LIMITS)
        return matcher, _known(_look(matcher))


def masks_of(request: GenerationRequest, masks: Masks) -> "Future[list[Mask]]":
    """For each candidate of a request; of a search for the first, to begin with. None at all if it has no grammar."""
    if request.grammar is None:
        return _known([])
    return masks.open(request.grammar, request.n_candidates if request.beams is None else 1)


def _known(value: T) -> "Future[T]":
    future: Future[T] = Future()
    future.set_result(value)
    return future


def ends_of(tokenizer: Tokenizer) -> frozenset[int]:
    """The tokens that end an answer whose grammar is complete, also in a vocabulary that has no end."""
    return tokenizer.end_ids or frozenset({tokenizer.separator_id})


class _Vocabulary:
    """A tokenizer as llguidance asks for it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        ids = range(tokenizer.n_vocab)
        self.special_token_ids = [token for token in ids if tokenizer.is_control(token)]
        self.tokens: Sequence[bytes] = [b"" if tokenizer.is_control(token) else tokenizer.piece(token) for token in ids]
        self.eos_token_id = min(ends_of(tokenizer))
        self.bos_token_id = tokenizer.bos_id
        self._tokenizer = tokenizer

    def __call__(self, text: bytes) -> list[int]:
        return self._tokenizer.encode(text.decode("utf-8", "replace"), add_bos=False, parse_special=False)

"""Which tokens a grammar allows next, by llguidance, on a thread of its own: while the model computes, not after it.

A grammar is checked before a request is accepted (`compiled`), and may still fail while it is followed, if a text makes
it too complex; then its request fails.
"""

import json
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from llguidance.gbnf_to_lark import gbnf_to_lark
from numpy.typing import NDArray

from afterword.engine.request import GenerationRequest
from afterword.errors import InvalidRequest
from afterword.fields.grammars import Grammar
from afterword.tokens import Tokenizer

_JSON: Final[Any] = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""How JSON is written: on one line, so that no model is lost in white space. `x-guidance` in a schema may change it."""


class GrammarFailed(InvalidRequest):
    """A grammar cannot be followed: it is wrong, nobody can satisfy it, or it takes too much."""


def compiled(grammar: Grammar) -> str:
    """The grammar as llguidance reads it. Raises `GrammarFailed` with line and column, where it has them.

    Takes tens of milliseconds at most, which llguidance's own limits see to; any thread.
    """
    try:
        text = _as_guidance(grammar)
    except Exception as error:  # of any kind: what is read here is a client's, by parsers of others
        raise GrammarFailed(f"cannot be read: {error}") from None
    problem = LLMatcher.validate_grammar(text)
    if problem != "" and not problem.startswith("WARNING"):
        raise GrammarFailed(f"cannot be followed: {problem.strip()}")
    return text


def _as_guidance(grammar: Grammar) -> str:
    match grammar.kind:
        case "json_schema":
            return LLMatcher.grammar_from_json_schema(grammar.text, defaults=_JSON)
        case "regex":
            return LLMatcher.grammar_from_regex(grammar.text)
        case "choice":
            return LLMatcher.grammar_from_lark("start: " + " | ".join(map(json.dumps, json.loads(grammar.text))))
        case "gbnf":
            return LLMatcher.grammar_from_lark(gbnf_to_lark(grammar.text))
        case "lark" | "guidance":
            return grammar.text


@dataclass(frozen=True, slots=True)
class _Next:
    """What may come next."""

    banned: NDArray[np.bool_]
    """(n_vocab,)"""
    ended: bool
    """Nothing but an end."""


class Mask:
    """One candidate's place in its grammar. Engine thread only."""

    def __init__(self, pool: ThreadPoolExecutor, matcher: "Future[LLMatcher]") -> None:
        self._pool = pool
        self._matcher = matcher
        self._next = pool.submit(self._look)

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
        scores[self._next.result().banned] = -np.inf

    def accept(self, token: int) -> None:
        """The text goes on with `token`, which was allowed."""
        self._next = self._pool.submit(self._step, token)

    def _step(self, token: int) -> _Next:
        self._matcher.result().consume_token(token)
        return self._look()

    def _look(self) -> _Next:
        matcher = self._matcher.result()
        allowed = np.frombuffer(matcher.compute_logit_bias(), dtype=np.uint8)
        if matcher.is_error():
            raise GrammarFailed(f"The grammar cannot be followed any further: {matcher.get_error().strip()}")
        return _Next(allowed == 0, matcher.is_stopped())


class Masks:
    """The grammars of one vocabulary. Its thread begins with the first of them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="afterword-grammar")
        self._vocabulary: LLTokenizer | None = None

    def open(self, grammar: str, n: int) -> list[Mask]:
        """The beginning of a compiled grammar, for each of n candidates. Waits for nothing."""
        first = self._pool.submit(self._compile, grammar)
        return [Mask(self._pool, self._pool.submit(lambda: first.result().deep_copy())) for _ in range(n)]

    def close(self) -> None:
        """End the thread. Masks that are still asked for raise `CancelledError`."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _compile(self, grammar: str) -> LLMatcher:
        if self._vocabulary is None:
            self._vocabulary = LLTokenizer(
                TokenizerWrapper(_Vocabulary(self._tokenizer)),
                n_vocab=self._tokenizer.n_vocab,
                eos_token=sorted(ends_of(self._tokenizer)),
            )
        return LLMatcher(self._vocabulary, grammar, log_level=0)


def masks_of(request: GenerationRequest, masks: Masks) -> Sequence[Mask | None]:
    """For each candidate of a request, None where it has no grammar. Of a search the first has one, to begin with."""
    n = request.n_candidates
    if request.grammar is None:
        return [None] * n
    n_begin = n if request.beams is None else 1
    return [*masks.open(request.grammar, n_begin), *[None] * (n - n_begin)]


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

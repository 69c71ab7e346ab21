"""One candidate's text: from bytes to visible text, with the tokens to list. Only this file counts characters.

Knows no models, log-probabilities or chunks; a token is any object that the caller wants listed.
"""

from collections import deque
from copy import copy
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from afterword.text.stops import StopMatcher, Stops
from afterword.text.utf8 import Utf8Decoder

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Visible(Generic[T]):
    """Text that is final, and the tokens to list with it."""

    text: str
    tokens: tuple[T, ...]
    """Tokens whose last character is in this text or before it, in order."""
    stopped: bool
    """A stop was found: this is the last text."""


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[T]):
    """A token that is not listed yet. Offsets are code points from the start of the prompt."""

    start: int
    end: int
    token: T


class TextStream(Generic[T]):
    """Bytes → characters → text that cannot be part of a stop. Not thread-safe.

    A token is listed with the text that shows its last character; one without text, as soon as everything before it
    is visible. At a stop, tokens that start at or after the cut are never listed (docs/rules.md#listed-tokens).
    """

    __slots__ = ("_decoder", "_n_decoded", "_n_visible", "_stops", "_waiting")

    def __init__(self, stops: Stops, *, offset: int = 0, pending: bytes = b"") -> None:
        """`offset`: code points before this text. `pending`: as in `Utf8Decoder`."""
        self._decoder = Utf8Decoder(pending)
        self._stops = StopMatcher(stops)
        self._n_decoded = offset
        self._n_visible = offset
        self._waiting: deque[_Waiting[T]] = deque()

    def fork(self) -> Self:
        """The same for another text that begins alike."""
        other = copy(self)
        other._decoder, other._stops, other._waiting = copy(self._decoder), self._stops.fork(), self._waiting.copy()
        return other

    @property
    def offset(self) -> int:
        """Where the next token starts: complete characters so far, so both halves of a split one share it."""
        return self._n_decoded

    @property
    def n_visible(self) -> int:
        """Where the visible text ends, counted like `offset`."""
        return self._n_visible

    def push(self, piece: bytes, token: T | None = None) -> Visible[T]:
        """Add the bytes of one token; `token` is listed when its text is visible, unless it is None."""
        start = self._n_decoded
        decoded = self._decoder.push(piece)
        self._n_decoded += len(decoded)
        if token is not None:
            self._waiting.append(_Waiting(start, self._end_of(piece, start), token))
        text, stopped = self._stops.push(decoded)
        self._n_visible += len(text)
        tokens = self._tokens_before_cut() if stopped else self._tokens_shown()
        return Visible(text, tokens, stopped)

    def flush(self) -> Visible[T]:
        """The text ends without a stop: all that was held, without the bytes of an incomplete last character."""
        self._decoder.flush()
        text = self._stops.flush()
        self._n_visible += len(text)
        tokens = tuple(waiting.token for waiting in self._waiting)
        self._waiting.clear()
        return Visible(text, tokens, stopped=False)

    def cut(self) -> tuple[T, ...]:
        """The text ends where it is visible now, what is held is dropped: the tokens still to list, as at a stop."""
        return self._tokens_before_cut()

    def _end_of(self, piece: bytes, start: int) -> int:
        """Offset after the last character that the token just pushed has bytes of."""
        if not piece:
            return start
        if self._decoder.pending:
            return self._n_decoded + 1
        return self._n_decoded

    def _tokens_shown(self) -> tuple[T, ...]:
        waiting = self._waiting
        if not waiting or waiting[0].end > self._n_visible:
            return ()
        shown: list[T] = []
        while waiting and waiting[0].end <= self._n_visible:
            shown.append(waiting.popleft().token)
        return tuple(shown)

    def _tokens_before_cut(self) -> tuple[T, ...]:
        tokens = tuple(waiting.token for waiting in self._waiting if waiting.start < self._n_visible)
        self._waiting.clear()
        return tokens

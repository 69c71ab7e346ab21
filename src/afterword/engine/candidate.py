"""One candidate's progress, from sampled tokens to events, for every engine that samples.

Owns the rules about ends, lengths and stops (docs/rules.md#finish-reason) and about which tokens are listed
(docs/rules.md#listed-tokens). Does not know how a token was sampled or who reads the events.
"""

from collections import deque
from copy import copy
from dataclasses import dataclass, field
from typing import Self

from afterword.engine.banned_texts import BannedTexts
from afterword.engine.events import Chunk, Event, Finished, SampledToken
from afterword.engine.prediction import Predicted, Prediction
from afterword.engine.request import GenerationRequest
from afterword.fields.bans import NO_BANS
from afterword.text.stops import Stops, shared_stops
from afterword.text.stream import TextStream, Visible
from afterword.text.watch import Watch
from afterword.tokens import Tokenizer, visible_piece


def new_candidates(request: GenerationRequest, tokenizer: Tokenizer) -> list["Candidate"]:
    """All candidates of a request, in order of their index."""
    stops = shared_stops(request.stops, include_stop=request.include_stop)
    banned = None if request.bans == NO_BANS else BannedTexts(request.bans)
    predicted = None if request.predicted is None else Predicted(request.predicted)
    return [Candidate(index, request, tokenizer, stops, banned, predicted) for index in range(request.n_candidates)]


@dataclass(slots=True)
class _Held:
    """A token that may be taken back, and how things were before it."""

    stream: TextStream[SampledToken]
    sum_logprob: float
    n_scored: int
    prediction: Prediction | None
    events: list[Event] = field(default_factory=list)
    """What follows from it."""


class Candidate:
    """One candidate, fed with sampled tokens until it is `finished`. Not thread-safe.

    The cost of a token does not grow with the length of the completion.
    """

    __slots__ = (
        "_held",
        "_n_scored",
        "_request",
        "_stream",
        "_sum_logprob",
        "_tokenizer",
        "_watch",
        "finished",
        "index",
        "n_tokens",
        "prediction",
    )

    def __init__(
        self,
        index: int,
        request: GenerationRequest,
        tokenizer: Tokenizer,
        stops: Stops | None = None,
        banned: BannedTexts | None = None,
        predicted: Predicted | None = None,
    ) -> None:
        """`stops`: the request's, if the caller has them already. `banned`: None for an engine that takes nothing back,
        or where nothing is banned; `predicted`: None where nothing is followed."""
        if stops is None:
            stops = shared_stops(request.stops, include_stop=request.include_stop)
        self.index = index
        self.n_tokens = 0
        """Tokens sampled so far that were not taken back, the end token excluded."""
        self.finished = False
        """No more tokens may be accepted."""
        self._request = request
        self._tokenizer = tokenizer
        self._stream: TextStream[SampledToken] = TextStream(stops, offset=request.text_offset, pending=request.pending)
        self._sum_logprob = 0.0
        self._n_scored = 0
        self._watch = None if banned is None else Watch(banned.finders, request.pending)
        self._held: deque[_Held] = deque()
        self.prediction = None if predicted is None else Prediction(predicted)
        """Where it is in what was predicted of it."""

    @property
    def n_held(self) -> int:
        """The last tokens that may be taken back."""
        return len(self._held)

    def fork(self) -> Self:
        """Another one that begins alike, with the same index."""
        other = copy(self)
        other._stream = self._stream.fork()
        other.prediction = None if self.prediction is None else self.prediction.fork()
        return other

    @property
    def offset(self) -> int:
        """Code points from the start of the prompt to where the next token starts."""
        return self._stream.offset

    def accept(
        self,
        token_id: int,
        logprob: float | None,
        top: tuple[tuple[int, float], ...],
        named: tuple[float, ...] = (),
    ) -> list[Event]:
        """Take the next sampled token. Returns the events that follow, `Finished` last if the candidate has ended.

        `logprob` is natural and raw, `top` and `named` as in `SampledToken`; they are used only if the request wants
        log-probabilities, and then `logprob` must be set. If the token completes a banned text, that and all tokens
        from where it begins are taken back: then `n_tokens` is no more than before.
        """
        assert not self.finished, "the candidate has ended"
        if token_id in self._request.end_ids:
            return [*self._released(), *self._end_at_token(self._listed(token_id, logprob, top, named))]
        if self._watch is None:
            return self._grow(token_id, self._listed(token_id, logprob, top, named))
        n_back = self._watch.push(self._piece(token_id))
        if n_back > 0:
            self._take_back(n_back - 1)
            return []
        prediction = None if self.prediction is None else self.prediction.fork()
        self._held.append(_Held(self._stream.fork(), self._sum_logprob, self._n_scored, prediction))
        self._held[-1].events = self._grow(token_id, self._listed(token_id, logprob, top, named))
        return self._released(0 if self.finished else self._watch.n_held)

    def accept_unlisted(self, token_id: int) -> list[Event]:
        """Take a sampled token whose log-probability is unknown: its text and its count, without listing it."""
        assert not self.finished, "the candidate has ended"
        return self._grow(token_id, None)

    def close(self, reason: str) -> list[Event]:
        """End a candidate for a `reason` that only the sampling side knows: a server's own finish reason, or that no
        token is left."""
        assert not self.finished, "the candidate has ended"
        held, n_visible = self._released(), self._stream.n_visible
        return [*held, *self._chunks(self._stream.flush(), n_visible), self._finish(reason)]

    def _released(self, n_held: int = 0) -> list[Event]:
        """The events of all tokens but the last `n_held`."""
        events: list[Event] = []
        while len(self._held) > n_held:
            events += self._held.popleft().events
        return events

    def _take_back(self, n: int) -> None:
        """Have the last n tokens be none of this candidate."""
        for _ in range(n):
            before = self._held.pop()
            self._stream, self._sum_logprob, self._n_scored = before.stream, before.sum_logprob, before.n_scored
            self.prediction = before.prediction
        self.n_tokens -= n

    def _piece(self, token_id: int) -> bytes:
        return visible_piece(self._tokenizer, token_id, skip_special_tokens=self._request.skip_special_tokens)

    def _grow(self, token_id: int, listed: SampledToken | None) -> list[Event]:
        self.n_tokens += 1
        if self.prediction is not None:
            self.prediction.take(token_id)
        n_visible = self._stream.n_visible
        visible = self._stream.push(self._piece(token_id), listed)
        if visible.stopped:
            return [*self._chunks(visible, n_visible), self._finish("stop")]
        if self.n_tokens == self._request.max_tokens:
            return [*self._chunks(_joined(visible, self._stream.flush()), n_visible), self._finish("length")]
        return self._chunks(visible, n_visible)

    def finish_empty(self) -> Finished:
        """End a candidate that may not sample anything (`max_tokens` 0)."""
        assert self.n_tokens == 0
        assert not self.finished
        return self._finish("length")

    def end(self) -> list[Event]:
        """End the candidate from outside (`Generation.end`): held text is dropped."""
        assert not self.finished, "the candidate has ended"
        self._take_back(len(self._held))
        begun = [Chunk(self.index, "", (token,), self.n_tokens) for token in self._stream.cut()]
        return [*begun, self._finish("content_filter")]

    def _listed(
        self, token_id: int, logprob: float | None, top: tuple[tuple[int, float], ...], named: tuple[float, ...]
    ) -> SampledToken | None:
        """The token as it is listed, and counted in the sum; None if the request wants no log-probabilities."""
        if self._request.logprobs is None:
            return None
        assert logprob is not None, "the request wants log-probabilities"
        self._sum_logprob += logprob
        self._n_scored += 1
        return SampledToken(token_id, self._stream.offset, logprob, top, named)

    def _end_at_token(self, listed: SampledToken | None) -> list[Event]:
        n_visible = self._stream.n_visible
        events = self._chunks(self._stream.flush(), n_visible)
        if listed is not None:
            events.append(Chunk(self.index, "", (listed,), self.n_tokens))
        events.append(self._finish("stop"))
        return events

    def _finish(self, reason: str) -> Finished:
        self.finished = True
        followed = self.prediction
        n_accepted, n_rejected = (0, 0) if followed is None else (followed.n_accepted, followed.n_rejected)
        return Finished(self.index, reason, self.n_tokens, self._sum_logprob, self._n_scored, n_accepted, n_rejected)

    def _chunks(self, visible: Visible[SampledToken], start: int) -> list[Event]:
        return chunks_of(visible, start, self.index, self.n_tokens)


def chunks_of(visible: Visible[SampledToken], start: int, index: int, n_tokens: int) -> list[Event]:
    """Chunks of at most one token of candidate `index`, cut where the next token starts.

    docs/rules.md#one-token-a-chunk. `start` is where `visible.text` starts, in code points from the prompt's start.
    """
    text, tokens = visible.text, visible.tokens
    if not text and not tokens:
        return []
    if len(tokens) <= 1:
        return [Chunk(index, text, tokens, n_tokens)]
    # The first token may have begun in text that was delivered before, hence the lower bound.
    cuts = [0, *(max(token.offset - start, 0) for token in tokens[1:]), len(text)]
    return [Chunk(index, text[cuts[i] : cuts[i + 1]], (token,), n_tokens) for i, token in enumerate(tokens)]


def _joined(first: Visible[SampledToken], last: Visible[SampledToken]) -> Visible[SampledToken]:
    return Visible(first.text + last.text, first.tokens + last.tokens, stopped=False)

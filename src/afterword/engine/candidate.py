"""One candidate's progress, from sampled tokens to events, for every engine that samples.

Owns the rules about ends, lengths and stops (docs/rules.md#finish-reason) and about which tokens are listed
(docs/rules.md#listed-tokens). Does not know how a token was sampled or who reads the events.
"""

from copy import copy
from typing import Self

from afterword.engine.events import Chunk, Event, Finished, SampledToken
from afterword.engine.request import GenerationRequest
from afterword.text.stops import Stops, shared_stops
from afterword.text.stream import TextStream, Visible
from afterword.tokens import Tokenizer, visible_piece


def new_candidates(request: GenerationRequest, tokenizer: Tokenizer) -> list["Candidate"]:
    """All candidates of a request, in order of their index."""
    stops = shared_stops(request.stops, include_stop=request.include_stop)
    return [Candidate(index, request, tokenizer, stops) for index in range(request.n_candidates)]


class Candidate:
    """One candidate, fed with sampled tokens until it is `finished`. Not thread-safe.

    The cost of a token does not grow with the length of the completion.
    """

    __slots__ = ("_n_scored", "_request", "_stream", "_sum_logprob", "_tokenizer", "finished", "index", "n_tokens")

    def __init__(
        self, index: int, request: GenerationRequest, tokenizer: Tokenizer, stops: Stops | None = None
    ) -> None:
        """`stops`: the request's, if the caller has them already."""
        if stops is None:
            stops = shared_stops(request.stops, include_stop=request.include_stop)
        self.index = index
        self.n_tokens = 0
        """Tokens sampled so far, the end token excluded."""
        self.finished = False
        """No more tokens may be accepted."""
        self._request = request
        self._tokenizer = tokenizer
        self._stream: TextStream[SampledToken] = TextStream(stops, offset=request.text_offset, pending=request.pending)
        self._sum_logprob = 0.0
        self._n_scored = 0

    def fork(self) -> Self:
        """Another one that begins alike, with the same index."""
        other = copy(self)
        other._stream = self._stream.fork()
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
        log-probabilities, and then `logprob` must be set.
        """
        assert not self.finished, "the candidate has ended"
        listed = self._listed(token_id, logprob, top, named)
        if token_id in self._request.end_ids:
            return self._end_at_token(listed)
        return self._grow(token_id, listed)

    def accept_unlisted(self, token_id: int) -> list[Event]:
        """Take a sampled token whose log-probability is unknown: its text and its count, without listing it."""
        assert not self.finished, "the candidate has ended"
        return self._grow(token_id, None)

    def close(self, reason: str) -> list[Event]:
        """End a candidate for a `reason` that only the sampling side knows, such as a server's own finish reason."""
        assert not self.finished, "the candidate has ended"
        n_visible = self._stream.n_visible
        return [*self._chunks(self._stream.flush(), n_visible), self._finish(reason)]

    def _grow(self, token_id: int, listed: SampledToken | None) -> list[Event]:
        self.n_tokens += 1
        piece = visible_piece(self._tokenizer, token_id, skip_special_tokens=self._request.skip_special_tokens)
        n_visible = self._stream.n_visible
        visible = self._stream.push(piece, listed)
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
        return Finished(self.index, reason, self.n_tokens, self._sum_logprob, self._n_scored)

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

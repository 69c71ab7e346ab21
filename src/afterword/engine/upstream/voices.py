"""One candidate of an upstream's answer: what it sends becomes text and tokens by our own rules.

`TokenVoice` has the model's tokenizer: it takes the listed tokens as sampled and makes everything else of them, as for
an engine in this process. `TextVoice` has none: it takes the text as it comes, and the tokens only to list them.
"""

from typing import Protocol

from afterword.engine.candidate import Candidate, chunks_of
from afterword.engine.events import Chunk, Event, Finished, SampledToken
from afterword.engine.request import GenerationRequest
from afterword.engine.upstream.learned import LearnedTokenizer, piece_of
from afterword.engine.upstream.reply import ChoiceDelta, Entry, MalformedReply
from afterword.engine.upstream.spelling import Spelling, likeliest_first
from afterword.text.stops import StopAutomaton
from afterword.text.stream import TextStream
from afterword.text.utf8 import Utf8Decoder
from afterword.tokens import Tokenizer

FINISH_REASONS = frozenset({"stop", "length", "content_filter"})


class Voice(Protocol):
    """Takes what the upstream says of one candidate."""

    @property
    def n_tokens(self) -> int:
        """Tokens so far, the end token excluded."""
        ...

    @property
    def finished(self) -> bool:
        """It has ended; what else comes is ignored."""
        ...

    def take(self, delta: ChoiceDelta) -> list[Event]:
        """The events that follow from `delta`. Raises `MalformedReply`."""
        ...

    def end(self) -> list[Event]:
        """End it from outside, see `Generation.end`."""
        ...


class TokenVoice:
    """See above. `n_tokens` is exact."""

    def __init__(
        self, candidate: Candidate, request: GenerationRequest, tokenizer: Tokenizer, spelling: Spelling
    ) -> None:
        self._candidate = candidate
        self._k = request.logprobs
        self._tokenizer = tokenizer
        self._spelling = spelling

    @property
    def n_tokens(self) -> int:
        """See `Voice`."""
        return self._candidate.n_tokens

    @property
    def finished(self) -> bool:
        """See `Voice`."""
        return self._candidate.finished

    def take(self, delta: ChoiceDelta) -> list[Event]:
        """See `Voice`."""
        events: list[Event] = []
        for entry in delta.entries:
            if self.finished:
                return events
            events += self._accept(entry)
        if delta.finish_reason is not None and not self.finished:
            events += self._candidate.close(checked_reason(delta.finish_reason))
        return events

    def end(self) -> list[Event]:
        """See `Voice`."""
        return self._candidate.end()

    def _accept(self, entry: Entry) -> list[Event]:
        token = self._spelling.id_of(entry.token)
        events: list[Event] = []
        for missing in self._missing_before(token, entry.token.piece):
            events += self._candidate.accept_unlisted(missing)
            if self.finished:
                return events
        if entry.logprob is None:
            raise MalformedReply(f"the sampled token {entry.token.spelled!r} has no log-probability")
        if self._k is None:
            return events + self._candidate.accept(token, None, ())
        return events + self._candidate.accept(token, entry.logprob, self._spelling.likeliest(entry, self._k))

    def _missing_before(self, token: int, piece: bytes | None) -> list[int]:
        """Tokens that the upstream has left out: llama-server lists no token that ends inside a character, and counts
        its bytes to the one that completes it."""
        if piece is None:
            return []
        own = self._tokenizer.piece(token)
        if len(piece) <= len(own) or not piece.endswith(own):
            return []
        return self._spelling.ids_of(piece.removesuffix(own))


class TextVoice:
    """See above. `n_tokens` counts listed tokens, or events with text where none are listed."""

    def __init__(
        self, index: int, request: GenerationRequest, tokenizer: LearnedTokenizer, stops: StopAutomaton
    ) -> None:
        self.n_tokens = 0
        self.finished = False
        self._index = index
        self._k = request.logprobs
        self._tokenizer = tokenizer
        self._stream: TextStream[SampledToken] = TextStream(stops, offset=request.text_offset, pending=request.pending)
        self._decoder = Utf8Decoder()
        """Reads the listed tokens beside the text, to see whether they spell it."""
        self._sum_logprob = 0.0
        self._n_scored = 0

    def take(self, delta: ChoiceDelta) -> list[Event]:
        """See `Voice`."""
        events: list[Event] = []
        for piece, entry in self._parts(delta):
            start = self._stream.n_visible
            visible = self._stream.push(piece, None if entry is None else self._listed(entry))
            self.n_tokens += 1
            events += chunks_of(visible, start, self._index, self.n_tokens)
            if visible.stopped:
                return [*events, self._finish("stop")]
        if delta.finish_reason is not None:
            start = self._stream.n_visible
            reason = checked_reason(delta.finish_reason)
            events += chunks_of(self._stream.flush(), start, self._index, self.n_tokens)
            events.append(self._finish(reason))
        return events

    def end(self) -> list[Event]:
        """See `Voice`."""
        begun = [Chunk(self._index, "", (token,), self.n_tokens) for token in self._stream.cut()]
        return [*begun, self._finish("content_filter")]

    def _parts(self, delta: ChoiceDelta) -> list[tuple[bytes, Entry | None]]:
        """The bytes to add, each with the token that they came from."""
        if not delta.entries or self._k is None:
            return [(delta.text.encode(), None)] if delta.text else []
        pieces = [piece_of(entry.token) for entry in delta.entries]
        if self._decoder.push(b"".join(pieces)) == delta.text:
            return list(zip(pieces, delta.entries, strict=True))
        if delta.text == "" and delta.finish_reason == "stop":
            # Tokens of a stop that the upstream has cut off, or the end of the text.
            return []
        # The tokens do not spell the text, which decides; they are all listed where it starts.
        first, *others = delta.entries
        return [(delta.text.encode(), first), *((b"", entry) for entry in others)]

    def _listed(self, entry: Entry) -> SampledToken:
        if entry.logprob is None:
            raise MalformedReply(f"the sampled token {entry.token.spelled!r} has no log-probability")
        assert self._k is not None
        self._sum_logprob += entry.logprob
        self._n_scored += 1
        top = sorted(((self._tokenizer.learn(token), value) for token, value in entry.top), key=likeliest_first)
        token = self._tokenizer.learn(entry.token)
        return SampledToken(token, self._stream.offset, entry.logprob, tuple(top[: self._k]))

    def _finish(self, reason: str) -> Finished:
        self.finished = True
        return Finished(self._index, reason, self.n_tokens, self._sum_logprob, self._n_scored)


def checked_reason(reason: str) -> str:
    """A reason that the API has. Raises `MalformedReply` for others: the upstream has given up."""
    if reason not in FINISH_REASONS:
        raise MalformedReply(f"a candidate ended with finish_reason {reason!r}")
    return reason

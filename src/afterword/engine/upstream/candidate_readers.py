"""Readers of one candidate of an upstream's answer: from what it sends to our events, by our own rules.

`TokenReader` has the model's tokenizer: it takes the listed tokens as sampled and derives everything else from them, as
an engine in this process does. `TextReader` has none: it takes the text as sent, and the tokens only to list them.
"""

from typing import Protocol

from typing_extensions import override

from afterword.engine.candidate import Candidate, chunks_of
from afterword.engine.events import Chunk, Event, Finished, SampledToken
from afterword.engine.request import GenerationRequest
from afterword.engine.upstream.learned_tokenizer import LearnedTokenizer, piece_of
from afterword.engine.upstream.reply import ChoiceDelta, Entry, MalformedReply
from afterword.engine.upstream.token_lookup import TokenLookup, likeliest_first
from afterword.text.stops import Stops
from afterword.text.stream import TextStream
from afterword.text.utf8 import Utf8Decoder
from afterword.tokens import Tokenizer

FINISH_REASONS = frozenset({"stop", "length", "content_filter"})


class CandidateReader(Protocol):
    """Reads what the upstream sends for one candidate."""

    @property
    def n_tokens(self) -> int:
        """Tokens so far, the end token excluded."""
        ...

    @property
    def finished(self) -> bool:
        """It has ended; whatever else the upstream sends for it is ignored."""
        ...

    def take(self, delta: ChoiceDelta) -> list[Event]:
        """The events that follow from `delta`. Raises `MalformedReply`."""
        ...

    def end(self) -> list[Event]:
        """End it from outside (`Generation.end`). Returns its last events."""
        ...


class TokenReader(CandidateReader):
    """A reader by tokens. `n_tokens` is exact."""

    def __init__(
        self, candidate: Candidate, request: GenerationRequest, tokenizer: Tokenizer, lookup: TokenLookup
    ) -> None:
        self._candidate = candidate
        self._k = request.logprobs
        self._tokenizer = tokenizer
        self._lookup = lookup

    @property
    @override
    def n_tokens(self) -> int:
        return self._candidate.n_tokens

    @property
    @override
    def finished(self) -> bool:
        return self._candidate.finished

    @override
    def take(self, delta: ChoiceDelta) -> list[Event]:
        events: list[Event] = []
        for entry in delta.entries:
            if self.finished:
                return events
            events += self._accept(entry)
        if delta.finish_reason is not None and not self.finished:
            events += self._candidate.close(checked_reason(delta.finish_reason))
        return events

    @override
    def end(self) -> list[Event]:
        return self._candidate.end()

    def _accept(self, entry: Entry) -> list[Event]:
        token = self._lookup.id_of(entry.token)
        events: list[Event] = []
        for missing in self._missing_before(token, entry.token.piece):
            events += self._candidate.accept_unlisted(missing)
            if self.finished:
                return events
        if entry.logprob is None:
            raise MalformedReply("a sampled token has no log-probability")
        if self._k is None:
            return events + self._candidate.accept(token, None, ())
        return events + self._candidate.accept(token, entry.logprob, self._lookup.likeliest(entry, self._k))

    def _missing_before(self, token: int, piece: bytes | None) -> list[int]:
        """Tokens that the upstream did not list: llama-server lists none that ends inside a character, and adds its
        bytes to the one that completes the character."""
        if piece is None:
            return []
        own = self._tokenizer.piece(token)
        if len(piece) <= len(own) or not piece.endswith(own):
            return []
        return self._lookup.ids_of(piece.removesuffix(own))


class TextReader(CandidateReader):
    """A reader by text. `n_tokens` counts listed tokens, or events with text where none are listed."""

    # Plain attributes here, where the protocol only asks for something to read.
    n_tokens: int = 0
    finished: bool = False

    def __init__(self, index: int, request: GenerationRequest, tokenizer: LearnedTokenizer, stops: Stops) -> None:
        self._index = index
        self._k = request.logprobs
        self._tokenizer = tokenizer
        self._stream: TextStream[SampledToken] = TextStream(stops, offset=request.text_offset, pending=request.pending)
        self._decoder = Utf8Decoder()
        """Decodes the listed tokens, to compare them with the text."""
        self._sum_logprob = 0.0
        self._n_scored = 0

    @override
    def take(self, delta: ChoiceDelta) -> list[Event]:
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

    @override
    def end(self) -> list[Event]:
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
            # Tokens of a stop that the upstream has cut off, or the end-of-text token.
            return []
        # The tokens do not spell the text. The text counts, so all of them are listed where it starts.
        first, *others = delta.entries
        return [(delta.text.encode(), first), *((b"", entry) for entry in others)]

    def _listed(self, entry: Entry) -> SampledToken:
        if entry.logprob is None:
            raise MalformedReply("a sampled token has no log-probability")
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
    """A finish reason that the API has. Raises `MalformedReply` for others, by which servers report failures."""
    if reason not in FINISH_REASONS:
        raise MalformedReply(f"a candidate ended with finish_reason {reason!r}")
    return reason

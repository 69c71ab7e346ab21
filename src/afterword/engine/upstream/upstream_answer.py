"""One prompt's answer, from the replies of all its requests to events in the order of `events.py`.

The prompt's scores come first, then each candidate by its reader, then the counts. Knows no connection.
"""

from collections.abc import Callable, Sequence

import numpy as np

from afterword.engine.events import Counted, Event, Finished, PromptDone, PromptScores
from afterword.engine.request import GenerationRequest
from afterword.engine.upstream.candidate_readers import CandidateReader
from afterword.engine.upstream.outgoing import OutgoingRequest
from afterword.engine.upstream.reply import ChoiceDelta, Counts, Entry, MalformedReply, Reply
from afterword.engine.upstream.token_lookup import TokenLookup


class UpstreamAnswer:
    """The growing answer to one prompt. Used from the event loop."""

    def __init__(
        self,
        request: GenerationRequest,
        readers: Sequence[CandidateReader],
        lookup: TokenLookup | None,
        post: Callable[[Sequence[Event]], None],
    ) -> None:
        """`lookup`: None without a tokenizer, when no prompt is scored. `post`: takes events in order."""
        self._request = request
        self._readers = readers
        self._lookup = lookup
        self._post = post
        self._scores = _Scores(request)
        self._held: list[Event] | None = []
        """Events that wait until the prompt is done; None once it is."""
        self._last: Finished | None = None
        """The end of the last candidate, which waits for the counts."""
        self._to_skip: dict[int, int] = {}
        """Entries of the echoed prompt that are still to come, by candidate."""
        self._n_outgoing = 0
        self._ended_upstream: set[int] = set()
        self._counts: dict[int, Counts] = {}
        """What each request's upstream counted, by its first candidate."""

    @property
    def n_tokens(self) -> int:
        """Completion tokens of all candidates so far."""
        return sum(reader.n_tokens for reader in self._readers)

    @property
    def n_unfinished(self) -> int:
        """Candidates that have not ended."""
        return sum(not reader.finished for reader in self._readers)

    def expect(self, outgoing: OutgoingRequest) -> None:
        """`outgoing` is about to be sent."""
        self._n_outgoing += 1
        self._to_skip |= dict.fromkeys(outgoing.candidates, outgoing.n_echoed)

    def take(self, outgoing: OutgoingRequest, reply: Reply) -> None:
        """Take one event of the answer to `outgoing`. Raises `MalformedReply`."""
        if reply.counts is not None:
            # Running totals in every chunk, or one total in the last: either way the latest is right.
            self._counts[outgoing.candidates[0]] = reply.counts
        for delta in reply.choices:
            if delta.index >= len(outgoing.candidates):
                raise MalformedReply(
                    f"there is a choice of index {delta.index} where {len(outgoing.candidates)} were asked for"
                )
            self._take_delta(outgoing.candidates[delta.index], delta)
        if self._request.prompt_logprobs is None:
            self._prompt_done(None)

    def is_wasted(self, outgoing: OutgoingRequest) -> bool:
        """Whether all candidates of `outgoing` have ended here while the upstream still generates some."""
        return self._is_over(outgoing) and not self._ended_upstream.issuperset(outgoing.candidates)

    def has_ended(self, outgoing: OutgoingRequest) -> bool:
        """Whether nothing is to come for `outgoing` but counts: every choice has its end, the prompt its scores."""
        return self._ended_upstream.issuperset(outgoing.candidates) and not self._lacks(outgoing)

    def is_counted(self, outgoing: OutgoingRequest) -> bool:
        """Whether the upstream has counted the tokens of `outgoing`."""
        return outgoing.candidates[0] in self._counts

    def check_whole(self, outgoing: OutgoingRequest) -> None:
        """The upstream has closed. Raises `MalformedReply` if something is missing."""
        lacking = self._lacks(outgoing)
        if lacking is not None:
            raise MalformedReply(f"the answer ended before {lacking}")

    def end_candidate(self, index: int) -> None:
        """End one candidate from outside; one that has ended already stays as it is."""
        reader = self._readers[index]
        if not reader.finished:
            self._post_events(reader, reader.end())

    def end(self, *, exact: bool) -> Counted:
        """All requests are answered: post the counts, then the last end. Returns the counts.

        `exact`: prompt and completion were counted here, by tokens.
        """
        assert self._held is None, "the prompt has been done"
        counted = self._counted(exact=exact)
        self._post([counted])
        if self._request.max_tokens == 0:
            self._post([Finished(index, "length", 0, 0.0, 0) for index in range(self._request.n_candidates)])
        elif self._last is not None:
            self._post([self._last])
        return counted

    def break_off(self, *, exact: bool) -> None:
        """There will be no more: post what the upstream has counted so far, if it has."""
        if not exact and self._counts:
            self._post([self._counted(exact=exact)])

    def _lacks(self, outgoing: OutgoingRequest) -> str | None:
        if self._request.max_tokens > 0 and not self._is_over(outgoing):
            return "every choice had a finish_reason"
        if self._held is not None and 0 in outgoing.candidates:
            return "the prompt's log-probabilities had come"
        return None

    def _is_over(self, outgoing: OutgoingRequest) -> bool:
        return all(self._readers[candidate].finished for candidate in outgoing.candidates)

    def _take_delta(self, candidate: int, delta: ChoiceDelta) -> None:
        n_skipped = min(self._to_skip[candidate], len(delta.entries))
        self._to_skip[candidate] -= n_skipped
        if n_skipped > 0:
            if candidate == 0:
                self._score(delta.entries[:n_skipped])
            delta = ChoiceDelta(delta.index, delta.text, delta.entries[n_skipped:], delta.finish_reason)
        reader = self._readers[candidate]
        if delta.finish_reason is not None or reader.n_tokens + len(delta.entries) >= self._request.max_tokens:
            self._ended_upstream.add(candidate)
        if self._request.max_tokens == 0 or reader.finished:
            return
        self._post_events(reader, reader.take(delta))

    def _post_events(self, reader: CandidateReader, events: list[Event]) -> None:
        if reader.finished and self.n_unfinished == 0:
            last = events.pop()
            assert isinstance(last, Finished)
            self._last = last
        if self._held is not None:
            self._held += events
        elif events:
            self._post(events)

    def _score(self, entries: Sequence[Entry]) -> None:
        assert self._lookup is not None, "prompts are scored only with a tokenizer"
        for entry in entries:
            self._scores.add(entry, self._lookup)
        if self._scores.is_complete:
            self._prompt_done(self._scores.done())

    def _prompt_done(self, scores: PromptScores | None) -> None:
        if self._held is None:
            return
        held, self._held = self._held, None
        self._post([PromptDone(0, scores), *held])

    def _counted(self, *, exact: bool) -> Counted:
        first = self._counts.get(0, Counts(None, None, None))
        if exact:
            return Counted(None, first.n_cached, None)
        totals = [count.n_completion for count in self._counts.values()]
        known = [total for total in totals if total is not None]
        is_whole = len(known) == self._n_outgoing and self._request.max_tokens > 0
        return Counted(first.n_prompt, first.n_cached, sum(known) if is_whole else None)


class _Scores:
    """The prompt's log-probabilities, an entry a token."""

    def __init__(self, request: GenerationRequest) -> None:
        self._prompt = request.prompt
        self._k = 0 if request.prompt_logprobs is None else request.prompt_logprobs
        self._n = 0
        self._logprobs: list[float] = []
        self._tops: list[tuple[tuple[int, float], ...]] = []

    @property
    def is_complete(self) -> bool:
        """Every token of the prompt has its entry."""
        return self._n == len(self._prompt)

    def add(self, entry: Entry, lookup: TokenLookup) -> None:
        """The entry of the next token. Raises `MalformedReply` if it is another token's."""
        sent = self._prompt[self._n]
        if not lookup.may_mean(entry.token, sent):
            raise MalformedReply(f"the echoed prompt has another token at place {self._n} than was sent")
        self._n += 1
        if self._n == 1:
            return
        top = lookup.likeliest(entry, self._k)
        if entry.logprob is None or (self._k > 0 and not top):
            raise MalformedReply(f"the prompt's token at place {self._n - 1} has no log-probabilities")
        self._logprobs.append(entry.logprob)
        # Tokens that are spelled alike share an entry, so there may be fewer than k: the last is repeated.
        self._tops.append(top + top[-1:] * (self._k - len(top)))

    def done(self) -> PromptScores:
        """All of them."""
        shape = (len(self._prompt) - 1, self._k)
        ids = np.array([[token for token, _ in top] for top in self._tops], dtype=np.int32).reshape(shape)
        values = np.array([[value for _, value in top] for top in self._tops], dtype=np.float64).reshape(shape)
        return PromptScores(np.array(self._logprobs, dtype=np.float64), ids, values)

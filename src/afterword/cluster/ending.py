"""Ends single candidates of a generation that can only be cancelled as a whole. Knows no Ray."""

from collections.abc import Iterator
from dataclasses import dataclass

from afterword.engine.events import Chunk, Counted, Event, Finished, PromptDone


@dataclass(slots=True)
class _Counts:
    """What has been passed on of one candidate."""

    n_tokens: int = 0
    sum_logprob: float = 0.0
    n_scored: int = 0
    finished: bool = False


class CandidateEnds:
    """Stands between a source of events and their reader (see `Generation.end`). Not thread-safe."""

    def __init__(self, n_candidates: int) -> None:
        self._counts = [_Counts() for _ in range(n_candidates)]
        self._owed: list[Finished] = []
        self._n_ended = 0

    @property
    def none_is_wanted(self) -> bool:
        """The source still runs, and nothing that it may say is passed on."""
        return self._n_ended > 0 and not self._owed and all(counts.finished for counts in self._counts)

    def end(self, index: int) -> None:
        """Stop passing the candidate on; its end is the next event."""
        counts = self._counts[index]
        if not counts.finished:
            counts.finished = True
            self._n_ended += 1
            self._owed.append(Finished(index, "content_filter", counts.n_tokens, counts.sum_logprob, counts.n_scored))

    def owed(self) -> Iterator[Finished]:
        """The ends of candidates ended since the last call."""
        while self._owed:
            yield self._owed.pop(0)

    def passes(self, event: Event) -> bool:
        """Count an event of the source; False if its candidate was ended before."""
        if isinstance(event, PromptDone | Counted):
            return True
        counts = self._counts[event.index]
        if counts.finished:
            return False
        counts.n_tokens = event.n_tokens
        if isinstance(event, Chunk):
            counts.sum_logprob += sum(token.logprob for token in event.tokens)
            counts.n_scored += len(event.tokens)
        else:
            counts.finished = True
        return True

"""Ends single candidates of a generation that can only be cancelled as a whole. Knows no Ray."""

from dataclasses import dataclass

from afterword.engine.events import Chunk, Counted, Event, Finished, PromptDone, Started


@dataclass(slots=True)
class _Counts:
    """What one candidate's reader has got so far."""

    n_tokens: int = 0
    sum_logprob: float = 0.0
    n_scored: int = 0
    finished: bool = False


class CandidateEnds:
    """Filters a source's events after candidates were ended (`Generation.end`). Not thread-safe."""

    def __init__(self, n_candidates: int) -> None:
        self._counts = [_Counts() for _ in range(n_candidates)]

    def end(self, index: int) -> list[Finished]:
        """Drop the candidate's further events; returns its end, nothing if it has ended before."""
        counts = self._counts[index]
        if counts.finished:
            return []
        counts.finished = True
        return [Finished(index, "content_filter", counts.n_tokens, counts.sum_logprob, counts.n_scored)]

    def passes(self, event: Event) -> bool:
        """Count an event of the source; False if its candidate was ended before."""
        if isinstance(event, Started | PromptDone | Counted):
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

"""The order in which prompts are read (docs/rules.md#turns).

The parties take turns by pieces of prompts: next is whose were not read for longest, counted from when there was one.
The requests of a party take turns by whole prompts, because ten that are read one after another are done sooner than
ten that are read at the same time. So who sends many prompts, or new ones again and again, does not hold up the one
prompt of another. Engine thread only.
"""

from collections.abc import Iterable

from afterword.engine.llama.sequence import Sequence

Who = tuple[str, ...]


class ReadingOrder:
    """When whose prompts were read. Remembers those only that have prompts to be read."""

    def __init__(self) -> None:
        self._clock = 0
        self._read_at: dict[Who, int] = {}

    def in_turn(self, running: list[Sequence]) -> list[Sequence]:
        """Those whose prompts are read come first, in their turn; else the order stays."""
        prompts = [s for s in running if s.prefilling]
        self._clock += 1
        self._read_at = {who: self._read_at.get(who, self._clock) for s in prompts for who in _owners(s)}
        if len(prompts) < 2:
            return running
        prompts.sort(key=self._rank)
        return [*prompts, *(s for s in running if not s.prefilling)]

    def note(self, computed: Iterable[Sequence]) -> None:
        """Some of these sequences is computed now."""
        for who in (who for s in computed if s.prefilling for who in _owners(s)):
            self._read_at[who] = self._clock

    def _rank(self, sequence: Sequence) -> tuple[int, ...]:
        party, request = (self._read_at[who] for who in _owners(sequence))
        begun = sequence.n_computed > sequence.n_reused
        return sequence.group.claim.priority, party, *((0,) if begun else (1, request))


def _owners(sequence: Sequence) -> tuple[Who, Who]:
    """The party, and its request."""
    claim = sequence.group.claim
    return (claim.party,), (claim.party, claim.request)

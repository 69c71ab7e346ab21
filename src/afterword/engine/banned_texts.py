"""What a request bans, ready to be found: for all of its candidates, made when the first of them begins to look."""

from functools import cached_property

from afterword.engine.sampling.banned_patterns import Expression, PatternFinder, begun_pattern
from afterword.fields.bans import TextBans
from afterword.text.stops import StopAutomaton
from afterword.text.watch import Finder, TextFinder, caseless


class BannedTexts:
    """The bans of one request, of which there is one at least. Not thread-safe."""

    def __init__(self, bans: TextBans) -> None:
        self._bans = bans

    def finders(self) -> list[Finder]:
        """New ones, for a text that begins."""
        found: list[Finder] = []
        if self._bans.exact:
            found.append(TextFinder(self._exact, str))
        if self._bans.caseless:
            found.append(TextFinder(self._caseless, caseless))
        if self._bans.pattern:
            found.append(PatternFinder(self._pattern))
        return found

    @cached_property
    def _exact(self) -> StopAutomaton:
        return StopAutomaton(self._bans.exact)

    @cached_property
    def _caseless(self) -> StopAutomaton:
        return StopAutomaton(["".join(map(caseless, text)) for text in self._bans.caseless])

    @cached_property
    def _pattern(self) -> Expression:
        return begun_pattern(self._bans.pattern)

"""Whose turn it is, where there are fewer places than are asked for (docs/rules.md#turns).

Parties share the places equally, and so do the requests of one party: next is who has fewest, and of those who have as
many, who has got none for longest. So nobody is overtaken for ever, and nobody gains by asking for more. Those of an
earlier priority come before all others. Bookkeeping only; one thread.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, Protocol, TypeVar


@dataclass(frozen=True, slots=True)
class Claim:
    """On whose behalf places are asked for."""

    party: str = ""
    """Who shares with others: an API key, or where there is none a client's address."""
    request: str = ""
    """One HTTP request of the party, which may have several prompts."""
    priority: int = 0
    """Lower is earlier."""


ANYBODY = Claim()

T = TypeVar("T")


@dataclass(slots=True)
class _Request(Generic[T]):
    """What one request has."""

    n_held: int = 0
    waiting: dict[T, None] = field(default_factory=dict)
    """In order of arrival."""


@dataclass(slots=True)
class _Party(Generic[T]):
    """What one party has."""

    n_held: int = 0
    requests: dict[str, _Request[T]] = field(default_factory=dict)
    """Whoever got or lost a place last is last."""


class Line(Generic[T]):
    """Who waits, and who has places. What waits is told apart by identity or hash."""

    def __init__(self) -> None:
        self._parties: dict[int, dict[str, _Party[T]]] = {}
        """By priority. Of those of one priority, whoever got or lost a place last is last."""

    def join(self, claim: Claim, item: T) -> None:
        """Wait behind the party's own request."""
        self._request(claim).waiting[item] = None

    def rejoin(self, claim: Claim, item: T) -> None:
        """Wait in front of the other items of its request."""
        request = self._request(claim)
        request.waiting = {item: None, **request.waiting}

    def leave(self, claim: Claim, item: T) -> None:
        """Wait no more; nothing if it does not."""
        self._request(claim).waiting.pop(item, None)
        self._forget(claim)

    def take(self, claim: Claim, n: int = 1) -> None:
        """So many places more are had, and it is the turn of others."""
        self._request(claim).n_held += n
        parties = self._parties[claim.priority]
        party = parties[claim.party] = parties.pop(claim.party)
        party.n_held += n
        party.requests[claim.request] = party.requests.pop(claim.request)

    def give_back(self, claim: Claim, n: int = 1) -> None:
        """So many places fewer are had, and it is the turn of others."""
        self.take(claim, -n)
        self._forget(claim)

    def held(self, claim: Claim) -> tuple[int, int]:
        """Places of the party, at this priority, and those of them that the request has."""
        party = self._parties.get(claim.priority, {}).get(claim.party)
        request = None if party is None else party.requests.get(claim.request)
        return 0 if party is None else party.n_held, 0 if request is None else request.n_held

    def next(self, passed_over: Collection[T] = ()) -> T | None:
        """Whose turn it is, without those that are passed over. The cost grows with them and with the places."""
        for priority in sorted(self._parties):
            for party in _fewest_first(self._parties[priority]):
                for request in _fewest_first(party.requests):
                    for item in request.waiting:
                        if item not in passed_over:
                            return item
        return None

    def firsts(self) -> Iterator[T]:
        """Whose turn it is of each party, in their turn."""
        for priority in sorted(self._parties):
            for party in _fewest_first(self._parties[priority]):
                yield from islice((item for one in _fewest_first(party.requests) for item in one.waiting), 1)

    def _request(self, claim: Claim) -> _Request[T]:
        party = self._parties.setdefault(claim.priority, {}).setdefault(claim.party, _Party())
        return party.requests.setdefault(claim.request, _Request())

    def _forget(self, claim: Claim) -> None:
        """Keep nothing of who neither waits nor has a place."""
        parties = self._parties[claim.priority]
        party = parties[claim.party]
        request = party.requests[claim.request]
        assert 0 <= request.n_held <= party.n_held
        if request.n_held == 0 and not request.waiting:
            del party.requests[claim.request]
        if not party.requests:
            del parties[claim.party]
        if not parties:
            del self._parties[claim.priority]


class _Share(Protocol):
    n_held: int


S = TypeVar("S", bound=_Share)


def _fewest_first(shares: Mapping[str, S]) -> Iterator[S]:
    """By what they hold, else in the order that they have. Those that hold nothing are not looked for further."""
    holding: list[S] = []
    for share in shares.values():
        if share.n_held == 0:
            yield share
        else:
            holding.append(share)
    yield from sorted(holding, key=lambda share: share.n_held)

"""How many sequences a vendor is sent at once, and who waits. First come, first served. Used from one event loop."""

from asyncio import Future, get_running_loop
from collections import deque

from afterword.errors import Overloaded


class Ticket:
    """A prompt's place: waiting, then running, until it is given back."""

    __slots__ = ("admitted", "n")

    def __init__(self, n: int, admitted: "Future[None]") -> None:
        self.n = n
        """Its sequences."""
        self.admitted = admitted
        """Done once all of them may run."""


class Room:
    """The places of one vendor, shared by its models."""

    def __init__(self, n_places: int, max_waiting: int) -> None:
        """`max_waiting`: sequences beyond the places before `Overloaded`."""
        self.n_places = n_places
        self._max_waiting = max_waiting
        self._n_running = 0
        self._waiting: deque[Ticket] = deque()
        self._running: set[Ticket] = set()

    def reserve(self, n: int) -> None:
        """Raise `Overloaded` if `n` sequences more do not fit; keeps nothing."""
        n_taken = self._n_running + sum(ticket.n for ticket in self._waiting)
        limit = self.n_places + self._max_waiting
        if n_taken + n > limit:
            raise Overloaded(
                f"The engine holds {n_taken} sequences and has room for {limit}; {n} more do not fit.", retry_after=1
            )

    def enter(self, n: int) -> Ticket:
        """Queue `n` sequences, which run together. Raises `Overloaded`. The ticket must be given back in the end."""
        self.reserve(n)
        ticket = Ticket(n, get_running_loop().create_future())
        self._waiting.append(ticket)
        self._admit()
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Give a place back, whether it was used or not; a second time changes nothing."""
        if ticket in self._running:
            self._running.remove(ticket)
            self._n_running -= ticket.n
        elif ticket in self._waiting:
            self._waiting.remove(ticket)
        self._admit()

    def _admit(self) -> None:
        """A prompt of more sequences than there are places runs alone."""
        while self._waiting:
            ticket = self._waiting[0]
            if self._n_running > 0 and self._n_running + ticket.n > self.n_places:
                return
            self._waiting.popleft()
            self._running.add(ticket)
            self._n_running += ticket.n
            if not ticket.admitted.done():
                ticket.admitted.set_result(None)

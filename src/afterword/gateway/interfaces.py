"""The interfaces of the gateway: keys, limits, ledger. HTTP uses them, storage implements them.

All methods are called on the event loop and never block it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from afterword.gateway.grant import Grant

DatabaseState = Literal["none", "up", "down", "lost"]
"""`none`: there is none. `down`: it does not answer, and keys that were used a moment ago are good. `lost`: it has not
answered for so long that no stored key is good any more, and there is no other."""


class Keys(Protocol):
    """Finds the grant of an API key."""

    async def find(self, offered: Sequence[bytes], account: str | None) -> Grant:
        """The grant of the first of the `offered` keys that is valid; `account` is the one the client wants charged.

        Raises `NotAuthenticated` if none was offered or none is valid (unknown, revoked, expired), `NotPermitted` if
        the key may not charge that account, `Overloaded` if the database cannot say at the moment. The time that
        a wrong key takes does not depend on how much of it is right.
        """
        ...

    async def database(self) -> DatabaseState:
        """How the database is that the keys are in. Asks it if nobody has for a second, and waits seconds at most."""
        ...

    async def aclose(self) -> None:
        """Close the storage. Called after the last `find`."""
        ...


@dataclass(frozen=True, slots=True)
class Allowance:
    """One limit of a key at the time of a request (the `x-ratelimit-*` headers of docs/rules.md#headers)."""

    limit: int
    remaining: int
    reset: float
    """Seconds until all of it is available again."""


@dataclass(frozen=True, slots=True)
class LimitState:
    """What is left of a key's limits. None: it has no such limit."""

    requests: Allowance | None = None
    tokens: Allowance | None = None

    def figures(self) -> dict[str, tuple[int, int]]:
        """Limit and what is left of it, by what is limited."""
        named = {"requests": self.requests, "tokens": self.tokens}
        return {name: (one.limit, one.remaining) for name, one in named.items() if one is not None}


class Reservation(Protocol):
    """What a request that was let in holds of its key's limits until it ends."""

    @property
    def limit_state(self) -> LimitState:
        """What the key has left, not counting what this request may use."""
        ...

    async def settle(self, n_tokens: int) -> None:
        """The request has ended, successful or not, having used `n_tokens`: count those instead of the reserved ones,
        also if they are more.

        Called exactly once, also when the client has disconnected.
        """
        ...


class Limiter(Protocol):
    """Counts requests and tokens of keys against their limits."""

    @property
    def n_alone(self) -> int:
        """Requests so far that only this process could count although their limits are shared between processes."""
        ...

    async def admit(self, grant: Grant, n_tokens: int) -> Reservation:
        """Admit a request of at most `n_tokens`. Raises `LimitExceeded`, having counted nothing."""
        ...

    async def limit_state(self, grant: Grant) -> LimitState:
        """What the key has left, for an answer to anything but a request that was let in."""
        ...

    async def aclose(self) -> None:
        """Close the storage."""
        ...


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One completion request in the ledger (docs/rules.md#usage-rows)."""

    time: datetime
    """When it ended, UTC."""
    request_id: str
    key_id: str | None
    account_id: str | None
    user: str | None
    """The request's own `user`."""
    model: str
    """Full name, `vendor/name`."""
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    estimated: bool
    """Nobody has counted some of the tokens."""
    finish_reasons: tuple[str, ...]
    """Of the choices that finished, in the order they did."""
    latency: float
    """Seconds from arrival to end."""
    status: int
    """Of what became of it: 499 if the client left before the end, that of the error if a stream broke."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Usage rows that are not in the database."""

    waiting: int
    """Those that will be tried again."""
    lost: int
    """Those since the start that are in the log alone, by their number."""
    is_stuck: bool
    """The database does not take any at the moment."""


NOTHING_LEFT = Backlog(0, 0, is_stuck=False)


class Ledger(Protocol):
    """Stores usage rows."""

    @property
    def backlog(self) -> "Backlog":
        """What is not stored."""
        ...

    def end_now(self, seconds: float) -> int:
        """Write what can be within so many seconds, and no more after that; how many rows were not. Blocks."""
        ...

    def write(self, row: UsageRow) -> None:
        """Queue the row; it is on disk within a second, or once `aclose` has returned."""
        ...

    async def aclose(self) -> None:
        """Write what is queued and close the storage."""
        ...


@dataclass(frozen=True, slots=True)
class Gateway:
    """What the HTTP layer needs to know of its clients."""

    keys: Keys
    limiter: Limiter
    ledger: Ledger

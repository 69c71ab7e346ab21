"""The seams of the gateway: who finds keys, who counts, who writes down. HTTP uses these, storage implements them.

All methods are called on the event loop and never block it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from afterword.gateway.grant import Grant


class Keys(Protocol):
    """Tells whose key it is."""

    async def find(self, offered: Sequence[bytes], account: str | None) -> Grant:
        """The grant of the first of the `offered` keys that is good; `account` is the one the client wants charged.

        Raises `NotAuthenticated` if none was offered or none is good (unknown, revoked, expired), `NotPermitted` if
        the key may not charge that account, `Overloaded` if the database cannot say at the moment. The time that
        a wrong key takes does not depend on how much of it is right.
        """
        ...

    async def aclose(self) -> None:
        """Let go of the storage. Called after the last `find`."""
        ...


@dataclass(frozen=True, slots=True)
class Allowance:
    """One limit of a key as a request found it (the `x-ratelimit-*` headers of docs/rules.md#headers)."""

    limit: int
    remaining: int
    reset: float
    """Seconds until all of it is there again."""


@dataclass(frozen=True, slots=True)
class LimitState:
    """What is left of a key's limits. None: it has no such limit."""

    requests: Allowance | None = None
    tokens: Allowance | None = None


class Reservation(Protocol):
    """What a request that was let in holds of its key's limits until it ends."""

    @property
    def limit_state(self) -> LimitState:
        """What the key has left, this request taken off."""
        ...

    async def settle(self, n_tokens: int) -> None:
        """The request has ended, well or not, having used `n_tokens`: count those instead of what was reserved.

        Called exactly once, also when the client has left.
        """
        ...


class Limiter(Protocol):
    """Counts what keys do."""

    @property
    def n_alone(self) -> int:
        """Requests so far whose limits are shared between processes, but could only be counted by this one."""
        ...

    async def admit(self, grant: Grant, n_tokens: int) -> Reservation:
        """Let a request of at most `n_tokens` in. Raises `LimitExceeded`, having counted nothing."""
        ...

    async def limit_state(self, grant: Grant) -> LimitState:
        """What the key has left, for an answer to anything but a request that was let in."""
        ...

    async def aclose(self) -> None:
        """Let go of the storage."""
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
    finish_reasons: tuple[str, ...]
    """Of the choices that finished, in the order they did."""
    latency: float
    """Seconds from arrival to end."""
    status: int
    """499 if the client left before there was one."""


class Ledger(Protocol):
    """Keeps usage rows."""

    def write(self, row: UsageRow) -> None:
        """Take the row over; it is on disk within a second, or once `aclose` has returned."""
        ...

    async def aclose(self) -> None:
        """Write what is left and let go of the storage."""
        ...


@dataclass(frozen=True, slots=True)
class Gateway:
    """Everything the HTTP layer asks about its clients."""

    keys: Keys
    limiter: Limiter
    ledger: Ledger

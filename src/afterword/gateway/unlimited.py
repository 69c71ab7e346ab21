"""The limiter of a server that limits nobody."""

from afterword.gateway.base import LimitState, Reservation
from afterword.gateway.grant import Grant


class Unlimited:
    """See `Limiter`. Lets everything in and counts nothing."""

    n_alone = 0

    async def admit(self, grant: Grant, n_tokens: int) -> Reservation:  # noqa: ARG002
        """See `Limiter`."""
        return NO_RESERVATION

    async def limit_state(self, grant: Grant) -> LimitState:  # noqa: ARG002
        """See `Limiter`."""
        return NO_RESERVATION.limit_state

    async def aclose(self) -> None:
        """See `Limiter`."""


class NoReservation:
    """See `Reservation`. The same for every request that has no limits."""

    limit_state = LimitState()

    async def settle(self, n_tokens: int) -> None:
        """See `Reservation`."""


NO_RESERVATION = NoReservation()

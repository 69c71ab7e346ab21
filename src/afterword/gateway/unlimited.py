"""The limiter of a server without limits."""

from typing_extensions import override

from afterword.gateway.grant import Grant
from afterword.gateway.interfaces import Limiter, LimitState, Reservation


class Unlimited(Limiter):
    """Lets every request in and counts nothing."""

    n_alone = 0

    @override
    async def admit(self, grant: Grant, n_tokens: int) -> Reservation:
        return NO_RESERVATION

    @override
    async def limit_state(self, grant: Grant) -> LimitState:
        return NO_RESERVATION.limit_state

    @override
    async def aclose(self) -> None:
        pass


class NoReservation(Reservation):
    """The one object that all requests without limits share."""

    limit_state = LimitState()

    @override
    async def settle(self, n_tokens: int) -> None:
        pass


NO_RESERVATION = NoReservation()

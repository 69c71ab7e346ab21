"""The limiter of a server that limits nobody."""

from afterword.gateway.base import Admission, Standing
from afterword.gateway.grant import Grant


class Unlimited:
    """See `Limiter`. Lets everything in and counts nothing."""

    n_alone = 0

    async def admit(self, grant: Grant, n_tokens: int) -> Admission:  # noqa: ARG002
        """See `Limiter`."""
        return FREE

    async def standing(self, grant: Grant) -> Standing:  # noqa: ARG002
        """See `Limiter`."""
        return FREE.standing

    async def aclose(self) -> None:
        """See `Limiter`."""


class FreeAdmission:
    """See `Admission`. The same for every request that has no limits."""

    standing = Standing()

    async def settle(self, n_tokens: int) -> None:
        """See `Admission`."""


FREE = FreeAdmission()

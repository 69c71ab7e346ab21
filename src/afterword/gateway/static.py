"""The gateway without a database: a server that is open or has one key, and keeps no ledger.

Neither has accounts: whichever one a client names, nothing is charged.
"""

import hmac
from collections.abc import Sequence

from typing_extensions import override

from afterword.errors import NotAuthenticated
from afterword.gateway.grant import Grant
from afterword.gateway.interfaces import NOTHING_LEFT, DatabaseState, Keys, Ledger, UsageRow

EVERYTHING = Grant(key_id=None, account_id=None)
"""The grant of requests with the key of the configuration."""

KEYLESS = Grant(key_id=None, account_id=None, keyless=True)
"""The grant of every request to an open server."""

NO_KEY = (
    "This server asks for an API key. Send it as 'Authorization: Bearer KEY', as an 'api-key' or 'x-api-key' header, "
    "or as the password of HTTP Basic."
)
WRONG_KEY = "The API key sent with this request is not the one this server expects."


class OpenKeys(Keys):
    """No key is needed; keys that clients send are ignored."""

    @override
    async def find(self, offered: Sequence[bytes], account: str | None) -> Grant:
        return KEYLESS

    @override
    async def database(self) -> DatabaseState:
        return "none"

    @override
    async def aclose(self) -> None:
        pass


class SingleKey(Keys):
    """One key, from the configuration, which may do everything."""

    def __init__(self, key: str) -> None:
        self._key = key.encode("utf-8")

    @override
    async def find(self, offered: Sequence[bytes], account: str | None) -> Grant:
        if not offered:
            raise NotAuthenticated(NO_KEY)
        if not self.matches(offered):
            raise NotAuthenticated(WRONG_KEY)
        return EVERYTHING

    def matches(self, offered: Sequence[bytes]) -> bool:
        """Whether one of the `offered` keys is this one."""
        # All keys are compared, so that the time does not depend on which is right; as bytes, so that characters
        # outside ASCII are no error.
        right = [hmac.compare_digest(key, self._key) for key in offered]
        return any(right)

    @override
    async def database(self) -> DatabaseState:
        return "none"

    @override
    async def aclose(self) -> None:
        pass


class NoLedger(Ledger):
    """Drops every row."""

    backlog = NOTHING_LEFT

    @override
    def end_now(self, seconds: float) -> int:
        return 0

    @override
    def write(self, row: UsageRow) -> None:
        pass

    @override
    async def aclose(self) -> None:
        pass

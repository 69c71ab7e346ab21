"""A gateway in memory: keys by name, a ledger that is a list."""

from collections.abc import Mapping, Sequence

from afterword.errors import NotAuthenticated, NotPermitted
from afterword.gateway.grant import Grant
from afterword.gateway.interfaces import NOTHING_LEFT, DatabaseState, Gateway, Limiter, UsageRow
from afterword.gateway.unlimited import Unlimited


class NamedKeys:
    """Keys that are good for what a mapping says, each for the account of its grant."""

    def __init__(self, grants: Mapping[str, Grant]) -> None:
        self._grants = grants
        self.closed = False

    async def find(self, offered: Sequence[bytes], account: str | None) -> Grant:
        for key in offered:
            grant = self._grants.get(key.decode("ascii"))
            if grant is None:
                continue
            if account is not None and account != grant.account_id:
                raise NotPermitted(f"This API key may not charge the account '{account}'.")
            return grant
        raise NotAuthenticated("No good API key was sent.")

    async def database(self) -> DatabaseState:
        return "none"

    async def aclose(self) -> None:
        self.closed = True


class ListedRows:
    """A ledger that remembers its rows."""

    backlog = NOTHING_LEFT

    def end_now(self, seconds: float) -> int:
        return 0

    def __init__(self) -> None:
        self.rows: list[UsageRow] = []
        self.closed = False

    def write(self, row: UsageRow) -> None:
        assert not self.closed, "the ledger is closed last"
        self.rows.append(row)

    async def aclose(self) -> None:
        self.closed = True


def gateway_of(grants: Mapping[str, Grant], *, ledger: ListedRows, limiter: Limiter | None = None) -> Gateway:
    """A gateway for the keys in `grants`, without limits unless there is a `limiter`."""
    return Gateway(NamedKeys(grants), Unlimited() if limiter is None else limiter, ledger)

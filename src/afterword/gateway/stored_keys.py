"""Keys of the database, looked up without blocking the event loop and cached for a second.

So a key that another process has revoked is refused within two seconds. While the database is down cached keys stay
valid: no key can be revoked then.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

import structlog
from typing_extensions import override

from afterword.errors import NotAuthenticated, NotPermitted, Overloaded
from afterword.gateway.accounts import find_chargeable
from afterword.gateway.bounded_wait import ends_within
from afterword.gateway.database import Database, DatabaseDown
from afterword.gateway.grant import Grant
from afterword.gateway.interfaces import DatabaseState, Keys
from afterword.gateway.key import id_of, matches
from afterword.gateway.key_store import KeyRecord, find_key, has_keys, touch_key
from afterword.gateway.lookup_cache import STALE_SECONDS, LookupCache, Outage
from afterword.gateway.static import EVERYTHING, KEYLESS, NO_KEY, WRONG_KEY, SingleKey
from afterword.text.brief import brief

N_THREADS = 2

CLOSING_SECONDS = 2.0
"""How long `aclose` waits for what is being asked and noted."""

MAX_OFFERED = 4
"""Keys in one request at most: each costs a look-up, and no client sends more than one or two."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Both clocks that are used here, so that tests can set them."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


class StoredKeys(Keys):
    """The keys of a database, which it closes, and one from the configuration if there is one."""

    def __init__(
        self, database: Database, *, static: SingleKey | None, open_until_first_key: bool, clock: Clock | None = None
    ) -> None:
        """`open_until_first_key`: no key is needed until the first one was created."""
        self._database = database
        self._static = static
        self._may_be_open = static is None and open_until_first_key
        self._clock = Clock() if clock is None else clock
        self._threads = ThreadPoolExecutor(N_THREADS, thread_name_prefix="keys")
        # Apart: a write may wait for somebody's lock, and no look-up shall wait for a write.
        self._notes = ThreadPoolExecutor(1, thread_name_prefix="key use")
        self._outage = Outage(self._clock.monotonic)
        self._keys = LookupCache(partial(find_key, database), self._threads, self._outage)
        self._accounts = LookupCache(partial(find_chargeable, database), self._threads, self._outage)
        self._any_key = LookupCache(lambda _: has_keys(database), self._threads, self._outage)

    @override
    async def find(self, offered: Sequence[bytes], account: str | None) -> Grant:
        if len(offered) > MAX_OFFERED:
            raise NotAuthenticated(f"This request carries {len(offered)} API keys: it may carry {MAX_OFFERED} at most.")
        if self._static is not None and self._static.matches(offered):
            return await self._for_everything(account)
        if self._may_be_open and not await self._any_key.get(""):
            return KEYLESS
        # Once a key was needed it stays needed, even if the table is emptied.
        self._may_be_open = False
        if not offered:
            raise NotAuthenticated(NO_KEY)
        good = [record for record in [await self._check(key) for key in offered] if record is not None]
        if not good:
            raise NotAuthenticated(WRONG_KEY)
        self._note_use(good[0])
        return _grant(good[0], account)

    def change_static(self, static: SingleKey | None) -> None:
        """Take another key of the configuration for good. A server that is open stays so without one."""
        self._static = static
        self._may_be_open = self._may_be_open and static is None

    @override
    async def database(self) -> DatabaseState:
        with suppress(Overloaded):
            # A question, at most once a second: nobody else may ask any at the moment.
            await self._any_key.get("")
        since = self._outage.since
        if since is None:
            return "up"
        if self._static is not None or self._clock.monotonic() - since < STALE_SECONDS:
            return "down"
        return "lost"

    @override
    async def aclose(self) -> None:
        await ends_within(CLOSING_SECONDS, self._close)

    def _close(self) -> None:
        for threads in (self._threads, self._notes):
            threads.shutdown()
        self._database.close()

    async def _for_everything(self, account: str | None) -> Grant:
        """The grant of the static key, which is the operator's and may charge any account."""
        if account is None:
            return EVERYTHING
        charged = await self._accounts.get(account)
        if charged is None:
            raise NotPermitted(f"There is no account '{brief(account)}' on this server.")
        return replace(EVERYTHING, account_id=charged.account_id)

    async def _check(self, key: bytes) -> KeyRecord | None:
        """The record of `key`, if the key is right and live."""
        key_id = id_of(key)
        record = None if key_id is None else await self._keys.get(key_id)
        now = self._clock.now()
        if record is None:
            # So that an unknown id takes as long as a wrong secret.
            matches(key, None, None)
            return None
        has_previous = record.previous_until is not None and now < record.previous_until
        is_right = matches(key, record.hash, record.previous_hash if has_previous else None)
        return record if is_right and record.state(now) == "live" else None

    def _note_use(self, record: KeyRecord) -> None:
        """Store that the key was used today, once a day."""
        today = self._clock.now().date()
        if record.last_used is not None and record.last_used >= today:
            return
        self._keys.update(record.id, replace(record, last_used=today))
        self._notes.submit(self._touch, record.id)

    def _touch(self, key_id: str) -> None:
        try:
            touch_key(self._database, key_id, self._clock.now().date())
        except DatabaseDown as error:
            structlog.get_logger().warning("a key's use was not noted", key=key_id, reason=str(error))


def _grant(record: KeyRecord, account: str | None) -> Grant:
    if account not in (None, record.account_id, record.account_name):
        raise NotPermitted(
            f"This API key charges the account {record.account_name!r} ({record.account_id}) and may not charge "
            f"'{brief(str(account))}'."
        )
    return Grant(record.id, record.account_id, record.models, record.limits, priority=record.priority)

"""Whose key it is: what is refused, what a grant holds, and how soon a change takes effect."""

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from afterword.errors import NotAuthenticated, NotPermitted
from afterword.gateway.accounts import create_account
from afterword.gateway.database import Database, open_database
from afterword.gateway.grant import UNLIMITED, Grant, KeyLimits
from afterword.gateway.key import id_of, new_key
from afterword.gateway.key_store import KeyTerms, create_key, find_key, revoke_key, rotate_key
from afterword.gateway.static import EVERYTHING, KEYLESS, SingleKey
from afterword.gateway.stored_keys import Clock, StoredKeys

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
WRONG = "is not the one this server expects"


@dataclass
class Time:
    """A time that tests move."""

    now: datetime = NOW
    passed: float = 0.0
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = Clock(lambda: self.passed, lambda: self.now)

    def move(self, by: timedelta) -> None:
        self.now += by
        self.passed += by.total_seconds()


@pytest.fixture
def time() -> Time:
    return Time()


Opened = Callable[..., StoredKeys]


@pytest.fixture
async def keys(prepared: Path | str, time: Time) -> AsyncIterator[StoredKeys]:
    """The keys of a server that is never open."""
    async with opened(prepared, time) as found:
        yield found


@asynccontextmanager
async def opened(
    where: Path | str, time: Time, *, static: SingleKey | None = None, open_until_first_key: bool = False
) -> AsyncIterator[StoredKeys]:
    found = StoredKeys(open_database(where), static=static, open_until_first_key=open_until_first_key, clock=time.clock)
    yield found
    await found.aclose()


def key_id(key: str) -> str:
    return id_of(key.encode()) or ""


async def refused(finding: Awaitable[Grant]) -> str:
    with pytest.raises(NotAuthenticated) as caught:
        await finding
    return str(caught.value)


async def test_a_good_key_brings_its_account_its_models_and_its_limits(database: Database, keys: StoredKeys) -> None:
    account_id = create_account(database, "research", NOW)
    limits = KeyLimits(requests_per_minute=60)
    key = create_key(database, KeyTerms("a", "research", ["local/echo"], limits), NOW)
    grant = await keys.find([key.encode()], None)
    assert grant == Grant(key_id(key), account_id, frozenset({"local/echo"}), limits)


async def test_without_a_key_it_says_where_to_put_one(keys: StoredKeys) -> None:
    assert (await refused(keys.find([], None))).startswith("This server asks for an API key. Send it as")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda key: b"", id="empty"),
        pytest.param(lambda key: b"sk-something", id="of another kind"),
        pytest.param(lambda key: b"\xff\xfe\x00", id="no text"),
        pytest.param(lambda key: key[:-1], id="cut short"),
        pytest.param(lambda key: new_key(key_id(key.decode())).encode(), id="right id, wrong secret"),
        pytest.param(lambda key: new_key("0" * 12).encode(), id="unknown id"),
        pytest.param(lambda key: b"aw-" + b"0" * 12 + key[15:], id="right secret, wrong id"),
    ],
)
async def test_a_wrong_key_is_refused(database: Database, keys: StoredKeys, change: Callable[[bytes], bytes]) -> None:
    key = create_key(database, KeyTerms("a"), NOW).encode()
    assert WRONG in await refused(keys.find([change(key)], None))


async def test_every_offered_key_costs_two_comparisons_however_wrong_it_is(
    database: Database, keys: StoredKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = create_key(database, KeyTerms("a"), NOW)
    offered = [key, new_key(key_id(key)), new_key("0" * 12), "sk-x"]
    compared: list[int] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(len(one) + len(other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for n_offered, one in enumerate(offered, start=1):
        if one == key:
            await keys.find([one.encode()], None)
        else:
            await refused(keys.find([one.encode()], None))
        assert compared == [64] * 2 * n_offered


async def test_the_first_good_key_counts(database: Database, keys: StoredKeys) -> None:
    one, two = (create_key(database, KeyTerms(name), NOW) for name in ("a", "b"))
    grant = await keys.find([b"wrong", two.encode(), one.encode()], None)
    assert grant.key_id == key_id(two)


async def test_more_keys_than_anybody_needs_are_not_looked_up(keys: StoredKeys) -> None:
    assert await refused(keys.find([b"x"] * 5, None)) == "This request carries 5 API keys: it may carry 4 at most."


async def test_a_key_ends_when_it_expires(database: Database, keys: StoredKeys, time: Time) -> None:
    key = create_key(database, KeyTerms("a", expires=NOW + timedelta(milliseconds=500)), NOW).encode()
    await keys.find([key], None)
    time.move(timedelta(milliseconds=500))
    assert WRONG in await refused(keys.find([key], None))


async def test_a_revoked_key_is_refused_a_second_later(database: Database, keys: StoredKeys, time: Time) -> None:
    key = create_key(database, KeyTerms("a"), NOW)
    await keys.find([key.encode()], None)
    revoke_key(database, "a", NOW)
    time.move(timedelta(seconds=1))
    assert WRONG in await refused(keys.find([key.encode()], None))


async def test_a_new_key_is_good_a_second_after_it_was_unknown(
    database: Database, keys: StoredKeys, time: Time
) -> None:
    old = create_key(database, KeyTerms("a"), NOW)
    new = rotate_key(database, "a", NOW, None)
    assert WRONG in await refused(keys.find([old.encode()], None))
    assert (await keys.find([new.encode()], None)).key_id == key_id(old)


async def test_an_old_secret_is_good_until_its_grace_ends(database: Database, keys: StoredKeys, time: Time) -> None:
    old = create_key(database, KeyTerms("a"), NOW)
    new = rotate_key(database, "a", NOW, NOW + HOUR)
    for key in (old, new):
        assert (await keys.find([key.encode()], None)).key_id == key_id(old)
    time.move(HOUR)
    assert WRONG in await refused(keys.find([old.encode()], None))
    assert (await keys.find([new.encode()], None)).key_id == key_id(old)


async def test_the_account_that_a_client_selects_must_be_the_key_s(database: Database, keys: StoredKeys) -> None:
    account_id = create_account(database, "research", NOW)
    create_account(database, "sales", NOW)
    key = create_key(database, KeyTerms("a", "research"), NOW).encode()
    for account in (None, "research", account_id):
        assert (await keys.find([key], account)).account_id == account_id
    for account in ("sales", "Research", ""):
        with pytest.raises(NotPermitted) as caught:
            await keys.find([key], account)
        assert str(caught.value) == (
            f"This API key charges the account 'research' ({account_id}) and may not charge {account!r}."
        )


async def test_the_static_key_opens_everything_beside_those_of_the_database(
    database: Database, prepared: Path | str, time: Time
) -> None:
    key = create_key(database, KeyTerms("a"), NOW)
    async with opened(prepared, time, static=SingleKey("s"), open_until_first_key=True) as keys:
        assert await keys.find([b"s"], None) == EVERYTHING
        assert (await keys.find([key.encode()], None)).key_id == key_id(key)
        assert WRONG in await refused(keys.find([b"x"], None))
        assert "asks for an API key" in await refused(keys.find([], None))


async def test_the_static_key_may_charge_any_account_there_is(
    database: Database, prepared: Path | str, time: Time
) -> None:
    async with opened(prepared, time, static=SingleKey("s")) as keys:
        assert await keys.find([b"s"], "from elsewhere") == EVERYTHING
        account_id = create_account(database, "sales", NOW)
        time.move(timedelta(seconds=1))
        assert await keys.find([b"s"], "sales") == Grant(None, account_id, None, UNLIMITED)
        with pytest.raises(NotPermitted, match=r"There is no account 'from elsewhere' on this server\."):
            await keys.find([b"s"], "from elsewhere")


async def test_a_server_is_open_until_the_first_key_is_made_and_closed_ever_after(
    database: Database, prepared: Path | str, time: Time
) -> None:
    async with opened(prepared, time, open_until_first_key=True) as keys:
        assert await keys.find([], "anybody") == KEYLESS
        assert await keys.find([b"unused"], None) == KEYLESS
        create_key(database, KeyTerms("a"), NOW)
        time.move(timedelta(seconds=1))
        assert "asks for an API key" in await refused(keys.find([], None))
        revoke_key(database, "a", NOW)
        time.move(timedelta(seconds=1))
        assert "asks for an API key" in await refused(keys.find([], None))


async def test_a_server_whose_only_keys_are_dead_does_not_open(
    database: Database, prepared: Path | str, time: Time
) -> None:
    create_key(database, KeyTerms("a", expires=NOW), NOW)
    async with opened(prepared, time, open_until_first_key=True) as keys:
        assert "asks for an API key" in await refused(keys.find([], None))


async def test_the_day_of_last_use_is_written_once_a_day(database: Database, prepared: Path | str, time: Time) -> None:
    key = create_key(database, KeyTerms("a"), NOW)
    for later, day in ((timedelta(0), 29), (timedelta(hours=11), 29), (timedelta(hours=1), 30)):
        time.move(later)
        async with opened(prepared, time) as keys:
            await keys.find([key.encode()], None)
            await keys.find([key.encode()], None)
        record = find_key(database, key_id(key))
        assert record is not None
        assert record.last_used == date(2026, 11, day)

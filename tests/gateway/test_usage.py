"""The ledger added up."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from afterword.gateway.accounts import create_account
from afterword.gateway.database import Database, open_database
from afterword.gateway.interfaces import UsageRow
from afterword.gateway.key import id_of
from afterword.gateway.key_store import KeyTerms, create_key
from afterword.gateway.ledger import StoredLedger
from afterword.gateway.usage import DIMENSIONS, Dimension, UsageSum, prune_usage, sum_usage

MIDNIGHT = datetime(2026, 11, 30, tzinfo=UTC)
ROW = UsageRow(MIDNIGHT, "r", None, None, None, "local/a", 10, 4, 3, False, ("stop",), 0.1, 200)


async def write(where: Path | str, *rows: UsageRow) -> None:
    ledger = StoredLedger(open_database(where))
    for row in rows:
        ledger.write(row)
    await ledger.aclose()


def counts(sums: Sequence[UsageSum]) -> list[tuple[object, ...]]:
    return [
        (*one.group.values(), one.requests, one.failed, one.prompt_tokens, one.cached_tokens, one.completion_tokens)
        for one in sums
    ]


async def test_a_day_begins_at_midnight_utc_wherever_the_database_is(prepared: Path | str, database: Database) -> None:
    moments = (MIDNIGHT - timedelta(microseconds=1), MIDNIGHT, MIDNIGHT + timedelta(hours=23, minutes=59))
    await write(prepared, *(replace(ROW, time=moment) for moment in moments))
    assert counts(sum_usage(database, ["day"], None, None)) == [
        ("2026-11-29", 1, 0, 10, 4, 3),
        ("2026-11-30", 2, 0, 20, 8, 6),
    ]


async def test_requests_that_failed_are_counted_apart(prepared: Path | str, database: Database) -> None:
    await write(prepared, *(replace(ROW, status=status) for status in (200, 400, 429, 499, 500)))
    assert counts(sum_usage(database, ["model"], None, None)) == [("local/a", 5, 4, 50, 20, 15)]


async def test_gate_02_requests_whose_tokens_are_estimates_are_counted_apart(
    prepared: Path | str, database: Database
) -> None:
    await write(prepared, *(replace(ROW, estimated=estimated) for estimated in (True, False, True)))
    assert [one.estimated for one in sum_usage(database, ["model"], None, None)] == [2]


async def test_keys_have_their_id_and_name_and_accounts_their_name(prepared: Path | str, database: Database) -> None:
    account_id = create_account(database, "sales", MIDNIGHT)
    key_id = id_of(create_key(database, KeyTerms("laptop", "sales"), MIDNIGHT).encode())
    await write(
        prepared,
        replace(ROW, key_id=key_id, account_id=account_id),
        replace(ROW, key_id="gone", account_id="acct_gone"),
        ROW,
    )
    assert [one.group for one in sum_usage(database, ["key"], None, None)] == [
        {"key": None, "key_name": None},
        *sorted(
            [{"key": "gone", "key_name": None}, {"key": key_id, "key_name": "laptop"}],
            key=lambda group: group["key"] or "",
        ),
    ]
    assert [one.group for one in sum_usage(database, ["account"], None, None)] == [
        {"account": None},
        {"account": "acct_gone"},
        {"account": "sales"},
    ]


async def test_sums_are_from_a_moment_to_before_another(prepared: Path | str, database: Database) -> None:
    hour = timedelta(hours=1)
    await write(prepared, *(replace(ROW, time=MIDNIGHT + hour * n, prompt_tokens=2**n) for n in range(4)))
    assert counts(sum_usage(database, [], MIDNIGHT + hour, MIDNIGHT + 3 * hour)) == [(2, 0, 2 + 4, 8, 6)]
    assert counts(sum_usage(database, [], MIDNIGHT + 3 * hour, None)) == [(1, 0, 8, 4, 3)]


def test_an_empty_ledger_sums_to_nothing(database: Database) -> None:
    assert sum_usage(database, ["day", "user"], None, None) == []
    assert counts(sum_usage(database, [], None, None)) == [(0, 0, 0, 0, 0)]


async def test_pruning_removes_what_ended_before(prepared: Path | str, database: Database) -> None:
    await write(prepared, *(replace(ROW, time=MIDNIGHT + timedelta(seconds=n)) for n in (-2, -1, 0, 1)))
    assert prune_usage(database, MIDNIGHT) == 2
    assert prune_usage(database, MIDNIGHT) == 0
    assert counts(sum_usage(database, [], None, None)) == [(2, 0, 20, 8, 6)]


ROWS = st.lists(
    st.builds(
        UsageRow,
        time=st.datetimes(datetime(2026, 1, 1), datetime(2026, 1, 4), timezones=st.just(UTC)),
        request_id=st.just("r"),
        key_id=st.sampled_from([None, "k1", "k2"]),
        account_id=st.sampled_from([None, "a1"]),
        user=st.sampled_from([None, "", "ü"]),
        model=st.sampled_from(["local/a", "up/b"]),
        prompt_tokens=st.integers(0, 2**40),
        cached_tokens=st.integers(0, 9),
        completion_tokens=st.integers(0, 2**40),
        estimated=st.booleans(),
        finish_reasons=st.just(("stop",)),
        latency=st.just(0.0),
        status=st.sampled_from([200, 499]),
    ),
    max_size=20,
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, by=st.lists(st.sampled_from(DIMENSIONS), unique=True))
async def test_however_it_is_grouped_nothing_is_lost_or_counted_twice(
    prepared: Path | str, database: Database, rows: list[UsageRow], by: list[Dimension]
) -> None:
    with database.writing() as connection:
        connection.execute(text("DELETE FROM usage"))
    await write(prepared, *rows)
    sums = sum_usage(database, by, None, None)
    assert sum(one.requests for one in sums) == len(rows)
    assert sum(one.failed for one in sums) == sum(row.status == 499 for row in rows)
    assert sum(one.prompt_tokens for one in sums) == sum(row.prompt_tokens for row in rows)
    assert sum(one.completion_tokens for one in sums) == sum(row.completion_tokens for row in rows)
    groups = {tuple(_facts(row)[dimension] for dimension in by) for row in rows}
    assert len(sums) == (len(groups) if by else 1)


def _facts(row: UsageRow) -> dict[Dimension, object]:
    return {
        "day": row.time.date(),
        "model": row.model,
        "key": row.key_id,
        "account": row.account_id,
        "user": row.user,
    }


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_every_dimension_can_be_asked_for(database: Database, dimension: Dimension) -> None:
    assert sum_usage(database, [dimension], None, None) == []

"""`afterword usage`: the ledger on the terminal."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.cli.conftest import Afterword

from afterword.gateway.database import open_database
from afterword.gateway.interfaces import UsageRow
from afterword.gateway.ledger import StoredLedger

NOW = datetime.now(UTC)
ROW = UsageRow(
    datetime(2026, 11, 28, 12, tzinfo=UTC), "r", None, None, "me", "local/a", 1000, 4, 3, False, ("stop",), 0.1, 200
)


@pytest.fixture
def _ledger(tmp_path: Path) -> None:
    async def write() -> None:
        ledger = StoredLedger(open_database(tmp_path / "afterword.db"))
        ledger.write(ROW)
        ledger.write(replace(ROW, model="local/b", status=499, estimated=True))
        ledger.write(replace(ROW, time=datetime(2026, 11, 29, tzinfo=UTC)))
        await ledger.aclose()

    asyncio.run(write())


@pytest.mark.usefixtures("_ledger")
def test_without_options_usage_is_shown_by_day_and_model_with_a_total(afterword: Afterword) -> None:
    result = afterword("usage")
    assert [line.split() for line in result.stdout.splitlines()] == [
        [
            "Day",
            "Model",
            "Requests",
            "Failed",
            "Prompt",
            "tokens",
            "Cached",
            "tokens",
            "Completion",
            "tokens",
            "Estimated",
        ],
        ["2026-11-28", "local/a", "1", "0", "1,000", "4", "3", "0"],
        ["2026-11-28", "local/b", "1", "1", "1,000", "4", "3", "1"],
        ["2026-11-29", "local/a", "1", "0", "1,000", "4", "3", "0"],
        ["Total", "3", "1", "3,000", "12", "9", "1"],
    ]


@pytest.mark.usefixtures("_ledger")
def test_the_columns_are_those_asked_for(afterword: Afterword) -> None:
    assert afterword("usage", "--by", "user, key", "--format", "csv").stdout == (
        "user,key,key_name,requests,failed,prompt_tokens,cached_tokens,completion_tokens,estimated\nme,,,3,1,3000,12,9,1\n"
    )
    assert json.loads(afterword("usage", "--by", "", "--format", "json").stdout) == [
        {"requests": 3, "failed": 1, "prompt_tokens": 3000, "cached_tokens": 12, "completion_tokens": 9, "estimated": 1}
    ]


@pytest.mark.usefixtures("_ledger")
def test_a_period_begins_with_its_first_day_and_ends_before_the_last(afterword: Afterword) -> None:
    result = afterword("usage", "--since", "2026-11-28", "--until", "2026-11-29", "--by", "day", "--format", "json")
    assert [(row["day"], row["requests"]) for row in json.loads(result.stdout)] == [("2026-11-28", 2)]


@pytest.mark.usefixtures("_ledger")
def test_pruning_says_how_much_went(afterword: Afterword) -> None:
    assert afterword("usage", "prune", "--before", "2026-11-29").stderr == (
        "Removed 2 rows from before 2026-11-29T00:00:00+00:00.\n"
    )
    assert [row["requests"] for row in json.loads(afterword("usage", "--format", "json").stdout)] == [1]


def test_an_empty_ledger_is_an_empty_table(afterword: Afterword) -> None:
    assert afterword("usage", "--format", "csv").stdout == (
        "day,model,requests,failed,prompt_tokens,cached_tokens,completion_tokens,estimated\n"
    )
    assert afterword("usage", "--by", "key", "--format", "csv").stdout.startswith("key,key_name,requests,")
    assert len(afterword("usage").stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--by", "dya"], "--by is 'dya': it must be any of day, model, key, account, user", id="by"),
        pytest.param(["--by", "day,day"], "--by is 'day,day': it must be any of", id="twice"),
        pytest.param(["--since", "monday"], "--since is 'monday': it must be a date", id="since"),
        pytest.param(["prune"], "--before is missing: it says which rows go.", id="prune everything"),
    ],
)
def test_a_refusal_is_one_sentence(afterword: Afterword, arguments: list[str], message: str) -> None:
    result = afterword("usage", *arguments)
    assert result.stderr.startswith(f"Error: {message}")
    assert (result.stderr.count("\n"), result.exit_code) == (1, 2)


def test_a_span_counts_back_from_now(afterword: Afterword, tmp_path: Path) -> None:
    async def write() -> None:
        ledger = StoredLedger(open_database(tmp_path / "afterword.db"))
        for days in (1, 10):
            ledger.write(replace(ROW, time=NOW - timedelta(days=days)))
        await ledger.aclose()

    asyncio.run(write())
    assert [
        row["requests"]
        for row in json.loads(afterword("usage", "--since", "7d", "--by", "", "--format", "json").stdout)
    ] == [1]

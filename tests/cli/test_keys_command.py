"""`afterword keys` and `afterword accounts`: what they print where, and what they refuse."""

import json
import re
from pathlib import Path

import pytest
from tests.cli import terminal
from tests.cli.conftest import Afterword


def test_a_key_is_made_and_alone_on_stdout(afterword: Afterword, tmp_path: Path) -> None:
    result = afterword("keys", "create", "laptop")
    assert re.fullmatch(r"aw-[A-Za-z0-9]{12}-[A-Za-z0-9]{43}\n", result.stdout)
    assert result.stderr.startswith(f"Made the key laptop in {tmp_path / 'afterword.db'} (id ")
    assert "it is not shown again" in result.stderr


def test_the_list_says_everything_but_the_secret(afterword: Afterword) -> None:
    afterword("accounts", "create", "research")
    made = afterword(
        *("keys", "create", "crawler", "--account", "research", "--model", "local/b", "--model", "local/a"),
        *("--expires", "2099-01-01", "--requests-per-minute", "60", "--tokens-per-minute", "40000"),
        *("--concurrent-requests", "4", "--concurrent-tokens", "9000", "--priority", "-5"),
    )
    secret = made.stdout.strip().rpartition("-")[2]
    listed = afterword("keys", "list", "--format", "json")
    assert secret not in listed.stdout
    (row,) = json.loads(listed.stdout)
    assert row.pop("id") in made.stdout
    assert row.pop("created").endswith("+00:00")
    assert row == {
        "name": "crawler",
        "account": "research",
        "state": "live",
        "models": ["local/a", "local/b"],
        "requests_per_minute": 60,
        "tokens_per_minute": 40000,
        "concurrent_requests": 4,
        "concurrent_tokens": 9000,
        "priority": -5,
        "expires": "2099-01-01T00:00:00+00:00",
        "last_used": None,
    }


def test_revoked_keys_are_listed_on_demand(afterword: Afterword) -> None:
    key = afterword("keys", "create", "laptop").stdout.strip()
    revoked = afterword("keys", "revoke", key)
    assert (revoked.exit_code, revoked.stdout) == (0, "")
    assert revoked.stderr.startswith("Revoked the key laptop (")
    assert json.loads(afterword("keys", "list", "--format", "json").stdout) == []
    assert [row["state"] for row in json.loads(afterword("keys", "list", "--all", "--format", "json").stdout)] == [
        "revoked"
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [([], "the old one is worth nothing any more"), (["--grace", "24h"], "the old one is good until 20")],
    ids=["at once", "with a grace"],
)
def test_a_rotated_key_keeps_its_id(afterword: Afterword, options: list[str], said: str) -> None:
    old = afterword("keys", "create", "laptop").stdout.strip()
    result = afterword("keys", "rotate", "laptop", *options)
    new = result.stdout.strip()
    assert new != old
    assert new.split("-")[1] == old.split("-")[1]
    assert said in result.stderr


def test_gate_09_a_second_grace_is_refused_in_a_sentence(afterword: Afterword) -> None:
    afterword("keys", "create", "laptop")
    afterword("keys", "rotate", "laptop", "--grace", "24h")
    result = afterword("keys", "rotate", "laptop", "--grace", "24h")
    assert (result.stdout, result.stderr.count("\n"), result.exit_code) == ("", 1, 1)
    assert "was rotated already, and its secret from before is good until 20" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        pytest.param(["keys", "create", "a b"], "The name of a key is 'a b': it must be 1 to 64", 1, id="name"),
        pytest.param(
            ["keys", "create", "a", "--account", "x"], "There is no account 'x'. Make it with", 1, id="account"
        ),
        pytest.param(
            ["keys", "create", "a", "--model", "echo"], "The model is 'echo': it must be a full", 1, id="model"
        ),
        pytest.param(
            ["keys", "create", "a", "--expires", "soon"], "--expires is 'soon': it must be a date", 2, id="expiry"
        ),
        pytest.param(
            ["keys", "create", "a", "--tokens-per-minute", "0"],
            "--tokens-per-minute is '0': it must be a whole number from 1 to 2147483647.",
            2,
            id="limit",
        ),
        pytest.param(["keys", "revoke", "x"], "There is no live key 'x'. `afterword keys list` shows", 1, id="key"),
        pytest.param(["keys", "rotate", "x", "--grace", "1y"], "--grace is '1y': it must be a date", 2, id="grace"),
        pytest.param(["accounts", "create", "acct_1"], "The name of an account is 'acct_1': only ids", 1, id="prefix"),
        pytest.param(["keys", "list", "--format", "xml"], "--format is 'xml': it must be one of", 2, id="format"),
        pytest.param(["keys", "list", "--database", "none"], "database is none, so there is nothing to", 2, id="none"),
        pytest.param(["keys", "list", "--database", "mysql://h"], "database is a URL of the kind 'mysql'", 2, id="URL"),
    ],
)
def test_a_refusal_is_one_sentence(afterword: Afterword, arguments: list[str], message: str, code: int) -> None:
    result = afterword(*arguments)
    assert result.stderr.startswith(f"Error: {message}")
    assert (result.stdout, result.stderr.count("\n"), result.exit_code) == ("", 1, code)


def test_accounts_are_made_and_listed(afterword: Afterword) -> None:
    made = afterword("accounts", "create", "research")
    assert re.fullmatch(r"acct_[A-Za-z0-9]{12}\n", made.stdout)
    afterword("keys", "create", "a", "--account", made.stdout.strip())
    afterword("keys", "create", "b")
    rows = json.loads(afterword("accounts", "list", "--format", "json").stdout)
    assert [(row["name"], row["live_keys"]) for row in rows] == [("default", 1), ("research", 1)]
    assert rows[1]["id"] == made.stdout.strip()


def test_a_name_is_given_once(afterword: Afterword) -> None:
    afterword("accounts", "create", "research")
    assert afterword("accounts", "create", "research").stderr == "Error: There is an account 'research' already.\n"


@pytest.mark.parametrize("columns", [200, 110, 80, 40])
def test_cli_05_ids_can_be_copied_from_a_terminal(afterword: Afterword, tmp_path: Path, columns: int) -> None:
    limits = ("--requests-per-minute", "60", "--tokens-per-minute", "40000", "--concurrent-requests", "4")
    name = "a-name-of-sixty-four-characters-which-is-the-longest-that-there-"
    key = afterword("keys", "create", name, "--model", "local/a", "--expires", "2099-01-01", *limits).stdout
    listed = terminal.run("keys", "list", folder=tmp_path, terminal=("stdout",), columns=columns)
    assert listed.code == 0
    for whole in (key.split("-")[1], name, "local/a", "2099-01-01T00:00:00+00:00", "40,000"):
        assert whole in listed.terminal.split(), listed.terminal

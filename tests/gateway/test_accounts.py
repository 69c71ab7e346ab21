"""Accounts in the database."""

from datetime import UTC, datetime

import pytest

from afterword.gateway.accounts import (
    AccountRecord,
    Chargeable,
    account_id_of,
    create_account,
    default_account_id,
    find_chargeable,
    list_accounts,
)
from afterword.gateway.database import Database
from afterword.gateway.key_store import KeyTerms, create_key, revoke_key
from afterword.gateway.names import BadName, NoSuchName

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
LATER = datetime(2026, 11, 30, tzinfo=UTC)


def test_accounts_are_listed_by_name_with_their_live_keys(database: Database) -> None:
    sales, art = create_account(database, "sales", NOW), create_account(database, "art", LATER, 10)
    for name in ("a", "b", "c"):
        create_key(database, KeyTerms(name, account="sales", expires=LATER if name == "c" else None), NOW)
    revoke_key(database, "a", NOW)
    assert list_accounts(database, NOW) == [
        AccountRecord(art, "art", LATER, 10, 0),
        AccountRecord(sales, "sales", NOW, 0, 2),
    ]
    assert [record.n_keys for record in list_accounts(database, LATER)] == [0, 1]


def test_a_name_is_given_once(database: Database) -> None:
    create_account(database, "sales", NOW)
    with pytest.raises(BadName, match=r"There is an account 'sales' already\."):
        create_account(database, "sales", NOW)


def test_an_account_is_found_by_name_and_by_id(database: Database) -> None:
    account_id = create_account(database, "sales", NOW)
    assert account_id.startswith("acct_")
    with database.reading() as connection:
        assert account_id_of(connection, "sales") == account_id_of(connection, account_id) == account_id


def test_an_unknown_account_comes_with_near_matches_or_how_to_make_it(database: Database) -> None:
    create_account(database, "sales", NOW)
    with database.reading() as connection:
        with pytest.raises(NoSuchName, match=r"There is no account 'slaes'\. Did you mean sales\?"):
            account_id_of(connection, "slaes")
        with pytest.raises(NoSuchName, match=r"Make it with `afterword accounts create x`\."):
            account_id_of(connection, "x")


def test_the_default_account_is_made_once(database: Database) -> None:
    with database.writing() as connection:
        assert default_account_id(connection, NOW) == default_account_id(connection, LATER)
    assert [record.name for record in list_accounts(database, NOW)] == ["default"]


def test_where_there_are_no_accounts_any_name_charges_nobody(database: Database) -> None:
    assert find_chargeable(database, "theirs") == Chargeable(None)
    account_id = create_account(database, "sales", NOW)
    assert find_chargeable(database, "theirs") is None
    assert find_chargeable(database, "sales") == find_chargeable(database, account_id) == Chargeable(account_id)

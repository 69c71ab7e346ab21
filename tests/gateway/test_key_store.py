"""Keys in the database."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import text

from afterword.gateway.accounts import create_account
from afterword.gateway.database import Database
from afterword.gateway.grant import KeyLimits
from afterword.gateway.key import hash_of, id_of
from afterword.gateway.key_store import (
    KeyTerms,
    OtherRotation,
    create_key,
    find_key,
    has_keys,
    list_keys,
    n_live_keys,
    revoke_key,
    rotate_key,
    touch_key,
)
from afterword.gateway.names import BadName, NoSuchName

NOW = datetime(2026, 11, 29, 12, 30, 15, 123456, tzinfo=UTC)
HOUR = timedelta(hours=1)


def key_id(key: str) -> str:
    found = id_of(key.encode())
    assert found is not None
    return found


def test_a_key_is_stored_as_it_was_asked_for(database: Database) -> None:
    account_id = create_account(database, "research", NOW)
    limits = KeyLimits(60, tokens_per_minute=2**31, concurrent_requests=4, concurrent_tokens=9000)
    terms = KeyTerms("crawler", "research", ["local/b", "local/a", "local/b"], limits, NOW + HOUR)
    key = create_key(database, terms, NOW)
    record = find_key(database, key_id(key))
    assert record is not None
    assert (record.name, record.account_id, record.account_name) == ("crawler", account_id, "research")
    assert record.hash == hash_of(key.encode())
    assert (record.models, record.limits) == (frozenset({"local/a", "local/b"}), limits)
    assert (record.created, record.expires) == (NOW, NOW + HOUR)
    assert (record.previous_hash, record.previous_until, record.revoked, record.last_used) == (None, None, None, None)


@pytest.mark.parametrize(("own", "account", "priority"), [(None, 10, 10), (-3, 10, -3), (0, 10, 0), (None, 0, 0)])
def test_a_key_has_its_own_priority_or_its_account_s(
    database: Database, own: int | None, account: int, priority: int
) -> None:
    create_account(database, "research", NOW, account)
    key = create_key(database, KeyTerms("a", "research", priority=own), NOW)
    record = find_key(database, key_id(key))
    assert record is not None
    assert record.priority == priority


def test_the_key_itself_is_nowhere_in_the_database(database: Database) -> None:
    key = create_key(database, KeyTerms("a"), NOW)
    with database.reading() as connection:
        stored = repr(connection.execute(text("SELECT * FROM keys")).all())
    assert key_id(key) in stored
    assert key.rpartition("-")[2] not in stored


def test_without_terms_a_key_may_do_everything_for_the_default_account(database: Database) -> None:
    record = find_key(database, key_id(create_key(database, KeyTerms("a"), NOW)))
    assert record is not None
    assert (record.account_name, record.models, record.limits, record.expires) == ("default", None, KeyLimits(), None)


@pytest.mark.parametrize(
    ("terms", "error", "message"),
    [
        pytest.param(KeyTerms("a b"), BadName, "The name of a key is 'a b'", id="name"),
        pytest.param(KeyTerms("a", models=["echo"]), BadName, "The model is 'echo'", id="model"),
        pytest.param(KeyTerms("a", account="x"), NoSuchName, "There is no account 'x'", id="account"),
    ],
)
def test_a_key_that_cannot_be_is_not_made(
    database: Database, terms: KeyTerms, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        create_key(database, terms, NOW)
    assert list_keys(database) == []


def test_the_state_of_a_key_follows_from_the_time_and_from_revocation(database: Database) -> None:
    key = create_key(database, KeyTerms("a", expires=NOW + HOUR), NOW)
    record = find_key(database, key_id(key))
    assert record is not None
    assert [record.state(NOW + HOUR * n) for n in (0, 1, 2)] == ["live", "expired", "expired"]
    revoke_key(database, "a", NOW)
    record = find_key(database, key_id(key))
    assert record is not None
    assert (record.state(NOW), record.revoked) == ("revoked", NOW)


def test_live_keys_are_counted_and_dead_ones_remembered(database: Database) -> None:
    assert (n_live_keys(database, NOW), has_keys(database)) == (0, False)
    create_key(database, KeyTerms("a"), NOW)
    create_key(database, KeyTerms("b", expires=NOW + HOUR), NOW)
    assert [n_live_keys(database, NOW), n_live_keys(database, NOW + HOUR)] == [2, 1]
    revoke_key(database, "a", NOW)
    assert (n_live_keys(database, NOW + HOUR), has_keys(database)) == (0, True)


def test_a_key_is_revoked_by_id_by_name_and_by_itself(database: Database) -> None:
    keys = [create_key(database, KeyTerms(name), NOW) for name in ("a", "b", "c")]
    for name in (key_id(keys[0]), "b", keys[2]):
        revoke_key(database, name, NOW)
    assert n_live_keys(database, NOW) == 0


def test_revoking_twice_keeps_the_first_time(database: Database) -> None:
    key = create_key(database, KeyTerms("a"), NOW)
    revoke_key(database, key, NOW)
    revoke_key(database, key, NOW + HOUR)
    assert [record.revoked for record in list_keys(database)] == [NOW]


def test_revoking_ends_the_grace_of_an_old_secret(database: Database) -> None:
    create_key(database, KeyTerms("a"), NOW)
    rotate_key(database, "a", NOW, NOW + HOUR)
    revoke_key(database, "a", NOW)
    assert [(record.previous_hash, record.previous_until) for record in list_keys(database)] == [(None, None)]


def test_a_name_that_several_live_keys_have_needs_an_id(database: Database) -> None:
    ids = sorted(key_id(create_key(database, KeyTerms("a"), NOW)) for _ in range(2))
    with pytest.raises(NoSuchName) as caught:
        revoke_key(database, "a", NOW)
    assert str(caught.value) == f"2 live keys are called 'a': say which by its id, one of {', '.join(ids)}."
    revoke_key(database, ids[0], NOW)
    assert revoke_key(database, "a", NOW).id == ids[1]


def test_an_unknown_key_comes_with_near_matches(database: Database) -> None:
    create_key(database, KeyTerms("laptop"), NOW)
    with pytest.raises(NoSuchName, match=r"There is no live key 'latop'\. Did you mean laptop\?"):
        revoke_key(database, "latop", NOW)
    with pytest.raises(NoSuchName, match="`afterword keys list` shows those there are"):
        revoke_key(database, "x", NOW)


@pytest.mark.parametrize("until", [None, NOW + HOUR], ids=["at once", "with a grace"])
def test_a_rotated_key_has_a_new_secret_and_is_the_same_otherwise(database: Database, until: datetime | None) -> None:
    old = create_key(database, KeyTerms("a", models=["local/a"], limits=KeyLimits(1, 2, 3)), NOW)
    before = find_key(database, key_id(old))
    new = rotate_key(database, "a", NOW, until)
    after = find_key(database, key_id(new))
    assert before is not None
    assert after is not None
    assert new != old
    assert after.hash == hash_of(new.encode())
    assert (after.previous_hash, after.previous_until) == (None if until is None else hash_of(old.encode()), until)
    assert (after.id, after.account_id, after.models, after.limits) == (
        before.id,
        before.account_id,
        before.models,
        before.limits,
    )


def test_a_dead_key_is_not_rotated(database: Database) -> None:
    key = create_key(database, KeyTerms("a"), NOW)
    revoke_key(database, key, NOW)
    with pytest.raises(NoSuchName, match=r"\(a\) is revoked: make a new one instead"):
        rotate_key(database, key, NOW, None)


def test_gate_09_a_secret_is_good_until_the_time_that_its_rotation_has_promised(database: Database) -> None:
    old = create_key(database, KeyTerms("a"), NOW)
    rotate_key(database, "a", NOW, NOW + 2 * HOUR)
    before = find_key(database, key_id(old))
    with pytest.raises(OtherRotation, match=r"\(a\) was rotated already, .* is good until 2026-11-29T14:30:15\+00:00"):
        rotate_key(database, "a", NOW + HOUR, NOW + 5 * HOUR)
    assert find_key(database, key_id(old)) == before
    new = rotate_key(database, "a", NOW + 2 * HOUR, NOW + 5 * HOUR)
    after = find_key(database, key_id(old))
    assert before is not None
    assert after is not None
    assert (after.hash, after.previous_hash, after.previous_until) == (
        hash_of(new.encode()),
        before.hash,
        NOW + 5 * HOUR,
    )


def test_gate_09_a_rotation_without_a_grace_ends_both_old_secrets(database: Database) -> None:
    create_key(database, KeyTerms("a"), NOW)
    rotate_key(database, "a", NOW, NOW + HOUR)
    new = rotate_key(database, "a", NOW, None)
    record = find_key(database, key_id(new))
    assert record is not None
    assert (record.hash, record.previous_hash, record.previous_until) == (hash_of(new.encode()), None, None)


@pytest.mark.parametrize("grace", [HOUR, None], ids=["with a grace", "at once"])
def test_gate_09_of_rotations_at_once_each_has_succeeded_or_said_that_it_has_not(
    database: Database, grace: timedelta | None
) -> None:
    old = create_key(database, KeyTerms("a"), NOW)
    until = None if grace is None else NOW + grace

    def rotate(_: int) -> str | None:
        try:
            return rotate_key(database, "a", NOW, until)
        except OtherRotation:
            return None

    with ThreadPoolExecutor(4) as threads:
        made = [text for text in threads.map(rotate, range(4)) if text is not None]
    record = find_key(database, key_id(old))
    assert record is not None
    assert record.hash in [hash_of(text.encode()) for text in made]
    if grace is not None:
        assert (len(made), record.previous_hash) == (1, hash_of(old.encode()))


def test_the_day_of_last_use_only_moves_forward(database: Database) -> None:
    key = key_id(create_key(database, KeyTerms("a"), NOW))
    for day in (2, 3, 1):
        touch_key(database, key, date(2026, 11, day))
    assert [record.last_used for record in list_keys(database)] == [date(2026, 11, 3)]


def test_keys_are_listed_by_account_and_name(database: Database) -> None:
    create_account(database, "a-team", NOW)
    for name, account in (("z", "a-team"), ("b", None), ("a", None)):
        create_key(database, KeyTerms(name, account), NOW)
    assert [(record.account_name, record.name) for record in list_keys(database)] == [
        ("a-team", "z"),
        ("default", "a"),
        ("default", "b"),
    ]

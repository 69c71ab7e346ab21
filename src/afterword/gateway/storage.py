"""The keys and the ledger of a server that has a database."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from afterword.gateway.database import open_database
from afterword.gateway.key_store import n_live_keys
from afterword.gateway.ledger import StoredLedger
from afterword.gateway.static import SingleKey
from afterword.gateway.stored_keys import StoredKeys


def count_live_keys(where: Path | str) -> int:
    """How many keys are good now, in a database that is brought up to date first. Raises `ConfigurationError`."""
    with closing(open_database(where)) as database:
        return n_live_keys(database, datetime.now(UTC))


def open_storage(
    where: Path | str, static: SingleKey | None, *, open_until_first_key: bool
) -> tuple[StoredKeys, StoredLedger]:
    """Keys and ledger, each with connections of its own, which it closes. Raises `ConfigurationError`.

    `open_until_first_key`: see `StoredKeys`.
    """
    keys = StoredKeys(open_database(where), static=static, open_until_first_key=open_until_first_key)
    return keys, StoredLedger(open_database(where))

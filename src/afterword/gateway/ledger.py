"""The usage ledger in the database: rows are queued by requests and written by one thread, in batches.

A row is on disk within a second of its request's end while the database works. While it does not, rows wait in memory,
up to a limit; further ones are dropped and counted in the log. A row is never written twice: each has the process's own
random id and a number, so a batch can be sent again if it is unknown whether its commit happened.
"""

import asyncio
import secrets
import threading
import time
from collections import deque
from dataclasses import replace
from typing import Any

import structlog
from typing_extensions import override

from afterword.gateway.database import Database, DatabaseDown
from afterword.gateway.interfaces import Ledger, UsageRow
from afterword.gateway.schema import UsageTable, insert_new

LINGER_SECONDS = 0.5
"""How long a first row waits for others to be committed with it."""

MAX_BATCH = 500
"""Rows of one commit at most; when so many wait they are written at once."""

MAX_WAITING = 100_000
"""Rows that wait in memory before new ones are dropped: some 60 MB, twice that where each has the longest `user`."""

RETRY_SECONDS = 1.0
"""Between attempts while the database is down."""

CLOSING_SECONDS = 10.0
"""How long `aclose` tries to reach a database that is down."""

MAX_USER = 512
"""Characters kept of a request's `user`."""

_Numbered = tuple[int, UsageRow]


class StoredLedger(Ledger):
    """The ledger in a database, which it closes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = secrets.token_hex(8)
        self._changed = threading.Condition()
        self._waiting: deque[_Numbered] = deque()
        self._n_taken = 0
        self._n_dropped = 0
        self._closing_until: float | None = None
        """`time.monotonic()` at which to give up; None while open."""
        self._has_ended = False
        """The thread takes no more rows."""
        self._thread = threading.Thread(target=self._run, name="ledger", daemon=True)
        self._thread.start()

    @override
    def write(self, row: UsageRow) -> None:
        """Queue the row, from any thread; takes microseconds."""
        if row.user is not None and len(row.user) > MAX_USER:
            row = replace(row, user=row.user[:MAX_USER])
        with self._changed:
            if self._has_ended:
                # The request outlived the time that a shutdown has.
                structlog.get_logger().error("a usage row came too late", request_id=row.request_id)
                return
            if len(self._waiting) >= MAX_WAITING:
                self._n_dropped += 1
                return
            self._waiting.append((self._n_taken, row))
            self._n_taken += 1
            if len(self._waiting) in (1, MAX_BATCH):
                self._changed.notify()

    @override
    async def aclose(self) -> None:
        with self._changed:
            if self._closing_until is None:
                self._closing_until = time.monotonic() + CLOSING_SECONDS
            self._changed.notify()
        await asyncio.to_thread(self._thread.join)
        self._database.close()

    def _run(self) -> None:
        while batch := self._next_batch():
            self._store(batch)
            self._report_dropped()
        self._report_dropped()

    def _next_batch(self) -> list[_Numbered]:
        """The next rows to commit, once some have waited for `LINGER_SECONDS`; empty when closed and all is written."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing_until is not None)
            self._changed.wait_for(
                lambda: len(self._waiting) >= MAX_BATCH or self._closing_until is not None, LINGER_SECONDS
            )
            self._has_ended = not self._waiting
            return [self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))]

    def _store(self, batch: list[_Numbered]) -> None:
        """Commit a batch, trying for as long as the database is down, except that closing has a time limit."""
        is_down = False
        while True:
            try:
                self._insert(batch)
            except DatabaseDown as error:
                if not is_down:
                    structlog.get_logger().warning("usage cannot be written", reason=str(error), rows=len(batch))
                is_down = True
                self._report_dropped()
                if not self._may_try_again():
                    self._drop(len(batch))
                    return
            except Exception as error:
                # Of any kind: one row that cannot be stored must not end the thread.
                self._store_one_by_one(batch, error)
                return
            else:
                if is_down:
                    structlog.get_logger().info("usage is written again")
                return

    def _store_one_by_one(self, batch: list[_Numbered], error: Exception) -> None:
        """The database refuses the batch: store the rows singly, so that only the bad one is lost."""
        if len(batch) > 1:
            for one in batch:
                self._store([one])
            return
        structlog.get_logger().error("a usage row was refused", request_id=batch[0][1].request_id, reason=str(error))

    def _may_try_again(self) -> bool:
        """Wait before the next attempt, within the time limit of closing; whether there is time for one."""
        with self._changed:
            if self._closing_until is None:
                self._changed.wait_for(lambda: self._closing_until is not None, RETRY_SECONDS)
                return True
            left = self._closing_until - time.monotonic()
        time.sleep(max(0.0, min(RETRY_SECONDS, left)))
        return left > 0

    def _insert(self, batch: list[_Numbered]) -> None:
        rows = [_columns(row, self._writer, number) for number, row in batch]
        with self._database.writing() as connection:
            connection.execute(insert_new(UsageTable, self._database.dialect), rows)

    def _drop(self, n_rows: int) -> None:
        with self._changed:
            self._n_dropped += n_rows

    def _report_dropped(self) -> None:
        with self._changed:
            n_dropped, self._n_dropped = self._n_dropped, 0
        if n_dropped > 0:
            structlog.get_logger().error("usage rows were dropped", rows=n_dropped)


def _columns(row: UsageRow, writer: str, number: int) -> dict[str, Any]:
    return {
        "writer": writer,
        "number": number,
        "time": row.time,
        "request_id": row.request_id,
        "key_id": row.key_id,
        "account_id": row.account_id,
        "user": None if row.user is None else _storable(row.user),
        "model": _storable(row.model),
        "prompt_tokens": row.prompt_tokens,
        "cached_tokens": row.cached_tokens,
        "completion_tokens": row.completion_tokens,
        "estimated": row.estimated,
        "finish_reasons": list(row.finish_reasons),
        "latency": row.latency,
        "status": row.status,
    }


def _storable(text: str) -> str:
    """The text without characters that databases refuse: NUL, and halves of surrogate pairs."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")

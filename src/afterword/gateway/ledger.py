"""The usage ledger in the database: rows are queued by requests and written by one thread, in batches.

A row is on disk within a second of its request's end while the database works. While it does not, rows wait in memory,
up to a limit. Rows that are lost in the end are counted, in the log and in `backlog`. A row is never written twice:
each has the process's own random id and a number, so a batch can be sent again if it is unknown whether its commit
happened.
"""

import secrets
import threading
import time
from collections import deque
from dataclasses import replace
from typing import Any

import structlog
from typing_extensions import override

from afterword.gateway.bounded_wait import ends_within
from afterword.gateway.database import Database, DatabaseDown
from afterword.gateway.interfaces import Backlog, Ledger, UsageRow
from afterword.gateway.schema import UsageTable, insert_new

LINGER_SECONDS = 0.5
"""How long a first row waits for others to be committed with it."""

MAX_BATCH = 500
"""Rows of one commit at most; when so many wait they are written at once."""

MAX_WAITING = 100_000
"""Rows that wait in memory before new ones are dropped: some 60 MB, twice that where each has the longest `user`."""

RETRY_SECONDS = 1.0
"""Between attempts while the database is down."""

STUCK_SECONDS = 5.0
"""A batch that takes so long is stuck."""

REPORT_SECONDS = 10.0
"""Between two lines about rows that were lost."""

CLOSING_SECONDS = 10.0
"""How long `aclose` tries to write what is left, however the database is."""

LAST_SECONDS = 1.0
"""How much longer it waits for the thread to end."""

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
        self._n_writing = 0
        """Rows of the batch that is being written."""
        self._n_lost = 0
        self._n_reported = 0
        """Of those."""
        self._next_report = 0.0
        self._last_good = time.monotonic()
        """When nothing waited, or a batch was written."""
        self._is_down = False
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
                self._n_lost += 1
                self._n_reported += 1
                structlog.get_logger().error("a usage row came too late", request_id=row.request_id)
                return
            if self._n_taken_not_stored == 0:
                self._last_good = time.monotonic()
            elif not self._is_down and time.monotonic() - self._last_good > STUCK_SECONDS:
                self._say_down(f"no answer within {STUCK_SECONDS:g} s")
            if len(self._waiting) >= MAX_WAITING:
                self._lose(1)
                return
            self._waiting.append((self._n_taken, row))
            self._n_taken += 1
            if len(self._waiting) in (1, MAX_BATCH):
                self._changed.notify()

    @property
    @override
    def backlog(self) -> Backlog:
        with self._changed:
            n_waiting = self._n_taken_not_stored
            is_late = n_waiting > 0 and time.monotonic() - self._last_good > STUCK_SECONDS
            return Backlog(n_waiting, self._n_lost, is_stuck=self._is_down or is_late)

    @override
    def end_now(self, seconds: float) -> int:
        self._begin_closing(seconds)
        self._thread.join(seconds)
        with self._changed:
            return self._n_taken_not_stored

    @override
    async def aclose(self) -> None:
        self._begin_closing(CLOSING_SECONDS)
        if not await ends_within(CLOSING_SECONDS + LAST_SECONDS, self._thread.join):
            with self._changed:
                # Whether those that are being written will be is not known.
                self._has_ended = True
                self._lose(self._n_taken_not_stored)
                self._waiting.clear()
                self._report_lost()

    def _begin_closing(self, seconds: float) -> None:
        with self._changed:
            until = time.monotonic() + seconds
            self._closing_until = until if self._closing_until is None else min(until, self._closing_until)
            self._changed.notify()

    @property
    def _n_taken_not_stored(self) -> int:
        return len(self._waiting) + self._n_writing

    def _run(self) -> None:
        while batch := self._next_batch():
            self._store(batch)
            with self._changed:
                self._n_writing = 0
                self._last_good = time.monotonic()
        with self._changed:
            self._report_lost()
        self._database.close()

    def _next_batch(self) -> list[_Numbered]:
        """The next rows to commit, once some have waited for `LINGER_SECONDS`; empty when closed and all is written."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing_until is not None)
            self._changed.wait_for(
                lambda: len(self._waiting) >= MAX_BATCH or self._closing_until is not None, LINGER_SECONDS
            )
            if self._is_over:
                self._lose(len(self._waiting))
                self._waiting.clear()
            self._has_ended = not self._waiting
            batch = [self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))]
            self._n_writing = len(batch)
            return batch

    def _store(self, batch: list[_Numbered]) -> None:
        """Commit a batch, trying for as long as the database is down, except that closing has a time limit."""
        while True:
            try:
                self._insert(batch)
            except DatabaseDown as error:
                with self._changed:
                    self._say_down(str(error))
                if not self._may_try_again():
                    with self._changed:
                        self._lose(len(batch))
                    return
            except Exception as error:
                # Of any kind: one row that cannot be stored must not end the thread.
                self._store_one_by_one(batch, error)
                return
            else:
                with self._changed:
                    if self._is_down:
                        structlog.get_logger().info("usage is written again")
                    self._is_down = False
                return

    def _store_one_by_one(self, batch: list[_Numbered], error: Exception) -> None:
        """The database refuses the batch: store the rows singly, so that only the bad one is lost."""
        if len(batch) > 1:
            for one in batch:
                self._store([one])
            return
        with self._changed:
            self._n_lost += 1
            self._n_reported += 1
        structlog.get_logger().error("a usage row was refused", request_id=batch[0][1].request_id, reason=str(error))

    def _may_try_again(self) -> bool:
        """Wait before the next attempt, within the time limit of closing; whether there is time for one."""
        with self._changed:
            if self._closing_until is None:
                self._changed.wait_for(lambda: self._closing_until is not None, RETRY_SECONDS)
                return True
            left = self._closing_until - time.monotonic()
        time.sleep(max(0.0, min(RETRY_SECONDS, left)))
        return not self._is_over

    @property
    def _is_over(self) -> bool:
        """Closing has taken its time."""
        return self._closing_until is not None and time.monotonic() >= self._closing_until

    def _insert(self, batch: list[_Numbered]) -> None:
        rows = [_columns(row, self._writer, number) for number, row in batch]
        with self._database.writing() as connection:
            connection.execute(insert_new(UsageTable, self._database.dialect), rows)

    # Under the condition:

    def _say_down(self, reason: str) -> None:
        """The database takes no rows, which is logged once, until it does again."""
        if not self._is_down:
            structlog.get_logger().warning("usage cannot be written", reason=reason, rows=self._n_taken_not_stored)
        self._is_down = True

    def _lose(self, n_rows: int) -> None:
        """Count rows that will not be written; they are in the log within some seconds."""
        self._n_lost += n_rows
        if time.monotonic() >= self._next_report:
            self._report_lost()

    def _report_lost(self) -> None:
        n_lost, self._n_reported = self._n_lost - self._n_reported, self._n_lost
        self._next_report = time.monotonic() + REPORT_SECONDS
        if n_lost > 0:
            structlog.get_logger().error("usage rows were dropped", rows=n_lost)


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

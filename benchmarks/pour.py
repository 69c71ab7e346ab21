"""A client that takes answers as fast as one core can, and counts. Run by `overhead.py` in a process of its own.

    python -m benchmarks.pour PORT CORE KIND CONNECTIONS SECONDS MAX_TOKENS      (KIND: stream or answer)

Prints one JSON object. Bodies are counted, not parsed: the client must not be what limits the server, and
`client_busy`, the part of the time in which it computed, shows that it was not.
"""

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass, replace
from typing import cast

import uvloop
from benchmarks.client import request_bytes
from httptools import HttpResponseParser


@dataclass(slots=True)
class Count:
    """What has arrived on all connections."""

    n_answers: int = 0
    n_refused: int = 0
    n_events: int = 0
    n_bytes: int = 0


class Tap(asyncio.Protocol):
    """One connection on which the same request is sent again whenever its answer is whole."""

    def __init__(self, request: bytes, count: Count) -> None:
        self._request = request
        self._count = count
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        # uvloop's transports have the methods, but not the class.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._count.n_bytes += len(data)
        self._count.n_events += data.count(b"data: {")
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        """Count an answer and ask again."""
        if self._parser.get_status_code() != 200:
            self._count.n_refused += 1
            return
        self._count.n_answers += 1
        self._parser = HttpResponseParser(self)
        assert self._transport is not None
        self._transport.write(self._request)


async def pour(port: int, body: dict[str, object], connections: int, seconds: float) -> dict[str, float]:
    """Ask on all connections for that long; what came a second, after the first tenth of the time."""
    count = Count()
    request = request_bytes(port, "POST", "/v1/completions", json.dumps(body).encode())
    loop = asyncio.get_running_loop()
    taps = [await loop.create_connection(lambda: Tap(request, count), "127.0.0.1", port) for _ in range(connections)]
    await asyncio.sleep(seconds / 10)
    before = replace(count)
    started, computed = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    passed = time.perf_counter() - started
    rates = {
        "answers_per_s": (count.n_answers - before.n_answers) / passed,
        "events_per_s": (count.n_events - before.n_events) / passed,
        "mib_per_s": (count.n_bytes - before.n_bytes) / 2**20 / passed,
        "client_busy": (time.process_time() - computed) / passed,
    }
    for transport, _ in taps:
        transport.close()
    if count.n_refused > 0 or count.n_bytes == 0:
        raise SystemExit(f"{count.n_refused} requests were refused, {count.n_bytes} bytes came")
    return rates


def main() -> None:
    port, core, kind, connections, seconds, max_tokens = sys.argv[1:]
    os.sched_setaffinity(0, {int(core)})
    body: dict[str, object] = {"prompt": "the quick brown fox ", "max_tokens": int(max_tokens), "temperature": 0}
    if kind == "stream":
        body["stream"] = True
    print(json.dumps(uvloop.run(pour(int(port), body, int(connections), float(seconds)))))


if __name__ == "__main__":
    main()

"""Whether anything that a client can send makes the server fail: nearly right bodies, then nearly right HTTP/1.1.

    python -m benchmarks.fuzz [--bodies N] [--streams N] [--seed N] [--model NAME]

Sends them to a server on loopback, sixteen at a time, and looks at every answer: its status is one that
docs/rules.md#statuses has and not 500, it is JSON or events of JSON, and it comes within a minute; the process stays
the same and its memory within a budget. Prints what broke that, and the figures of docs/reliability.md; the exit code
is 1 if anything did. The same seed sends the same.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from benchmarks.mutations import Request, request, stream
from benchmarks.own_server import OwnServer, serving
from httptools import HttpParserError, HttpResponseParser

AT_ONCE = 16
CONTEXT = 512
"""Tokens, so that no answer is long."""
QUIET = ("--database", "none", "--log-level", "error")

SILENCE = 0.2
"""Seconds after which a connection is not expected to bring more."""

SECONDS = 60
"""An answer that takes longer counts as a hang."""

BUDGET = 256 * 2**20
"""Bytes that the server may take beyond what it has at the start: a few bodies, and what they are read into."""

KNOWN = frozenset({100, 200, 400, 401, 403, 404, 405, 408, 413, 415, 429, 431, 503, 504})
"""Statuses of docs/rules.md#statuses, without the one for faults of the server."""

MOST_SHOWN = 20


@dataclass(slots=True)
class Found:
    """What came of what was sent."""

    statuses: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    slowest: float = 0.0
    most_bytes: int = 0


class Answers:
    """What a server sends on one connection, as the parser of answers sees it. Raises `HttpParserError` for others."""

    def __init__(self) -> None:
        self.whole: list[tuple[int, bytes]] = []
        self._body = bytearray()
        self._parser = HttpResponseParser(self)

    def take(self, data: bytes) -> None:
        """What came."""
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        """Another one begins."""
        self._body = bytearray()

    def on_body(self, data: bytes) -> None:
        """A part of a body."""
        self._body += data

    def on_message_complete(self) -> None:
        """One is whole."""
        self.whole.append((self._parser.get_status_code(), bytes(self._body)))


async def send_body(server: OwnServer, sent: Request, found: Found) -> None:
    """Send a request and look at its one answer."""
    data = await talk(server.port, sent.as_bytes("Connection: close\r\n"))
    answers = Answers()
    answers.take(data)
    if not answers.whole:
        raise ValueError(f"no whole answer: {data[:200]!r}")
    status, body = answers.whole[-1]
    found.statuses[str(status)] += 1
    if status not in KNOWN:
        raise ValueError(f"status {status}: {body[:300]!r}")
    check_body(status, body)


def check_body(status: int, body: bytes) -> None:
    """Raise `ValueError` for a body that is neither JSON nor events of JSON, or a refusal in another form."""
    if body.startswith((b"data: ", b": ", b"event: ")):
        lines = [line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: ")]
        events = [json.loads(line) for line in lines if line != b"[DONE]"]
        if lines[-1] != b"[DONE]" and "error" not in events[-1]:
            raise ValueError(f"a stream without an end: {body[-200:]!r}")
        if any(event.get("error", {}).get("type") == "server_error" for event in events):
            raise ValueError(f"a stream that failed: {body[-300:]!r}")
    elif status != 200 and list(json.loads(body)["error"]) != ["message", "type", "param", "code"]:
        raise ValueError(f"a refusal in another form: {body[:300]!r}")
    elif status == 200:
        json.loads(body)


async def send_stream(server: OwnServer, sent: bytes, found: Found) -> None:
    """Send bytes, end them, and look at whatever comes back until the connection is closed."""
    data = await talk(server.port, sent, SILENCE)
    # Frames of HTTP/2 are for a client that has begun with it.
    if not data.startswith(b"HTTP/"):
        found.statuses["frames" if data else "closed"] += 1
        return
    answers = Answers()
    try:
        answers.take(data)
    except HttpParserError:
        # The parser knows what was asked for with HEAD and CONNECT as little as this does, so it may lose its place.
        if not any(method in sent for method in (b"HEAD", b"CONNECT", b"OPTIONS", b"TRACE")):
            raise ValueError(f"no HTTP: {data[:300]!r}") from None
    for status, _ in answers.whole:
        found.statuses[str(status)] += 1
        if status not in KNOWN:
            raise ValueError(f"status {status}: {data[:300]!r}")


async def talk(port: int, sent: bytes, silence: float = SECONDS) -> bytes:
    """Everything that is answered until the connection is closed; after so many seconds of silence we end our side."""
    received = bytearray()
    async with asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(sent)
            with suppress(TimeoutError):
                while piece := await asyncio.wait_for(reader.read(1 << 16), silence):
                    received += piece
            if not reader.at_eof():
                writer.write_eof()
            return bytes(received + await reader.read(-1))
        finally:
            writer.transport.abort()


Send = Callable[[OwnServer, Any, Found], Coroutine[Any, Any, None]]


async def send_all(server: OwnServer, make: Callable[[random.Random], Any], send: Send, n: int, seed: int) -> Found:
    """Send `n` of what `make` makes, some at a time."""
    found = Found()
    numbers = iter(range(n))
    at_first = server.resident_bytes

    async def run() -> None:
        for number in numbers:
            sent = make(random.Random(f"{seed} {number}"))
            began = time.perf_counter()
            try:
                await send(server, sent, found)
            except (ValueError, KeyError, IndexError, OSError, TimeoutError, HttpParserError) as error:
                found.problems.append(f"{number}: {type(error).__name__}: {error}; sent {str(sent)[:600]}")
            found.slowest = max(found.slowest, time.perf_counter() - began)
            if number % 50 == 0:
                found.most_bytes = max(found.most_bytes, server.resident_bytes - at_first)

    await asyncio.gather(*(run() for _ in range(AT_ONCE)))
    if found.most_bytes > BUDGET:
        found.problems.append(f"the server took {found.most_bytes / 2**20:.0f} MiB more")
    return found


def report(name: str, n: int, found: Found, seconds: float) -> bool:
    """Print the figures and what broke the rules; whether nothing did."""
    statuses = ", ".join(f"{n} x {status}" for status, n in sorted(found.statuses.items()))
    print(
        f"{n} {name} in {seconds:.0f} s: {statuses}; the slowest answer took {found.slowest:.2f} s; "
        f"{found.most_bytes / 2**20:.0f} MiB more memory at most; {len(found.problems)} problems",
        flush=True,
    )
    for problem in found.problems[:MOST_SHOWN]:
        print("  " + problem)
    return not found.problems


async def measure(n_bodies: int, n_streams: int, seed: int, model: str) -> bool:
    """Send both kinds to one server; whether it kept to everything."""
    good = True
    async with serving("--model", model, "--context", str(CONTEXT), *QUIET) as server:
        children = server.children
        kinds: tuple[tuple[str, int, Callable[[random.Random], Any], Send], ...] = (
            ("bodies", n_bodies, request, send_body),
            ("byte streams", n_streams, stream, send_stream),
        )
        for name, n, make, send in kinds:
            began = time.perf_counter()
            found = await send_all(server, make, send, n, seed)
            good &= report(name, n, found, time.perf_counter() - began)
        health = (await server.http.get("/ready")).status_code
        # Others, such as the one that compiles grammars, come when they are needed.
        if health != 200 or not set(children) <= set(server.children):
            print(f"  /ready says {health}; the processes of the model were {children}, and are {server.children}")
            good = False
    return good


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bodies", type=int, default=100_000)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="echo", help="echo, or a GGUF file")
    options = parser.parse_args()
    sys.exit(0 if asyncio.run(measure(options.bodies, options.streams, options.seed, options.model)) else 1)


if __name__ == "__main__":
    main()

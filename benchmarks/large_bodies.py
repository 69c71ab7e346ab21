"""What other clients notice while one sends large bodies, or holds a thousand silent connections.

    python -m benchmarks.large_bodies [--model FILE] [--only TEXT] [--seconds N] [--check]

Starts a server on loopback. For each body one client sends it again and again for N seconds (5), on a thread, while
`/health` and answers of one token are asked for, each on a new connection. Prints a row of the table in
docs/reliability.md for each; with --check the exit code is 1 if a 99th percentile misses its limit, without the time
that the threads which answer had to wait for a processor: that is what the machine does besides.
"""

import argparse
import asyncio
import gzip
import os
import resource
import socket
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
from benchmarks.client import request_bytes
from benchmarks.own_server import OwnServer, percentile, serving

MOST_HEALTH_MS = 100
MOST_TOKEN_MS = 1000
"""What the 99th percentile may come to."""

MORE_TRIES = 2
"""A limit that is missed is looked at again: what the machine does besides comes and goes, a fault stays."""

PAUSE = 0.02
"""Seconds between two questions of one kind."""

SOCKETS = 1000
DESCRIPTORS = 1024

MIB = 2**20
LARGEST = 11 * MIB
"""A body of this size is read; larger ones than `max_body_bytes` are thrown away as they come."""
COMPLETIONS = "/v1/completions"


@dataclass(frozen=True, slots=True)
class Body:
    """What one client sends."""

    name: str
    path: str
    make: Callable[[], bytes]
    gzip: bool = False


def fields(**values: Any) -> Callable[[], bytes]:
    """A body with these fields."""
    return lambda: orjson.dumps(values)


def spelled(head: bytes, one: bytes, n: int, tail: bytes) -> Callable[[], bytes]:
    """A body in which something is repeated, with commas between."""
    return lambda: head + b",".join([one] * n) + tail


def numbered(head: bytes, one: str, n: int, tail: bytes) -> Callable[[], bytes]:
    """A body in which something is repeated with a number in it, with commas between."""
    return lambda: head + b",".join((one % number).encode() for number in range(n)) + tail


BODIES = (
    Body("a body of 30 MiB", COMPLETIONS, fields(prompt="word " * (6 * MIB))),
    Body("490,000 stops", COMPLETIONS, spelled(b'{"prompt":"a","stop":[', b'"ab"', 490_000, b"]}")),
    Body("a stop of 11 MiB", COMPLETIONS, fields(prompt="a", stop="ab" * (LARGEST // 2))),
    Body("64 stops of 8,000 characters, 1,900 tokens", COMPLETIONS, lambda: orjson.dumps(
        {"prompt": "a", "stop": ["a" * 124 + chr(1000 + i) for i in range(64)], "max_tokens": 1900, "n": 4}
    )),
    Body("a suffix of 11 MiB", COMPLETIONS, fields(prompt="a", suffix="word " * (LARGEST // 5))),
    Body("a prompt of 11 MiB", COMPLETIONS, fields(prompt="word " * (LARGEST // 5))),
    Body("a prompt of one letter, 11 MiB", COMPLETIONS, fields(prompt="a" * LARGEST)),
    Body("a prompt of spaces, 11 MiB", COMPLETIONS, fields(prompt=" " * LARGEST)),
    Body("a prompt of letters of four bytes, 11 MiB", COMPLETIONS, fields(prompt="𒀀" * (LARGEST // 4))),
    Body("a prompt of words, 3.9 MiB", COMPLETIONS, fields(prompt="word " * (4 * MIB // 5))),
    Body("a prompt of one letter, 4 MiB", COMPLETIONS, fields(prompt="a" * 4 * MIB)),
    Body("a prompt of spaces, 4 MiB", COMPLETIONS, fields(prompt=" " * 4 * MIB)),
    Body("a prompt of escapes, 11 MiB", COMPLETIONS, spelled(b'{"prompt":"', rb"\"\u0041", LARGEST // 9, b'"}')),
    Body("an array of 490,000 tokens", COMPLETIONS, spelled(b'{"prompt":[', b"1", 490_000, b"]}")),
    Body("5,700,000 tokens", COMPLETIONS, spelled(b'{"prompt":[', b"1", LARGEST // 2, b"]}")),
    Body("69,000 arrays of a token", COMPLETIONS, spelled(b'{"prompt":[', b"[1]", 69_000, b"]}")),
    Body("330,000 prompts", COMPLETIONS, spelled(b'{"prompt":[', b'"word word word"', 330_000, b"]}")),
    Body("`[]` 80,000 times", COMPLETIONS, spelled(b'{"prompt":[', b"[]", 80_000, b"]}")),
    Body("`[]` 3,800,000 times", COMPLETIONS, spelled(b'{"prompt":[', b"[]", LARGEST // 3, b"]}")),
    Body("`[` 11,000,000 times", COMPLETIONS, lambda: b'{"prompt":' + b"[" * LARGEST),
    Body("logit_bias of 95,000", COMPLETIONS, numbered(b'{"prompt":"a","logit_bias":{', '"%d":1', 95_000, b"}}")),
    Body("logit_bias of the vocabulary", COMPLETIONS, numbered(b'{"max_tokens":200,"logit_bias":{', '"%d":1', 49_152,
         b"}}")),
    Body("logit_bias of 700,000", COMPLETIONS, numbered(b'{"prompt":"a","logit_bias":{', '"%d":1', 700_000, b"}}")),
    Body("95,000 unknown fields", COMPLETIONS, numbered(b'{"prompt":"a",', '"field%d":1', 95_000, b"}")),
    Body("700,000 unknown fields", COMPLETIONS, numbered(b'{"prompt":"a",', '"field%d":1', 700_000, b"}")),
    Body("a field's name of 11 MiB", COMPLETIONS, lambda: orjson.dumps({"a" * LARGEST: 1})),
    Body("a model's name of 11 MiB", COMPLETIONS, fields(prompt="a", model="é" * (LARGEST // 2))),
    Body("a user of 11 MiB", COMPLETIONS, fields(prompt="a", user="u" * LARGEST, max_tokens=1)),
    Body("an integer of 11,000,000 digits", COMPLETIONS, lambda: b'{"prompt":"a","seed":' + b"1" * LARGEST + b"}"),
    Body("390,000 integers of 29 digits", COMPLETIONS, spelled(b'{"prompt":[', b"1" * 29, 390_000, b"]}")),
    Body("a regular expression of 1 MiB", COMPLETIONS, fields(prompt="a", regex="(a|b)" * (MIB // 5))),
    Body("a schema of 30,000 names", COMPLETIONS, lambda: orjson.dumps(
        {"prompt": "a", "json_schema": {"properties": {f"name{i}": {"type": "string"} for i in range(30_000)}}}
    )),
    Body("100,000 guided choices", COMPLETIONS, numbered(b'{"prompt":"a","guided_choice":[', '"w%d"', 100_000, b"]}")),
    Body("200,000 sequence breakers", COMPLETIONS, numbered(
        b'{"prompt":"a","dry_multiplier":1,"dry_sequence_breakers":[', '"w%d"', 200_000, b"]}"
    )),
    Body("n x tokens x logprobs of 990,000", COMPLETIONS, fields(
        prompt="a", n=128, max_tokens=76, logprobs=100, ignore_eos=True
    )),
    Body("the same as a stream", COMPLETIONS, fields(
        prompt="a", n=128, max_tokens=76, logprobs=100, ignore_eos=True, stream=True
    )),
    Body("prompt_logprobs of 8,000 tokens", COMPLETIONS, fields(
        prompt=[[1] * 4000] * 2, max_tokens=1, prompt_logprobs=100
    )),
    Body("2,000 prompts with echo", COMPLETIONS, fields(prompt=["word " * 20] * 2000, max_tokens=1, echo=True)),
    Body("/tokenize of 11 MiB", "/tokenize", fields(prompt="word " * (LARGEST // 5))),
    Body("/tokenize of one letter, 4 MiB", "/tokenize", fields(prompt="a" * 4 * MIB)),
    Body("/tokenize of 490,000 tokens, spelled", "/tokenize", fields(prompt=" a" * 490_000, return_token_strs=True)),
    Body("/detokenize of 490,000 tokens", "/detokenize", spelled(b'{"tokens":[', b"1000", 490_000, b"]}")),
    Body("a gzip body that inflates to 1 GiB", COMPLETIONS, lambda: gzip.compress(b" " * 2**30, 6), gzip=True),
    Body("a gzip body that inflates to 11 MiB", COMPLETIONS, lambda: gzip.compress(
        orjson.dumps({"prompt": "word " * (LARGEST // 5)})
    ), gzip=True),
)  # fmt: skip


@dataclass(slots=True)
class Seen:
    """What clients noticed: milliseconds, and the same without what who answers had to wait for a processor."""

    health_ms: list[float] = field(default_factory=list)
    own_health_ms: list[float] = field(default_factory=list)
    token_ms: list[float] = field(default_factory=list)
    own_token_ms: list[float] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    """Answers of any kind but 200, and requests without one."""

    @property
    def good(self) -> bool:
        """Whether both kept to their limits, and every request was answered."""
        kept = (
            percentile(self.own_health_ms, 99) <= MOST_HEALTH_MS and percentile(self.own_token_ms, 99) <= MOST_TOKEN_MS
        )
        return kept and not self.others


async def probe(server: OwnServer, seen: Seen, seconds: float) -> None:
    """Ask for both for so long, and note how long the answers take."""
    token = request_bytes(server.port, "POST", COMPLETIONS, orjson.dumps({"prompt": "one", "max_tokens": 1}))
    health = request_bytes(server.port, "GET", "/health", b"")
    until = time.perf_counter() + seconds
    await asyncio.gather(
        _ask(server, health, (seen.health_ms, seen.own_health_ms), seen.others, until),
        _ask(server, token, (seen.token_ms, seen.own_token_ms), seen.others, until),
    )


async def _ask(
    server: OwnServer, request: bytes, taken: tuple[list[float], list[float]], others: Counter[str], until: float
) -> None:
    closing = request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    while time.perf_counter() < until:
        waited, began = waited_ms(server), time.perf_counter()
        try:
            async with asyncio.timeout(30):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(closing)
                answer = await reader.read(-1)
                writer.close()
            if not answer.startswith(b"HTTP/1.1 200 "):
                others[answer[9:12].decode() or "closed without an answer"] += 1
        except (OSError, TimeoutError) as error:
            others[type(error).__name__] += 1
        taken[0].append(1e3 * (time.perf_counter() - began))
        taken[1].append(max(0.0, taken[0][-1] - (waited_ms(server) - waited)))
        await asyncio.sleep(PAUSE)


def waited_ms(server: OwnServer) -> float:
    """How long the threads that answer were ready to run and had no processor: the server's loop, the model's, ours."""
    threads = [Path(f"/proc/{process}/task/{process}") for process in (os.getpid(), server.process_id)]
    for process in server.children:
        threads += Path(f"/proc/{process}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[1]) for thread in threads) / 1e6


class Sender:
    """One client that sends a request again and again, on a thread, and reads the answers."""

    def __init__(self, port: int, request: bytes) -> None:
        self.answers: Counter[str] = Counter()
        """How often which status; "-" for a request without an answer."""
        self._port = port
        self._request = request
        self._stopped = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="sender")

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Leave, also in the middle of a request; any thread."""
        self._stopped.set()
        with suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            with socket.create_connection(("127.0.0.1", self._port)) as self._socket:
                head = b""
                with suppress(OSError):
                    self._socket.sendall(self._request)
                with suppress(OSError):
                    while piece := self._socket.recv(1 << 20):
                        head = head or piece[:64]
            self.answers[head[9:12].decode() or "-"] += 1


async def look_on(server: OwnServer, body: Body, seconds: float) -> tuple[Seen, str]:
    """Have one client send a body for so long; what others noticed, and what it was answered."""
    content = await asyncio.to_thread(body.make)
    request = request_bytes(server.port, "POST", body.path, content)
    more = b"Connection: close\r\n" + (b"Content-Encoding: gzip\r\n" if body.gzip else b"")
    sender = Sender(server.port, request.replace(b"\r\n\r\n", b"\r\n" + more + b"\r\n", 1))
    seen = Seen()
    sender.start()
    try:
        await probe(server, seen, seconds)
    finally:
        await asyncio.to_thread(sender.stop)
    return seen, ", ".join(f"{n} x {status}" for status, n in sorted(sender.answers.items()))


@asynccontextmanager
async def silent_sockets(port: int) -> AsyncIterator[None]:
    """Connections that send nothing, one after the other."""
    opened: list[socket.socket] = []
    try:
        for _ in range(SOCKETS):
            opened.append(await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port)))
        yield
    finally:
        for one in opened:
            one.close()


def row(name: str, seen: Seen, answers: str, server: OwnServer) -> str:
    """A row of the table."""
    cells = (
        name,
        answers,
        f"{statistics.median(seen.health_ms):.1f}",
        f"{percentile(seen.health_ms, 99):.1f}",
        f"{percentile(seen.own_health_ms, 99):.1f}",
        f"{statistics.median(seen.token_ms):.0f}",
        f"{percentile(seen.token_ms, 99):.0f}",
        f"{percentile(seen.own_token_ms, 99):.0f}",
        f"{server.resident_bytes / MIB:.0f}",
    )
    problems = ", ".join(f"{n} x {what}" for what, n in seen.others.items())
    return "| " + " | ".join(cells) + " |" + (f" (others: {problems})" if problems else "")


async def measure(model: Path | None, only: str, seconds: float) -> bool:
    """Print a row for each body whose name has `only` in it; False if one missed a limit."""
    # One thread for the model: several wait for each other, and for the core that something else has at the moment.
    options = ["--database", "none", "--threads", "1", *([] if model is None else ["--model", str(model)])]
    print(
        "| what one client sends | its answers | `/health` ms, median | p99 | p99 of its own | one token ms, median "
        "| p99 | p99 of its own | MiB after |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    good = True
    async with serving(*options) as server:
        await _warm_up(server.http)
        seen = Seen()
        await probe(server, seen, seconds)
        print(row("nothing", seen, "-", server), flush=True)
        for body in BODIES:
            if only in body.name:
                seen, answers = await look_on(server, body, seconds)
                for _ in range(MORE_TRIES):
                    if not seen.good:
                        seen, answers = await look_on(server, body, seconds)
                good &= seen.good
                print(row(body.name, seen, answers, server), flush=True)
    if only in "silent sockets":
        async with serving(*options, limits={resource.RLIMIT_NOFILE: DESCRIPTORS}) as server:
            await _warm_up(server.http)
            async with silent_sockets(server.port):
                seen = Seen()
                await probe(server, seen, seconds)
                good &= seen.good
            print(row(f"{SOCKETS} silent sockets, `ulimit -n {DESCRIPTORS}`", seen, "-", server), flush=True)
    return good


async def _warm_up(http: httpx.AsyncClient) -> None:
    for _ in range(3):
        await http.post(COMPLETIONS, json={"prompt": "one", "max_tokens": 8})


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=None, help="a GGUF file; the default model")
    parser.add_argument("--only", default="", help="bodies with this text in their names")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each is sent")
    parser.add_argument("--check", action="store_true", help="fail if a limit is missed")
    options = parser.parse_args()
    good = asyncio.run(measure(options.model, options.only, options.seconds))
    sys.exit(1 if options.check and not good else 0)


if __name__ == "__main__":
    main()

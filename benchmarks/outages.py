"""What clients see while what a server rests on is away: database, disk, Redis, the right time, memory, its cache.

    python -m benchmarks.outages [--only TEXT]

Starts a server on loopback for each fault, with a key and a ledger, has clients ask without a pause, brings the fault
about for some seconds and puts it right. Prints a row of the table in docs/reliability.md for each; the exit code is 1
if a row of usage is missing at the end, or the server does not become what it was.
"""

import argparse
import asyncio
import os
import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from benchmarks.own_server import OwnServer, make_key, serving

CLIENTS = 3
HOLD = 5.0
"""Seconds that a fault lasts."""
SECONDS_TO_RECOVER = 60

BODY: dict[str, Any] = {"prompt": "once upon a time", "max_tokens": 8, "user": "u" * 400}


@dataclass(frozen=True, slots=True)
class Place:
    """A server that a fault is brought about to."""

    folder: Path
    server: OwnServer
    much: Counter[int] = field(default_factory=Counter)
    """Answers to requests that need memory."""

    @property
    def database(self) -> Path:
        """Its keys and its ledger."""
        return self.folder / "data" / "usage.db"


Fault = Callable[[Place], AbstractContextManager[None]]


@contextmanager
def removed(place: Place) -> Iterator[None]:
    """The file of the database, with what SQLite keeps beside it."""
    away = place.folder / "away"
    away.mkdir()
    for file in place.database.parent.iterdir():
        file.rename(away / file.name)
    yield
    for left in place.database.parent.iterdir():
        left.unlink()
    for file in away.iterdir():
        file.rename(place.database.parent / file.name)


@contextmanager
def damaged(place: Place) -> Iterator[None]:
    """Another file in its place, which is no database."""
    with removed(place):
        place.database.write_bytes(b"x" * 100_000)
        yield


@contextmanager
def locked(place: Place) -> Iterator[None]:
    """By another program that writes."""
    with closing(sqlite3.connect(place.database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def full(place: Place) -> Iterator[None]:
    """The file system of the database; it is a small one of its own."""
    filler = place.database.parent / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    yield
    filler.unlink()


@contextmanager
def files_that_do_not_grow(place: Place) -> Iterator[None]:
    """The same to the server, where no file system can be mounted: a limit on the size of its files."""
    pid = place.server.process_id
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@contextmanager
def redis_gone(place: Place) -> Iterator[None]:
    """Killed, and started again, without what it had."""
    number = int((place.folder / "redis.pid").read_text())
    os.kill(number, 9)
    yield
    port = int((place.folder / "redis.port").read_text())
    start_redis(place.folder, port)


def clock(seconds: int) -> Fault:
    """The time of day set by so many seconds, and back."""

    @contextmanager
    def set_clock(place: Place) -> Iterator[None]:
        file = place.folder / "offset"
        file.write_text(str(seconds))
        yield
        file.write_text("0")

    return set_clock


def no_memory(of_model: bool) -> Fault:
    """One of the two processes may take no more address space, while requests and bodies come that need some."""

    @contextmanager
    def limited(place: Place) -> Iterator[None]:
        pid = place.server.children[0] if of_model else place.server.process_id
        before = resource.prlimit(pid, resource.RLIMIT_AS)
        resource.prlimit(pid, resource.RLIMIT_AS, (1 << 20, before[1]))
        asking = threading.Thread(target=ask_for_much, args=(place,))
        asking.start()
        yield
        asking.join()
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_AS, before)

    return limited


def ask_for_much(place: Place) -> None:
    """A request that needs memory in the model's process, then a body that needs some in the server's."""
    bodies = (
        {"prompt": [[1] * 200] * 4, "max_tokens": 1, "prompt_logprobs": 100, "user": "much"},
        {"prompt": "a", "max_tokens": 1, "user": "u" * (8 << 20)},
    )
    headers = {"Authorization": f"Bearer {(place.folder / 'key').read_text()}"}
    with httpx.Client(base_url=place.server.http.base_url, timeout=60) as http:
        for body in bodies:
            try:
                place.much[http.post("/v1/completions", json=body, headers=headers).status_code] += 1
            except httpx.HTTPError:
                place.much[0] += 1


@dataclass(frozen=True, slots=True)
class Outage:
    """A fault, and the server that it is brought about to."""

    name: str
    fault: Fault
    model: str = "echo"
    needs: str = ""
    """What the machine must have: `mount`, `redis` or `compiler`."""


OUTAGES = (
    Outage("SQLite file removed", removed),
    Outage("SQLite file damaged", damaged),
    Outage("SQLite file locked", locked),
    Outage("disk full (a tmpfs)", full, needs="mount"),
    Outage("no file may grow (RLIMIT_FSIZE)", files_that_do_not_grow),
    Outage("Redis gone", redis_gone, needs="redis"),
    Outage("clock an hour forth", clock(3600), needs="compiler"),
    Outage("clock an hour back", clock(-3600), needs="compiler"),
    Outage("no memory for the model's process", no_memory(True), model=""),
    Outage("no memory for the server's process", no_memory(False)),
)


@dataclass(slots=True)
class Seen:
    """What clients saw and what was kept of it."""

    before: Counter[int] = field(default_factory=Counter)
    during: Counter[int] = field(default_factory=Counter)
    after: Counter[int] = field(default_factory=Counter)
    ready: Counter[str] = field(default_factory=Counter)
    """What `/ready` said during the fault."""
    green_after: float = 0.0
    ids: set[str] = field(default_factory=set)
    """Of requests that were answered."""
    much: Counter[int] = field(default_factory=Counter)
    """Answers to requests that needed memory that there was not."""
    n_lost: int = 0
    """Of them, those that the ledger does not have."""


async def client(place: Place, key: str, seen: Seen, phase: list[Counter[int]]) -> None:
    """Ask again and again."""
    while True:
        counter = phase[0]
        try:
            answer = await place.server.http.post(
                "/v1/completions", json=BODY, headers={"Authorization": f"Bearer {key}"}
            )
            counter[answer.status_code] += 1
            if answer.status_code == 200:
                seen.ids.add(answer.headers["x-request-id"])
        except httpx.HTTPError:
            counter[0] += 1
        await asyncio.sleep(0.02)


async def state(server: OwnServer) -> str:
    """What `/ready` says, in a few words."""
    answer = await server.http.get("/ready")
    told = answer.json()
    return f"{answer.status_code}, database {told['database']}, {', '.join(told['models'].values())}"


async def until_good(place: Place, good: str, key: str) -> float:
    """Seconds until `/ready` says what it said before, and no row of usage waits. Raises `TimeoutError`."""
    began = time.perf_counter()
    async with asyncio.timeout(SECONDS_TO_RECOVER):
        while True:
            told = (await place.server.http.get("/metrics", headers={"Authorization": f"Bearer {key}"})).text
            waiting = [line for line in told.splitlines() if line.startswith("afterword_ledger_rows_waiting ")]
            # A few wait at any moment while clients ask.
            if await state(place.server) == good and float(waiting[0].split()[1]) < 20:
                return time.perf_counter() - began
            await asyncio.sleep(0.05)


async def bring_about(outage: Outage, place: Place, key: str) -> Seen:
    """Have clients ask, bring the fault about, put it right, and look on."""
    seen = Seen()
    phase = [seen.before]
    good = await state(place.server)
    clients = [asyncio.create_task(client(place, key, seen, phase)) for _ in range(CLIENTS)]
    await asyncio.sleep(1.5)
    phase[0] = seen.during
    fault = outage.fault(place)
    await asyncio.to_thread(fault.__enter__)
    until = time.perf_counter() + HOLD
    while time.perf_counter() < until:
        seen.ready[await state(place.server)] += 1
        await asyncio.sleep(0.2)
    await asyncio.to_thread(fault.__exit__, None, None, None)
    seen.green_after = await until_good(place, good, key)
    phase[0] = seen.after
    await asyncio.sleep(1.0)
    for task in clients:
        task.cancel()
    await asyncio.gather(*clients, return_exceptions=True)
    return seen


async def run(outage: Outage) -> Seen:
    """Start what it needs, and bring it about."""
    with tempfile.TemporaryDirectory() as directory, prepared(outage, Path(directory)) as (options, environment):
        folder = Path(directory)
        database = folder / "data" / "usage.db"
        key = make_key(database, "known", "--requests-per-minute", "1000000")
        (folder / "key").write_text(key)
        options += ["--database", str(database), "--log-level", "error", "--context", "1024", "--parallel", "4"]
        options += [] if outage.model == "" else ["--model", outage.model]
        async with serving(*options, environment=environment) as server:
            place = Place(folder, server)
            seen = await bring_about(outage, place, key)
        seen.much = place.much
        with closing(sqlite3.connect(database)) as connection:
            rows = {number for (number,) in connection.execute("SELECT request_id FROM usage")}
        seen.n_lost = len(seen.ids - rows)
        return seen


@contextmanager
def prepared(outage: Outage, folder: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Options and variables of the server, with what it rests on in place."""
    data = folder / "data"
    data.mkdir()
    match outage.needs:
        case "mount":
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(data)], check=True)
            try:
                yield [], {}
            finally:
                subprocess.run(["umount", "--lazy", str(data)], check=True)
        case "redis":
            with socket.create_server(("127.0.0.1", 0)) as listener:
                port: int = listener.getsockname()[1]
            (folder / "redis.port").write_text(str(port))
            start_redis(folder, port)
            try:
                yield ["--redis", f"redis://127.0.0.1:{port}"], {}
            finally:
                os.kill(int((folder / "redis.pid").read_text()), 15)
        case "compiler":
            library, offset = folder / "clock_offset.so", folder / "offset"
            source = Path(__file__).with_name("clock_offset.c")
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
            offset.write_text("0")
            yield [], {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(offset)}
        case _:
            yield [], {}


def start_redis(folder: Path, port: int) -> None:
    """Start one and wait until it answers."""
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--daemonize", "yes", "--dir", str(folder)]
    subprocess.run(["redis-server", *options, "--pidfile", str(folder / "redis.pid")], check=True, capture_output=True)
    for _ in range(500):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            if (folder / "redis.pid").exists():
                return
        time.sleep(0.02)
    raise RuntimeError("redis-server did not start")


def missing(needs: str) -> str:
    """Why a fault cannot be brought about on this machine; empty: it can."""
    if needs == "mount" and os.geteuid() != 0:
        return "mounting needs root"
    if needs == "redis" and shutil.which("redis-server") is None:
        return "redis-server is not installed"
    if needs == "compiler" and shutil.which("cc") is None:
        return "cc is not installed"
    return ""


def told(counter: Counter[Any]) -> str:
    """How often what, in words."""
    names = {0: "no answer"}
    return ", ".join(f"{n} x {names.get(what, what)}" for what, n in sorted(counter.items(), key=lambda one: -one[1]))


async def measure(only: str) -> bool:
    """Bring about every fault whose name has `only` in it, and print what came of it."""
    good = True
    print("| fault | requests meanwhile | `/ready` meanwhile | good again after | rows of answers that are missing |")
    print("|---|---|---|---|---|")
    for outage in OUTAGES:
        if only not in outage.name:
            continue
        if why := missing(outage.needs):
            print(f"| {outage.name} | not tried: {why} | | | |", flush=True)
            continue
        seen = await run(outage)
        good &= seen.n_lost == 0 and seen.after.keys() == {200} == seen.before.keys()
        meanwhile = told(seen.during) + (f"; those that need some: {told(seen.much)}" if seen.much else "")
        cells = (outage.name, meanwhile, told(seen.ready), f"{seen.green_after:.1f} s", str(seen.n_lost))
        print("| " + " | ".join(cells) + " |", flush=True)
    return good


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="faults with this text in their names")
    options = parser.parse_args()
    sys.exit(0 if asyncio.run(measure(options.only)) else 1)


if __name__ == "__main__":
    main()

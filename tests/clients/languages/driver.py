"""Drives the programs of `programs/`: each holds one HTTP client, which carries out orders one after the other.

An order is a line `VERB URL BODY`, the body being JSON. The program sends it and prints `status N`, a line `| TEXT` for
each line of the answer's body, and `end`. By the verb `whole` it reads the answer at once, by `lines` line by line, as
it comes, and by `leave` it closes the answer after what comes first. When its client fails, it ends.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
NODE = HERE.parent / "node"
KEY = "k-1"

DATA = "data: "
DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client made of an answer."""

    status: int
    text: str

    @property
    def body(self) -> Any:
        """A body of JSON."""
        return json.loads(self.text)

    @property
    def written(self) -> str:
        """The completion's text, plain or streamed to its end."""
        if not self.text.startswith(DATA):
            text: str = self.body["choices"][0]["text"]
            return text
        events = [line.removeprefix(DATA) for line in self.text.split("\n") if line.startswith(DATA)]
        assert events.pop() == DONE
        return "".join(choice["text"] for event in events for choice in json.loads(event)["choices"])


class Client(Protocol):
    """One HTTP client."""

    def ask(self, verb: str, url: str, body: Mapping[str, Any]) -> Answer:
        """Carry out an order to its end."""
        ...


@dataclass(frozen=True, slots=True)
class Trust:
    """How the clients are told of a certificate that nobody else knows."""

    variables: Mapping[str, str]
    options: Mapping[str, tuple[str, ...]]
    """Of commands."""


NOTHING = Trust({}, {})


@dataclass(frozen=True, slots=True)
class Program:
    """A running program of `programs/`."""

    process: subprocess.Popen[str]

    def ask(self, verb: str, url: str, body: Mapping[str, Any]) -> Answer:
        """As `Client`. Fails if the program ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{verb} {url} {json.dumps(body)}\n")
        self.process.stdin.flush()
        status, *lines = self._until_end()
        return Answer(int(status.removeprefix("status ")), "\n".join(line.removeprefix("| ") for line in lines))

    def _until_end(self) -> Iterator[str]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line == "end\n":
                return
            yield line.removesuffix("\n")
        raise AssertionError(f"{self.process.args!r} ended with {self.process.wait()}")


@dataclass(frozen=True, slots=True)
class Curl:
    """The command curl, run anew for each order."""

    options: tuple[str, ...]
    environment: Mapping[str, str]

    def ask(self, verb: str, url: str, body: Mapping[str, Any]) -> Answer:
        """As `Client`."""
        headers = ["-H", "Content-Type: application/json", "-H", f"Authorization: Bearer {KEY}"]
        command = ["curl", "-sSN", *self.options, "-w", "\n%{http_code}", *headers, "-d", json.dumps(body), url]
        with subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            if verb == "leave":
                first = process.stdout.readline()
                process.terminate()
                return Answer(200, first.removesuffix("\n"))
            text, _, status = process.stdout.read().rpartition("\n")
        assert process.returncode == 0
        return Answer(int(status), text)


CURLS = {"curl": (), "curl-http2": ("--http2",)}
PROGRAMMED: dict[str, tuple[str | Path, ...]] = {
    "go": ("go", "run", PROGRAMS / "client.go"),
    "java": ("java", PROGRAMS / "Client.java"),
    "node": ("node", NODE / "driven.mjs"),
    "php-curl": ("php", PROGRAMS / "client.php"),
    "php-wrapper": ("php", PROGRAMS / "wrapper.php"),
    "python": (sys.executable, PROGRAMS / "client.py"),
    "ruby": ("ruby", PROGRAMS / "client.rb"),
}
CLIENTS = (*CURLS, *PROGRAMMED)


def missing(name: str) -> str | None:
    """What the client of that name needs and this machine lacks."""
    # Without the compiler `java` runs no source.
    command = "curl" if name in CURLS else "javac" if name == "java" else str(PROGRAMMED[name][0])
    if shutil.which(command) is None:
        return command
    if name == "node" and not (NODE / "node_modules").is_dir():
        return "the packages of tests/clients/node"
    if name == "php-curl" and "curl" not in subprocess.check_output(["php", "-m"], text=True).split():
        return "PHP's extension curl"
    return None


@contextmanager
def running(name: str, home: Path, trust: Trust = NOTHING) -> Iterator[Client]:
    """The client of that name, which believes `trust`; what it writes for itself is in `home`."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "NO_PROXY": "127.0.0.1",
        "OPENAI_API_KEY": KEY,
        **trust.variables,
    }
    if name in CURLS:
        yield Curl(CURLS[name], environment)
        return
    command, *arguments = PROGRAMMED[name]
    with subprocess.Popen(
        [command, *trust.options.get(str(command), ()), *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        # Leaving closes its standard input, which ends it.
        yield Program(process)

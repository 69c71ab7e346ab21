"""What crosses between the server and the process of a model: each message pickled, its length in front.

Both ends are the same program, started together, so nothing here has to stay the same between versions.
"""

import pickle
import struct
from collections.abc import Iterator
from pathlib import Path
from socket import socket
from typing import Any, NamedTuple

from afterword.engine.base import Capabilities
from afterword.engine.engine_refusal import Refusal
from afterword.engine.events import Event
from afterword.engine.llama.engine_thread import Progress
from afterword.engine.request import GenerationRequest
from afterword.engine.tracker import Counters

_LENGTH = struct.Struct("<I")


class CheckVocabulary(NamedTuple):
    """To a worker, in place of `LlamaSettings`: read the vocabulary of a file and end."""

    path: Path
    load_seconds: float = 300.0
    """How long that may take."""


class Checked(NamedTuple):
    """From a worker: it has read the vocabulary."""


class Add(NamedTuple):
    """To the worker: complete a prompt, called by a number that no other has had."""

    number: int
    request: GenerationRequest


class Cancel(NamedTuple):
    """To the worker: drop a prompt."""

    number: int


class End(NamedTuple):
    """To the worker: end one candidate of a prompt."""

    number: int
    candidate: int


class Logged(NamedTuple):
    """From the worker: a line for the log."""

    level: str
    line: dict[str, Any]


class Ready(NamedTuple):
    """From the worker: the model is loaded and takes prompts."""

    capabilities: Capabilities
    fingerprint: str


class Refused(NamedTuple):
    """From the worker, before it ends: why the model cannot be loaded."""

    message: str


class Step(NamedTuple):
    """From the worker: what is told of which prompt, after each step, and before it where prompts start."""

    told: list[tuple[int, Event | Refusal]]
    progress: Progress
    counters: Counters


def packed(message: object) -> bytes:
    """A message as `read` and `unpacked` take it."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


def unpacked(received: bytearray) -> Iterator[Any]:
    """Every message that is complete, taken off the front of `received`."""
    while len(received) >= _LENGTH.size:
        end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
        if len(received) < end:
            return
        message = pickle.loads(memoryview(received)[_LENGTH.size : end].tobytes())
        del received[:end]
        yield message


def read(connection: socket) -> Any:
    """The next message of a blocking connection; None at its end."""
    head = _exactly(connection, _LENGTH.size)
    data = None if head is None else _exactly(connection, _LENGTH.unpack(head)[0])
    return None if data is None else pickle.loads(data)


def _exactly(connection: socket, n: int) -> bytearray | None:
    """The next n bytes; None if the connection ends before."""
    data = bytearray(n)
    have = 0
    while have < n:
        try:
            got = connection.recv_into(memoryview(data)[have:])
        except OSError:
            return None
        if got == 0:
            return None
        have += got
    return data

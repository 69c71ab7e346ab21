"""What crosses between the server and the process of a model: each message pickled, its length in front.

Both ends are the same program, started together, so nothing here has to stay the same between versions. What crosses
for every token is pickled as plain tuples: between two steps the weights go through the processor's caches, and code
that looks up classes and fields runs cold.
"""

import pickle
import struct
from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from socket import socket
from typing import Any, NamedTuple

from afterword.engine.base import Capabilities
from afterword.engine.engine_refusal import Refusal
from afterword.engine.events import Chunk, Event, SampledToken
from afterword.engine.llama.engine_thread import Progress
from afterword.engine.request import GenerationRequest
from afterword.engine.tracker import Counters

_LENGTH = struct.Struct("<I")

_token = attrgetter(*(field.name for field in fields(SampledToken)))


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
    """From the worker: what is told of which prompt since the last one."""

    told: list[tuple[int, Event | Refusal]]
    progress: Progress
    counters: Counters


def packed(message: object) -> bytes:
    """A message as `read` and `unpacked` take it."""
    data = pickle.dumps(_plain(message) if isinstance(message, Step) else message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


def unpacked(received: bytearray) -> Iterator[Any]:
    """Every message that is complete, taken off the front of `received`."""
    while len(received) >= _LENGTH.size:
        end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
        if len(received) < end:
            return
        message = _unpickled(received[_LENGTH.size : end])
        del received[:end]
        yield message


def read(connection: socket) -> Any:
    """The next message of a blocking connection; None at its end."""
    head = _exactly(connection, _LENGTH.size)
    data = None if head is None else _exactly(connection, _LENGTH.unpack(head)[0])
    return None if data is None else _unpickled(data)


def _unpickled(data: bytearray) -> Any:
    message = pickle.loads(data)
    return _step(*message) if type(message) is tuple else message


def _plain(step: Step) -> tuple[Any, ...]:
    """A step as `_step` takes it."""
    told: list[tuple[Any, ...]] = []
    for number, what in step.told:
        if isinstance(what, Chunk):
            tokens = tuple(map(_token, what.tokens)) if what.tokens else ()
            told.append((number, what.index, what.text, tokens, what.n_tokens))
        else:
            told.append((number, what))
    return told, tuple(step.progress), step.counters.figures()


def _step(told: list[Any], progress: tuple[Any, ...], figures: tuple[Any, ...]) -> Step:
    events: list[tuple[int, Event | Refusal]] = []
    for one in told:
        if len(one) == 2:
            events.append(one)
        else:
            number, index, text, tokens, n_tokens = one
            listed = tuple([SampledToken(*token) for token in tokens]) if tokens else ()
            events.append((number, Chunk(index, text, listed, n_tokens)))
    return Step(events, Progress(*progress), Counters(*figures))


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

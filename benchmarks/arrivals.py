"""What came back from a server and when, as measured on arrival. Pure: reads recorded bytes, opens no connection.

Nothing is parsed while a stream runs, so that the client takes as little as it can from the cores the server needs.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

Part = tuple[float, bytes]
"""Seconds of the clock when the bytes arrived, and the bytes."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One streamed completion. Times in seconds."""

    started: float
    """When the request was sent, on the clock of `stamps`."""
    stamps: tuple[float, ...]
    """Arrival of every chunk that carries text."""
    ended: float
    n_tokens: int
    """Completion tokens as the server counts them; the number of chunks where it does not."""

    @property
    def first(self) -> float:
        """From the request to the first text."""
        return self.stamps[0] - self.started

    @property
    def total(self) -> float:
        """From the request to the end of the answer."""
        return self.ended - self.started

    @property
    def decode_rate(self) -> float:
        """Tokens a second after the first text."""
        return (self.n_tokens - 1) / (self.ended - self.stamps[0])

    @property
    def gaps(self) -> tuple[float, ...]:
        """Times between successive texts."""
        return tuple(later - earlier for earlier, later in zip(self.stamps, self.stamps[1:], strict=False))


def read_stream(started: float, parts: Sequence[Part], ended: float) -> Stream:
    """Put a stream together from its parts. Raises `ValueError` if it says an error or carries no text."""
    stamps: list[float] = []
    counted: int | None = None
    for stamp, event in events(parts):
        if "error" in event:
            raise ValueError(f"the stream ended with {event['error']}")
        if event.get("usage"):
            counted = event["usage"]["completion_tokens"]
        if event.get("choices") and event["choices"][0].get("text"):
            stamps.append(stamp)
    if not stamps:
        raise ValueError("the stream carried no text")
    return Stream(started, tuple(stamps), ended, len(stamps) if counted is None else counted)


def events(parts: Sequence[Part]) -> Iterator[tuple[float, dict[str, Any]]]:
    """The JSON events of a server-sent stream, each with the arrival of the part that completed its line."""
    rest = b""
    for stamp, data in parts:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            text = line.strip()
            if text.startswith(b"data:") and text != b"data: [DONE]":
                yield stamp, json.loads(text[5:])


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that `percent` of 100 lie under, interpolated; the only one if there is one."""
    if len(values) == 1:
        return values[0]
    return quantiles(values, n=100, method="inclusive")[percent - 1]

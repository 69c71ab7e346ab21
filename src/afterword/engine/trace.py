"""What a request is called by others; passed on to servers behind engines, so that all logs can be joined."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from typing_extensions import override


@dataclass(frozen=True, slots=True)
class Trace:
    """Each is empty where there is none."""

    request_id: str = ""
    traceparent: str = ""
    """W3C Trace Context: as the client sent it, or, where spans are recorded, with our span."""
    tracestate: str = ""

    def headers(self) -> dict[str, str]:
        """The headers of a request to another server."""
        named = {"x-request-id": self.request_id, "traceparent": self.traceparent, "tracestate": self.tracestate}
        return {name: value for name, value in named.items() if value != ""}


NO_TRACE = Trace()


class AttemptRecorder(Protocol):
    """Records the attempts to have another server answer a prompt."""

    def attempt(self, trace: Trace, vendor: str, number: int) -> AbstractContextManager[Mapping[str, str]]:
        """Around an attempt, the first being number 0: gives the headers to send. What leaves it is its failure."""
        ...


class _Unrecorded(AttemptRecorder):
    @override
    def attempt(self, trace: Trace, vendor: str, number: int) -> AbstractContextManager[Mapping[str, str]]:
        return nullcontext(trace.headers())


_recorder: AttemptRecorder = _Unrecorded()


def record_attempts(recorder: AttemptRecorder | None) -> None:
    """Have this process record attempts with `recorder` from now on; None: no longer."""
    global _recorder
    _recorder = _Unrecorded() if recorder is None else recorder


def attempt(trace: Trace, vendor: str, number: int) -> AbstractContextManager[Mapping[str, str]]:
    """As `AttemptRecorder.attempt`, by whatever records here."""
    return _recorder.attempt(trace, vendor, number)

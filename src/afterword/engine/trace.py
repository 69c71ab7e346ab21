"""What a request is called by others; passed on to servers behind engines, so that all logs can be joined."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trace:
    """Each is empty where there is none."""

    request_id: str = ""
    traceparent: str = ""
    """W3C Trace Context, as the client sent it. No span of ours is in between: none is recorded here."""
    tracestate: str = ""

    def headers(self) -> dict[str, str]:
        """The headers of a request to another server."""
        named = {"x-request-id": self.request_id, "traceparent": self.traceparent, "tracestate": self.tracestate}
        return {name: value for name, value in named.items() if value != ""}


NO_TRACE = Trace()

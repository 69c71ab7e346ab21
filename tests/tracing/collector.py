"""A collector of spans on loopback that takes OTLP over HTTP, and keeps what it was sent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class Seen:
    """One span."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    start: int
    """Nanoseconds since 1970, like `end`."""
    end: int
    failed: bool
    attributes: dict[str, Any]


@dataclass
class Collector:
    url: str = ""
    spans: list[Seen] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)

    def named(self, name: str) -> list[Seen]:
        """Spans of that name, by when they began."""
        return sorted((span for span in self.spans if span.name == name), key=lambda span: span.start)

    def take(self, body: bytes) -> None:
        message = ExportTraceServiceRequest()
        message.ParseFromString(body)
        for resource in message.resource_spans:
            self.resources.append(_attributes(resource.resource.attributes))
            for scope in resource.scope_spans:
                self.spans += map(_seen, scope.spans)


def _seen(span: Any) -> Seen:
    return Seen(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        kind=span.kind,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        failed=span.status.code == 2,
        attributes=_attributes(span.attributes),
    )


def _attributes(given: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in given}


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.path == "/v1/traces"
            if self.headers.get("content-encoding") is None:
                collector.take(body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

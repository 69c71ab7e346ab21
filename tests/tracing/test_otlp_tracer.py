"""Spans over HTTP: what a collector is sent, and that nobody waits for one that is away."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.api.served import BreakingEngine, client_of, registry
from tests.cli.doctor.test_doctor import free_port
from tests.engine.upstream.fakes import fake_upstream, refuses, says, text_event
from tests.engine.upstream.opening import upstream_engine, vendor
from tests.tracing.collector import Collector, collecting

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.base import Engine
from afterword.engine.echo import EchoEngine
from afterword.engine.trace import NO_TRACE, record_attempts
from afterword.errors import EngineFailed
from afterword.logs import RequestRecord
from afterword.tracing import otlp_tracer
from afterword.tracing.tracer import PromptTimes, Timeline, Tracer, open_tracer

SOURCES = Path(__file__).resolve().parents[2] / "src"

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE, SPAN = PARENT.split("-")[1:3]
ASK = {"prompt": "hello ", "max_tokens": 4, "temperature": 0}
SERVER, CLIENT = 2, 3


@contextmanager
def tracing(url: str) -> Iterator[Tracer]:
    tracer = open_tracer(url)
    assert tracer is not None
    try:
        yield tracer
    finally:
        record_attempts(None)
        tracer.close()


async def asked(collector: Collector, *engines: Engine, body: object = None, **headers: str) -> None:
    """Ask an application over these engines, and have it send its spans."""
    with tracing(collector.url) as tracer:
        app = create_app(registry(*engines), ServerConfig(), tracer=tracer)
        async with client_of(app) as client:
            await client.post("/v1/completions", json=ASK if body is None else body, headers=headers)
            await client.get("/health")
        # Whatever still reads a vendor's answer ends its span.
        for engine in engines:
            await engine.aclose()


async def test_a_request_is_a_span_below_the_caller_s() -> None:
    with collecting() as collector:
        await asked(collector, traceparent=PARENT, **{"x-request-id": "mine"})
    (span,) = collector.named("POST /v1/completions")
    assert (span.trace_id, span.parent_id, span.kind, span.failed) == (TRACE, SPAN, SERVER, False)
    assert span.start < span.end
    expected = {
        "http.request.method": "POST",
        "http.route": "/v1/completions",
        "http.response.status_code": 200,
        "afterword.request_id": "mine",
        "gen_ai.request.model": "echo",
        "gen_ai.usage.input_tokens": 6,
        "gen_ai.usage.output_tokens": 4,
    }
    assert expected.items() <= span.attributes.items()
    assert "hello" not in str(collector.spans)
    assert collector.resources[0]["service.name"] == "afterword"
    # Probes leave none.
    assert {one.name for one in collector.spans} == {"POST /v1/completions", "prefill", "decode"}


async def test_each_prompt_is_prefilled_and_decoded_within_the_request() -> None:
    with collecting() as collector:
        await asked(collector, body=ASK | {"prompt": ["a", "b"]})
    (request,) = collector.named("POST /v1/completions")
    for name in ("prefill", "decode"):
        spans = collector.named(name)
        assert sorted(span.attributes["afterword.prompt"] for span in spans) == [0, 1]
        for span in spans:
            assert (span.trace_id, span.parent_id) == (request.trace_id, request.span_id)
            assert request.start <= span.start <= span.end <= request.end


@pytest.mark.parametrize(
    ("waited", "expected"),
    [
        (None, {"prefill": (1, 4), "decode": (4, 6)}),
        (2.0, {"queue": (1, 3), "prefill": (3, 4), "decode": (4, 6)}),
        # Another clock than ours.
        (9.0, {"queue": (1, 4), "prefill": (4, 4), "decode": (4, 6)}),
    ],
)
def test_a_prompt_is_queued_and_then_prefilled(waited: float | None, expected: dict[str, tuple[int, int]]) -> None:
    began = time.perf_counter()
    timeline = Timeline(began, began + 1, {0: PromptTimes(began + 4, waited, began + 6)})
    with collecting() as collector, tracing(collector.url) as tracer:
        tracer.begin(NO_TRACE).end(RequestRecord("r", "POST", "/", "/", 200, 200, 6, False), timeline)
    (request,) = collector.named("POST /")
    parts = [span for span in collector.spans if span is not request]
    zero = next(span.start for span in parts if span.name == min(expected, key=lambda name: expected[name])) - 10**9
    found = {span.name: (round((span.start - zero) / 1e9), round((span.end - zero) / 1e9)) for span in parts}
    assert found == expected


async def test_prompts_beyond_some_have_no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_tracer, "MOST_PROMPTS", 2)
    with collecting() as collector:
        await asked(collector, body=ASK | {"prompt": ["a", "b", "c"]})
    assert len(collector.named("decode")) == 2


async def test_a_refusal_is_a_span_with_its_reason_and_a_failure_is_one_that_failed() -> None:
    with collecting() as collector:
        await asked(collector, body=ASK | {"temperature": 9})
        await asked(collector, BreakingEngine(EngineFailed("It broke."), 1))
    refused, failed = collector.named("POST /v1/completions")
    assert (refused.failed, refused.attributes["error.type"]) == (False, "invalid_request")
    assert (failed.failed, failed.attributes["error.type"]) == (True, "engine_failed")


async def test_each_attempt_of_a_vendor_is_a_span_that_the_vendor_is_told() -> None:
    with collecting() as collector, fake_upstream(refuses(503), says(text_event("a", finish="stop"))) as fake:
        engine = upstream_engine(vendor(fake.url, settings={"retries": 1}), "m", None)
        await asked(collector, engine, traceparent=PARENT)
    (request,) = collector.named("POST /v1/completions")
    first, second = (span for span in sorted(collector.spans, key=lambda one: one.start) if "attempt" in span.name)
    assert (first.failed, second.failed) == (True, False)
    assert [one.attributes["http.request.resend_count"] for one in (first, second)] == [0, 1]
    for span, call in zip((first, second), fake.calls, strict=True):
        assert (span.kind, span.trace_id, span.parent_id) == (CLIENT, TRACE, request.span_id)
        assert call.headers["traceparent"] == f"00-{TRACE}-{span.span_id}-01"


async def test_who_is_not_sampled_is_not_recorded_and_passed_on() -> None:
    with collecting() as collector, fake_upstream(says(text_event("a", finish="stop"))) as fake:
        engine = upstream_engine(vendor(fake.url), "m", None)
        await asked(collector, engine, traceparent=PARENT[:-1] + "0")
    assert collector.spans == []
    assert fake.calls[0].headers["traceparent"].startswith(f"00-{TRACE}-")
    assert fake.calls[0].headers["traceparent"].endswith("-00")


async def test_a_collector_that_is_away_fails_nothing_and_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_tracer, "SECONDS", 0.1)
    with capture_logs() as logs, tracing(f"http://127.0.0.1:{free_port()}") as tracer:
        app = create_app(registry(EchoEngine()), ServerConfig(), tracer=tracer)
        async with client_of(app) as client:
            # More than wait to be sent, so that some are dropped.
            for _ in range(1200):
                assert (await client.get("/v1/models")).status_code == 200
            assert (await client.post("/v1/completions", json=ASK)).status_code == 200
        tracer.close()
    assert len([line for line in logs if line["event"] == "spans are not sent"]) == 1


def printed(script: str, folder: Path) -> str:
    """What a Python program prints that has nothing imported yet."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(SOURCES)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_without_a_collector_the_library_is_not_loaded(tmp_path: Path) -> None:
    script = (
        "import json, sys\n"
        "from afterword.tracing.tracer import open_tracer\n"
        "import afterword.cli.serve\n"
        "assert open_tracer(None) is None\n"
        "print(json.dumps([name for name in sys.modules if name.startswith('opentelemetry.sdk')]))\n"
    )
    assert json.loads(printed(script, tmp_path)) == []


def test_a_library_that_is_missing_is_named(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "sys.modules['opentelemetry.sdk.resources'] = None\n"
        "from afterword.errors import ConfigurationError\n"
        "from afterword.tracing.tracer import open_tracer\n"
        "try:\n    open_tracer('http://127.0.0.1:4318')\n"
        "except ConfigurationError as error:\n    print(error)\n"
    )
    assert printed(script, tmp_path).endswith("is not installed: install afterword[traces].\n")

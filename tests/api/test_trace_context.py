"""What a request is called by others is passed on to the vendor that answers it."""

import pytest
from starlette.datastructures import Headers
from tests.api.vendors import at_a_vendor, counting_of
from tests.cluster.in_process import LocalReplicas, cluster_engine
from tests.engine.upstream.fakes import fake_upstream, says, text_event
from tests.engine.upstream.opening import upstream_engine, vendor

from afterword.api.trace_context import trace_of
from afterword.engine.trace import Trace

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SENT = {"x-request-id": "mine-1", "traceparent": PARENT, "tracestate": "a=1,b=2"}
ANSWER = says(text_event("a", finish="stop"))


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_gate_12_a_vendor_is_told_what_the_request_is_called(stream: bool) -> None:
    async with at_a_vendor(ANSWER) as (fake, counting), counting.client() as client:
        await client.post("/v1/completions", json={"prompt": ["a", "b"], "stream": stream}, headers=SENT)
        calls = fake.calls
    assert [{name: call.headers.get(name) for name in SENT} for call in calls] == [SENT, SENT]


async def test_gate_12_a_request_without_an_id_is_passed_on_with_ours() -> None:
    async with at_a_vendor(ANSWER) as (fake, counting), counting.client() as client:
        response = await client.post("/v1/completions", json={"prompt": "a"})
        (call,) = fake.calls
    assert call.headers["x-request-id"] == response.headers["x-request-id"]
    assert not {"traceparent", "tracestate"} & call.headers.keys()


async def test_gate_12_a_vendor_behind_a_cluster_is_told_too() -> None:
    with fake_upstream(ANSWER) as fake:
        engine = upstream_engine(vendor(fake.url), "m", None)
        async with counting_of(cluster_engine(LocalReplicas([engine]))).client() as client:
            await client.post("/v1/completions", json={"prompt": "a"}, headers=SENT)
        await engine.aclose()
        (call,) = fake.calls
    assert {name: call.headers.get(name) for name in SENT} == SENT


async def test_gate_12_headers_of_the_configuration_come_first() -> None:
    async with at_a_vendor(ANSWER, headers={"X-Request-Id": "theirs"}) as (fake, counting), counting.client() as client:
        await client.post("/v1/completions", json={"prompt": "a"}, headers=SENT)
        (call,) = fake.calls
    assert (call.headers["x-request-id"], call.headers["traceparent"]) == ("theirs", PARENT)


@pytest.mark.parametrize(
    ("headers", "passed_on"),
    [
        pytest.param([("traceparent", PARENT)], Trace("r", PARENT), id="alone"),
        pytest.param(
            [("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")],
            Trace("r", PARENT, "a=1,b=2"),
            id="state in parts",
        ),
        pytest.param([("traceparent", PARENT), ("tracestate", "x" * 513)], Trace("r", PARENT), id="long state"),
        pytest.param([("traceparent", PARENT), ("tracestate", "\xe4=1")], Trace("r", PARENT), id="state not ASCII"),
        pytest.param([("tracestate", "a=1")], Trace("r"), id="state without a parent"),
        pytest.param([("traceparent", PARENT), ("traceparent", PARENT)], Trace("r"), id="two parents"),
        pytest.param([("traceparent", PARENT.upper())], Trace("r"), id="upper case"),
        pytest.param([("traceparent", "ff" + PARENT[2:])], Trace("r"), id="no version"),
        pytest.param([("traceparent", f"00-{'0' * 32}-{'1' * 16}-01")], Trace("r"), id="no trace"),
        pytest.param([("traceparent", f"00-{'1' * 32}-{'0' * 16}-01")], Trace("r"), id="no span"),
        pytest.param([("traceparent", PARENT + "x")], Trace("r"), id="more"),
    ],
)
def test_gate_12_only_a_trace_context_that_keeps_the_rules_is_passed_on(
    headers: list[tuple[str, str]], passed_on: Trace
) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    assert trace_of("r", Headers(raw=raw)) == passed_on

"""`/metrics`: gaps between tokens, failures by reason, batches, keys; and the dashboard, which asks for no other."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.api.gateways import ListedRows, gateway_of
from tests.api.served import BreakingEngine, app_of, client_of, full_engine

from afterword.api.serving import serving_of
from afterword.engine.base import EngineStats, UpstreamStats
from afterword.engine.echo import EchoEngine
from afterword.engine.tracker import Counters
from afterword.errors import EngineFailed
from afterword.gateway.grant import Grant, KeyLimits
from afterword.gateway.limiter import memory_limiter
from afterword.logs import RequestRecord
from afterword.metrics import MAX_KEYS, EngineCollector, Metrics
from afterword.registry import ServedModel

DASHBOARDS = sorted((Path(__file__).resolve().parent.parent / "docs" / "grafana").glob("*.json"))

ASK = {"prompt": "hello ", "max_tokens": 4, "temperature": 0}

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: str) -> Samples:
    """Every sample by its name and its labels in order."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def scraped(client: httpx.AsyncClient) -> Samples:
    return samples((await client.get("/metrics")).text)


@pytest.mark.parametrize("n", [1, 3])
async def test_each_gap_between_tokens_of_a_candidate_is_counted(n: int) -> None:
    async with client_of(app_of()) as client:
        await client.post("/v1/completions", json=ASK | {"n": n, "stream": True})
        found = await scraped(client)
    assert found["afterword_inter_token_seconds_count", (("model", "echo"),)] == n * 3
    assert found["afterword_inter_token_seconds_sum", (("model", "echo"),)] > 0


async def test_one_token_has_no_gap() -> None:
    async with client_of(app_of()) as client:
        await client.post("/v1/completions", json=ASK | {"max_tokens": 1})
        found = await scraped(client)
    assert not any(name.startswith("afterword_inter_token_seconds") for name, _ in found)


class SilentEngine(EchoEngine):
    """Says nothing about its figures but what it is given."""

    def __init__(self, stats: EngineStats) -> None:
        super().__init__()
        self._stats = stats

    def stats(self) -> EngineStats:
        return self._stats


async def test_failures_are_counted_by_why() -> None:
    gateway = gateway_of(
        {"few": Grant("k1", "acme", limits=KeyLimits(requests_per_minute=1)), "free": Grant("k2", "acme")},
        ledger=ListedRows(),
        limiter=memory_limiter(),
    )
    app = app_of(EchoEngine(), full_engine(), gateway=gateway)
    async with client_of(app, authorization="Bearer free") as client:
        await client.post("/v1/completions", json=ASK)
        await client.post("/v1/completions", json=ASK | {"temperature": 9})
        await client.post("/v1/completions", json=ASK | {"max_tokens": 10**6})
        await client.post("/v1/completions", json=ASK | {"model": "none"})
        await client.post("/v1/completions", json=ASK | {"model": "vendor/second"})
        await client.post("/v1/completions", json=ASK, headers={"authorization": "Bearer wrong"})
        await client.get("/made/up")
        for _ in range(2):
            await client.post("/v1/completions", json=ASK, headers={"authorization": "Bearer few"})
        found = await scraped(client)
    reasons = {labels[0][1]: n for (name, labels), n in found.items() if name == "afterword_failures_total"}
    assert reasons == {
        "invalid_request": 1,
        "context_exceeded": 1,
        "model_not_found": 1,
        "overloaded": 1,
        "not_authenticated": 1,
        "http_404": 1,
        "requests_limit": 1,
    }


async def test_a_stream_that_breaks_is_a_failure_too() -> None:
    async with client_of(app_of(BreakingEngine(EngineFailed("It broke."), 1))) as client:
        await client.post("/v1/completions", json=ASK | {"stream": True})
        found = await scraped(client)
    assert found["afterword_failures_total", (("reason", "engine_failed"),)] == 1


async def test_a_key_with_limits_has_figures_and_one_without_has_none() -> None:
    limits = KeyLimits(requests_per_minute=2, tokens_per_minute=1000)
    gateway = gateway_of(
        {"limited": Grant("k1", "acme", limits=limits), "free": Grant("k2", "acme")},
        ledger=ListedRows(),
        limiter=memory_limiter(),
    )
    async with client_of(app_of(gateway=gateway), authorization="Bearer free") as client:
        for key in ("free", "limited", "limited", "limited"):
            await client.post("/v1/completions", json=ASK, headers={"authorization": f"Bearer {key}"})
        found = await scraped(client)
    of_key, requests, tokens = ("key", "k1"), ("kind", "requests"), ("kind", "tokens")
    assert found["afterword_key_requests_total", (of_key,)] == 3
    assert found["afterword_key_refused_total", (of_key,)] == 1
    assert found["afterword_key_limit", (of_key, requests)] == 2
    assert found["afterword_key_remaining", (of_key, requests)] == 0
    assert found["afterword_key_limit", (of_key, tokens)] == 1000
    assert {dict(labels)["key"] for name, labels in found if name.startswith("afterword_key_")} == {"k1"}


def record(key: str) -> RequestRecord:
    """Of a client with a key that left."""
    return RequestRecord("r", "GET", "/", "/", 499, 499, 0.1, True, key_id=key, allowances={"requests": (10, 9)})


def test_keys_that_have_figures_are_limited_to_the_latest() -> None:
    metrics = Metrics([])
    for number in range(MAX_KEYS):
        metrics.observe(record(f"k{number}"))
    metrics.observe(record("k0"))
    metrics.observe(record("one more"))
    found = samples(metrics.render().decode())
    shown = {labels[0][1]: n for (name, labels), n in found.items() if name == "afterword_key_requests_total"}
    assert len(shown) == MAX_KEYS
    assert shown["k0"] == 2
    assert shown["one more"] == 1
    assert "k1" not in shown


def test_steps_are_counted_by_their_rows() -> None:
    counters = Counters()
    for n_rows in (1, 1, 2, 3, 256, 300):
        counters.add_step(n_rows)
    assert (counters.steps, counters.rows) == (6, 563)
    # Of 1, 2, 4, 8 and so on up to 256, and more.
    assert counters.step_rows == (2, 1, 1, 0, 0, 0, 0, 0, 1, 1)


async def test_batches_are_a_histogram() -> None:
    async with client_of(app_of()) as client:
        await client.post("/v1/completions", json=ASK | {"n": 3})
        found = await scraped(client)
    name, model = "afterword_engine_step_rows", ("model", "echo")
    assert found[f"{name}_count", (model,)] == 4
    assert found[f"{name}_sum", (model,)] == 12
    assert found[f"{name}_bucket", (("le", "2.0"), model)] == 0
    assert found[f"{name}_bucket", (("le", "4.0"), model)] == 4
    assert found["afterword_engine_rows_total", (model,)] == 12


def test_an_engine_that_does_not_say_has_no_batches() -> None:
    served = ServedModel("m", SilentEngine(EngineStats(state="ready", steps=3)), 0)
    families = {family.name: family for family in EngineCollector([served]).collect()}
    assert families["afterword_engine_step_rows"].samples == []


async def everything() -> Samples:
    """An exposition in which every metric has a sample."""
    limits = KeyLimits(requests_per_minute=1)
    gateway = gateway_of({"few": Grant("k1", "acme", limits=limits)}, ledger=ListedRows(), limiter=memory_limiter())
    upstream = EngineStats(state="ready", upstreams=(UpstreamStats("there", "closed", 1, 0, 0),))
    app = app_of(EchoEngine(), SilentEngine(upstream), gateway=gateway)
    serving_of(app).recording.metrics.observe(record("k2"))
    async with client_of(app, authorization="Bearer few") as client:
        for _ in range(2):
            await client.post("/v1/completions", json=ASK)
        return await scraped(client)


def queries(node: Any) -> list[tuple[str, str]]:
    """Every query of a dashboard with its legend."""
    if isinstance(node, dict):
        own = [(node["expr"], node.get("legendFormat", ""))] if "expr" in node else []
        return own + [one for value in node.values() for one in queries(value)]
    return [one for value in node for one in queries(value)] if isinstance(node, list) else []


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.name)
async def test_the_dashboard_asks_for_what_there_is(file: Path) -> None:
    dashboard = json.loads(file.read_text(encoding="utf-8"))
    found = await everything()
    labels: dict[str, set[str]] = {}
    for name, own in found:
        labels.setdefault(name, set()).update(label for label, _ in own)
    asked = queries(dashboard["panels"])
    assert len(asked) >= len(dashboard["panels"]) > 5
    for query, legend in asked:
        names = re.findall(r"\bafterword_\w+", query)
        assert names, query
        assert [name for name in names if name not in labels] == [], query
        known = set.union(*(labels[name] for name in names)) | {"instance", "job"}
        used = [label for group in re.findall(r"by \(([^)]*)\)", query) for label in re.split(r",\s*", group)]
        used += re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", query) + re.findall(r"\{\{(\w+)\}\}", legend)
        assert set(used) <= known, query


async def test_every_metric_is_described() -> None:
    text = (DASHBOARDS[0].parent.parent / "observability.md").read_text(encoding="utf-8")
    described: set[str] = set()
    for line in text.splitlines():
        names = re.findall(r"`(\w+)`", line.partition("|")[2].partition("|")[0])
        stem = ""
        for name in names:
            # `afterword_engine_running`, `_waiting`: names that begin alike are written once.
            stem = name.removesuffix(f"_{'_'.join(name.split('_')[2:])}") if name.startswith("afterword") else stem
            described.add(stem + name if name.startswith("_") else name)
    found = {name for name, _ in await everything() if not name.endswith("_created")}
    shown = {re.sub("_(bucket|sum|count)$", "", name) for name in found}
    assert shown - described == set()
    # This one has no sample before a filter ends something.
    assert {name for name in described - shown if name.startswith("afterword")} == {
        "afterword_completions_flagged_total"
    }


def test_there_is_a_dashboard() -> None:
    assert [file.name for file in DASHBOARDS] == ["afterword.json"]

"""One exposition of many."""

from prometheus_client.parser import text_string_to_metric_families

from afterword.cluster.cluster_metrics import ClusterMetrics, merged
from afterword.engine.echo import EchoEngine
from afterword.logs import RequestRecord
from afterword.metrics import Metrics
from afterword.registry import ServedModel

RECORD = RequestRecord("id", "POST", "/v1/completions", "/v1/completions", 200, 200, 0.5, False)


def samples(text: bytes, name: str) -> list[str]:
    return [line for line in text.decode().splitlines() if line.startswith(name + "{")]


def test_each_sample_tells_its_replica() -> None:
    engine = Metrics([ServedModel("m", EchoEngine(n_slots=7), created=0)])
    other = ClusterMetrics("h2", (), lambda: ())
    other.observe(RECORD)
    metrics = ClusterMetrics("h1", (), lambda: [("e1", engine.render()), ("e2", engine.render()), other.own()])
    metrics.observe(RECORD)
    metrics.observe(RECORD)
    text = metrics.render()
    assert samples(text, "afterword_engine_slots_free") == [
        'afterword_engine_slots_free{replica="e1",model="m"} 7.0',
        'afterword_engine_slots_free{replica="e2",model="m"} 7.0',
    ]
    assert samples(text, "afterword_requests_total") == [
        'afterword_requests_total{replica="h1",route="/v1/completions",status="200"} 2.0',
        'afterword_requests_total{replica="h2",route="/v1/completions",status="200"} 1.0',
    ]
    assert text.decode().count("# TYPE afterword_request_seconds histogram\n") == 1


def test_engines_of_vendors_are_shown_by_the_replica_that_asks_them() -> None:
    metrics = ClusterMetrics("h1", [ServedModel("m", EchoEngine(n_slots=7), created=0)], lambda: ())
    assert samples(metrics.render(), "afterword_engine_slots_free") == [
        'afterword_engine_slots_free{replica="h1",model="m"} 7.0'
    ]


def test_what_others_know_of_this_replica_is_not_counted_twice() -> None:
    stale = b"# HELP afterword_requests_total x\n# TYPE afterword_requests_total counter\nafterword_requests_total 9\n"
    metrics = ClusterMetrics("h1", (), lambda: [("h1", stale)])
    metrics.observe(RECORD)
    assert len(samples(metrics.render(), "afterword_requests_total")) == 1


def test_what_is_merged_can_be_read_as_what_it_was() -> None:
    text = (
        b'# HELP a What.\n# TYPE a gauge\na 1.0\n# HELP b_total Why.\n# TYPE b_total counter\nb_total{x="{ y} "} 2.0\n'
    )
    families = {family.name: family for family in text_string_to_metric_families(merged([("r", text)] * 2).decode())}
    assert [(family.type, family.documentation) for family in families.values()] == [
        ("gauge", "What."),
        ("counter", "Why."),
    ]
    assert [sample.labels for sample in families["a"].samples] == [{"replica": "r"}] * 2
    assert [(sample.labels, sample.value) for sample in families["b"].samples] == [
        ({"replica": "r", "x": "{ y} "}, 2.0)
    ] * 2

"""One exposition of many."""

from afterword.cluster.metrics import ClusterMetrics
from afterword.engine.echo import EchoEngine
from afterword.logs import RequestRecord
from afterword.metrics import Metrics
from afterword.models import ServedModel

RECORD = RequestRecord("id", "POST", "/v1/completions", "/v1/completions", 200, 0.5, False)


def samples(text: bytes, name: str) -> list[str]:
    return [line for line in text.decode().splitlines() if line.startswith(name + "{")]


def test_each_sample_tells_its_replica() -> None:
    engine = Metrics([ServedModel("m", EchoEngine(n_streams=7), created=0)])
    other = ClusterMetrics("h2", (), lambda: ())
    other.observe(RECORD)
    metrics = ClusterMetrics("h1", (), lambda: [("e1", engine.render()), ("e2", engine.render()), other.own()])
    metrics.observe(RECORD)
    metrics.observe(RECORD)
    text = metrics.render()
    assert samples(text, "afterword_engine_streams_free") == [
        'afterword_engine_streams_free{model="m",replica="e1"} 7.0',
        'afterword_engine_streams_free{model="m",replica="e2"} 7.0',
    ]
    assert samples(text, "afterword_requests_total") == [
        'afterword_requests_total{replica="h1",route="/v1/completions",status="200"} 2.0',
        'afterword_requests_total{replica="h2",route="/v1/completions",status="200"} 1.0',
    ]
    assert text.decode().count("# TYPE afterword_request_seconds histogram\n") == 1


def test_engines_of_vendors_are_shown_by_the_replica_that_asks_them() -> None:
    metrics = ClusterMetrics("h1", [ServedModel("m", EchoEngine(n_streams=7), created=0)], lambda: ())
    assert samples(metrics.render(), "afterword_engine_streams_free") == [
        'afterword_engine_streams_free{model="m",replica="h1"} 7.0'
    ]


def test_what_others_know_of_this_replica_is_not_counted_twice() -> None:
    metrics = ClusterMetrics(
        "h1", (), lambda: [("h1", b"# TYPE afterword_requests counter\nafterword_requests_total 9\n")]
    )
    metrics.observe(RECORD)
    assert len(samples(metrics.render(), "afterword_requests_total")) == 1

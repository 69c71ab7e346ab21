"""Log lines as they reach stderr."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from afterword.logs import CompletionRecord, RequestRecord, configure, log_request

COMPLETION = CompletionRecord(
    model="m",
    full_name="local/m",
    stream=True,
    seed=0,
    seed_drawn=True,
    user=None,
    prompt_tokens=3,
    cached_tokens=2,
    completion_tokens=1,
    finish_reasons=(),
    ttft=0.0123,
)
RECORD = RequestRecord(
    request_id="r1",
    method="POST",
    path="/v1/completions",
    route="/v1/completions",
    status=200,
    latency=0.5,
    left=True,
    completion=COMPLETION,
)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_a_json_line_holds_the_whole_request(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json")
    log_request(RECORD)
    written = capsys.readouterr()
    line = json.loads(written.err)
    assert written.out == ""
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "request",
        "level": "info",
        "request_id": "r1",
        "method": "POST",
        "path": "/v1/completions",
        "status": 200,
        "latency_ms": 500.0,
        "client_left": True,
        "model": "m",
        "stream": True,
        "prompt_tokens": 3,
        "cached_tokens": 2,
        "completion_tokens": 1,
        "seed": 0,
        "seed_drawn": True,
        "finish_reasons": [],
        "ttft_ms": 12.3,
        "user": None,
    }


def test_a_level_hides_what_is_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    configure("console", "warning")
    log_request(RECORD)
    structlog.get_logger().warning("seen")
    assert "request" not in (written := capsys.readouterr().err)
    assert "seen" in written


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_traceback_does_not_show_what_variables_hold(capsys: pytest.CaptureFixture[str], log_format: str) -> None:
    configure("json" if log_format == "json" else "console")
    prompt = "my " + "diary"
    try:
        raise ValueError(f"broke at {len(prompt)}")
    except ValueError as error:
        structlog.get_logger().error("request failed", exc_info=error)
    written = capsys.readouterr().err
    assert "broke at 8" in written
    assert "my diary" not in written


def test_log_that_can_no_longer_be_written_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "log").open("w") as file:
        monkeypatch.setattr("sys.stderr", file)
        configure("json")
        structlog.get_logger().warning("written")
    structlog.get_logger().warning("dropped")
    assert (tmp_path / "log").read_text().count("\n") == 1

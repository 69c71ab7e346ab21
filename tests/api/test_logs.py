"""Log lines as they reach stderr."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from afterword.logs import CompletionRecord, LogFormat, RequestRecord, configure, log_request

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
    estimated=False,
    finish_reasons=(),
    ttft=0.0123,
)
RECORD = RequestRecord(
    request_id="r1",
    method="POST",
    path="/v1/completions",
    route="/v1/completions",
    status=200,
    outcome=499,
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


HOSTILE = "a\x1b[31mb\x07c\0d\x9be\u202ef\r\n2026[info]"


@pytest.mark.parametrize("field", ["user", "path"])
def test_http_30_a_console_line_has_no_control_characters(capsys: pytest.CaptureFixture[str], field: str) -> None:
    configure("console")
    record = (
        replace(RECORD, completion=replace(COMPLETION, user=HOSTILE))
        if field == "user"
        else replace(RECORD, path=HOSTILE)
    )
    log_request(record)
    [line, end] = capsys.readouterr().err.split("\n")
    assert end == ""
    assert line.isprintable()
    assert r"a\x1b[31mb\x07c\x00d\x9be\u202ef\r\n2026" in line


def test_http_30_nor_has_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    configure("console")
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        structlog.get_logger().error("failed", exc_info=error)
    written = capsys.readouterr().err
    assert "Traceback (most recent call last):" in written
    assert all(line.isprintable() for line in written.split("\n"))


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_http_29_a_line_is_short_whatever_a_client_calls_its_user(
    capsys: pytest.CaptureFixture[str], log_format: LogFormat
) -> None:
    configure(log_format)
    log_request(replace(RECORD, path="/" + "p" * 60_000, completion=replace(COMPLETION, user="u" * 1_000_000)))
    written = capsys.readouterr().err
    assert len(written) < 3000
    assert "u" * 1000 + "... (1000000 characters)" in written

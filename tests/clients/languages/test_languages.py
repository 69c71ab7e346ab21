"""What languages bring along to speak HTTP, run for real: plain answers, streams, refusals, and leaving in between."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.api.served import is_idle, wait_until
from tests.clients.languages.driver import CLIENTS, DATA, Client, missing, running
from tests.clients.languages.served import Served

pytestmark = pytest.mark.clients

BODY = {"model": "echo", "prompt": "héllo\n", "max_tokens": 12, "temperature": 0}


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest, home: Path) -> Iterator[Client]:
    lacks = missing(request.param)
    if lacks is not None:
        pytest.skip(f"not installed: {lacks}")
    with running(request.param, home) as started:
        yield started


def test_a_plain_answer_and_its_stream_are_the_same_text(client: Client, served: Served) -> None:
    plain = client.ask("whole", served.completions, BODY)
    stream = client.ask("lines", served.completions, BODY | {"stream": True})
    assert (plain.status, stream.status) == (200, 200)
    assert plain.written == stream.written == "héllo\nhéll"
    assert stream.text.startswith(DATA)
    assert plain.body["usage"]["total_tokens"] == 7 + 12


def test_a_refusal_is_read_whole(client: Client, served: Served) -> None:
    refusals = [
        client.ask(verb, served.completions, BODY | {"temperature": 3, "stream": verb == "lines"})
        for verb in ("whole", "lines")
    ]
    for refusal in refusals:
        assert refusal.status == 400
        assert refusal.body["error"]["param"] == "temperature"
    missing_model = client.ask("whole", served.completions, BODY | {"model": "gone"})
    assert (missing_model.status, missing_model.body["error"]["code"]) == (404, "model_not_found")
    assert client.ask("whole", served.completions, BODY).written == "héllo\nhéll"


def test_who_leaves_a_stream_ends_the_generation(client: Client, served: Served) -> None:
    n_rows, n_cancelled = len(served.ledger.rows), served.still.stats().cancelled
    # The model stands still behind its first token: what comes first comes at once, or never.
    left = client.ask("leave", served.completions, BODY | {"model": "still", "prompt": "hi", "stream": True})
    assert '"text":"h"' in left.text.replace(" ", "")
    row = served.row_of_who_left(n_rows)
    assert (row.status, row.prompt_tokens, row.completion_tokens, row.finish_reasons) == (499, 2, 1, ())
    wait_until(served.url, lambda: is_idle(served.still))
    assert served.still.stats().cancelled == n_cancelled + 1
    assert client.ask("whole", served.completions, BODY).written == "héllo\nhéll"


@pytest.mark.skipif(missing("curl") is not None, reason="not installed: curl")
def test_curl_that_begins_with_http_2_is_told_so_in_its_own_frames(served: Served) -> None:
    command = ["curl", "--verbose", "--http2-prior-knowledge", "-d", "{}", served.completions]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 16
    # HTTP_1_1_REQUIRED.
    assert "GOAWAY, error=13, last_stream=0" in done.stderr

"""What the fuzzing of a server sends, and what it takes for a fault."""

import random

import pytest
from benchmarks.fuzz import Answers, check_body
from benchmarks.mutations import request, stream
from httptools import HttpParserError

REFUSAL = b'{"error":{"message":"m","type":"t","param":null,"code":null}}'


@pytest.mark.parametrize("make", [request, stream])
def test_a_seed_says_what_is_sent(make: object) -> None:
    assert callable(make)
    first, again, other = (make(random.Random(seed)) for seed in ("1", "1", "2"))
    assert first == again != other


def test_some_of_what_is_sent_is_still_json_and_some_is_not() -> None:
    bodies = [request(random.Random(str(number))).body for number in range(100)]
    assert 50 < sum(body.startswith(b"{") and body.endswith(b"}") for body in bodies) < 100


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(200, b'{"choices":[]}', id="an answer"),
        pytest.param(400, REFUSAL, id="a refusal"),
        pytest.param(200, b'data: {"choices":[]}\n\ndata: [DONE]\n\n', id="a stream"),
        pytest.param(200, b"data: {}\n\ndata: " + REFUSAL + b"\n\n", id="a stream that is refused late"),
    ],
)
def test_good_answers_are_taken(status: int, body: bytes) -> None:
    check_body(status, body)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(200, b'{"choices":', id="half an answer"),
        pytest.param(400, b'{"detail":"m"}', id="another form"),
        pytest.param(200, b'data: {"choices":[]}\n\n', id="a stream without an end"),
        pytest.param(200, b'data: {"error":{"type":"server_error"}}\n\n', id="a stream that fails"),
    ],
)
def test_bad_answers_are_found(status: int, body: bytes) -> None:
    with pytest.raises((ValueError, KeyError)):
        check_body(status, body)


def test_answers_behind_each_other_are_told_apart() -> None:
    answers = Answers()
    answers.take(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\nbc")
    assert answers.whole == [(200, b"a"), (400, b"bc")]
    with pytest.raises(HttpParserError):
        Answers().take(b"no HTTP")

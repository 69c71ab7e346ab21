"""What a stream's recorded bytes say, and when."""

import json

import pytest
from benchmarks.arrivals import Stream, percentile, read_stream


def event(**fields: object) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def test_a_chunk_arrives_with_the_part_that_completes_it() -> None:
    first, second = event(choices=[{"text": "a"}]), event(choices=[{"text": "b"}])
    parts = [(1.0, first[:9]), (2.0, first[9:] + second[:9]), (3.0, second[9:] + b"data: [DONE]\n\n")]
    assert read_stream(0.5, parts, 3.5).stamps == (2.0, 3.0)


def test_the_server_counts_the_tokens_where_it_does() -> None:
    parts = [(1.0, event(choices=[{"text": "a b"}])), (2.0, event(choices=[], usage={"completion_tokens": 7}))]
    assert read_stream(0.0, parts, 2.0).n_tokens == 7


def test_chunks_count_as_tokens_otherwise_and_empty_ones_do_not() -> None:
    texts = ["a", "b", ""]
    parts = [(float(i), event(choices=[{"text": text}], usage=None)) for i, text in enumerate(texts)]
    assert read_stream(0.0, parts, 9.0).n_tokens == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(event(error={"message": "broken"}), "broken", id="error"),
        pytest.param(b"data: [DONE]\n\n", "no text", id="nothing"),
    ],
)
def test_a_stream_without_its_answer_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_stream(0.0, [(1.0, data)], 2.0)


def test_times_of_a_stream() -> None:
    stream = Stream(started=10.0, stamps=(10.5, 10.75, 11.5), ended=12.5, n_tokens=9)
    assert (stream.first, stream.total, stream.gaps, stream.decode_rate) == (0.5, 2.5, (0.25, 0.75), 4.0)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        pytest.param([5.0], 99, 5.0, id="only one"),
        pytest.param([3.0, 1.0, 2.0], 50, 2.0, id="median"),
        pytest.param([float(n) for n in range(101)], 99, 99.0, id="near the top"),
    ],
)
def test_percentile(values: list[float], percent: int, expected: float) -> None:
    assert percentile(values, percent) == expected

"""JSON on the wire."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.api.wire import dumps, finite


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u2028b", b'"a\\u2028b"'),
        ("\u2029", b'"\\u2029"'),
        ("\x85", b'"\\u0085"'),
        ("é\u2026", '"é…"'.encode()),
        ("a\nb", b'"a\\nb"'),
    ],
)
def test_line_separators_are_escaped_and_nothing_else_is_touched(text: str, expected: bytes) -> None:
    assert dumps(text) == expected


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("\u2028\u2029\x85\x0b\r\n")))
def test_any_text_survives_on_one_line(text: str) -> None:
    raw = dumps({"text": text})
    assert json.loads(raw) == {"text": text}
    assert raw.decode("utf-8").splitlines() == [raw.decode("utf-8")]


@pytest.mark.parametrize(
    ("logprob", "expected"),
    [(-0.5, -0.5), (0.0, 0.0), (-9998.9, -9998.9), (-1e6, -9999.0)]
    + [(value, -9999.0) for value in (-math.inf, math.inf, math.nan)],
)
def test_logprobs_are_always_finite(logprob: float, expected: float) -> None:
    assert finite(logprob) == expected

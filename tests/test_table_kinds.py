"""Kinds of values in tables: what they take and what they refuse."""

from typing import Any

import pytest

from afterword.kinds import Kind
from afterword.table_kinds import HttpUrl, OneOrMore, Seconds, Table, TextTable, Words


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (HttpUrl(), "http://there", "http://there"),
        (HttpUrl(), "https://there:8000/v1///", "https://there:8000/v1"),
        (HttpUrl(), "http://[::1]:80/v1", "http://[::1]:80/v1"),
        (OneOrMore(), "a", ("a",)),
        (OneOrMore(), ["a", "b"], ("a", "b")),
        (Seconds(), 1, 1.0),
        (Seconds(), 0.25, 0.25),
        (Table(), {"a": 1}, {"a": 1}),
        (TextTable(), {"a": "b"}, {"a": "b"}),
        (TextTable(), {}, {}),
        (Words(("a", "b")), ["b"], ("b",)),
        (Words(("a", "b")), [], ()),
    ],
)
def test_what_fits_is_taken(kind: Kind, given: Any, expected: Any) -> None:
    assert kind.check(given) == expected


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (HttpUrl(), "there:80"),
        (HttpUrl(), "ftp://there"),
        (HttpUrl(), "http://"),
        (HttpUrl(), "http://there/v1?key=1"),
        (HttpUrl(), "http://there/#a"),
        (HttpUrl(), 1),
        (OneOrMore(), []),
        (OneOrMore(), [""]),
        (OneOrMore(), {}),
        (Seconds(), 0),
        (Seconds(), -1),
        (Seconds(), True),
        (Seconds(), "1"),
        (Seconds(), float("inf")),
        (Seconds(), float("nan")),
        (Table(), []),
        (TextTable(), {"a": 1}),
        (TextTable(), {"a": " "}),
        (Words(("a",)), ["b"]),
        (Words(("a",)), "a"),
    ],
)
def test_what_does_not_fit_is_refused(kind: Kind, given: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - kinds raise it without words
        kind.check(given)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (OneOrMore(), "a, b", ("a", "b")),
        (Words(("a", "b")), "a,b", ("a", "b")),
        (Seconds(), "1.5", 1.5),
        (HttpUrl(), "http://there/", "http://there"),
    ],
)
def test_what_can_be_written_as_one_text_is_read_from_it(kind: Kind, text: str, expected: Any) -> None:
    assert kind.parse(text) == expected

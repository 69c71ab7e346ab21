"""What setting values may be: what is taken, what is refused, and how each type is said in words."""

import math
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, Strict, ValidationError

from afterword.config.refusal import read_option
from afterword.config.table_keys import read_value
from afterword.config.values import (
    ApiKey,
    Bytes,
    Database,
    Directory,
    FileOrFunction,
    FunctionName,
    HeaderTable,
    HeaderText,
    HttpUrl,
    KeepAlive,
    Memory,
    OneOrMore,
    RedisUrl,
    Seconds,
    Share,
    Template,
    Text,
    Texts,
    allowed,
)
from afterword.errors import ConfigurationError
from afterword.text.infill_template import parse_template

Whole = Annotated[int, Field(ge=0)]
Digit = Annotated[int, Field(ge=1, le=9)]
Word = Literal["a", "b"]
Words = Annotated[tuple[Word, ...], Strict(False)]

REDIS = ["redis://h", "rediss://u:p@h:1/2?ssl_cert_reqs=none", "redis://[::1]:6379", "unix:///a/b"]


def shown(value: object) -> str:
    """An id that every process gives: the addresses of validators are left out."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Whole, "0", 0),
        (Whole, "007", 7),
        (Whole | None, "7", 7),
        (bool, "ON", True),
        (bool, "0", False),
        (Text, " a ", " a "),
        (Word, "b", "b"),
        (Texts, "a, b,,", ("a", "b")),
        (Texts, "", ()),
        (OneOrMore, "a, b", ("a", "b")),
        (Words, "a,b", ("a", "b")),
        (Bytes, "12", 12),
        (Bytes, "1.5 kB", 1500),
        (Bytes, "32MiB", 33554432),
        (Bytes, "4gb", 4_000_000_000),
        (Memory, "4KiB", 4096),
        (Memory, "1%", Share(0.01)),
        (Memory, "100%", Share(1.0)),
        (KeepAlive, "300", 300.0),
        (KeepAlive, "1h30m5s", 5405.0),
        (KeepAlive, "0", 0.0),
        (KeepAlive, "-1", math.inf),
        (Directory, "/a/b", Path("/a/b")),
        (Template, "{suffix}{prefix}", parse_template("{suffix}{prefix}")),
        (FileOrFunction, "words.txt", Path("words.txt")),
        (FileOrFunction, "a.b_c:judge", FunctionName("a.b_c", "judge")),
        (FileOrFunction, "./a:judge", Path("./a:judge")),
        (FileOrFunction, "a b:judge", Path("a b:judge")),
        (HttpUrl, "http://there/", "http://there"),
        *((RedisUrl, url, url) for url in REDIS),
        (Database, "none", None),
        (Database, "None", Path("None")),
        (Database, "sqlite:///a", "sqlite:///a"),
        (Database, "/a/b.db", Path("/a/b.db")),
        (Database, "~/x", Path.home() / "x"),
        (Directory, "~/x", Path.home() / "x"),
        (Directory, "~no such user/x", Path("~no such user/x")),
    ],
    ids=shown,
)
def test_text_becomes_a_value(kind: Any, text: str, value: object) -> None:
    assert read_option(kind, text, "--it") == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Digit, "0"),
        (Digit, "10"),
        (Whole, "-1"),
        (Whole, "+1"),
        (Whole, "1.0"),
        (Whole, "1_0"),
        (Whole, " 1"),
        (Whole, "\u0661"),
        (Whole, ""),
        (Whole, "9" * 5000),
        (bool, "maybe"),
        (Text, " "),
        (Word, "A"),
        (Bytes, "0"),
        (Bytes, "-1"),
        (Bytes, "1 parsec"),
        (Bytes, "GB"),
        (Bytes, "9" * 5000 + "GB"),
        (Memory, "0%"),
        (Memory, "101%"),
        (Memory, "%"),
        (Directory, ""),
        (Template, "{prefix}{prefix}{suffix}"),
        (HttpUrl, "there:80"),
        (RedisUrl, "localhost:6379"),
        (RedisUrl, "http://host"),
        (RedisUrl, "redis://"),
        (RedisUrl, "redis://host:port"),
        (RedisUrl, "redis://host:99999"),
        (RedisUrl, "unix://"),
        (FileOrFunction, " "),
    ],
    ids=shown,
)
def test_other_text_is_refused_with_what_is_allowed(kind: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^--it is .*: it must be {re.escape(allowed(kind))}\\.$"):
        read_option(kind, text, "--it")


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (HttpUrl, "https://there:8000/v1///", "https://there:8000/v1"),
        (HttpUrl, "http://[::1]:80/v1", "http://[::1]:80/v1"),
        (OneOrMore, "a", ("a",)),
        (OneOrMore, ["a", "b"], ("a", "b")),
        (Seconds, 1, 1.0),
        (Seconds, 0.25, 0.25),
        (HeaderTable, {"x-a": " b\n"}, {"x-a": "b"}),
        (HeaderTable, {}, {}),
        (ApiKey, " s\u00e9cr\u00e9t \r\n", "s\u00e9cr\u00e9t"),
        (HeaderText, "\tsk-1 2\n", "sk-1 2"),
        (Words, ["b"], ("b",)),
        (Words, [], ()),
        (Bytes, 1, 1),
        (Memory, 1, 1),
    ],
    ids=shown,
)
def test_a_typed_value_that_fits_is_taken(kind: Any, given: object, expected: object) -> None:
    assert read_value(kind, given) == expected


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Whole, True),
        (Whole, "1"),
        (Whole, 1.0),
        (bool, 1),
        (bool, "true"),
        (Text, 1),
        (Word, 1),
        (Texts, "a"),
        (Texts, ["a", 1]),
        (Bytes, 1.5),
        (Bytes, True),
        (Bytes, 0),
        (Memory, None),
        (Memory, 0.5),
        (Directory, 1),
        (Database, 1),
        (RedisUrl, 1),
        (Template, 1),
        (FileOrFunction, 1),
        (HttpUrl, "ftp://there"),
        (HttpUrl, "http://"),
        (HttpUrl, "http://[there"),
        (HttpUrl, "http://there:99999"),
        (HttpUrl, "http://the\nre"),
        (HttpUrl, "http://there/v1?key=1"),
        (HttpUrl, "http://there/#a"),
        (HttpUrl, 1),
        (OneOrMore, []),
        (OneOrMore, [""]),
        (OneOrMore, {}),
        (Seconds, 0),
        (Seconds, -1),
        (Seconds, True),
        (Seconds, "1"),
        (Seconds, float("inf")),
        (Seconds, float("nan")),
        (dict[str, Any], []),
        (HeaderTable, {"a": 1}),
        (HeaderTable, {"a": " "}),
        (HeaderTable, {"a": "b\nc"}),
        (HeaderTable, {"a b": "c"}),
        (HeaderTable, {"a\n": "c"}),
        (HeaderTable, {"": "c"}),
        (ApiKey, "a\nb"),
        (ApiKey, "a\x00"),
        (ApiKey, " \n"),
        (HeaderText, "s\u00e9cr\u00e9t"),
        (HeaderText, "a\r\nb"),
        (Words, ["c"]),
        (Words, "a"),
    ],
    ids=shown,
)
def test_a_typed_value_that_does_not_fit_is_refused(kind: Any, given: object) -> None:
    with pytest.raises(ValidationError):
        read_value(kind, given)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Whole, "a whole number, 0 or more"),
        (Digit | None, "a whole number from 1 to 9"),
        (bool, "true or false"),
        (Word, "one of a, b"),
        (Words, "a list out of a, b"),
        (Text | None, "a text that is not blank"),
        (dict[str, Any], "a table"),
    ],
    ids=shown,
)
def test_a_type_is_said_in_words(kind: Any, words: str) -> None:
    assert allowed(kind) == words

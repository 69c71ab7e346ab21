"""What setting values may be."""

from pathlib import Path

import pytest

from afterword.kinds import (
    Bytes,
    Choice,
    Database,
    Directory,
    FileOrFunction,
    FunctionName,
    Integer,
    Kind,
    Memory,
    RedisUrl,
    Share,
    Switch,
    Template,
    Text,
    Texts,
)
from afterword.text.infill import parse_template


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Integer(0), "0", 0),
        (Integer(0), "007", 7),
        (Switch(), "ON", True),
        (Switch(), "0", False),
        (Text(), " a ", " a "),
        (Choice(("a", "b")), "b", "b"),
        (Texts(), "a, b,,", ("a", "b")),
        (Texts(), "", ()),
        (Bytes(), "12", 12),
        (Bytes(), "1.5 kB", 1500),
        (Bytes(), "32MiB", 33554432),
        (Bytes(), "4gb", 4_000_000_000),
        (Memory(), "4KiB", 4096),
        (Memory(), "1%", Share(0.01)),
        (Memory(), "100%", Share(1.0)),
        (Directory(), "/a/b", Path("/a/b")),
        (Template(), "{suffix}{prefix}", parse_template("{suffix}{prefix}")),
        (FileOrFunction(), "words.txt", Path("words.txt")),
        (FileOrFunction(), "a.b_c:judge", FunctionName("a.b_c", "judge")),
        (FileOrFunction(), "./a:judge", Path("./a:judge")),
        (FileOrFunction(), "a b:judge", Path("a b:judge")),
    ],
    ids=str,
)
def test_text_becomes_a_value(kind: Kind, text: str, value: object) -> None:
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Integer(1), "0"),
        (Integer(1, 9), "10"),
        (Integer(0), "-1"),
        (Integer(0), "1.0"),
        (Integer(0), "1_0"),
        (Integer(0), " 1"),
        (Integer(0), "\u0661"),
        (Integer(0), ""),
        (Switch(), "maybe"),
        (Text(), " "),
        (Choice(("a", "b")), "A"),
        (Bytes(), "0"),
        (Bytes(), "-1"),
        (Bytes(), "1 parsec"),
        (Bytes(), "GB"),
        (Memory(), "0%"),
        (Memory(), "101%"),
        (Memory(), "%"),
        (Directory(), ""),
        (Template(), "{prefix}{prefix}{suffix}"),
        (RedisUrl(), "localhost:6379"),
        (RedisUrl(), "http://host"),
        (RedisUrl(), "redis://"),
        (RedisUrl(), "redis://host:port"),
        (RedisUrl(), "redis://host:99999"),
        (RedisUrl(), "unix://"),
        (FileOrFunction(), " "),
    ],
    ids=str,
)
def test_other_text_is_refused(kind: Kind, text: str) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        kind.parse(text)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Integer(0), True),
        (Integer(0), "1"),
        (Integer(0), 1.0),
        (Switch(), 1),
        (Switch(), "true"),
        (Text(), 1),
        (Choice(("1",)), 1),
        (Texts(), "a"),
        (Texts(), ["a", 1]),
        (Bytes(), 1.5),
        (Bytes(), True),
        (Memory(), None),
        (Directory(), 1),
        (Database(), 1),
        (RedisUrl(), 1),
        (Template(), 1),
    ],
    ids=str,
)
def test_a_typed_value_of_another_type_is_refused(kind: Kind, value: object) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        kind.check(value)


def test_a_home_directory_is_expanded() -> None:
    assert Directory().parse("~/x") == Path.home() / "x"
    assert Database().parse("~/x") == Path.home() / "x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("none", "none"), ("None", Path("None")), ("sqlite:///a", "sqlite:///a"), ("/a/b.db", Path("/a/b.db"))],
)
def test_a_database_is_a_path_unless_it_has_a_scheme_or_is_the_word_for_nothing(
    text: str, expected: Path | str
) -> None:
    assert Database().parse(text) == expected


@pytest.mark.parametrize(
    "text", ["redis://h", "rediss://u:p@h:1/2?ssl_cert_reqs=none", "redis://[::1]:6379", "unix:///a/b"]
)
def test_a_redis_url_stays_as_it_is(text: str) -> None:
    assert RedisUrl().parse(text) == text

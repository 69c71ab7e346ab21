"""The types of settings: from what a file or a flag has to what the program uses.

A type refuses with `ValueError`; its `Allowed` completes the sentence "it must be". Knows no setting.
"""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from os.path import expanduser
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, InstanceOf, PlainValidator, Strict, StringConstraints

from afterword.text.infill_template import InfillTemplate, parse_template

NO_DATABASE = "none"

UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}

_UNIT_SECONDS = {"h": 3600, "m": 60, "s": 1}

SWITCHES = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a type accepts, where its bounds do not say it."""

    words: str


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the memory that is free."""

    fraction: float
    """Above 0, at most 1."""


@dataclass(frozen=True, slots=True)
class FunctionName:
    """A Python function, by the names of its module and its own."""

    module: str
    name: str


def is_unicode(text: str) -> bool:
    """Whether UTF-8 and JSON can hold the text: Python also reads arguments, variables and paths that they cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


def _path(value: object) -> Path:
    # The function, not the method: that one raises if there is no such user.
    return value if isinstance(value, Path) else Path(expanduser(_text(value)))


def _template(value: object) -> InfillTemplate:
    return value if isinstance(value, InfillTemplate) else parse_template(_text(value))


def _layers(value: object) -> int | Literal["auto", "all"]:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,6}", value) is not None:
        return int(value)
    if value == "none":
        return 0
    if (isinstance(value, int) and not isinstance(value, bool) and value >= 0) or value in ("auto", "all"):
        return value
    raise ValueError


def _amount(value: object) -> object:
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([A-Za-z]*)", value)
    if found is None or found[2].lower() not in UNITS:
        raise ValueError
    return int(Fraction(found[1]) * UNITS[found[2].lower()])


def _duration(value: object) -> float:
    """Numbers are seconds, and negative ones for good, as Ollama has them."""
    text = str(value)
    if isinstance(value, bool) or re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]+)?|([0-9]{1,9}[hms])+|inf", text) is None:
        raise ValueError
    if text[-1] in _UNIT_SECONDS:
        return float(sum(int(n) * _UNIT_SECONDS[unit] for n, unit in re.findall("([0-9]+)([hms])", text)))
    return float(text) if float(text) >= 0 else math.inf


def _share(value: object) -> object:
    if not isinstance(value, str) or not value.endswith("%"):
        return value
    percent = value[:-1].strip()
    if re.fullmatch(r"[0-9]{1,3}", percent) is None or not 1 <= int(percent) <= 100:
        raise ValueError
    return Share(int(percent) / 100)


def _address(text: str, schemes: tuple[str, ...]) -> bool:
    url = urlsplit(text)
    # `port` raises `ValueError` when it is read, if it is no number.
    return text.isprintable() and url.scheme in schemes and bool(url.hostname) and url.port != 0


def _http_url(value: object) -> str:
    text = _text(value)
    if not _address(text, ("http", "https")) or "?" in text or "#" in text:
        raise ValueError
    return text.rstrip("/")


def _redis_url(value: object) -> str:
    text = _text(value)
    is_socket = text.startswith("unix:") and urlsplit(text).path != ""
    if not is_socket and not _address(text, ("redis", "rediss")):
        raise ValueError
    return text


def _database(value: object) -> Path | str | None:
    if value is None or value == NO_DATABASE:
        return None
    return value if isinstance(value, str) and "://" in value else _path(value)


def _file_or_function(value: object) -> Path | FunctionName:
    if isinstance(value, FunctionName):
        return value
    module, _, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    if name.isidentifier() and all(part.isidentifier() for part in module.split(".")):
        return FunctionName(module, name)
    return _path(value)


def _one_or_more(value: object) -> object:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, Field(pattern=r"\S"), Allowed("a text that is not blank")]

Texts = Annotated[
    tuple[Text, ...], Strict(False), Allowed("a list of texts (as a flag or a variable: with commas between them)")
]

OneOrMore = Annotated[
    tuple[Text, ...],
    Strict(False),
    Field(min_length=1),
    BeforeValidator(_one_or_more),
    Allowed("a text, or a list of texts that is not empty"),
]

# White space around these is what a copy or the end of a file has left; no client could ever send it.
ApiKey = Annotated[
    str,
    StringConstraints(strip_whitespace=True, pattern=r"^[ [^\p{C}\p{Z}]]+$"),
    Allowed("a text without control characters that is not blank"),
]

HeaderText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, pattern=r"^[ -~]+$"),
    Allowed("a text of printable ASCII characters that is not blank"),
]
"""What goes into a header of a request."""

HeaderTable = Annotated[
    dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")], HeaderText],
    Allowed("a table of names of HTTP headers and texts of printable ASCII characters"),
]

Bytes = Annotated[
    int, Field(ge=1), BeforeValidator(_amount), Allowed('an amount of bytes such as 1048576, "32MiB" or "4GB"')
]

Memory = Annotated[
    Bytes | InstanceOf[Share],
    BeforeValidator(_share),
    Allowed('an amount of bytes such as "8GB", or a share of the free memory from "1%" to "100%"'),
]

KeyLimit = Annotated[int, Field(ge=1, le=2**31 - 1)]
"""A limit of an API key; databases store it in 32 bits."""

Priority = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
"""Of requests; lower is earlier. Databases store it in 32 bits."""

KeepAlive = Annotated[
    float,
    BeforeValidator(_duration),
    Allowed('seconds such as 300, a time such as "5m" or "1h30m", 0 for not at all, or -1 for good'),
]
"""Seconds; infinite: for good."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False), Allowed("a number of seconds above 0")]

GpuLayers = Annotated[
    int | Literal["auto", "all"], PlainValidator(_layers), Allowed("auto, all, none, or a number of layers")
]

Directory = Annotated[Path, PlainValidator(_path), Allowed("the path of a directory")]

FilePath = Annotated[Path, PlainValidator(_path), Allowed("the path of a file")]

Template = Annotated[
    InfillTemplate, PlainValidator(_template), Allowed("a text that holds {prefix} and {suffix}, each of them once")
]

HttpUrl = Annotated[str, PlainValidator(_http_url), Allowed("an address that starts with http:// or https://")]
"""The address of a server, without a slash at its end."""

RedisUrl = Annotated[
    str,
    PlainValidator(_redis_url),
    Allowed("a URL such as redis://user:password@host:6379/0, rediss://host or unix:///path/to/socket"),
]

Database = Annotated[
    Path | str | None,
    PlainValidator(_database),
    Allowed(f"the path of a SQLite file, a URL such as postgresql://user:password@host/name, or {NO_DATABASE}"),
]
"""Which URLs are supported is checked when the database is opened."""

FileOrFunction = Annotated[
    Path | FunctionName,
    PlainValidator(_file_or_function),
    Allowed("the path of a file, or a Python function written module:function"),
]
"""A file whose path looks like a function can be written with `./` in front."""


def core(kind: Any) -> tuple[Any, list[Any]]:
    """The type inside `Annotated[kind | None, ...]`, and the rules around it, outermost first."""
    rules: list[Any] = []
    while True:
        inside = [part for part in get_args(kind) if part is not NoneType]
        if get_origin(kind) is Annotated:
            kind, around = kind.__origin__, kind.__metadata__
            for rule in reversed(around):
                rules += getattr(rule, "metadata", [rule])
        elif NoneType in get_args(kind) and len(inside) == 1:
            (kind,) = inside
        else:
            return kind, rules


def allowed(kind: Any) -> str:
    """What `kind` accepts, to follow the words "it must be"."""
    base, rules = core(kind)
    stated = [rule.words for rule in rules if isinstance(rule, Allowed)]
    if stated:
        return stated[0]
    if base is bool:
        return "true or false"
    if base is int:
        return _whole(rules)
    if get_origin(base) is Literal:
        return "one of " + ", ".join(get_args(base))
    if get_origin(base) is tuple:
        return "a list out of " + ", ".join(get_args(get_args(base)[0]))
    return "a table"


def _whole(rules: list[Any]) -> str:
    least = next(rule.ge for rule in rules if hasattr(rule, "ge"))
    most = next((rule.le for rule in rules if hasattr(rule, "le")), None)
    return f"a whole number, {least} or more" if most is None else f"a whole number from {least} to {most}"


def from_text(kind: Any, text: str) -> object:
    """The text of a flag or variable as a configuration file would have it; text of no known form stays text.

    Numbers have digits only, and a minus in front: no plus, no space, no underscore.
    """
    base, _ = core(kind)
    if base is bool:
        return SWITCHES.get(text.lower(), text)
    if base is int and re.fullmatch(r"-?[0-9]{1,30}", text) is not None:
        return int(text)
    if get_origin(base) is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text

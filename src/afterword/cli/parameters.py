"""The fields of a completion request as command-line options, made from the table of fields.

Only the form of values is checked here; `completions` checks ranges, with the API's messages.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from afterword.cli.options import Option
from afterword.errors import ConfigurationError
from afterword.fields.field import RequestField
from afterword.fields.table import FIELDS
from afterword.text.brief import brief

NOT_OPTIONS = frozenset({"model", "prompt", "stream", "stream_options"})
"""Given by other means: `--model`, the argument, and the way the command prints."""

_METAVARS = {"text": "TEXT", "lines": "TEXT", "texts": "TEXT", "numbers": "ID", "bias": "ID=BIAS"}

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}


def parameter_options() -> list[Option]:
    """An option for every field of a request, in the order of the reference."""
    return [_option(field) for field in FIELDS if field.name not in NOT_OPTIONS]


def request_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were given, as the JSON body has them. Raises `ConfigurationError` for what is no number."""
    given = {field: values.get(field.name) for field in FIELDS if field.name not in NOT_OPTIONS}
    return {field.name: _value(field, value) for field, value in given.items() if value is not None}


def _option(field: RequestField) -> Option:
    name, control = field.name, field.control
    flag = _flag(name)
    if control == "switch":
        return Option(name, (f"{flag}/--no-{flag.removeprefix('--')}",), bool, field.doc)
    metavar = _METAVARS.get(control, "NUMBER")
    if control in ("texts", "numbers", "bias"):
        escapes = r" \n, \r, \t and \\ are a line's end, a return, a tab and a backslash." if control == "texts" else ""
        return Option(name, (flag,), list[str], f"{field.doc} May be repeated.{escapes}", metavar)
    default = "" if field.default is None or field.default == "" else f" [default: {field.default:g}]"
    return Option(name, (flag,), str, field.doc + default, metavar)


def _value(field: RequestField, given: Any) -> Any:
    match field.control:
        case "texts":
            return [_unescaped(text) for text in given]
        case "numbers":
            return [_number(field.name, text) for text in given]
        case "bias":
            return dict(_bias(field.name, text) for text in given)
        case "number" | "slider":
            return _number(field.name, given)
    return given


def _unescaped(text: str) -> str:
    """The text with what a shell cannot write well, such as a line's end (docs/rules.md#escapes)."""
    return re.sub(r"\\([nrt\\])", lambda found: _ESCAPES[found[1]], text)


def _bias(name: str, text: str) -> tuple[str, int | float]:
    token, equals, bias = text.partition("=")
    value = _as_number(bias)
    if equals == "" or value is None:
        raise _refused(name, text, "a token's id and a number, such as 50256=-100")
    return token, value


def _number(name: str, text: str) -> int | float:
    value = _as_number(text)
    if value is None:
        raise _refused(name, text, "a number")
    return value


def _refused(name: str, text: str, words: str) -> ConfigurationError:
    return ConfigurationError(f"{_flag(name)} is {brief(text)!r}: it must be {words}.")


def _as_number(text: str) -> int | float | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")

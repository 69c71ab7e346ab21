"""The fields of a completion request as command-line options, read off the request's own model.

Values are only told apart by shape here; ranges are the business of `completions`, which refuses in the API's words.
"""

import json
from collections.abc import Mapping
from typing import Any

from afterword.cli.options import Option
from afterword.completions.body import CompletionBody
from afterword.errors import InvalidRequest

NOT_OPTIONS = frozenset({"model", "prompt", "stream", "stream_options"})
"""Given by other means: `--model`, the argument, and the way the command prints."""

TEXT = frozenset({"suffix", "user"})
REPEATED = frozenset({"stop", "stop_token_ids", "logit_bias"})

_METAVARS = {"stop": "TEXT", "stop_token_ids": "ID", "logit_bias": "ID=BIAS"}


def parameter_options() -> list[Option]:
    """An option for every field of a request, in the order of the reference."""
    return [_option(name) for name in CompletionBody.model_fields if name not in NOT_OPTIONS]


def request_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were given, as the JSON body has them. Raises `InvalidRequest` for text that is no number."""
    fields: dict[str, Any] = {}
    for name in CompletionBody.model_fields:
        value = values.get(name)
        if name not in NOT_OPTIONS and value is not None:
            fields[name] = _field(name, value)
    return fields


def _option(name: str) -> Option:
    field = CompletionBody.model_fields[name]
    flag = "--" + name.replace("_", "-")
    about = field.description or ""
    if name in REPEATED:
        return Option(name, (flag,), list[str], about + " May be repeated.", _METAVARS[name])
    if field.annotation is bool:
        return Option(name, (f"{flag}/--no-{flag.removeprefix('--')}",), bool, about)
    default = "" if field.default is None or field.default == "" else f" [default: {field.default:g}]"
    return Option(name, (flag,), str, about + default, "TEXT" if name in TEXT else "NUMBER")


def _field(name: str, value: Any) -> Any:
    match name:
        case "stop":
            return value
        case "stop_token_ids":
            return [_number(name, text) for text in value]
        case "logit_bias":
            pairs = (text.partition("=") for text in value)
            return {token: _number(name, bias) for token, _, bias in pairs}
    return _number(name, value) if isinstance(value, str) and name not in TEXT else value


def _number(name: str, text: str) -> int | float:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise InvalidRequest(f"'{name}' is {text!r}: it must be a number.", param=name, code="invalid_type")

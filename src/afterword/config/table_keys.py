"""Tables of the configuration as pydantic models, and their keys for messages, options and documents."""

from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model
from pydantic.fields import FieldInfo

from afterword.config.values import core


class Table(BaseModel):
    """One table: each field is a key with its type, its default and its description."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


def key(default: Any, about: str, *, shown: str | None = None, secret: bool = False, **rules: Any) -> Any:
    """A field of a table; the default `...` means that it is required.

    `about`: one sentence. `shown`: the default in words, where its value is not enough. `secret`: no message may
    repeat the value.
    """
    extra: dict[str, JsonValue] | None = None if shown is None else {"default": shown}
    return Field(default, description=about, json_schema_extra=extra, repr=not secret, **rules)


@dataclass(frozen=True, slots=True)
class Key:
    """A field of a table, for messages and documents."""

    name: str
    kind: Any
    """Its type with all rules, for `values.py`."""
    about: str
    default: str
    secret: bool

    @property
    def flag(self) -> str:
        """Its command-line option, if the table is one of `SECTIONS`."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its environment variable, if the table is one of `SECTIONS`."""
        return "AFTERWORD_" + self.name.upper()


def keys_of(table: type[Table]) -> dict[str, Key]:
    """The keys of a table, by the names that a file gives them."""
    fields = ((field.alias or name, field) for name, field in table.model_fields.items())
    return {
        name: Key(name, field.rebuild_annotation(), field.description or "", _shown_default(field), not field.repr)
        for name, field in fields
    }


def _shown_default(field: FieldInfo) -> str:
    if isinstance(field.json_schema_extra, dict):
        return str(field.json_schema_extra["default"])
    if field.is_required():
        return "required"
    return str(field.default).lower() if isinstance(field.default, bool) else str(field.default)


def read_value(kind: Any, value: object) -> Any:
    """The value by the rules of a key of type `kind`. Raises `ValidationError`."""
    alone = create_model("Alone", __base__=Table, value=(kind, ...))
    return alone.model_validate({"value": value}).value  # type: ignore[attr-defined]


def table_in(kind: Any) -> type[Table] | None:
    """The model of the table, or of each table of the list, that a key of type `kind` holds."""
    base, _ = core(kind)
    for part in (base, *get_args(base)[:1]):
        if isinstance(part, type) and issubclass(part, Table):
            return part
    return None

"""`[[vendors]]`: each table as the settings of an upstream server.

Opens no connection. Everything wrong is a `ConfigurationError`; a key is never repeated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from afterword.defaults import LOCAL, SUPPORT_SETTINGS, VENDOR_SETTINGS
from afterword.engine.upstream.settings import PRESETS, Supports, VendorSettings
from afterword.errors import ConfigurationError
from afterword.model_config import ModelConfig
from afterword.tables import File, read_table, tables_of


def read_vendors(file: File, environment: Mapping[str, str]) -> tuple[VendorSettings, ...]:
    """Every configured vendor. Raises `ConfigurationError`."""
    vendors = tuple(_vendor(table, place, environment) for table, place in tables_of(file, "vendors"))
    seen = {LOCAL}
    for vendor in vendors:
        if vendor.name in seen:
            why = "that is this server itself" if vendor.name == LOCAL else "names must differ"
            raise ConfigurationError(f"A vendor in {file.path} is called {vendor.name!r}, but {why}.")
        seen.add(vendor.name)
    return vendors


def check_vendors(models: Sequence[ModelConfig], vendors: Sequence[VendorSettings]) -> None:
    """Raise `ConfigurationError` for a model whose vendor is not configured."""
    known = [LOCAL, *(vendor.name for vendor in vendors)]
    for model in models:
        for name in model.vendors:
            if name not in known:
                raise ConfigurationError(
                    f"vendor of the model {model.name!r} is {name!r}: it must be one of {', '.join(known)}; each of "
                    "them but local is a table [[vendors]]."
                )


def _vendor(table: dict[str, Any], place: str, environment: Mapping[str, str]) -> VendorSettings:
    given = read_table(table, VENDOR_SETTINGS, place)
    for name in ("name", "url"):
        if name not in given:
            raise ConfigurationError(f"There is no {name} in {place}.")
    if "/" in given["name"]:
        raise ConfigurationError(f"name in {place} is {given['name']!r}: a vendor's name has no slash.")
    vendor = VendorSettings(name=given["name"], url=given["url"])
    kind = given.get("kind", vendor.kind)
    return replace(
        vendor,
        kind=kind,
        api_key=_api_key(given, place, environment),
        patience=replace(vendor.patience, **_renamed(given, _PATIENCE)),
        caution=replace(vendor.caution, **_renamed(given, _CAUTION)),
        supports=_supports(given.get("supports", {}), PRESETS[kind], place),
        **_renamed(given, {"headers": "headers", "max_concurrent": "max_concurrent"}),
    )


_PATIENCE = {
    "connect_timeout": "connect",
    "first_event_timeout": "first_event",
    "idle_timeout": "idle",
    "retries": "retries",
}
_CAUTION = {"failures": "failures", "rest": "rest", "health_interval": "health_interval"}
"""Key of the table -> field of the settings."""


def _renamed(given: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    """The values of those keys that are given, under the names of their fields."""
    return {field: given[key] for key, field in fields.items() if key in given}


def _api_key(given: Mapping[str, Any], place: str, environment: Mapping[str, str]) -> str | None:
    if "api_key_env" not in given:
        key: str | None = given.get("api_key")
        return key
    if "api_key" in given:
        raise ConfigurationError(f"There are both api_key and api_key_env in {place}: leave one out.")
    variable = given["api_key_env"]
    found = environment.get(variable, "").strip()
    if found == "":
        raise ConfigurationError(f"api_key_env in {place} is {variable!r}, but that variable is not set.")
    return found


def _supports(table: Mapping[str, Any], preset: Supports, place: str) -> Supports:
    return replace(preset, **read_table(table, SUPPORT_SETTINGS, f"supports in {place}"))

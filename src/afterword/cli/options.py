"""Command-line options made from tables: a command gets one mapping of their values.

Knows typer, and neither what a setting means nor what a request is.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from afterword.config.load import CONFIG_FLAG, CONFIG_VARIABLE
from afterword.config.table_keys import Key
from afterword.config.tree import SETTINGS


@dataclass(frozen=True, slots=True)
class Option:
    """One option: what it is called, what it takes and how `--help` explains it."""

    name: str
    """Key in the mapping, whose value is None if the option was not given."""
    flags: tuple[str, ...]
    takes: Any
    """`str`, `bool` or `list[str]`."""
    help: str
    metavar: str | None = None
    panel: str | None = None


CONFIG_OPTION = Option(
    CONFIG_FLAG,
    ("--" + CONFIG_FLAG,),
    str,
    f"Configuration file. [default: ./afterword.toml if there is one] [env: {CONFIG_VARIABLE}]",
    "FILE",
)


def setting_option(setting: Key) -> Option:
    """The option of one setting. Its value stays text: the configuration turns it into what it stands for."""
    is_switch = setting.kind is bool
    flags = (f"{setting.flag}/--no-{setting.flag.removeprefix('--')}",) if is_switch else (setting.flag,)
    about = f"{setting.about} [default: {setting.default}] [env: {setting.variable}]"
    return Option(setting.name, flags, bool if is_switch else str, about, None if is_switch else "VALUE")


def setting_options(names: Iterable[str]) -> list[Option]:
    """`--config`, and the options of the settings called `names`, in the order of the table."""
    wanted = set(names)
    return [CONFIG_OPTION, *(setting_option(setting) for setting in SETTINGS if setting.name in wanted)]


def with_options(
    options: Iterable[Option], arguments: Iterable[Parameter] = ()
) -> Callable[[Callable[[Mapping[str, Any]], None]], Callable[..., None]]:
    """Turn a function of one mapping into one that typer reads these options and positional arguments from."""
    parameters = [*arguments, *(_parameter(option) for option in options)]

    def decorate(function: Callable[[Mapping[str, Any]], None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            function(values)

        command.__name__ = function.__name__
        command.__doc__ = function.__doc__
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def argument(name: str, takes: Any, about: str) -> Parameter:
    """A positional argument that must be given."""
    described = typer.Argument(help=about, metavar=name.upper())
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=Annotated[takes, described])


def invocation() -> Parameter:
    """Not an option: what typer knows of the call, under `invocation`, for a command that has commands below it."""
    return Parameter("invocation", Parameter.KEYWORD_ONLY, annotation=typer.Context)


def _parameter(option: Option) -> Parameter:
    described = typer.Option(*option.flags, help=option.help, metavar=option.metavar, show_default=False)
    return Parameter(
        option.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[option.takes | None, described]
    )

"""The program `afterword`: its commands, and how a failure of any of them ends it.

Exit codes: 0 done, 1 the work failed, 2 the command line or the configuration is wrong.
"""

from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from afterword import __version__
from afterword.cli import accounts, keys, usage
from afterword.cli.cluster import remove
from afterword.cli.complete import complete
from afterword.cli.export import export
from afterword.cli.models import models
from afterword.cli.score import score
from afterword.cli.serve import serve
from afterword.errors import AfterwordError, ConfigurationError

FAILED = 1
MISCONFIGURED = 2

app = typer.Typer(name="afterword", rich_markup_mode=None, add_completion=False, no_args_is_help=True)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"afterword {__version__}")
        raise typer.Exit


_VERSION = typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version and leave.")


@app.callback()
def root(version: Annotated[bool, _VERSION] = False) -> None:
    """The text Completions API, complete, on your own machine.

    \b
    Examples:
      afterword serve
      afterword complete "The capital of France is" --max-tokens 8 --temperature 0
      afterword score lines.txt > scores.jsonl
    """


def reporting(command: Callable[..., None]) -> Callable[..., None]:
    """Turn the errors raised on purpose into one sentence on stderr and an exit code."""

    @wraps(command)
    def run(**values: Any) -> None:
        try:
            command(**values)
        except AfterwordError as error:
            typer.echo(f"Error: {error}", err=True)
            raise typer.Exit(MISCONFIGURED if isinstance(error, ConfigurationError) else FAILED) from None

    return run


for _command in (serve, complete, score):
    app.command()(reporting(_command))


def _group(name: str, about: str, commands: dict[str, Callable[..., None]]) -> typer.Typer:
    group = typer.Typer(name=name, help=about, rich_markup_mode=None, no_args_is_help=True)
    for word, command in commands.items():
        group.command(word)(reporting(command))
    return group


def _command_with(name: str, itself: Callable[..., None], below: dict[str, Callable[..., None]]) -> typer.Typer:
    """A command that does something itself unless one of those below it is named; `itself` looks at its invocation."""
    group = typer.Typer(name=name, rich_markup_mode=None)
    group.callback(invoke_without_command=True)(reporting(itself))
    for word, command in below.items():
        group.command(word)(reporting(command))
    return group


app.add_typer(
    _group(
        "keys", keys.ABOUT, {"create": keys.create, "list": keys.list_all, "rotate": keys.rotate, "revoke": keys.revoke}
    )
)
app.add_typer(_group("accounts", accounts.ABOUT, {"create": accounts.create, "list": accounts.list_all}))
app.add_typer(_command_with("models", models, {"export": export}))
app.add_typer(_command_with("usage", usage.show, {"prune": usage.prune}))
app.add_typer(_group("cluster", "The server on a Ray cluster.", {"remove": remove}))

"""The program `afterword`: its commands, and how a failure of any of them ends it.

Exit codes: 0 done, 1 the work failed, 2 the command line or the configuration is wrong.
"""

from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

from afterword import __version__
from afterword.errors import AfterwordError, ConfigurationError

FAILED = 1
MISCONFIGURED = 2


def reporting(command: Callable[..., None]) -> Callable[..., None]:
    """Turn the errors raised on purpose into one sentence on stderr and an exit code."""

    @wraps(command)
    def run(**values: Any) -> None:
        try:
            command(**values)
        except AfterwordError as error:
            typer.echo(f"Error: {error}", err=True)
            raise typer.Exit(MISCONFIGURED if isinstance(error, ConfigurationError) else FAILED) from None
        except UnicodeEncodeError as error:
            if error.encoding == "utf-8":
                raise
            typer.echo(f"Error: {_unwritable(error)}", err=True)
            raise typer.Exit(FAILED) from None

    return run


def _unwritable(error: UnicodeEncodeError) -> str:
    """The sentence about a character that stdout's encoding lacks; stderr escapes what it lacks."""
    lacking = error.object[error.start]
    return f"The output has {lacking!a}, which {error.encoding} cannot write: set PYTHONIOENCODING=utf-8."


def _alone(command: Callable[..., None]) -> typer.Typer:
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.command()(reporting(command))
    return alone


def _group(about: str, commands: dict[str, Callable[..., None]]) -> typer.Typer:
    group = typer.Typer(help=about, rich_markup_mode=None, add_completion=False, no_args_is_help=True)
    group.callback()(lambda: None)
    for word, command in commands.items():
        group.command(word)(reporting(command))
    return group


def _command_with(itself: Callable[..., None], below: dict[str, Callable[..., None]]) -> typer.Typer:
    """A command that does something itself unless one of those below it is named; `itself` looks at its invocation."""
    group = typer.Typer(rich_markup_mode=None, add_completion=False)
    group.callback(invoke_without_command=True)(reporting(itself))
    for word, command in below.items():
        group.command(word)(reporting(command))
    return group


def _serve() -> typer.Typer:
    from afterword.cli.serve_command import serve

    return _alone(serve)


def _complete() -> typer.Typer:
    from afterword.cli.complete_command import complete

    return _alone(complete)


def _score() -> typer.Typer:
    from afterword.cli.score_command import score

    return _alone(score)


def _keys() -> typer.Typer:
    from afterword.cli.keys_command import ABOUT, create, list_all, revoke, rotate

    return _group(ABOUT, {"create": create, "list": list_all, "rotate": rotate, "revoke": revoke})


def _accounts() -> typer.Typer:
    from afterword.cli.accounts_command import ABOUT, create, list_all

    return _group(ABOUT, {"create": create, "list": list_all})


def _models() -> typer.Typer:
    from afterword.cli.export_command import export
    from afterword.cli.models_command import list_all, models, remove, show

    return _command_with(models, {"list": list_all, "show": show, "rm": remove, "export": export})


def _pull() -> typer.Typer:
    from afterword.cli.pull_command import pull

    return _alone(pull)


def _usage() -> typer.Typer:
    from afterword.cli.usage_command import prune, show

    return _command_with(show, {"prune": prune})


def _doctor() -> typer.Typer:
    from afterword.cli.doctor.doctor_command import doctor

    return _alone(doctor)


def _cluster() -> typer.Typer:
    from afterword.cli.cluster_command import remove

    return _group("The server on a Ray cluster.", {"remove": remove})


COMMANDS: dict[str, tuple[str, Callable[[], typer.Typer]]] = {
    "serve": ("Serve the text Completions API over HTTP.", _serve),
    "complete": ("Complete a prompt, with a model loaded for it or, with --url, on a server.", _complete),
    "score": ("Score each line of a file: a text, a pair, or a question with its choices.", _score),
    "keys": ("API keys: who may use the server, for what and how much.", _keys),
    "accounts": ("Accounts: who is charged for what a key uses.", _accounts),
    "pull": ("Fetch a model from a hub or an address, and put it into the folder of models.", _pull),
    "models": ("List the models that the configuration names, and those in the folder of models.", _models),
    "usage": ("What was used: the requests and tokens of the ledger, added up.", _usage),
    "doctor": ("Say what machine, build, models and services look like, and what is wrong.", _doctor),
    "cluster": ("The server on a Ray cluster.", _cluster),
}
"""The first sentence of each command's help, and the command itself, which is imported when it is called: together
they bring in libraries that take seconds, and `--help` needs none of them.
"""


class _Lazy(TyperCommand):
    """A command that is built when it is called."""

    def __init__(self, name: str, about: str, build: Callable[[], typer.Typer]) -> None:
        super().__init__(name, short_help=about)
        self._build = build

    @override
    def make_context(self, *given: Any, **further: Any) -> Any:
        return typer.main.get_command(self._build()).make_context(*given, **further)


class _Commands(TyperGroup):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, (about, build) in COMMANDS.items():
            self.add_command(_Lazy(name, about, build))


app = typer.Typer(
    name="afterword",
    cls=_Commands,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"afterword {__version__}")
        raise typer.Exit


_VERSION = typer.Option("--version", "-V", is_eager=True, callback=_show_version, help="Print the version and leave.")


@app.callback()
def root(version: Annotated[bool, _VERSION] = False) -> None:
    """The text Completions API, complete, on your own machine.

    \b
    Examples:
      afterword serve
      afterword complete "The capital of France is" --max-tokens 8 --temperature 0
      afterword score lines.txt > scores.jsonl
    """

"""`afterword complete`: one prompt completed on the terminal. The text goes to stdout, all else to stderr."""

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

import orjson
import typer

from afterword.cli.backend import Backend
from afterword.cli.json_output import write_json
from afterword.cli.open_backend import BACKEND_OPTIONS, open_backend
from afterword.cli.options import Option, argument, with_options
from afterword.cli.parameters import parameter_options, request_fields
from afterword.cli.reading import STDIN, read_text
from afterword.fields.shown import BESIDE_THE_TEXT

JSON_OPTION = Option(
    "json", ("--json",), bool, "Print the answer's whole JSON body; so it is with whatever stands beside the text."
)

PROMPT = argument("prompt", str, "Text to complete; - reads it from stdin.")


@with_options([*BACKEND_OPTIONS, JSON_OPTION, *parameter_options()], [PROMPT])
def complete(values: Mapping[str, Any]) -> None:
    """Complete a prompt, with a model loaded for it or, with --url, on a server.

    \b
    Examples:
      afterword complete "Once upon a time" --max-tokens 100
      afterword complete "Q: 2+2? A:" --stop "\\n" --temperature 0 --url http://127.0.0.1:8000
      git diff | afterword complete - --max-tokens 30
      afterword complete "The sky is" --logprobs 3 --json
    """
    prompt = read_text(STDIN) if values["prompt"] == STDIN else values["prompt"]
    request = {"prompt": prompt, **request_fields(values)}
    asyncio.run(_complete(open_backend(values), request, values))


async def _complete(backend: Backend, request: dict[str, Any], values: Mapping[str, Any]) -> None:
    try:
        if values["json"] or any(field.is_used(request.get(field.name, field.default)) for field in BESIDE_THE_TEXT):
            write_json(orjson.dumps(await backend.answer(request), option=orjson.OPT_INDENT_2))
        elif request.get("n", 1) == 1 and request.get("best_of", 1) == 1:
            await _stream(backend, request)
        else:
            _print_choices(await backend.answer(request))
    finally:
        await backend.aclose()


async def _stream(backend: Backend, request: dict[str, Any]) -> None:
    ending = await backend.stream(request, _write)
    if sys.stdout.isatty():
        _write("\n")
    counts = f"{ending.prompt_tokens} prompt tokens, {ending.completion_tokens} completion tokens"
    typer.echo(f"[{ending.finish_reason}; {counts}]", err=True)


def _print_choices(body: dict[str, Any]) -> None:
    for choice in body["choices"]:
        typer.echo(f"[choice {choice['index']}: {choice['finish_reason']}]", err=True)
        _write(choice["text"] + "\n")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()

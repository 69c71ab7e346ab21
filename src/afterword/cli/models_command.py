"""`afterword models`: what the configuration and the folder of models have, from the files' headers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from afterword.cli.configuration import configuration
from afterword.cli.options import CONFIG_OPTION, argument, invocation, setting_options, with_options
from afterword.cli.rows import print_table
from afterword.config.model import ECHO, ModelConfig
from afterword.config.tree import Config
from afterword.errors import ConfigurationError
from afterword.gguf_header import GgufHeader, read_header
from afterword.gguf_parts import parts_of
from afterword.loading.embedded import model_file
from afterword.loading.tokenizers import load_tokenizer
from afterword.tokens import InfillTokens

COLUMNS = ("name", "aliases", "file", "size", "trained_context", "infill")

MIB = 2**20

NAME = argument("name", str, "The model's name.")


@with_options(setting_options(["model", "models_dir"]), [invocation()])
def models(values: Mapping[str, Any]) -> None:
    """List the models that the configuration names, and those in the folder of models.

    The first is the default.

    \b
    Examples:
      afterword models
      afterword models --config production.toml
      afterword models --model ~/models/mistral-7b.Q4_K_M.gguf
      afterword models show gemma-3-270m-it-Q8_0
      afterword models rm gemma-3-270m-it-Q8_0
      afterword models export smollm2-135m-instruct smollm2
    """
    if values["invocation"].invoked_subcommand is None:
        _print_all(configuration(values))


@with_options(setting_options(["model", "models_dir"]))
def list_all(values: Mapping[str, Any]) -> None:
    """List the models that the configuration names, and those in the folder of models."""
    _print_all(configuration(values))


@with_options([CONFIG_OPTION], [NAME])
def show(values: Mapping[str, Any]) -> None:
    """Show what a model's file says of it, and what it takes of memory.

    \b
    Example:
      afterword models show smollm2-135m-instruct
    """
    model = configuration({"config": values["config"], "model": values["name"]}).models[0]
    if model.engine != "llama":
        raise ConfigurationError(f"The model {model.name!r} has no GGUF file: the engine {model.engine!r} runs it.")
    files = parts_of(model_file(model.path))
    headers = [read_header(file) for file in files]
    print_table(("fact", "value"), [(what, said) for what, said in _facts(model, files, headers) if said is not None])


@with_options(setting_options(["models_dir"]), [NAME])
def remove(values: Mapping[str, Any]) -> None:
    """Remove a model from the folder of models, and from the cache of the hub that it came from.

    \b
    Example:
      afterword models rm gemma-3-270m-it-Q8_0
    """
    from afterword.pulling.folder import remove as take_out

    folder = configuration({"config": values["config"], "models_dir": values["models_dir"]}).engine.models_dir
    n_bytes = take_out(folder, values["name"])
    typer.echo(f"{values['name']} is removed: {n_bytes / MIB:,.0f} MiB are free.")


def _print_all(config: Config) -> None:
    print_table(COLUMNS, [_row(model) for model in config.models])


def _row(model: ModelConfig) -> tuple[str, ...]:
    aliases = ", ".join(model.aliases) or "-"
    if model.path == ECHO:
        return model.name, aliases, "-", "-", "-", "no"
    if model.path is None:
        return model.name, aliases, f"at {', '.join(model.vendors)}", "-", "-", "-"
    if model.engine == "vllm":
        # Not a GGUF file: what it is shows when its engine loads it.
        return model.name, aliases, model.path, "?", "?", "?" if model.infill_template is None else "template"
    file = model_file(model.path)
    size = f"{_n_bytes(parts_of(file)) / MIB:.0f} MiB"
    try:
        header = read_header(file)
    except ConfigurationError:
        if model.keep_alive is None:
            raise
        # The server starts all the same, and says what is wrong to who asks for the model.
        return model.name, aliases, str(file), size, "?", "?"
    context = "?" if header.trained_context is None else str(header.trained_context)
    infill = "template" if model.infill_template is not None else "tokens" if header.can_infill else "no"
    return model.name, aliases, str(file), size, context, infill


def _n_bytes(files: list[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _facts(model: ModelConfig, files: list[Path], headers: list[GgufHeader]) -> list[tuple[str, str | None]]:
    header = headers[0]
    context = header.trained_context
    tokenizer = load_tokenizer(model)
    infill = tokenizer.infill
    return [
        ("name", model.name),
        ("title", header.title),
        ("file", ", ".join(map(str, files))),
        ("size", f"{_n_bytes(files) / MIB:,.0f} MiB"),
        ("architecture", header.architecture),
        ("quantisation", header.quantisation),
        ("context", None if context is None else f"{context} tokens, as it was trained"),
        ("memory", _memory(sum(each.tensor_bytes for each in headers), header.cell_bytes, context)),
        ("infill tokens", None if infill is None else " ".join(map(tokenizer.spell, _ids(infill)))),
        ("infill template", None if model.infill_template is None else model.infill_template.text),
        (
            "chat template",
            "in the file, not used: prompts go to the model as they are" if header.has_chat_template else None,
        ),
        ("licence", header.licence),
    ]


def _ids(infill: InfillTokens) -> tuple[int, int, int]:
    return infill.prefix, infill.suffix, infill.middle


def _memory(weights: int, cell: int, context: int | None) -> str:
    said = f"{weights / MIB:,.0f} MiB of weights"
    if cell == 0:
        return said
    said += f", {cell / 1024:,.1f} KiB for each token of context (kv_type f16)"
    return said if context is None else f"{said}: {cell * context / MIB:,.0f} MiB for one text as long as the context"

"""`afterword models`: what the configuration would serve, read from the files' headers without loading a model."""

from collections.abc import Mapping
from typing import Any

from afterword.cli.configuration import configuration
from afterword.cli.options import invocation, setting_options, with_options
from afterword.cli.rows import print_table
from afterword.config.model import ECHO, ModelConfig
from afterword.gguf_header import read_header
from afterword.loading.embedded import model_file


@with_options(setting_options(["model"]), [invocation()])
def models(values: Mapping[str, Any]) -> None:
    """List the models that the configuration names: the first is the default.

    \b
    Examples:
      afterword models
      afterword models --config production.toml
      afterword models --model ~/models/mistral-7b.Q4_K_M.gguf
      afterword models export smollm2-135m-instruct smollm2
    """
    if values["invocation"].invoked_subcommand is not None:
        return
    config = configuration(values)
    print_table(
        ("name", "aliases", "file", "size", "trained_context", "infill"), [_row(model) for model in config.models]
    )


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
    header = read_header(file)
    context = "?" if header.trained_context is None else str(header.trained_context)
    infill = "template" if model.infill_template is not None else "tokens" if header.can_infill else "no"
    return model.name, aliases, str(file), f"{file.stat().st_size / 2**20:.0f} MiB", context, infill

"""`afterword models export`: a GGUF model as a directory that vLLM and the Hugging Face libraries read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from afterword.cli.configuration import configuration
from afterword.cli.options import CONFIG_OPTION, Option, argument, with_options
from afterword.config.refusal import read_option
from afterword.errors import ConfigurationError
from afterword.loading.embedded import model_file

Dtype = Literal["bfloat16", "float16", "float32"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
"""The first is the default."""


@with_options(
    [
        Option("dtype", ("--dtype",), str, f"Type of the weights: {', '.join(DTYPES)}. [default: {DTYPES[0]}]", "TYPE"),
        CONFIG_OPTION,
    ],
    [argument("name", str, "A configured model, or the path of a GGUF file."), argument("directory", str, "Where to.")],
)
def export(values: Mapping[str, Any]) -> None:
    """Write a model's configuration, tokenizer and weights for vLLM, which does not read GGUF.

    Quantised weights become the numbers they stand for. Nothing is overwritten.

    \b
    Example:
      afterword models export smollm2-135m-instruct smollm2
    """
    dtype = read_option(Dtype, DTYPES[0] if values["dtype"] is None else values["dtype"], "--dtype")
    config = configuration({"config": values["config"], "model": values["name"]})
    file = model_file(config.models[0].path)
    try:
        from afterword.export.export import export_model
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"Exporting needs the Python package {error.name}, which is not installed: install afterword[vllm]."
        ) from None
    export_model(file, Path(values["directory"]).expanduser(), dtype)

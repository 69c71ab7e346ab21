"""`afterword serve`, the command: its options and its help. What it does is in `serve.py`."""

from collections.abc import Mapping
from typing import Any

from afterword.cli.cluster_command import CLUSTER_OPTION
from afterword.cli.configuration import configuration
from afterword.cli.missing_models import pull_missing
from afterword.cli.options import setting_options, with_options
from afterword.config.tree import SETTINGS


@with_options([*setting_options(setting.name for setting in SETTINGS), CLUSTER_OPTION])
def serve(values: Mapping[str, Any]) -> None:
    """Serve the text Completions API over HTTP.

    Flags win over environment variables, those over the configuration file.

    \b
    Examples:
      afterword serve
      afterword serve --model ~/models/mistral-7b.Q4_K_M.gguf --context 8192
      afterword serve --model hf:ggml-org/gemma-3-270m-it-GGUF:Q8_0
      AFTERWORD_API_KEY=... afterword serve --host 0.0.0.0
      afterword serve --model echo --port 0
      afterword serve --cluster auto --min-replicas 2 --max-replicas 8
    """
    config = configuration(values)
    pull_missing(config)
    # Below the help, which needs no server.
    from afterword.cli.serve import serve as run

    run(config, values["cluster"], lambda: configuration(values))

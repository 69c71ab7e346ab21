"""Decides from the command line where completions come from: `--url` is a server, anything else a local model."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from afterword import logs
from afterword.cli.local import LocalSource
from afterword.cli.options import Option, setting_options
from afterword.cli.remote import RemoteSource
from afterword.cli.source import Source
from afterword.config.load import load_config
from afterword.loading.registry import load_registry

SOURCE_OPTIONS = [
    Option("url", ("--url",), str, "Ask the server at this address instead of loading a model.", "BASE"),
    *setting_options(("model", "api_key", "memory", "threads", "cache_dir", "context", "parallel", "max_logprobs")),
]

API_KEY_VARIABLE = "AFTERWORD_API_KEY"


def open_source(values: Mapping[str, Any]) -> Source:
    """The source the options describe; loads the model if it is local. Raises `ConfigurationError`."""
    if values["url"] is not None:
        api_key = os.environ.get(API_KEY_VARIABLE) if values["api_key"] is None else values["api_key"]
        return RemoteSource(values["url"], values["model"], api_key)
    config = load_config(values, os.environ, Path.cwd())
    logs.configure(config.server.log_format, "warning")
    return LocalSource(load_registry(config.model_copy(update={"models": config.models[:1]})), config.server)

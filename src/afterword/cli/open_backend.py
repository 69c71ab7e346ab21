"""Opens the backend of a command: with `--url` a server, else a model in this process."""

import os
import sys
from collections.abc import Mapping
from typing import Any

import typer

from afterword.cli.backend import Backend
from afterword.cli.configuration import configuration
from afterword.cli.missing_models import pull_missing
from afterword.cli.options import Option, setting_options
from afterword.config.refusal import read_option, read_secret
from afterword.config.values import ApiKey, HttpUrl

BACKEND_OPTIONS = [
    Option("url", ("--url",), str, "Ask the server at this address instead of loading a model.", "BASE"),
    *setting_options(("model", "api_key", "memory", "threads", "cache_dir", "context", "parallel", "max_logprobs")),
]

API_KEY_VARIABLE = "AFTERWORD_API_KEY"


def open_backend(values: Mapping[str, Any]) -> Backend:
    """The backend the options describe; loads the model if it is local. Raises `ConfigurationError`."""
    return _local(values) if values["url"] is None else _remote(values)


def _remote(values: Mapping[str, Any]) -> Backend:
    from afterword.cli.remote_backend import RemoteBackend

    return RemoteBackend(_url(values["url"]), values["model"], _api_key(values))


def _url(given: str) -> str:
    """The address; one without a scheme is taken for http, as curl does."""
    return str(read_option(HttpUrl, given if "://" in given else f"http://{given}", "--url"))


def _api_key(values: Mapping[str, Any]) -> str | None:
    if values["api_key"] is not None:
        return str(read_secret(ApiKey, values["api_key"], "--api-key"))
    found = os.environ.get(API_KEY_VARIABLE, "").strip()
    return None if found == "" else str(read_secret(ApiKey, found, API_KEY_VARIABLE))


def _local(values: Mapping[str, Any]) -> Backend:
    config = configuration(values)
    # One command has one model, for as long as it runs.
    config = config.model_copy(update={"models": (config.models[0].model_copy(update={"keep_alive": None}),)})
    pull_missing(config)
    if sys.stderr.isatty():
        typer.echo(f"Loading {config.models[0].name} (longer when it is the first time) ...", err=True)
    # Imported after the line above is shown: these load the libraries that run models.
    from afterword import logs
    from afterword.cli.local_backend import LocalBackend
    from afterword.loading.load_registry import load_registry

    # That kernels are compiled, which takes a minute once, is for information only.
    logs.configure(config.server.log_format, "info")
    return LocalBackend(load_registry(config), config.server)

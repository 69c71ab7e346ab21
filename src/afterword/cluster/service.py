"""The applications for Serve configuration files, such as a RayService of Kubernetes has: `import_path`s with `args`.

The configuration is the one that `afterword serve` would read on the node: variables, `AFTERWORD_CONFIG`.
"""

import os
from pathlib import Path

import structlog
from ray.serve.deployment import Application

from afterword.cluster.applications import engine_application, http_application
from afterword.cluster.sharing import check_shared
from afterword.config.load import load_config
from afterword.config.service_links import warning
from afterword.config.tree import Config
from afterword.errors import ConfigurationError
from afterword.gateway.opening import check_gateway
from afterword.loading.load_registry import runs_here

DECLARED = "declared"
"""The version of everything: the file that declares the applications says what is to be replaced."""


def engine(args: dict[str, str]) -> Application:
    """`args`: `model`, the name of a configured model. Raises `ConfigurationError`."""
    config = _configured()
    names = [model.name for model in config.models if runs_here(model)]
    if args.get("model") not in names:
        raise ConfigurationError(f"The model in args is {args.get('model')}; configured are {', '.join(names)}.")
    number = next(number for number, model in enumerate(config.models) if model.name == args["model"])
    return engine_application(config, number, DECLARED)


def http(args: dict[str, dict[str, str]]) -> Application:
    """`args`: `engines`, for each model that runs on the cluster its application. Raises `ConfigurationError`."""
    config = _configured()
    check_shared(config)
    check_gateway(config)
    engines = args.get("engines", {})
    missing = [model.name for model in config.models if runs_here(model) and model.name not in engines]
    if missing:
        raise ConfigurationError(f"No application in args has the engines of {', '.join(missing)}.")
    return http_application(config, engines, DECLARED)


def _configured() -> Config:
    said = warning(os.environ)
    if said is not None:
        structlog.get_logger("afterword.cluster").warning("a variable is ignored", why=said)
    return load_config({}, os.environ, Path.cwd())

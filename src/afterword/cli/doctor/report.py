"""All checks in order, each guarded; what needs the configuration is left out where that is wrong."""

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from afterword.cli.doctor.check_build import build
from afterword.cli.doctor.check_machine import MACHINE, disks, machine
from afterword.cli.doctor.check_models import model
from afterword.cli.doctor.check_services import database, port, redis, vendors
from afterword.cli.doctor.finding import Finding, findings
from afterword.completions.filter.load_filter import load_filter
from afterword.config.load import find_file, load_config
from afterword.config.service_links import warning
from afterword.config.tree import Config

CONFIGURATION = "configuration"

VARIABLES = "AFTERWORD_"
"""What the names of variables with settings begin with. Their values may be secrets."""


def report(flags: Mapping[str, Any], *, ask_vendors: bool, load: bool) -> Iterator[Finding]:
    """What all checks find. `flags`: as `load_config` takes them."""
    yield from findings(MACHINE, lambda: machine(os.environ))
    yield from findings("build", build)
    loaded: list[Config] = []
    yield from findings(CONFIGURATION, lambda: _configuration(flags, loaded))
    if not loaded:
        return
    config = loaded[0]
    yield from findings(MACHINE, lambda: disks(config))
    for one in config.models:
        yield from findings(f"model {one.name}", partial(model, one, config, load=load))
    yield from findings("database", lambda: database(config))
    yield from findings("redis", lambda: redis(config))
    yield from findings("vendor", lambda: vendors(config, ask=ask_vendors))
    yield from findings("port", lambda: port(config))


def _configuration(flags: Mapping[str, Any], loaded: list[Config]) -> Iterator[Finding]:
    """Where settings come from, and whether they are sound; then `loaded` has them."""
    file = find_file(flags, os.environ, Path.cwd())
    yield Finding(CONFIGURATION, "file", "none" if file is None else str(file))
    variables = sorted(name for name in os.environ if name.startswith(VARIABLES))
    yield Finding(CONFIGURATION, "variables", ", ".join(variables) or "none", advice=warning(os.environ))
    config = load_config(flags, os.environ, Path.cwd())
    loaded.append(config)
    yield Finding(CONFIGURATION, "models", ", ".join(model.name for model in config.models))
    if config.server.content_filter is not None:
        load_filter(config.server.content_filter)
        yield Finding(CONFIGURATION, "content filter", str(config.server.content_filter))

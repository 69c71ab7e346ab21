"""The configuration of a command: from its options, the environment, and the directory it was started in."""

import os
from collections.abc import Mapping
from pathlib import Path

import typer

from afterword.config.load import load_config
from afterword.config.service_links import warning
from afterword.config.tree import Config


def configuration(flags: Mapping[str, object]) -> Config:
    """See `load_config`; says on stderr which variable is not taken for a setting. Raises `ConfigurationError`."""
    said = warning(os.environ)
    if said is not None:
        typer.echo(f"Warning: {said}", err=True)
    return load_config(flags, os.environ, Path.cwd())

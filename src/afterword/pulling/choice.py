"""Which files of a repository are the model that was asked for: pure functions of their paths."""

import re
from collections.abc import Iterable

from afterword.config.hub_name import HubModel
from afterword.config.models_folder import begins_a_model
from afterword.errors import ConfigurationError
from afterword.gguf_parts import model_name, part_names

USUAL = ("Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "Q8_0")
"""Quantisations that are taken where none is asked for and there are several: the first that is there."""

MOST_NAMED = 20
"""Models that a refusal lists."""


def chosen(asked: HubModel, paths: Iterable[str]) -> list[str]:
    """The paths of the model's files, in order: several if it is split. Raises `ConfigurationError`."""
    there = list(paths)
    models = sorted(path for path in there if begins_a_model(path.rpartition("/")[2]))
    if not models:
        raise ConfigurationError(
            f"{asked.repository} has no GGUF file: it must be a repository with models for llama.cpp."
        )
    found = _matching(asked.choice, models)
    if len(found) != 1:
        what = "several models" if found else "no model"
        quantisation = "" if asked.choice is None else f" {asked.choice}"
        named = ", ".join((found or models)[:MOST_NAMED])
        raise ConfigurationError(
            f"{asked.repository} has {what}{quantisation}: write the quantisation or the file behind a colon; there "
            f"are {named}."
        )
    folder, slash, name = found[0].rpartition("/")
    files = [folder + slash + part for part in part_names(name)]
    missing = [path for path in files if path not in there]
    if missing:
        raise ConfigurationError(f"{asked.repository} lacks {missing[0]}, a part of {found[0]}.")
    return files


def _matching(choice: str | None, models: list[str]) -> list[str]:
    if choice is not None:
        return [choice] if choice in models else [path for path in models if _is_of(path, choice)]
    if len(models) == 1:
        return models
    for usual in USUAL:
        found = [path for path in models if _is_of(path, usual)]
        if found:
            return found
    return models


def _is_of(path: str, quantisation: str) -> bool:
    """Whether the file's name ends with the quantisation, whatever the case."""
    stem = model_name(path.rpartition("/")[2])
    return re.search(rf"(^|[-_.]){re.escape(quantisation)}$", stem, re.IGNORECASE) is not None

"""docs/licences.md says what the installed packages declare, and the project has the licence that it says it has."""

import re
import tomllib
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("requirements.lock", "requirements-model.lock")
ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \|", re.MULTILINE)

SOME_MACHINES = {"async-timeout", "colorama", "tzdata"}
"""Locked for other platforms or Pythons, so that they need not be installed here."""


def locked() -> set[str]:
    """Every package that is installed to run the server."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in LOCKS]
    return {name for text in texts for name in re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE)}


def listed() -> dict[str, str]:
    """Package -> what the page says that it declares."""
    rows = ROW.findall((ROOT / "docs" / "licences.md").read_text(encoding="utf-8"))
    return {name: declared for declared, names in rows for name in names.strip().split(", ")}


def declared(about: PackageMetadata) -> str:
    """The expression; where there is none, the older field, or else the classifier."""
    for field in ("License-Expression", "License"):
        if field in about:
            return str(about[field])
    classifiers: list[str] = about.get_all("Classifier", [])
    return next(word.split(" :: ")[-1] for word in classifiers if word.startswith("License"))


def test_the_page_lists_every_package_that_is_shipped() -> None:
    assert listed().keys() == locked()


def test_the_page_says_what_the_packages_declare() -> None:
    wrong = {}
    for name, said in listed().items():
        try:
            found = declared(metadata(name))
        except PackageNotFoundError:
            assert name in SOME_MACHINES
            continue
        if found != said:
            wrong[name] = found
    assert wrong == {}


def test_the_project_is_under_the_licence_that_it_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").lstrip().startswith("Apache License\n")

"""The software bill of materials, as CycloneDX: what the server is installed from, with versions and licences.

Versions are those of the lock files, licences what docs/licences.md says that the packages declare. It is the same for
the same files: no time of making, and a serial number that follows from them.
"""

import re
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from afterword import __version__

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("requirements.lock", "requirements-model.lock")

PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^\s;]+)(?: ; ([^\\\n]+?))? \\$", re.MULTILINE)
LICENCE = re.compile(r"^\| `([^`]+)` \| ([^|]+) \|", re.MULTILINE)

WITHIN = {"llama-cpp-python": ("llama.cpp", "ggml")}
"""What a package holds of others' that is compiled into it, which has no version of its own."""


def bill() -> str:
    """The document, as indented JSON of CycloneDX 1.6."""
    licences = _licences((ROOT / "docs" / "licences.md").read_text(encoding="utf-8"))
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in LOCKS]
    pins = [PINNED.findall(text) for text in texts]
    parts = [_package(name, version, where, licences) for found in pins for name, version, where in found]
    own = Component(
        name="afterword",
        version=__version__,
        type=ComponentType.APPLICATION,
        bom_ref="afterword",
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
    )
    serial = uuid5(NAMESPACE_URL, "\0".join([__version__, *texts, *map(str, sorted(licences.items()))]))
    bom = Bom(components=parts, serial_number=serial)
    bom.metadata.component = own
    bom.metadata.timestamp = None  # type: ignore[assignment] # of the last change, which git knows
    bom.register_dependency(own, parts)
    written: str = JsonV1Dot6(bom).output_as_string(indent=1)
    return written + "\n"


def _licences(page: str) -> dict[str, str]:
    """Package -> what it declares."""
    return {name: declared for declared, names in LICENCE.findall(page) for name in names.strip().split(", ")}


def _package(name: str, version: str, where: str, licences: dict[str, str]) -> Component:
    """`where`: the marker of the platforms and Pythons that it is for; empty: all."""
    about: dict[str, Any] = {"description": f"only where {where}"} if where else {}
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{name}=={version}",
        purl=PackageURL("pypi", None, name, version),
        licenses=[LicenseFactory().make_from_string(licences[name])],
        components=[
            Component(name=part, type=ComponentType.LIBRARY, bom_ref=f"{name}=={version}/{part}")
            for part in WITHIN.get(name, ())
        ],
        **about,
    )

"""Two hundred JSON schemas that people use, out of pinned packages of PyPI and npm. Fetched once, kept in the cache."""

import json
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.places import cache

SIZE = 200

PYPI = {
    "check-jsonschema": "0.39.0",
    "nbformat": "5.11.1",
    "validate-pyproject": "0.27",
    "jsonschema-specifications": "2025.9.1",
    "cfn-lint": "1.58.0",
}
"""The last has thousands, one for each kind of resource of a cloud: as many as are missing, evenly out of all."""

NPM = {
    "@schematics/angular": "21.2.28",
    "@angular-devkit/build-angular": "21.2.24",
    "@nx/js": "23.3.1",
    "webpack": "5.113.0",
    "workbox-build": "7.4.1",
    "@adobe/reactor-turbine-schemas": "10.9.0",
}

FILLS = "cfn-lint"

SAYS_SO = ("properties", "definitions", "$defs", "oneOf", "anyOf", "allOf")
"""A file with one of these, or a `$schema`, at its top is taken for a schema."""


@dataclass(frozen=True, slots=True)
class RealSchema:
    """One of them."""

    package: str
    file: str
    schema: dict[str, Any]

    @property
    def title(self) -> str:
        """What it describes, in some words."""
        return str(self.schema.get("title") or self.schema.get("typeName") or Path(self.file).stem)


def real_schemas() -> list[RealSchema]:
    """All of them, always the same. Fetches what the cache has not."""
    found = {name: _schemas(name, _pypi(name, version)) for name, version in PYPI.items()}
    found |= {name: _schemas(name, _npm(name, version)) for name, version in NPM.items()}
    many = found.pop(FILLS)
    rest = [schema for schemas in found.values() for schema in schemas]
    n = SIZE - len(rest)
    return [*rest, *(many[i * len(many) // n] for i in range(n))]


def _schemas(package: str, directory: Path) -> list[RealSchema]:
    schemas = []
    for path in sorted(directory.rglob("*.json")):
        try:
            content = json.loads(path.read_text("utf-8"))
        except ValueError:
            continue
        named = path.name in {"package.json", "builders.json", "collection.json", "generators.json", "executors.json"}
        if isinstance(content, dict) and not named and any(key in content for key in SAYS_SO):
            schemas.append(RealSchema(package, str(path.relative_to(directory)), content))
    return schemas


def _pypi(name: str, version: str) -> Path:
    directory = _directory(name, version)
    if not directory.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--dest", str(cache()), f"{name}=={version}"], check=True)
        [wheel] = cache().glob(f"{name.replace('-', '_')}-{version}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(directory)
    return directory


def _npm(name: str, version: str) -> Path:
    directory = _directory(name, version)
    if not directory.exists():
        subprocess.run(["npm", "pack", "--silent", f"{name}@{version}"], check=True, cwd=cache(), capture_output=True)
        packed = cache() / f"{name.removeprefix('@').replace('/', '-')}-{version}.tgz"
        with tarfile.open(packed) as archive:
            archive.extractall(directory, filter="data")
    return directory


def _directory(name: str, version: str) -> Path:
    return cache() / "bench-schemas" / f"{name.replace('/', '-')}-{version}"

"""Hashes that identify what decides a model's numbers, and a file that caches slow results.

The cache is a JSON file in the cache directory, in which each result has its own hash: losing or damaging it costs
time, never correctness.
"""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from afterword.gguf_parts import PART, parts_of

SAMPLER_VERSION = 2
"""Raised whenever the same logits and seed may give another token than before."""


class ResultCache:
    """Results that are slow to compute, kept between starts under a key that names all they depend on."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._path = directory / "cache.json"

    def get(self, key: str, compute: Callable[[], str]) -> str:
        """The result stored under `key`, else computed and stored. A directory that cannot be written is no error."""
        results = self._read()
        if key not in results:
            results[key] = compute()
            self._write(results)
        return results[key]

    def _read(self) -> dict[str, str]:
        """The results that are as they were written."""
        try:
            noted = json.loads(self._path.read_text())
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(noted, dict):
            return {}
        return {
            key: one[0]
            for key, one in noted.items()
            if isinstance(one, list) and len(one) == 2 and one == _noted(key, one[0])
        }

    def _write(self, results: dict[str, str]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Replaced as a whole, so that a process that reads it meanwhile sees the old file or the new one.
            temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            temporary.write_text(json.dumps({key: _noted(key, value) for key, value in results.items()}, indent=1))
            temporary.replace(self._path)
        except OSError:
            return


def _noted(key: str, value: object) -> list[object]:
    """A result and its hash, as the file has them."""
    return [value, hashlib.sha256(f"{key}\0{value}".encode()).hexdigest()[:16]]


def file_hash(path: Path, cache: ResultCache) -> str:
    """SHA-256 of a file in hex; computed again only when its size or modification time differ."""
    status = path.stat()
    key = f"sha256 {path.resolve()} {status.st_size} {status.st_mtime_ns}"
    return cache.get(key, lambda: _sha256(path))


def model_hash(path: Path, cache: ResultCache) -> str:
    """SHA-256 in hex of a GGUF file, or over those of all parts if it is one of several."""
    if PART.fullmatch(path.name) is None:
        return file_hash(path, cache)
    return hashlib.sha256(" ".join(file_hash(part, cache) for part in parts_of(path)).encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(*parts: object) -> str:
    """`fp_` + 10 hex digits over all parts (docs/rules.md#fingerprint)."""
    text = "\x1f".join(str(part) for part in (SAMPLER_VERSION, *parts))
    return "fp_" + hashlib.sha256(text.encode()).hexdigest()[:10]

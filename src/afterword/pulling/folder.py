"""What is put into `models_dir` and taken out of it."""

from pathlib import Path

from afterword.config.models_folder import models_in
from afterword.errors import ConfigurationError
from afterword.gguf_parts import model_name, parts_of


def check_free(folder: Path, file_name: str, blobs: Path | None) -> None:
    """Raise `ConfigurationError` if the folder has another model of the name that a file of that name would get.

    `blobs`: where the files of the same repository lie, of which it may be an earlier version.
    """
    name = model_name(file_name)
    there = models_in(folder).get(name)
    if there is not None and (blobs is None or there.resolve().parent != blobs.resolve()):
        raise ConfigurationError(
            f"{folder} has another model called {name!r}: `afterword models rm {name}` removes it."
        )


def link(folder: Path, files: list[Path]) -> None:
    """Put links to the files of a model into the folder, in place of those to an earlier version of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        new = folder / f"{file.name}.{file.stat().st_ino}"
        new.unlink(missing_ok=True)
        new.symlink_to(file)
        new.replace(folder / file.name)


def remove(folder: Path, name: str) -> int:
    """Take a model out of the folder, with what its links stand for; the bytes that are free by that.

    Raises `ConfigurationError` if the folder has none of that name.
    """
    first = models_in(folder).get(name)
    if first is None:
        there = ", ".join(models_in(folder)) or "none"
        raise ConfigurationError(f"{folder} has no model called {name!r}; it has {there}.")
    n_bytes = 0
    for file in parts_of(first):
        n_bytes += _forgotten(file) if file.is_symlink() else file.stat().st_size
        file.unlink()
    return n_bytes


def _forgotten(file: Path) -> int:
    """Bytes that are free after what a link stands for was removed, which is done in the cache of a hub alone."""
    # Here and not above: the library behind it takes a second to load.
    from afterword.pulling.hub import forget

    return forget(file)

"""`models_dir`: the folder whose models are served by the names of their files."""

from pathlib import Path

from afterword.config.values import is_unicode
from afterword.gguf_parts import PART, SUFFIX, model_name

BESIDE = ("mmproj", "imatrix")
"""In names of files that are parts of a model, or about one, and none that completes text."""


def begins_a_model(file_name: str) -> bool:
    """Whether a file of this name is a model, or the first part of one."""
    part = PART.fullmatch(file_name)
    return (
        file_name.lower().endswith(SUFFIX)
        and not any(word in file_name.lower() for word in BESIDE)
        and (part is None or int(part[2]) == 1)
    )


def models_in(folder: Path) -> dict[str, Path]:
    """The models of the folder by name, in the order of their names; none if there is no such folder."""
    try:
        files = sorted(folder.iterdir())
    except OSError:
        return {}
    # Where a link leads to nothing its model is gone.
    return {
        model_name(file.name): file
        for file in files
        if begins_a_model(file.name) and is_unicode(str(file)) and file.is_file()
    }

"""How llama.cpp names the files of a model that is split: `name-00001-of-00003.gguf`."""

import re
from pathlib import Path

PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")

SUFFIX = ".gguf"


def model_name(file_name: str) -> str:
    """What the model in a file is called: the file's name without its ending and without the number of its part."""
    match = PART.fullmatch(file_name)
    return Path(file_name).stem if match is None else match[1]


def part_names(file_name: str) -> list[str]:
    """The names of all files of the model, in order: several if it is split."""
    match = PART.fullmatch(file_name)
    if match is None:
        return [file_name]
    return [f"{match[1]}-{number:05}-of-{match[3]}.gguf" for number in range(1, int(match[3]) + 1)]


def parts_of(path: Path) -> list[Path]:
    """The files of a model that is split, or its only one. A part that is missing is left out; loading says so."""
    if PART.fullmatch(path.name) is None:
        return [path]
    return [part for name in part_names(path.name) if (part := path.with_name(name)).exists()]

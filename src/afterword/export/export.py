"""From a GGUF file to a directory of safetensors, configuration and tokenizer. Complete, or not there at all."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from afterword.errors import ConfigurationError
from afterword.export.architecture import model_config
from afterword.export.gguf_file import GgufFile
from afterword.export.tokenizer import generation_config, tokenizer_config, tokenizer_json
from afterword.export.weights import write_weights


def export_model(file: Path, directory: Path, dtype: str) -> None:
    """Write the model in `file` to `directory`, which must not exist or be empty, with weights of `dtype`.

    Quantised weights become the numbers they stand for, rounded to `dtype`. Raises `ConfigurationError` if the file
    is of a kind that is not known, or the directory cannot be written.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigurationError(f"{directory} exists and is not an empty directory: nothing is overwritten.")
    source = GgufFile(file)
    documents = {
        "config.json": model_config(source, dtype),
        "tokenizer.json": tokenizer_json(source),
        "tokenizer_config.json": tokenizer_config(source),
        "generation_config.json": generation_config(source),
    }
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as unfinished:
            _write(source, Path(unfinished), documents, dtype)
            _move(Path(unfinished), directory)
    except OSError as error:
        raise ConfigurationError(f"{directory} cannot be written: {error.strerror or error}.") from error


def _write(source: GgufFile, directory: Path, documents: Mapping[str, object], dtype: str) -> None:
    for name, content in documents.items():
        (directory / name).write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
    write_weights(source, directory, dtype)


def _move(unfinished: Path, directory: Path) -> None:
    """The files one by one, the configuration last: without it nothing takes the directory for a model."""
    directory.mkdir(exist_ok=True)
    for file in sorted(unfinished.iterdir(), key=lambda file: file.name == "config.json"):
        shutil.move(file, directory / file.name)

"""An open GGUF file for the exporter: metadata by key, and the sentence for whatever cannot be exported.

Must not know what is written. The only file here that reads GGUF; the `gguf` package does the work.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from gguf import GGUFReader, ReaderTensor
from gguf.quants import dequantize
from numpy.typing import NDArray

from afterword.errors import ConfigurationError
from afterword.gguf_header import read_header


class GgufFile:
    """One GGUF file, mapped into memory: tensors are read from disk when they are asked for."""

    def __init__(self, path: Path) -> None:
        """Raises `ConfigurationError` if the file is missing or no GGUF file."""
        self.path = path
        # The library believes what a file says of itself.
        read_header(path)
        try:
            self._reader = GGUFReader(path)
        except (OSError, ValueError, IndexError, KeyError) as error:
            raise ConfigurationError(f"{path} cannot be read as a GGUF file: {error}.") from error
        self._tensors: dict[str, ReaderTensor] = {tensor.name: tensor for tensor in self._reader.tensors}
        self.architecture = self.text("general.architecture")

    def value(self, key: str) -> object:
        """A metadata entry, None if the file has none of that key."""
        field = self._reader.get_field(key)
        return None if field is None else field.contents()

    def text(self, key: str) -> str:
        """An entry that must be a text."""
        value = self.value(key)
        if not isinstance(value, str):
            raise self.refusal(f"its metadata has no text {key}")
        return value

    def list_of(self, key: str) -> list[object]:
        """An entry that must be a list."""
        value = self.value(key)
        if not isinstance(value, list):
            raise self.refusal(f"its metadata has no list {key}")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        """An entry that must be a whole number; `default` where the file has none."""
        value = self.value(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.refusal(f"its metadata has no whole number {key}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A float entry as the shortest decimal that is the same float32, which is how it is stored."""
        value = self.value(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, int | float):
            raise self.refusal(f"its metadata has no number {key}")
        return float(str(np.float32(value)))

    def names(self) -> Iterator[str]:
        """Tensors in the order of the file."""
        return iter(self._tensors)

    def has_tensor(self, name: str) -> bool:
        """Whether the file holds the tensor."""
        return name in self._tensors

    def n_values(self, name: str) -> int:
        """How many values a tensor has."""
        return int(self._tensors[name].n_elements)

    def tensor(self, name: str) -> NDArray[np.float32]:
        """A tensor's values, dequantised; the last axis is the contiguous one, as in the file."""
        tensor = self._tensors[name]
        try:
            values = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            raise self.refusal(f"its tensor {name} is {tensor.tensor_type.name}, which has no known inverse") from None
        return np.asarray(values, dtype=np.float32).reshape(tensor.shape[::-1])

    def refusal(self, reason: str) -> ConfigurationError:
        """The error that says why this file cannot be exported."""
        return ConfigurationError(f"{self.path} cannot be exported: {reason}.")

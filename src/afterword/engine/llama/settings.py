"""What the embedded engine is told when it loads a model. Knows no configuration file and no command line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

Copied = Literal["split", "q8_0"]
"""Layouts that are written as a copy."""
Layout = Literal["auto", "original", Copied]
LAYOUTS: tuple[Layout, ...] = ("auto", "original", *get_args(Copied))


@dataclass(frozen=True, slots=True)
class LlamaSettings:
    """One GGUF file and the share of the machine it may use."""

    path: Path
    """The GGUF file."""
    context: int | None
    """Tokens of each slot; None: what the model was trained with, as far as `memory_bytes` allows."""
    parallel: int
    """Slots: sequences that run at once."""
    threads: int | None
    """Threads of a forward pass; None: one for each physical core this process may use."""
    max_waiting: int
    """Sequences that may wait for a slot before `Overloaded` is raised."""
    memory_bytes: int | None
    """Budget for weights and KV cells together; None: no limit but the machine's."""
    cache_dir: Path
    """Where optimised copies of model files are kept."""
    layout: Layout = "original"
    """`original`: the file as it is; `split`, `q8_0`: a copy (layout.py); `auto`: the faster, if the type is slow."""

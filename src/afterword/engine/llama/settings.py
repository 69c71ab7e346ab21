"""What the embedded engine is told when it loads a model. Knows no configuration file and no command line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

Layout = Literal["auto", "original", "q8_0"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)


@dataclass(frozen=True, slots=True)
class LlamaSettings:
    """One GGUF file and the share of the machine it may use."""

    path: Path
    """The GGUF file."""
    context: int | None
    """Tokens of each stream; None: what the model was trained with, as far as `memory_bytes` allows."""
    parallel: int
    """Streams: sequences that run at once."""
    threads: int | None
    """Threads of a forward pass; None: one for each physical core this process may use."""
    max_waiting: int
    """Sequences that may wait for a stream before `Overloaded` is raised."""
    memory_bytes: int | None
    """Budget for weights and KV cells together; None: no limit but the machine's."""
    cache_dir: Path
    """Where optimised copies of model files are kept."""
    layout: Layout = "original"
    """`original`: the file as it is; `q8_0`: a copy of that type; `auto`: the faster, where the file's type is slow."""

"""What is said when llama.cpp ends the process: it aborts where a file or its own code breaks an assumption of it.

While a model is loaded that is a refusal like any other: one sentence on stderr, and the exit code of a wrong
configuration. Later it is a line on stderr before the process aborts.
"""

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REFUSED = 2
"""Exit code of a process that was asked for what it cannot do, as the command line's."""

STDERR = 2

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)

_being_loaded: list[Path] = []


def _say(message: bytes) -> None:
    """Called by llama.cpp with file, line and reason; the process aborts when this returns."""
    reason = re.sub(r"^\S*/", "", message.decode("utf-8", "replace").strip())
    if not _being_loaded:
        os.write(STDERR, f"llama.cpp aborts the process: {reason}\n".encode())
        return
    said = f"Error: The model file {_being_loaded[-1]} cannot be loaded: llama.cpp gives up ({reason})."
    os.write(STDERR, f"{said}\n".encode())
    # Not sys.exit: there is no way back through llama.cpp's code.
    os._exit(REFUSED)


_CALLBACK: Any = _Callback(_say)  # llama.cpp keeps the pointer for the life of the process


def say_why_it_aborts(library: ctypes.CDLL) -> None:
    """Have llama.cpp, or what it is linked to, call `_say` before it aborts. Again changes nothing."""
    library.ggml_set_abort_callback.argtypes = [_Callback]
    library.ggml_set_abort_callback.restype = ctypes.c_void_p
    library.ggml_set_abort_callback(_CALLBACK)


@contextmanager
def loading(path: Path) -> Iterator[None]:
    """While the model of that file is loaded."""
    _being_loaded.append(path)
    try:
        yield
    finally:
        _being_loaded.remove(path)

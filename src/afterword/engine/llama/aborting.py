"""What is said when llama.cpp ends the process: it aborts where a file or its own code breaks an assumption of it."""

import ctypes
import os
import re
from typing import Any

STDERR = 2

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)


def _say(message: bytes) -> None:
    """Called by llama.cpp with file, line and reason; the process aborts when this returns."""
    reason = re.sub(r"^\S*/", "", message.decode("utf-8", "replace").strip())
    os.write(STDERR, f"llama.cpp gives up ({reason})\n".encode())


_CALLBACK: Any = _Callback(_say)  # llama.cpp keeps the pointer for the life of the process


def say_why_it_aborts(library: ctypes.CDLL) -> None:
    """Have llama.cpp, or what it is linked to, call `_say` before it aborts. Again changes nothing."""
    library.ggml_set_abort_callback.argtypes = [_Callback]
    library.ggml_set_abort_callback.restype = ctypes.c_void_p
    library.ggml_set_abort_callback(_CALLBACK)

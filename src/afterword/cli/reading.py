"""Texts that a command is given in files or on stdin."""

import sys
from pathlib import Path

from afterword.errors import ConfigurationError

STDIN = "-"


def read_text(name: str) -> str:
    """The text of a file, or of stdin, as it is; a byte order mark, which some editors write, is no part of it.

    Raises `ConfigurationError` if it cannot be read or is not UTF-8.
    """
    try:
        content = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        what = "What was piped in" if name == STDIN else name
        raise ConfigurationError(f"{what} cannot be read: {error}.") from error

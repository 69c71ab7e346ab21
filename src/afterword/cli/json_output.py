"""JSON on stdout: always UTF-8, as RFC 8259 (8.1) has it, whatever encoding the terminal takes for text."""

import sys


def write_json(value: bytes) -> None:
    """Write a JSON value and the end of its line."""
    sys.stdout.flush()
    sys.stdout.buffer.write(value + b"\n")

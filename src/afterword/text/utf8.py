"""Bytes that arrive in pieces, as text. Knows no tokens and no stops.

The text depends only on the bytes, never on where they were cut.
"""

import codecs


class Utf8Decoder:
    """One byte stream being decoded. Not thread-safe.

    Invalid bytes become U+FFFD as soon as they cannot be anything else. A character that is still incomplete
    when the stream ends has no text (docs/rules.md#whole-characters).
    """

    __slots__ = ("_pending",)

    def __init__(self, pending: bytes = b"") -> None:
        """`pending`: bytes of a character that began before this stream; its text belongs to this stream."""
        self._pending = pending

    @property
    def pending(self) -> bytes:
        """The bytes so far of a character that is not complete, at most 3."""
        return self._pending

    def push(self, data: bytes) -> str:
        """The characters that `data` completes."""
        if self._pending:
            data = self._pending + data
        text, n_read = codecs.utf_8_decode(data, "replace", False)
        rest = data[n_read:]
        if _is_surrogate_half(rest):
            text += rest.decode("utf-8", "replace")
            rest = b""
        self._pending = rest
        return text

    def flush(self) -> bytes:
        """End the stream. Returns the bytes of an incomplete last character, which gets no text."""
        dropped, self._pending = self._pending, b""
        return dropped


def _is_surrogate_half(rest: bytes) -> bool:
    """Whether `rest` starts an encoded surrogate: never valid, but the codec keeps it for its `surrogatepass` mode."""
    return len(rest) == 2 and rest[0] == 0xED and rest[1] >= 0xA0

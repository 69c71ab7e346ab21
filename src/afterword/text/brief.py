"""Texts that others chose, such as a model's name in a request, as messages and log lines repeat them."""

MOST = 80
"""Characters that are repeated; what is longer was not meant to be read."""


def brief(text: str) -> str:
    r"""The beginning of `text` on one line: control characters, halves of surrogate pairs and what turns the direction
    of writing around are spelled `\x1b`, `\ud83d`, `\u202e`.
    """
    return plain(cut(text, MOST))


def cut(text: str, most: int) -> str:
    """The first `most` characters of a longer text, and how long it is."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def plain(text: str) -> str:
    """All of `text`, spelled like that."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)

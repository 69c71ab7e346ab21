"""Texts of others in messages."""

import pytest

from afterword.text.brief import MOST, brief, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gpt-3.5", "gpt-3.5"),
        ("modèle 模型", "modèle 模型"),
        ("a\x1b[31m\x07\0\r\n\x9b\u2028", r"a\x1b[31m\x07\x00\r\n\x9b\u2028"),
        ("\ud83d \u202eevil", r"\ud83d \u202eevil"),
        ("x" * MOST, "x" * MOST),
        ("x" * (MOST + 1), "x" * MOST + f"... ({MOST + 1} characters)"),
    ],
)
def test_a_text_is_short_and_cannot_move_the_cursor(text: str, shown: str) -> None:
    assert brief(text) == shown


def test_a_whole_text_may_be_wanted() -> None:
    assert plain("\n" * 1000) == r"\n" * 1000

"""The dialect of regular expressions in list files: what is written, as what is searched for.

Everything that the `regex` package knows, except what has no meaning in a text that is not complete: that is refused.
Word boundaries are spelled out, because the package takes the end of the text so far for the end of all text there.
"""

import regex

LOOKAHEAD = 32
"""Characters behind a match that assertions may look at."""

_ANCHORED = 2
"""The same for patterns that only have word boundaries and anchors: `$` also matches before a last line break."""

_SPELLED_OUT = {
    r"\b": r"(?:(?<=\w)(?!\w)|(?<!\w)(?=\w))",
    r"\B": r"(?:(?<=\w)(?=\w)|(?<!\w)(?!\w))",
}
_REFUSED_ESCAPES = {r"\K", r"\G", r"\X", r"\m", r"\M"}

_PIECE = regex.compile(
    r"""
    (?P<escape> \\ (?: [pPNx] \{ [^{}]* \} | . ) )
    | (?P<set> \[ \^? \]? (?: \\. | \[:\^?\w+:\] | [^\]\\] )* \] )
    | (?P<comment> \(\?\# [^)]* \) )
    | (?P<verb> \(\* )
    | (?P<recursion> \(\?(?:R|0)\) )
    | (?P<fuzzy> \{ [^{}]* [idse] [^{}]* \} )
    | (?P<assertion> \(\?<?[=!] | \(\?> | [*+?}]\+ )
    | (?P<other> . )
    """,
    regex.VERBOSE | regex.DOTALL,
)


def translate(source: str) -> str:
    """A pattern as the matcher compiles it. Raises `ValueError` with words to follow "the pattern"."""
    return "".join(_translated(str(piece.lastgroup), piece[0]) for piece in _PIECE.finditer(source))


def lookahead(source: str) -> int:
    """How many characters behind a match may undo it."""
    n = 0
    for piece in _PIECE.finditer(source):
        if piece.lastgroup == "assertion":
            return LOOKAHEAD
        if piece[0] in (r"\b", r"\B", r"\Z", r"\z", "$"):
            n = _ANCHORED
    return n


def _translated(kind: str, piece: str) -> str:
    if kind == "escape" and piece in _REFUSED_ESCAPES:
        raise ValueError(f"uses {piece}, which has no meaning in a text that is still growing")
    match kind:
        case "escape":
            return _SPELLED_OUT.get(piece, piece)
        case "verb":
            raise ValueError("uses a verb such as (*SKIP), which is not supported")
        case "recursion":
            raise ValueError(f"uses {piece}, the whole pattern within itself, which is not supported")
        case "fuzzy":
            raise ValueError(f"uses {piece}, approximate matching, which is not supported")
    return piece

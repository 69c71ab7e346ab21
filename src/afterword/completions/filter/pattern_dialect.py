r"""The dialect of regular expressions in list files: what is written, as what is searched for.

Everything that the `regex` package supports, except what has no meaning in a text that is not complete: that is
refused. Two translations work around errors of the package's partial matching: at `\b` and `\B` it takes the end of the
text so far for the end of all text, and a repeat does not always stop there.
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
_ANCHORS = {"^", "$", r"\A", r"\Z", r"\z"}

_AT_END = "(?!(?s:.))"
"""Matches at the end of the text so far, where partial matching is undecided."""

_REFUSED_ESCAPES = {r"\K", r"\G", r"\X", r"\m", r"\M"}

_PIECE = regex.compile(
    r"""
    (?P<escape> \\ (?: [pPNx] \{ [^{}]* \} | . ) )
    | (?P<set> \[ \^? \]? (?: \\. | \[:\^?\w+:\] | [^\]\\] )* \] )
    | (?P<comment> \(\?\# [^)]* \) )
    | (?P<verb> \(\* )
    | (?P<recursion> \(\?(?:R|0)\) )
    | (?P<lookahead> \(\?[=!] )
    | (?P<lookbehind> \(\?<[=!] )
    | (?P<atomic> \(\?> )
    | (?P<group> \(\? )
    | (?P<quantifier> (?: [*+?] | \{ (?: \d+ (?: ,\d* )? | ,\d+ ) \} ) [?+]? )
    | (?P<fuzzy> \{ [^{}]* [idse] [^{}]* \} )
    | (?P<other> . )
    """,
    regex.VERBOSE | regex.DOTALL,
)


def translate(source: str) -> str:
    """A pattern as it is matched. Raises `ValueError` with words to follow "the pattern"."""
    return "".join(_translated(str(piece.lastgroup), piece[0]) for piece in _PIECE.finditer(source))


def relax(source: str) -> str:
    """A pattern that matches wherever `translate`'s does, and maybe elsewhere.

    All repeats are greedy, nothing is atomic, and lookbehinds and anchors also match at the end of the text so far.
    What is inside an assertion stays as it is: a negative assertion would become stricter.
    """
    relaxed: list[str] = []
    open_groups: list[str] = []
    for piece in _PIECE.finditer(source):
        kind, text = str(piece.lastgroup), piece[0]
        is_inside = any(group.startswith("look") for group in open_groups)
        if kind in ("lookahead", "lookbehind", "atomic", "group") or text == "(":
            open_groups.append(kind)
        change = _translated if is_inside else _relaxed
        relaxed.append(change(kind, text))
        if text == ")" and open_groups:
            closed = open_groups.pop()
            if closed == "lookbehind" and not any(group.startswith("look") for group in open_groups):
                relaxed.append(f"|{_AT_END})")
    return "".join(relaxed)


def lookahead(source: str) -> int:
    """How many characters behind a match may undo it."""
    n = 0
    for piece in _PIECE.finditer(source):
        is_possessive = piece.lastgroup == "quantifier" and piece[0][1:].endswith("+")
        if piece.lastgroup in ("lookahead", "atomic") or is_possessive:
            return LOOKAHEAD
        if piece[0] in (r"\b", r"\B", r"\Z", r"\z", "$"):
            n = _ANCHORED
    return n


def _relaxed(kind: str, piece: str) -> str:
    match kind:
        case "atomic":
            return "(?:"
        case "lookbehind":
            return "(?:" + piece
        case "quantifier":
            # The first character may be the only one.
            return piece[0] + piece[1:].rstrip("?+")
    if piece in _ANCHORS:
        return f"(?:{piece}|{_AT_END})"
    return _translated(kind, piece)


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

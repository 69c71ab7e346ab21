"""Reads a grammar with llguidance: from its text to llguidance's own, or what is wrong with it.

Called in the process of `grammar_child.py` alone: no limit here is one of the system's.
"""

import json
from typing import Any, Final

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper
from llguidance.gbnf_to_lark import gbnf_to_lark

from afterword.engine.grammars.annotations import without_notes

LIMITS: Final = LLParserLimits(
    initial_lexer_fuel=200_000,
    step_lexer_fuel=50_000,
    max_lexer_states=50_000,
    verbose_errors=False,
)
"""Of one grammar and of one token of it. With llguidance's own, `((a{100}){100}){100}` takes four times as long."""

_JSON: Final[Any] = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""How JSON is written: on one line, so that no model is lost in white space. `x-guidance` in a schema may change it."""

_UNFORCED: Final = '\n%llguidance {"no_forcing": true}\n'
"""Has llguidance not look for text that must come: at some rules which match nothing it would look for ever."""

_NEVER: Final = "NoExtensionBias"
"""llguidance's word for a grammar of which no text is."""


class Unreadable(ValueError):
    """What is wrong with a grammar, with line and column where it has them."""


def read(kind: str, text: str) -> str:
    """The grammar as llguidance reads it, tried to its first token. `kind` is a `Kind`. Raises `Unreadable`."""
    try:
        grammar = _as_guidance(kind, text)
    except Exception as error:  # of any kind: what is read here is a client's, by parsers of others
        raise Unreadable(f"cannot be read: {error}") from None
    problem = LLMatcher.validate_grammar(grammar, limits=LIMITS)
    if problem == "" or problem.startswith("WARNING"):
        matcher = LLMatcher(_BYTES, grammar, log_level=0, limits=LIMITS)
        matcher.compute_bitmask()
        problem = matcher.get_error()
    if problem != "":
        said = "no text satisfies it." if problem.startswith(_NEVER) else problem.strip()
        raise Unreadable(f"cannot be followed: {said}")
    return grammar


def _as_guidance(kind: str, text: str) -> str:
    match kind:
        case "json_schema":
            return LLMatcher.grammar_from_json_schema(json.dumps(without_notes(json.loads(text))), defaults=_JSON)
        case "regex":
            return LLMatcher.grammar_from_regex(text)
        case "choice":
            return LLMatcher.grammar_from_lark("start: " + " | ".join(map(json.dumps, json.loads(text))))
        case "gbnf":
            return LLMatcher.grammar_from_lark(gbnf_to_lark(text) + _UNFORCED)
        case "guidance":
            return json.dumps(_unforced(json.loads(text)))
    return text + _UNFORCED


def _unforced(guidance: Any) -> Any:
    for grammar in guidance["grammars"]:
        if isinstance(grammar.get("lark_grammar"), str):
            grammar["lark_grammar"] += _UNFORCED
    return guidance


class _Bytes:
    """A vocabulary of all bytes and an end: enough to find out what a grammar costs."""

    tokens = (*(bytes([value]) for value in range(256)), b"")
    special_token_ids = (256,)
    eos_token_id = 256
    bos_token_id = None

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


_BYTES: Final = LLTokenizer(TokenizerWrapper(_Bytes()), n_vocab=257)

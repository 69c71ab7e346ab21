"""Text to tokens for SentencePiece vocabularies that lack bytes, at which llama.cpp ends the process.

Such a vocabulary has neither a token for some characters nor tokens for their bytes. SentencePiece takes the unknown
token for a run of them, and so does this.
"""

import re
from dataclasses import dataclass

from afterword.engine.llama.binding import CONTROL, UNKNOWN, USER_DEFINED, LlamaModel, written_tokens

SPACE = "▁"
"""How the vocabulary writes a space."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """What a vocabulary can spell, and what it has for the rest."""

    spelled: frozenset[str]
    """Tokens as they are written."""
    unknown: int | None
    """The unknown token; without one, what cannot be spelled is left out."""
    marks: tuple[str, ...]
    """Tokens that a text may name if control tokens are read in it, the longest first."""
    own: tuple[str, ...]
    """Those that are read in any text."""

    def tokenize(self, model: LlamaModel, text: str, *, parse_special: bool) -> list[int]:
        """Ids as `LlamaModel.tokenize` gives them, with the unknown token for each run that cannot be spelled."""
        lacking = {character for character in set(text) if not self._has(character)}
        if not lacking:
            return model.tokenize(text, parse_special=parse_special)
        marks = self.marks if parse_special else self.own
        ids: list[int] = []
        for part in _cut(text, marks, lacking):
            if part[0] not in lacking or part in marks:
                ids += model.tokenize(part, parse_special=parse_special)
            elif self.unknown is not None:
                ids.append(self.unknown)
        return ids

    def _has(self, character: str) -> bool:
        as_written = SPACE if character == " " else character
        return as_written in self.spelled or all(f"<0x{byte:02X}>" in self.spelled for byte in as_written.encode())


def gaps_of(model: LlamaModel) -> Gaps | None:
    """None if llama.cpp can be given any text."""
    if model.metadata("tokenizer.ggml.model") != "llama":
        return None
    tokens = list(written_tokens(model))
    spelled = frozenset(text for text, _ in tokens)
    if all(f"<0x{byte:02X}>" in spelled for byte in range(256)):
        return None
    unknown = next((token for token, (_, kind) in enumerate(tokens) if kind & UNKNOWN), None)
    return Gaps(spelled, unknown, _of_kind(tokens, CONTROL | UNKNOWN | USER_DEFINED), _of_kind(tokens, USER_DEFINED))


def _of_kind(tokens: list[tuple[str, int]], kinds: int) -> tuple[str, ...]:
    return tuple(sorted((text for text, kind in tokens if kind & kinds and text != ""), key=len, reverse=True))


def _cut(text: str, marks: tuple[str, ...], lacking: set[str]) -> list[str]:
    """The text in parts: marks, runs of what is lacking, and what is between."""
    one = "[" + "".join(map(re.escape, sorted(lacking))) + "]"
    named = "|".join(map(re.escape, marks))
    pattern = f"({named}|(?:(?!{named}){one})+)" if marks else f"({one}+)"
    return [part for part in re.split(pattern, text) if part != ""]

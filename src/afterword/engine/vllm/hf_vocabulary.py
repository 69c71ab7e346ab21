"""A Hugging Face tokenizer, as the rest of the package sees it. Safe to use from any thread.

The `tokenizers` library turns text into ids. The way back is worked out here, because its decoders give text, and a
token may be less than a character: byte-level vocabularies spell each byte as one character, sentencepiece ones spell
a space as U+2581 and single bytes as `<0xNN>`.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Tokenizer
from typing_extensions import override

from afterword import tokens
from afterword.engine.vllm.facts import TokenizerFacts
from afterword.errors import ConfigurationError
from afterword.tokens import SEPARATOR, InfillTokens, choose_separator, spell_bytes

END_TEXTS = frozenset(
    {
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<end_of_turn>",
        "<EOT>",
        "</s>",
        # Where one file of a repository ends and the next begins.
        "<|repo_name|>",
        "<reponame>",
        "<|file_sep|>",
    }
)
"""Control tokens that end a text whether or not the model's configuration says so, as on the embedded engine."""

INFILL_TEXTS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),
    ("<PRE>", "<SUF>", "<MID>"),
    ("\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"),
    ("<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>", "<\uff5cfim\u2581end\uff5c>"),
)
"""How vocabularies spell the tokens before prefix, suffix and gap: Hugging Face files do not name them."""

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE = "\u2581"


class HfVocabulary(tokens.Tokenizer):
    """A tokenizer over one of the `tokenizers` library."""

    def __init__(self, facts: TokenizerFacts, n_vocab: int) -> None:
        """`n_vocab`: rows of the model's output, which may be more than there are tokens.

        Raises `ConfigurationError` for a kind of vocabulary whose bytes are not known.
        """
        self._tokenizer = Tokenizer.from_str(facts.serialized)
        # A second one, because whether control tokens are parsed is a state of the tokenizer, not an argument.
        self._plain = Tokenizer.from_str(facts.serialized)
        self._plain.encode_special_tokens = True
        for tokenizer in (self._tokenizer, self._plain):
            tokenizer.no_truncation()
            tokenizer.no_padding()
        added: Mapping[int, AddedToken] = self._tokenizer.get_added_tokens_decoder()
        self._control = frozenset(token for token, entry in added.items() if entry.special)
        self._pieces = _pieces(json.loads(facts.serialized), n_vocab)
        self._spelled: list[str | None] = [None] * n_vocab
        self.n_vocab = n_vocab
        self.bos_id = facts.bos_id
        self.eos_id = facts.eos_id
        self.pad_id = facts.pad_id
        self.add_bos = self._puts_bos_first()
        self.infill = self._infill()
        ends = {token for token in map(self._control_id, END_TEXTS) if token is not None}
        self.end_ids = frozenset(facts.end_ids | ends | ({self.eos_id} if self.eos_id is not None else set()))
        self.separator_id = choose_separator(self._control_id(SEPARATOR), self.bos_id, self.eos_id)
        self.chat_template = facts.chat_template
        self.name = facts.name

    @override
    def encode(self, text: str, *, add_bos: bool, parse_special: bool) -> list[int]:
        tokenizer = self._tokenizer if parse_special else self._plain
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return [self.bos_id, *ids] if add_bos and self.bos_id is not None else ids

    @override
    def piece(self, token: int) -> bytes:
        return self._pieces[token]

    @override
    def is_control(self, token: int) -> bool:
        return token in self._control

    @override
    def spell(self, token: int) -> str:
        known = self._spelled[token]
        if known is None:
            known = self._spelled[token] = spell_bytes(self.piece(token))
        return known

    def _puts_bos_first(self) -> bool:
        """Whether the tokenizer itself begins a text with BOS."""
        ids = self._tokenizer.encode("a").ids
        return self.bos_id is not None and ids[:1] == [self.bos_id]

    def _control_id(self, text: str) -> int | None:
        token = self._tokenizer.token_to_id(text)
        return token if token in self._control else None

    def _infill(self) -> InfillTokens | None:
        for texts in INFILL_TEXTS:
            prefix, suffix, middle = (self._tokenizer.token_to_id(text) for text in texts)
            if prefix is not None and suffix is not None and middle is not None:
                return InfillTokens(prefix, suffix, middle)
        return None


def _pieces(serialized: Mapping[str, Any], n_vocab: int) -> list[bytes]:
    """The bytes of every token. Added tokens are their own text, as they are matched in one."""
    kinds = set(_decoder_kinds(serialized.get("decoder")))
    table = _byte_table()
    vocabulary = serialized["model"]["vocab"]
    if not isinstance(vocabulary, dict):
        # Unigram models list their tokens with their scores, in the order of their ids.
        vocabulary = {text: token for token, (text, _) in enumerate(vocabulary)}
    pieces = [b""] * n_vocab
    for text, token in vocabulary.items():
        if token < n_vocab:
            pieces[token] = _piece(text, kinds, table)
    for entry in serialized.get("added_tokens") or ():
        if entry["id"] < n_vocab:
            pieces[entry["id"]] = entry["content"].encode()
    return pieces


def _piece(text: str, kinds: set[str], table: Mapping[str, int]) -> bytes:
    if "ByteLevel" in kinds:
        # A character that encodes no byte is itself: some vocabularies have added words in plain text.
        return b"".join(bytes([table[char]]) if char in table else char.encode() for char in text)
    if not kinds & {"ByteFallback", "Metaspace", "Replace"}:
        raise ConfigurationError(
            f"The tokenizer decodes with {', '.join(sorted(kinds)) or 'nothing'}, which does not give the bytes of a "
            "token: byte-level and sentencepiece vocabularies are served."
        )
    found = _BYTE_TOKEN.fullmatch(text)
    return bytes([int(found[1], 16)]) if found is not None else text.replace(_SPACE, " ").encode()


def _decoder_kinds(decoder: Mapping[str, Any] | None) -> list[str]:
    if decoder is None:
        return []
    return [decoder["type"], *(kind for part in decoder.get("decoders", ()) for kind in _decoder_kinds(part))]


def _byte_table() -> dict[str, int]:
    """How byte-level vocabularies spell bytes: visible characters as they are, the others in order from U+0100 on."""
    visible = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + i): byte for i, byte in enumerate(hidden)}

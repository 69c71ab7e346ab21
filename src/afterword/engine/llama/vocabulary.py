"""The tokenizer of a GGUF model, as the rest of the package sees it. Safe to use from any thread."""

from typing_extensions import override

from afterword.engine.llama.binding import LlamaModel, adds_bos, special_token, vocabulary_flags, written_tokens
from afterword.engine.llama.spelling import gaps_of
from afterword.tokens import SEPARATOR, InfillTokens, Tokenizer, choose_separator, spell_bytes

MIDDLE_ENDS = frozenset({"▁<EOT>", "<EOT>"})
"""How the token that ends what is filled in is written."""


class Vocabulary(Tokenizer):
    """A tokenizer over an open `LlamaModel`."""

    def __init__(self, model: LlamaModel) -> None:
        self._model = model
        self.n_vocab = model.n_vocab
        self._gaps = gaps_of(model)
        ends, control = vocabulary_flags(model)
        self.bos_id = _named(model, "bos", control)
        self.eos_id = _named(model, "eos", control)
        self.pad_id = special_token(model, "pad")
        self.add_bos = adds_bos(model)
        self.infill = _infill(model)
        middle_ends = self._ends_of_middles()
        guessed = frozenset({special_token(model, "eos")} if self.eos_id is None else ())
        self.end_ids, self._control = (ends - guessed) | middle_ends, control | middle_ends
        self.separator_id = self._separator()
        self.chat_template = model.chat_template
        self.name = model.metadata("tokenizer.ggml.pre") or model.metadata("tokenizer.ggml.model") or "unknown"
        # Filled on demand: two threads that race write the same value.
        self._pieces: list[bytes | None] = [None] * self.n_vocab
        self._spelled: list[str | None] = [None] * self.n_vocab

    @override
    def encode(self, text: str, *, add_bos: bool, parse_special: bool) -> list[int]:
        tokens = self._tokenize(text, parse_special=parse_special)
        if add_bos and self.bos_id is not None:
            return [self.bos_id, *tokens]
        return tokens

    @override
    def piece(self, token: int) -> bytes:
        known = self._pieces[token]
        if known is None:
            known = self._pieces[token] = self._model.piece(token)
        return known

    @override
    def is_control(self, token: int) -> bool:
        return token in self._control

    @override
    def spell(self, token: int) -> str:
        known = self._spelled[token]
        if known is None:
            known = self._spelled[token] = spell_bytes(self.piece(token))
        return known

    def _tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        # llama.cpp leaves out bytes that the vocabulary has no token for, or ends the process.
        if self._gaps is None:
            return self._model.tokenize(text, parse_special=parse_special)
        return self._gaps.tokenize(self._model, text, parse_special=parse_special)

    def _ends_of_middles(self) -> frozenset[int]:
        """Code Llama's <EOT> in files that do not name it: llama.cpp takes its other infill tokens by their names."""
        if self.infill is None or special_token(self._model, "eot") is not None:
            return frozenset()
        return frozenset(token for token, (text, _) in enumerate(written_tokens(self._model)) if text in MIDDLE_ENDS)

    def _separator(self) -> int:
        found = self._tokenize(SEPARATOR, parse_special=True)
        document = found[0] if len(found) == 1 and found[0] in self._control else None
        return choose_separator(document, self.bos_id, self.eos_id)


def _named(model: LlamaModel, name: str, control: frozenset[int]) -> int | None:
    """The id of `bos` or `eos`. Where the file has no key for it llama.cpp takes a number that may be any text's."""
    token = special_token(model, name)
    if token in control or model.metadata(f"tokenizer.ggml.{name}_token_id") is not None:
        return token
    return None


def _infill(model: LlamaModel) -> InfillTokens | None:
    prefix, suffix, middle = (special_token(model, name) for name in ("fim_pre", "fim_suf", "fim_mid"))
    if prefix is None or suffix is None or middle is None:
        return None
    return InfillTokens(prefix, suffix, middle)

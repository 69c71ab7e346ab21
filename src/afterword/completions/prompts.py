"""From one prompt as sent to the tokens an engine gets, the text that `echo` shows, and where each token is in it."""

from collections.abc import Iterable
from dataclasses import dataclass

from afterword.completions.completion import Prompt
from afterword.config.tree import ServerConfig
from afterword.errors import InvalidRequest
from afterword.fields.shapes import PromptItem
from afterword.text.alignment import align
from afterword.text.utf8 import Utf8Decoder
from afterword.tokens import Tokenizer, visible_bytes, visible_piece


@dataclass(frozen=True, slots=True)
class PromptRules:
    """The settings of a request that hold for all of its prompts."""

    add_special_tokens: bool
    """Put BOS in front of text where the model's metadata asks for it."""
    skip_special_tokens: bool
    """Control tokens of a token array have no text."""
    keep_last: int | None
    """Tokens to keep, counted from the end; None: all."""
    with_offsets: bool
    """Whether the offsets are needed; they are the slow part."""


def read_prompt(item: PromptItem, tokenizer: Tokenizer, rules: PromptRules) -> tuple[Prompt, bytes]:
    """The prompt, and the bytes of a character that a token array ends in the middle of.

    An empty prompt, and a text that the tokenizer has no token for, become the separator; the echo stays as sent
    (docs/rules.md#empty-prompt). Raises `InvalidRequest` for ids outside the vocabulary. Slow for long texts: not for
    the event loop.
    """
    if isinstance(item, str):
        return _read_text(item, tokenizer, rules), b""
    check_ids(item, tokenizer, "prompt")
    return _read_ids(item, tokenizer, rules)


def check_texts(texts: Iterable[str], server: ServerConfig, param: str) -> None:
    """Raise `InvalidRequest` for texts that are too long together: a tokenizer takes time and memory for each byte."""
    n_bytes = sum(len(text) if text.isascii() else len(text.encode("utf-8")) for text in texts)
    if n_bytes > server.max_text_bytes:
        raise InvalidRequest(
            f"'{param}' has {n_bytes} bytes of text; this server tokenizes at most {server.max_text_bytes} for one "
            "request.",
            param=param,
            code="string_above_max_length",
        )


def check_ids(ids: Iterable[int], tokenizer: Tokenizer, param: str) -> None:
    """Raise `InvalidRequest` for the first id that is not in the vocabulary."""
    for token in ids:
        if not 0 <= token < tokenizer.n_vocab:
            side = "below_min" if token < 0 else "above_max"
            raise InvalidRequest(
                f"'{param}' has the token id {_short(token)}; this model's ids are 0 to {tokenizer.n_vocab - 1}.",
                param=param,
                code=f"integer_{side}_value",
            )


def begins_with_bos(tokenizer: Tokenizer, rules: PromptRules) -> bool:
    """Whether text gets BOS in front."""
    return tokenizer.add_bos and rules.add_special_tokens and tokenizer.bos_id is not None


def text_of_ids(ids: tuple[int, ...], tokenizer: Tokenizer, *, skip_special_tokens: bool) -> tuple[str, bytes]:
    """A token array's whole characters, invalid bytes as U+FFFD, and the bytes of one that is incomplete at its end."""
    decoder = Utf8Decoder()
    text = decoder.push(visible_bytes(tokenizer, ids, skip_special_tokens=skip_special_tokens))
    return text, decoder.pending


def _short(number: int) -> str:
    return str(number) if number.bit_length() <= 64 else f"of {number.bit_length()} bits"


def _read_text(text: str, tokenizer: Tokenizer, rules: PromptRules) -> Prompt:
    with_bos = begins_with_bos(tokenizer, rules)
    tokens = tokenizer.encode(text, add_bos=with_bos, parse_special=True) if text else []
    n_bos = 1 if with_bos and tokens[:1] == [tokenizer.bos_id] else 0
    if len(tokens) == n_bos:
        return _prompt(text, (tokenizer.separator_id,), (0,), rules)
    offsets: list[int] = []
    if rules.with_offsets:
        starts, spelled = _starts(tokenizer.piece(token) for token in tokens[n_bos:])
        offsets = [0] * n_bos + _starts_as_sent(starts, spelled, text)
    return _prompt(text, tuple(tokens), tuple(offsets), rules)


def _read_ids(ids: tuple[int, ...], tokenizer: Tokenizer, rules: PromptRules) -> tuple[Prompt, bytes]:
    if not ids:
        return _prompt("", (tokenizer.separator_id,), (0,), rules), b""
    skip = rules.skip_special_tokens
    text, pending = text_of_ids(ids, tokenizer, skip_special_tokens=skip)
    starts: list[int] = []
    if rules.with_offsets:
        starts, _ = _starts(visible_piece(tokenizer, token, skip_special_tokens=skip) for token in ids)
    return _prompt(text, ids, tuple(starts), rules), pending


def _prompt(text: str, tokens: tuple[int, ...], offsets: tuple[int, ...], rules: PromptRules) -> Prompt:
    if not rules.with_offsets:
        offsets = ()
    if rules.keep_last is not None:
        tokens, offsets = tokens[-rules.keep_last :], offsets[-rules.keep_last :]
    return Prompt(text=text, tokens=tokens, offsets=offsets)


def _starts_as_sent(starts: list[int], spelled: str, text: str) -> list[int]:
    """Where each token begins in `text`, of which the tokens spell something else in some vocabularies."""
    if spelled.endswith(text):
        # The commonest: a space in front of every text, which was not sent.
        n_extra = len(spelled) - len(text)
        return [max(start - n_extra, 0) for start in starts]
    ends = [*starts[1:], len(spelled)]
    return align([spelled[start:end] for start, end in zip(starts, ends, strict=True)], text)


def _starts(pieces: Iterable[bytes]) -> tuple[list[int], str]:
    """The number of whole characters before each piece, and the whole text. Parts of one character share a start."""
    decoder = Utf8Decoder()
    starts: list[int] = []
    text: list[str] = []
    n_characters = 0
    for piece in pieces:
        starts.append(n_characters)
        part = decoder.push(piece)
        text.append(part)
        n_characters += len(part)
    return starts, "".join(text)

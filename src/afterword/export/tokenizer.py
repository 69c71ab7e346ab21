"""tokenizer.json from a GGUF file's vocabulary: byte-level BPE with the pre-tokenizers that the table knows.

The same text gives the same tokens as in llama.cpp, so no normaliser is written even where a model's authors have one.
"""

from afterword.export.gguf_file import GgufFile

Json = dict[str, object]

_CONTROL, _USER_DEFINED = 3, 4
"""Token types of the GGUF format."""

_BYTES_ONLY: Json = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
_BYTES_AND_WORDS: Json = _BYTES_ONLY | {"use_regex": True}
"""The second also splits words as GPT-2 does."""


def _split(pattern: str) -> Json:
    """Pieces cut by a pattern, then spelled as bytes."""
    cut: Json = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [cut, _BYTES_ONLY]}


def _words(digits: str) -> str:
    """The pattern that llama 3 and its relatives share but for how many digits stay together."""
    return (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
        + digits
        + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


PRE_TOKENIZERS: dict[str, Json] = {
    "gpt-2": _BYTES_AND_WORDS,
    "smollm": {
        "type": "Sequence",
        "pretokenizers": [{"type": "Digits", "individual_digits": True}, _BYTES_AND_WORDS],
    },
    "llama-bpe": _split(_words(r"\p{N}{1,3}")),
    "qwen2": _split(_words(r"\p{N}")),
}
"""By `tokenizer.ggml.pre`."""

_WHOLE_WORDS_FIRST = frozenset({"llama-bpe"})
"""Vocabularies in which a word that is a token is that token, whatever the merges would make of it."""


def tokenizer_json(source: GgufFile) -> Json:
    """tokenizer.json. Raises `ConfigurationError` for a kind of vocabulary that is not known."""
    kind, pre = source.text("tokenizer.ggml.model"), source.value("tokenizer.ggml.pre")
    if kind != "gpt2":
        raise source.refusal(f"its vocabulary is of the kind {kind}, and only byte-level BPE (gpt2) is known")
    if pre not in PRE_TOKENIZERS:
        raise source.refusal(f"its pre-tokenizer is {pre}, and only {', '.join(PRE_TOKENIZERS)} are known")
    texts = [str(text) for text in source.list_of("tokenizer.ggml.tokens")]
    merges = [str(merge).partition(" ")[::2] for merge in source.list_of("tokenizer.ggml.merges")]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(source, texts),
        "normalizer": None,
        "pre_tokenizer": PRE_TOKENIZERS[str(pre)],
        "post_processor": _bos_processor(source, texts),
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre in _WHOLE_WORDS_FIRST,
            "vocab": {text: token for token, text in enumerate(texts)},
            "merges": merges,
        },
    }


def tokenizer_config(source: GgufFile) -> Json:
    """tokenizer_config.json."""
    texts = source.list_of("tokenizer.ggml.tokens")
    named: Json = {}
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        token = source.value(f"tokenizer.ggml.{key}_token_id")
        if isinstance(token, int):
            named[f"{name}_token"] = texts[token]
    template = source.value("tokenizer.chat_template")
    if isinstance(template, str):
        named["chat_template"] = template
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "add_bos_token": _adds_bos(source),
        **named,
    }


def generation_config(source: GgufFile) -> Json:
    """generation_config.json: which tokens end a text."""
    keys = ("eos", "eot", "eom")
    ends = [source.value(f"tokenizer.ggml.{key}_token_id") for key in keys]
    return {"eos_token_id": list(dict.fromkeys(token for token in ends if isinstance(token, int)))}


def _added_tokens(source: GgufFile, texts: list[str]) -> list[Json]:
    kinds = source.list_of("tokenizer.ggml.token_type")
    return [
        {
            "id": token,
            "content": texts[token],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == _CONTROL,
        }
        for token, kind in enumerate(kinds)
        if kind in (_CONTROL, _USER_DEFINED)
    ]


def _adds_bos(source: GgufFile) -> bool:
    return source.value("tokenizer.ggml.add_bos_token") is True


def _bos_processor(source: GgufFile, texts: list[str]) -> Json | None:
    """Puts BOS in front where the file says so."""
    bos = source.value("tokenizer.ggml.bos_token_id")
    if not _adds_bos(source) or not isinstance(bos, int):
        return None
    text: Json = {"Sequence": {"id": "A", "type_id": 0}}
    start: Json = {"SpecialToken": {"id": texts[bos], "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [start, text],
        "pair": [start, text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {texts[bos]: {"id": texts[bos], "ids": [bos], "tokens": [texts[bos]]}},
    }

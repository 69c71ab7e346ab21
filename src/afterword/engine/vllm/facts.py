"""Facts about a model that vLLM has loaded, as plain values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """A Hugging Face tokenizer, and the special tokens of it and the model."""

    serialized: str
    """The tokenizer in the `tokenizers` library's JSON."""
    name: str
    bos_id: int | None
    eos_id: int | None
    pad_id: int | None
    end_ids: frozenset[int]
    """Tokens that end a text according to the model's own configuration."""
    chat_template: str | None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model as vLLM runs it."""

    max_model_len: int
    """Tokens of prompt and completion together, of which at least one is the completion's."""
    n_vocab: int
    n_slots: int
    """Sequences that vLLM runs at once."""
    max_logprobs: int
    prefix_cache: bool
    new_runner: bool
    """Whether vLLM uses its second model runner, whose tables have a fixed size."""
    identity: tuple[str, ...]
    """What decides the numbers besides the model's files: versions, types, layout on devices."""
    dtype: str
    tokenizer: TokenizerFacts

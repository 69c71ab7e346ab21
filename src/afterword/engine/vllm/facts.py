"""What a loaded model says of itself, once vLLM runs it. Plain values, so that nothing else need know vLLM."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """A Hugging Face tokenizer and the tokens that it or the model names."""

    serialized: str
    """What the `tokenizers` library makes the tokenizer of."""
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
    """Whether vLLM's second model runner is at work, whose tables have a fixed size."""
    identity: tuple[str, ...]
    """What decides the numbers beside the model's files: versions, types, layout on devices."""
    dtype: str
    tokenizer: TokenizerFacts

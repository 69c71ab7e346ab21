"""The configuration and tensor names of a GGUF model in the Hugging Face format.

A table of facts about three architectures. An architecture, or a variant of one, that is not in it is refused by name:
a model exported wrongly would answer, only badly.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afterword.export.gguf_file import GgufFile

Json = dict[str, object]

OUTPUT = "output.weight"
"""The output matrix; models without it use the embeddings again."""

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}

_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclass(frozen=True, slots=True)
class Architecture:
    """How one architecture is written down."""

    model_type: str
    class_name: str
    pairs_rotary: bool
    """Whether rows of the query and key matrices lie in the order of interleaved rotary pairs."""
    extra: Json
    """Keys of the configuration that only this architecture has."""


ARCHITECTURES = {
    "llama": Architecture("llama", "LlamaForCausalLM", pairs_rotary=True, extra={"mlp_bias": False}),
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM", pairs_rotary=False, extra={"use_sliding_window": False}),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM", pairs_rotary=False, extra={"use_sliding_window": False}),
}


def architecture_of(source: GgufFile) -> Architecture:
    """The architecture of a file. Raises `ConfigurationError` for one that the table does not have."""
    found = ARCHITECTURES.get(source.architecture)
    if found is None:
        known = ", ".join(ARCHITECTURES)
        raise source.refusal(f"its architecture is {source.architecture}, and only {known} are known")
    if source.whole(f"{source.architecture}.expert_count", 0) != 0:
        raise source.refusal("it is a mixture of experts")
    if source.has_tensor("rope_freqs.weight") or source.value(f"{source.architecture}.rope.scaling.type") is not None:
        raise source.refusal("it scales its rotary positions, which is not known how to write down")
    return found


def model_config(source: GgufFile, dtype: str) -> Json:
    """config.json. Raises `ConfigurationError` where the metadata lacks something."""
    architecture, prefix = architecture_of(source), source.architecture
    n_heads, n_embd = source.whole(f"{prefix}.attention.head_count"), source.whole(f"{prefix}.embedding_length")
    return {
        "architectures": [architecture.class_name],
        "model_type": architecture.model_type,
        "hidden_size": n_embd,
        "intermediate_size": source.whole(f"{prefix}.feed_forward_length"),
        "num_hidden_layers": source.whole(f"{prefix}.block_count"),
        "num_attention_heads": n_heads,
        "num_key_value_heads": source.whole(f"{prefix}.attention.head_count_kv", n_heads),
        "head_dim": source.whole(f"{prefix}.attention.key_length", n_embd // n_heads),
        "hidden_act": "silu",
        "max_position_embeddings": source.whole(f"{prefix}.context_length"),
        "rms_norm_eps": source.number(f"{prefix}.attention.layer_norm_rms_epsilon"),
        "rope_theta": source.number(f"{prefix}.rope.freq_base", 10000.0),
        "vocab_size": len(source.list_of("tokenizer.ggml.tokens")),
        "tie_word_embeddings": not source.has_tensor(OUTPUT),
        "bos_token_id": source.value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": source.value("tokenizer.ggml.eos_token_id"),
        "torch_dtype": dtype,
        "attention_bias": source.has_tensor("blk.0.attn_q.bias"),
        **architecture.extra,
    }


def tensor_name(source: GgufFile, name: str) -> str:
    """What a tensor of the file is called in the Hugging Face format. Raises `ConfigurationError` if unknown."""
    stem, _, kind = name.rpartition(".")
    if stem in _TOP:
        return f"{_TOP[stem]}.{kind}"
    block, _, rest = stem.removeprefix("blk.").partition(".")
    if not block.isdigit() or rest not in _LAYER:
        raise source.refusal(f"its tensor {name} is not known")
    return f"model.layers.{block}.{_LAYER[rest]}.{kind}"


def tensor_values(source: GgufFile, name: str) -> NDArray[np.float32]:
    """A tensor's values in the order of the Hugging Face format."""
    values = source.tensor(name)
    part = name.split(".")[-2]
    if not architecture_of(source).pairs_rotary or part not in ("attn_q", "attn_k"):
        return values
    n_heads = source.whole(f"{source.architecture}.attention.head_count")
    if part == "attn_k":
        n_heads = source.whole(f"{source.architecture}.attention.head_count_kv", n_heads)
    return _halves(values, n_heads)


def _halves(values: NDArray[np.float32], n_heads: int) -> NDArray[np.float32]:
    """Rows of each head from pairs (0, half), (1, half + 1), ... to its first half and then its second."""
    n_rows, *rest = values.shape
    pairs = values.reshape(n_heads, n_rows // n_heads // 2, 2, *rest)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)

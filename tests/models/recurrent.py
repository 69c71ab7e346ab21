"""Writes a tiny Mamba model with random weights as a GGUF file: its memory is a state, which cannot be cut."""

from pathlib import Path

import numpy as np
from gguf import GGUFWriter, LlamaFileType
from numpy.typing import NDArray
from tests.models.tiny import Tiny, add_vocabulary

N_LAYERS, N_EMBD, N_INNER, N_STATE, N_CONV, RANK = 2, 64, 128, 16, 4, 4


def write_recurrent(directory: Path) -> Path:
    """Write the model with the vocabulary of `Tiny`; always the same bytes. Returns the file's path."""
    path = directory / "recurrent.gguf"
    writer = GGUFWriter(path, "mamba")
    writer.add_file_type(LlamaFileType.ALL_F32)
    writer.add_context_length(1024)
    writer.add_block_count(N_LAYERS)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(N_CONV)
    writer.add_ssm_inner_size(N_INNER)
    writer.add_ssm_state_size(N_STATE)
    writer.add_ssm_time_step_rank(RANK)
    writer.add_layer_norm_rms_eps(1e-5)
    add_vocabulary(writer, Tiny())
    for name, values in _tensors(Tiny().n_vocab).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(n_vocab: int) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(0)

    def some(*shape: int, scale: float = 0.2) -> NDArray[np.float32]:
        return (random.standard_normal(shape) * scale).astype(np.float32)

    tensors = {
        "token_embd.weight": some(n_vocab, N_EMBD, scale=1.0),
        "output.weight": some(n_vocab, N_EMBD, scale=0.3),
        "output_norm.weight": np.ones(N_EMBD, dtype=np.float32),
    }
    for layer in range(N_LAYERS):
        block = {
            "attn_norm.weight": np.ones(N_EMBD, dtype=np.float32),
            "ssm_in.weight": some(2 * N_INNER, N_EMBD),
            "ssm_conv1d.weight": some(N_INNER, N_CONV),
            "ssm_conv1d.bias": some(N_INNER),
            "ssm_x.weight": some(RANK + 2 * N_STATE, N_INNER),
            "ssm_dt.weight": some(N_INNER, RANK),
            "ssm_dt.bias": some(N_INNER),
            # Decay rates, which are negative.
            "ssm_a": -np.exp(some(N_INNER, N_STATE)),
            "ssm_d": some(N_INNER),
            "ssm_out.weight": some(N_EMBD, N_INNER),
        }
        tensors |= {f"blk.{layer}.{name}": values for name, values in block.items()}
    return tensors

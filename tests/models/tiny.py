"""Writes tiny llama models with random weights as GGUF files: the embedded engine's tests load them in milliseconds.

Knows the file format and llama's tensor names; knows nothing of engines.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, TokenType
from gguf.quants import quantize
from numpy.typing import NDArray

N_LAYERS, N_EMBD, N_HEADS, N_HEADS_KV, N_FFN = 2, 64, 4, 2, 128

MERGES = ("t h", "th e", "a n", "Ġ a", "Ġ the", "i n", "e r", "o n", "Ġ s", "q u", "o w", "Ġ b", "r e", "l a")
"""Byte pairs that the vocabulary joins, in order of preference; Ġ is a space."""

BOS = "<s>"
INFILL = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")

FILE_TYPES = {
    "F32": (GGMLQuantizationType.F32, LlamaFileType.ALL_F32),
    "F16": (GGMLQuantizationType.F16, LlamaFileType.MOSTLY_F16),
    "BF16": (GGMLQuantizationType.BF16, LlamaFileType.MOSTLY_BF16),
    "Q8_0": (GGMLQuantizationType.Q8_0, LlamaFileType.MOSTLY_Q8_0),
    "Q4_0": (GGMLQuantizationType.Q4_0, LlamaFileType.MOSTLY_Q4_0),
    "Q4_1": (GGMLQuantizationType.Q4_1, LlamaFileType.MOSTLY_Q4_1),
}


@dataclass(frozen=True, slots=True)
class Tiny:
    """What a tiny model is like."""

    weights: str = "F32"
    """A key of `FILE_TYPES`."""
    floats: frozenset[str] = frozenset()
    """Names of tensors that stay F32."""
    context: int = 1024
    add_bos: bool = False
    infill: bool = False
    """Whether it has fill-in-the-middle tokens."""
    seed: int = 0
    end: str = "<|endoftext|>"
    """How its end-of-text token is spelled."""
    silent: bool = False
    """Whether its file says neither which tokens begin and end texts nor how they are split into words."""

    @property
    def controls(self) -> tuple[str, ...]:
        """Its control tokens, in order; they come after all others."""
        return (self.end, BOS, *(INFILL if self.infill else ()))

    @property
    def n_vocab(self) -> int:
        """Tokens in its vocabulary: never a multiple of 64."""
        return 256 + len(MERGES) + len(self.controls)

    def control_id(self, spelled: str) -> int:
        """The id of a control token."""
        return 256 + len(MERGES) + self.controls.index(spelled)


def write_tiny(directory: Path, tiny: Tiny) -> Path:
    """Write the model as `tiny-<weights>.gguf`; the same `tiny` gives the same bytes. Returns the file's path."""
    path = directory / f"tiny-{tiny.weights}.gguf"
    writer = GGUFWriter(path, "llama")
    _add_shape(writer, tiny)
    add_vocabulary(writer, tiny)
    kind = FILE_TYPES[tiny.weights][0]
    for name, values in _tensors(tiny).items():
        if values.ndim == 1 or kind == GGMLQuantizationType.F32 or name in tiny.floats:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_shape(writer: GGUFWriter, tiny: Tiny) -> None:
    writer.add_file_type(FILE_TYPES[tiny.weights][1])
    writer.add_context_length(tiny.context)
    writer.add_block_count(N_LAYERS)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(N_FFN)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(N_HEADS_KV)
    writer.add_rope_dimension_count(N_EMBD // N_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)


def add_vocabulary(writer: GGUFWriter, tiny: Tiny) -> None:
    """All bytes, some pairs of them, and control tokens."""
    pieces = [*_byte_pieces(), *(merge.replace(" ", "") for merge in MERGES)]
    writer.add_tokenizer_model("gpt2")
    if not tiny.silent:
        writer.add_tokenizer_pre("gpt-2")
        writer.add_bos_token_id(tiny.control_id(BOS))
        writer.add_eos_token_id(tiny.control_id(tiny.end))
        writer.add_add_bos_token(tiny.add_bos)
    writer.add_token_list([*pieces, *tiny.controls])
    writer.add_token_types([TokenType.NORMAL] * len(pieces) + [TokenType.CONTROL] * len(tiny.controls))
    writer.add_token_merges(MERGES)
    if tiny.infill:
        for name, spelled in zip(("pre", "suf", "mid"), INFILL, strict=True):
            writer.add_uint32(f"tokenizer.ggml.fim_{name}_token_id", tiny.control_id(spelled))


def _byte_pieces() -> list[str]:
    """All bytes as byte-level vocabularies spell them: visible characters as they are, others shifted beyond 255."""
    visible = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return [chr(byte if byte in visible else 256 + hidden.index(byte)) for byte in range(256)]


def _tensors(tiny: Tiny) -> dict[str, NDArray[np.float32]]:
    """Random weights, large enough for likely and unlikely tokens.

    Coordinate 0 of the residual stream is the same for every token and no layer changes it, so that the output
    matrix can make all but printable characters unlikely: the completions are readable.
    """
    random = np.random.default_rng(tiny.seed)

    def matrix(n_out: int, n_in: int, scale: float) -> NDArray[np.float32]:
        return (random.standard_normal((n_out, n_in)) * scale).astype(np.float32)

    n_kv = N_EMBD // N_HEADS * N_HEADS_KV
    embeddings, output = matrix(tiny.n_vocab, N_EMBD, 1.0), matrix(tiny.n_vocab, N_EMBD, 0.3)
    embeddings[:, 0] = 4.0
    output[:, 0] = -40.0
    output[ord(" ") : ord("~") + 1, 0] = 0.0
    output[256 : 256 + len(MERGES), 0] = 0.0
    tensors = {"token_embd.weight": embeddings, "output.weight": output}
    for layer in range(N_LAYERS):
        into_stream = {"attn_output": matrix(N_EMBD, N_EMBD, 0.3), "ffn_down": matrix(N_EMBD, N_FFN, 0.2)}
        for values in into_stream.values():
            values[0] = 0.0
        matrices = {
            "attn_q": matrix(N_EMBD, N_EMBD, 0.3),
            "attn_k": matrix(n_kv, N_EMBD, 0.3),
            "attn_v": matrix(n_kv, N_EMBD, 0.3),
            "ffn_gate": matrix(N_FFN, N_EMBD, 0.2),
            "ffn_up": matrix(N_FFN, N_EMBD, 0.2),
            **into_stream,
        }
        for name, values in matrices.items():
            tensors[f"blk.{layer}.{name}.weight"] = values
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{name}.weight"] = np.ones(N_EMBD, dtype=np.float32)
    tensors["output_norm.weight"] = np.ones(N_EMBD, dtype=np.float32)
    return tensors

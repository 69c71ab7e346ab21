"""llama.cpp behind two owners that free what they hold: `LlamaModel` and `LlamaContext`.

The only module that imports llama_cpp. It knows shapes, pointers and error codes, and no requests.
Tokenizing is thread-safe; a `LlamaContext` is used by one thread only.
"""

import ctypes
import importlib.metadata
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import llama_cpp.llama_cpp as c
import numpy as np
from numpy.typing import NDArray

from afterword.config.model import KVType
from afterword.config.tree import DEFAULT_CONTEXT
from afterword.engine.llama.batch_rows import BatchRows, Integers
from afterword.engine.llama.caches import KV_TYPES, Attention
from afterword.engine.llama.devices import SPLIT_MODES, null_terminated
from afterword.engine.llama.offload import ON_PROCESSOR, Placement
from afterword.errors import ConfigurationError
from afterword.gguf_header import GgufHeader, read_header
from afterword.gguf_parts import parts_of

PACKAGE_VERSION = importlib.metadata.version("llama-cpp-python")
LIBRARIES_FOLDER = Path(c.__file__).parent / "lib"
"""Where llama.cpp's own libraries are, which the kernels are linked to."""
LIBRARY: ctypes.CDLL = c._lib
"""llama.cpp as it is loaded; finds the functions of ggml too."""

LISTED_AT_ONCE = 65536
"""Tokens that are made a list of in one go: no other thread of Python has its turn meanwhile."""

LOG_LEVEL_ERROR = 4  # enum ggml_log_level: 4 = error, 5 = continuation of the line before
_recent_errors: deque[str] = deque(maxlen=20)


def _remember_errors(level: int, text: bytes, _data: object) -> None:
    """llama.cpp's log: kept only to explain a failure, never printed."""
    if level == LOG_LEVEL_ERROR and text:
        _recent_errors.append(text.decode("utf-8", "replace").strip())


# llama.cpp keeps the pointer for the life of the process, so the callback must live as long.
_LOG_CALLBACK = c.llama_log_callback(_remember_errors)


def start_backend() -> None:
    """Initialise llama.cpp's process-wide state. Calling it again changes nothing."""
    c.llama_log_set(_LOG_CALLBACK, ctypes.c_void_p(0))
    c.llama_backend_init()


def build_info() -> str:
    """llama.cpp's version and the instruction sets this build uses: part of the fingerprint."""
    return f"{c.llama_version().decode()} {c.llama_print_system_info().decode()}"


class LlamaModel:
    """Weights and vocabulary of one GGUF file, freed by `close` or with the object; contexts must be closed before."""

    def __init__(self, path: Path, *, vocab_only: bool = False, placement: Placement = ON_PROCESSOR) -> None:
        """Raises `ConfigurationError` in one sentence if the file cannot be a model."""
        check_file(path)
        start_backend()
        params = c.llama_model_default_params()
        params.vocab_only = vocab_only
        params.n_gpu_layers = placement.n_layers
        params.split_mode = SPLIT_MODES[placement.split_mode]
        params.main_gpu = placement.main_gpu
        devices = null_terminated(placement.devices)
        params.devices = ctypes.addressof(devices)
        _recent_errors.clear()
        pointer = c.llama_model_load_from_file(str(path).encode(), params)
        if not pointer:
            reason = _recent_errors[0] if _recent_errors else "llama.cpp gives no reason"
            raise ConfigurationError(f"The model file {path} cannot be loaded: {reason}.")
        self._pointer: c.llama_model_p = pointer
        self._free = weakref.finalize(self, c.llama_model_free, pointer)
        # Not at the end of the process, when a thread may still compute: the system frees the memory anyway.
        self._free.atexit = False
        self.n_vocab = int(c.llama_vocab_n_tokens(self.vocab))

    @property
    def pointer(self) -> "c.llama_model_p":
        """The C handle; asserts that the model is open."""
        assert self._free.alive, "the model is closed"
        return self._pointer

    @property
    def vocab(self) -> "c.llama_vocab_p":
        """The C handle of the vocabulary, which dies with the model."""
        found = c.llama_model_get_vocab(self.pointer)
        assert found is not None
        return found

    @property
    def n_ctx_train(self) -> int:
        """Tokens of context the model was trained with; the default where the file says 0."""
        trained = int(c.llama_model_n_ctx_train(self.pointer))
        # Some files say 0, which is no length.
        return DEFAULT_CONTEXT if trained == 0 else trained

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return int(c.llama_model_size(self.pointer))

    @property
    def description(self) -> str:
        """Architecture, parameters and quantisation, e.g. `llama 135M Q4_1`."""
        buffer = ctypes.create_string_buffer(256)
        c.llama_model_desc(self.pointer, buffer, 256)
        return buffer.value.decode("utf-8", "replace")

    @property
    def n_head(self) -> int:
        """Attention heads of a layer."""
        return max(1, int(c.llama_model_n_head(self.pointer)))

    @property
    def float_weights(self) -> bool:
        """Whether the matrices are F32, F16 or BF16, whose products depend on having one row or several."""
        return self.file_type in (0, 1, 32)

    @property
    def file_type(self) -> int:
        """llama.cpp's number for the type most tensors have (enum llama_ftype)."""
        return int(c.llama_model_ftype(self.pointer))

    @property
    def memory_can_be_cut(self) -> bool:
        """Whether a sequence's memory can lose its end: not so in recurrent and hybrid models, which keep a state.

        Layers with a sliding window keep every cell (`swa_full`), also those that have left the window.
        """
        return not (c.llama_model_is_recurrent(self.pointer) or c.llama_model_is_hybrid(self.pointer))

    @property
    def decoder_only(self) -> bool:
        """Whether the model continues text (encoders and diffusion models do not)."""
        encodes = c.llama_model_has_encoder(self.pointer) or c.llama_model_is_diffusion(self.pointer)
        return bool(c.llama_model_has_decoder(self.pointer)) and not encodes

    @property
    def chat_template(self) -> str | None:
        """The template that the file carries, if any."""
        found = c.llama_model_chat_template(self.pointer, None)
        return found.decode("utf-8", "replace") if found else None

    def metadata(self, key: str) -> str | None:
        """One GGUF value as text, None if the file has no such key."""
        buffer = ctypes.create_string_buffer(1024)
        length = c.llama_model_meta_val_str(self.pointer, key.encode(), buffer, 1024)
        return buffer.value.decode("utf-8", "replace") if length >= 0 else None

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """Ids of `text` without BOS or EOS. Any thread."""
        data = text.encode("utf-8")
        # A token has at least a byte; some vocabularies put a space in front.
        n_max = len(data) + 8
        tokens = (ctypes.c_int32 * n_max)()
        n = int(c.llama_tokenize(self.vocab, data, len(data), tokens, n_max, False, parse_special))
        assert n >= 0, "a text never has more tokens than bytes"
        found: list[int] = []
        for start in range(0, n, LISTED_AT_ONCE):
            found += tokens[start : min(n, start + LISTED_AT_ONCE)]
        # -1 where neither the text nor the unknown token is in the vocabulary.
        return [token for token in found if token >= 0] if -1 in found else found

    def piece(self, token: int) -> bytes:
        """Bytes of one token; the spelled name of a control token. Any thread."""
        buffer = ctypes.create_string_buffer(64)
        n = int(c.llama_token_to_piece(self.vocab, token, buffer, 64, 0, True))
        if n < 0:
            buffer = ctypes.create_string_buffer(-n)
            n = int(c.llama_token_to_piece(self.vocab, token, buffer, -n, 0, True))
        return buffer.raw[:n]

    def close(self) -> None:
        """Free the weights and the vocabulary. Calling it again changes nothing."""
        self._free()


def check_file(path: Path) -> list[GgufHeader]:
    """The headers of the file and its parts. Raises `ConfigurationError` in one sentence if one is not sound GGUF."""
    if not path.exists():
        raise ConfigurationError(f"The model file {path} does not exist.")
    if not path.is_file():
        raise ConfigurationError(f"The model file {path} is not a file.")
    return [read_header(part) for part in parts_of(path)]


class LlamaContext:
    """KV slots for sequences. One thread only.

    A slot is a sequence id with KV cells of its own, which llama.cpp calls a stream (`kv_unified` off). Slots are
    numbered 0..n_slots-1. Positions within a slot are contiguous from 0.
    """

    def __init__(
        self,
        model: LlamaModel,
        *,
        n_slots: int,
        n_ctx_slot: int,
        n_batch: int,
        n_threads: int,
        attention: Attention,
    ) -> None:
        """Reserves the KV cache. Raises `ConfigurationError` if llama.cpp cannot."""
        kv_type, caches = attention.kv_type, attention.caches
        params = c.llama_context_default_params()
        params.n_ctx = n_slots * n_ctx_slot
        params.n_batch = n_batch
        params.n_ubatch = n_batch
        params.n_seq_max = n_slots
        params.n_threads = n_threads
        params.n_threads_batch = n_threads
        # The project's kernels have it. llama.cpp's own is slower than the operations apart: decoding takes 1.6 to 2.6
        # times as long on a CPU, and its numbers depend on how many rows there are.
        params.flash_attn_type = int(attention.fused)
        params.kv_unified = False
        params.type_k = params.type_v = KV_TYPES[kv_type]
        # So that a prompt which shares a prefix can begin anywhere in it (`LlamaModel.memory_can_be_cut`).
        params.swa_full = True
        params.no_perf = True
        _recent_errors.clear()
        with nullcontext() if caches is None else caches.made_here():
            pointer = c.llama_init_from_model(model.pointer, params)
        if not pointer:
            if caches is not None:
                caches.close()
            raise _no_context(f"{n_slots} x {n_ctx_slot}", kv_type)
        self._pointer: c.llama_context_p | None = pointer
        self._caches = caches
        self._memory = c.llama_get_memory(pointer)
        self._n_vocab = model.n_vocab
        self._window = int(c.llama_model_n_swa(model.pointer))
        self.n_batch = n_batch
        self.n_slots = n_slots
        self.n_ctx_slot = int(c.llama_n_ctx_seq(pointer))
        self._rows = BatchRows(c.llama_batch(), n_batch)
        self._logits_address = 0
        self._logits_view = np.empty((0, model.n_vocab), dtype=np.float32)

    @property
    def pointer(self) -> "c.llama_context_p":
        """The C handle; asserts that the context is open."""
        assert self._pointer is not None, "the context is closed"
        return self._pointer

    def decode(
        self,
        tokens: Integers,
        positions: Integers,
        slots: Integers,
        outputs: Integers,
    ) -> NDArray[np.float32]:
        """Compute rows (n values each, n <= n_batch; `outputs` 0 or 1); logits (sum(outputs), n_vocab) in row order.

        The result is a view into llama.cpp's buffer, valid until the next call. Raises RuntimeError with
        llama.cpp's code if it fails; the slots are then in an unknown state.
        """
        batch = self._rows.fill(tokens, positions, slots, outputs)
        code = int(c.llama_decode(self.pointer, batch))
        if self._caches is not None:
            self._caches.copied()
        if code != 0:
            raise RuntimeError(f"llama_decode failed with code {code}: {' '.join(_recent_errors)}")
        return self._logits(self._rows.n_outputs)

    def use_threads(self, n: int) -> None:
        """How many threads compute from now on."""
        c.llama_set_n_threads(self.pointer, n, n)

    def _logits(self, n: int) -> NDArray[np.float32]:
        """The last call's logits, in llama.cpp's own buffer, which moves when it grows.

        The view is cached: making one takes as long as sampling a token.
        """
        if n == 0:
            return np.empty((0, self._n_vocab), dtype=np.float32)
        address = ctypes.addressof(c.llama_get_logits(self.pointer).contents)
        if address != self._logits_address or n > len(self._logits_view):
            floats = (ctypes.c_float * (n * self._n_vocab)).from_address(address)
            self._logits_view = np.ctypeslib.as_array(floats).reshape(n, self._n_vocab)
            self._logits_address = address
        return self._logits_view[:n]

    def length(self, slot: int) -> int:
        """Tokens a slot holds."""
        return int(c.llama_memory_seq_pos_max(self._memory, slot)) + 1

    def truncate(self, slot: int, n: int) -> bool:
        """Keep the first n tokens of a slot; False if this kind of memory cannot be cut there."""
        held = self.length(slot)
        if not c.llama_memory_seq_rm(self._memory, slot, n, -1):
            return False
        if self._caches is not None:
            self._caches.cut(slot, held, n)
        return True

    def can_be_saved(self, slot: int) -> bool:
        """Whether a snapshot has all of a slot: llama.cpp leaves out what the last token's window does not see."""
        return self._window == 0 or self.length(slot) <= self._window

    def duplicate(self, source: int, target: int) -> None:
        """Make `target` equal `source`; keys and values follow with the next decode."""
        if self._caches is not None:
            self._caches.copying(target, self.length(source))
        c.llama_memory_seq_cp(self._memory, source, target, -1, -1)

    def snapshot(self, slot: int) -> NDArray[np.uint8]:
        """All tokens of a slot that can be saved, as bytes that `restore` takes."""
        return self._saved(slot, c.LLAMA_STATE_SEQ_FLAGS_NONE)

    def restore(self, slot: int, data: NDArray[np.uint8]) -> None:
        """Replace a slot's content by a snapshot; later results equal the original's to the bit."""
        self.truncate(slot, 0)
        self._load(slot, data, c.LLAMA_STATE_SEQ_FLAGS_NONE)

    def state(self, slot: int) -> NDArray[np.uint8]:
        """The state of a recurrent or hybrid model after all tokens of a slot, without keys and values."""
        return self._saved(slot, c.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY)

    def restore_state(self, slot: int, data: NDArray[np.uint8]) -> None:
        """Put back a state that this slot had, or the slot of which it is a copy; then cut off what is behind it."""
        self._load(slot, data, c.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY)

    def _saved(self, slot: int, flags: int) -> NDArray[np.uint8]:
        size = int(c.llama_state_seq_get_size_ext(self.pointer, slot, flags))
        data = np.empty(size, dtype=np.uint8)
        written = int(c.llama_state_seq_get_data_ext(self.pointer, _bytes_of(data), size, slot, flags))
        assert written == size
        return data

    def _load(self, slot: int, data: NDArray[np.uint8], flags: int) -> None:
        read = int(c.llama_state_seq_set_data_ext(self.pointer, _bytes_of(data), len(data), slot, flags))
        if read != len(data):
            raise RuntimeError("llama.cpp refused the snapshot of a slot")

    def close(self) -> None:
        """Free the KV cache. Calling it again changes nothing."""
        if self._pointer is not None:
            c.llama_free(self._pointer)
            self._pointer = None
            if self._caches is not None:
                self._caches.close()


def _no_context(size: str, kv_type: KVType) -> ConfigurationError:
    """Why llama.cpp has just made no context for `size` tokens."""
    reason = _recent_errors[0] if _recent_errors else "llama.cpp gives no reason"
    if "cache type" in reason:
        return ConfigurationError(
            f"This model's keys and values cannot be kept as {kv_type}: set `kv_type` to f16 ({reason})."
        )
    return ConfigurationError(
        f"There is no room for {size} tokens of context: lower `context` or `parallel` ({reason})."
    )


def _bytes_of(data: NDArray[np.uint8]) -> "ctypes._Pointer[ctypes.c_uint8]":
    return data.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))


def vocabulary_flags(model: LlamaModel) -> tuple[frozenset[int], frozenset[int]]:
    """(ids that end generation, ids of control tokens) of a model's vocabulary."""
    ids = range(model.n_vocab)
    ends = frozenset(i for i in ids if c.llama_vocab_is_eog(model.vocab, i))
    control = frozenset(i for i in ids if c.llama_vocab_is_control(model.vocab, i))
    return ends, control


UNKNOWN, CONTROL, USER_DEFINED = 1, 8, 16  # enum llama_token_attr


def written_tokens(model: LlamaModel) -> Iterator[tuple[str, int]]:
    """Each token as the file writes it, ▁ for a space in it, and the bits of its kind."""
    for token in range(model.n_vocab):
        text = c.llama_vocab_get_text(model.vocab, token)
        yield text.decode("utf-8", "replace"), int(c.llama_vocab_get_attr(model.vocab, token))


def special_token(model: LlamaModel, name: str) -> int | None:
    """Id of `bos`, `eos`, `eot`, `pad`, `fim_pre`, `fim_suf` or `fim_mid`; None if the vocabulary has none."""
    token = int(getattr(c, f"llama_vocab_{name}")(model.vocab))
    return token if token >= 0 else None


def adds_bos(model: LlamaModel) -> bool:
    """Whether the metadata asks for BOS in front of a text."""
    return bool(c.llama_vocab_get_add_bos(model.vocab))

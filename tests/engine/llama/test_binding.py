import ctypes
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.fakes import eventually
from tests.models.tiny import Tiny, write_tiny

from afterword.engine.llama.binding import LIBRARY, LlamaContext, LlamaModel
from afterword.engine.llama.caches import Attention
from afterword.engine.llama.openmp import release_workers
from afterword.errors import ConfigurationError
from afterword.gguf_header import BLOCKS

TEXT = list(range(40, 90))
OTHER = list(range(150, 200))
NEXT = [60, 61]
TASKS = Path("/proc/self/task")


def tasks() -> set[str]:
    """The threads of this process, OpenMP's among them."""
    return {entry.name for entry in TASKS.iterdir()}


def test_types_of_tensors_are_those_of_llama_cpp() -> None:
    LIBRARY.ggml_blck_size.restype = ctypes.c_int64
    LIBRARY.ggml_type_size.restype = ctypes.c_size_t
    sizes = {kind: (LIBRARY.ggml_blck_size(kind), LIBRARY.ggml_type_size(kind)) for kind in range(max(BLOCKS) + 1)}
    assert {kind: size for kind, size in sizes.items() if size[0] != 0} == BLOCKS


@pytest.mark.parametrize("vocab_only", [True, False])
def test_an_unsound_file_does_not_reach_llama_cpp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vocab_only: bool
) -> None:
    path = write_tiny(tmp_path, Tiny("Q8_0"))
    path.write_bytes(path.read_bytes()[:-1])
    monkeypatch.setattr("llama_cpp.llama_cpp.llama_model_load_from_file", None)
    with pytest.raises(ConfigurationError, match="but its tensors end at"):
        LlamaModel(path, vocab_only=vocab_only)


def test_every_part_of_a_split_model_is_checked(tmp_path: Path) -> None:
    first = write_tiny(tmp_path, Tiny("Q8_0")).rename(tmp_path / "m-00001-of-00002.gguf")
    second = tmp_path / "m-00002-of-00002.gguf"
    second.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(ConfigurationError, match=f"The model file {second} cannot be loaded: it has"):
        LlamaModel(first)


@pytest.fixture
def model(tmp_path: Path) -> Iterator[LlamaModel]:
    opened = LlamaModel(write_tiny(tmp_path, Tiny("Q8_0")))
    yield opened
    opened.close()


@pytest.fixture
def context(model: LlamaModel) -> Iterator[LlamaContext]:
    opened = LlamaContext(model, n_slots=4, n_ctx_slot=512, n_batch=256, n_threads=1, attention=Attention(True))
    yield opened
    opened.close()


def decode(context: LlamaContext, slot: int, start: int, tokens: list[int]) -> NDArray[np.float32]:
    """Compute tokens of one slot; the logits after each."""
    n = len(tokens)
    return context.decode(
        np.array(tokens, dtype=np.int32),
        np.arange(start, start + n, dtype=np.int32),
        np.full(n, slot, dtype=np.int32),
        np.ones(n, dtype=np.int8),
    ).copy()


def after(context: LlamaContext, slot: int) -> bytes:
    """The bits of the logits of two tokens behind `TEXT` in a slot, which is left as it was."""
    bits = decode(context, slot, len(TEXT), NEXT).tobytes()
    context.truncate(slot, len(TEXT))
    return bits


@pytest.fixture
def expected(context: LlamaContext) -> bytes:
    """What `after` gives for a slot that holds `TEXT`; slot 0 does."""
    decode(context, 0, 0, TEXT)
    return after(context, 0)


def test_facts_of_a_model_come_from_the_file(model: LlamaModel) -> None:
    assert (model.n_vocab, model.n_ctx_train) == (272, 1024)
    assert model.metadata("general.architecture") == "llama"
    assert model.metadata("no.such.key") is None
    assert model.memory_can_be_cut
    assert model.decoder_only
    assert not model.float_weights


def test_float_weights_are_told_from_quantised_ones(tmp_path: Path) -> None:
    found = {
        weights: LlamaModel(write_tiny(tmp_path, Tiny(weights))).float_weights for weights in ("F32", "BF16", "F16")
    }
    assert found == {"F32": True, "BF16": True, "F16": True}


def test_logits_come_for_the_rows_asked_for_only(context: LlamaContext) -> None:
    every = decode(context, 0, 0, TEXT)
    context.truncate(0, 0)
    some = context.decode(
        np.array(TEXT, dtype=np.int32),
        np.arange(len(TEXT), dtype=np.int32),
        np.zeros(len(TEXT), dtype=np.int32),
        np.array([i in (3, 17, 49) for i in range(len(TEXT))], dtype=np.int8),
    )
    assert some.shape == (3, 272)
    np.testing.assert_array_equal(some, every[[3, 17, 49]])


def test_logits_are_right_while_their_number_grows_and_shrinks(context: LlamaContext) -> None:
    every = decode(context, 0, 0, TEXT).copy()
    for n in (1, 50, 3, 50, 1):
        context.truncate(0, 0)
        outputs = [int(i >= 50 - n) for i in range(50)]
        assert context.decode(TEXT, range(50), [0] * 50, outputs).tobytes() == every[50 - n :].tobytes()


def test_no_row_asked_for_gives_no_logits(context: LlamaContext) -> None:
    none = np.zeros(2, dtype=np.int32)
    assert context.decode(none, np.arange(2, dtype=np.int32), none, none.astype(np.int8)).shape == (0, 272)


def test_position_out_of_order_is_an_error_not_an_answer(context: LlamaContext, expected: bytes) -> None:
    with pytest.raises(RuntimeError, match="llama_decode failed"):
        decode(context, 0, len(TEXT) - 2, NEXT)


def test_length_is_that_of_each_slot(context: LlamaContext) -> None:
    decode(context, 0, 0, TEXT)
    decode(context, 2, 0, NEXT)
    context.truncate(0, 7)
    assert [context.length(slot) for slot in range(4)] == [7, 0, 2, 0]


def test_truncated_slot_goes_on_from_the_cut(context: LlamaContext, expected: bytes) -> None:
    decode(context, 0, len(TEXT), OTHER)
    assert context.truncate(0, len(TEXT))
    assert after(context, 0) == expected


def test_restored_snapshot_has_the_same_bits(context: LlamaContext, expected: bytes) -> None:
    data = context.snapshot(0)
    context.truncate(0, 0)
    decode(context, 3, 0, OTHER)
    context.restore(3, data)
    assert after(context, 3) == expected


def test_closing_twice_is_harmless(model: LlamaModel) -> None:
    context = LlamaContext(model, n_slots=1, n_ctx_slot=256, n_batch=64, n_threads=1, attention=Attention(True))
    context.close()
    context.close()
    model.close()
    model.close()


@pytest.mark.skipif(not TASKS.is_dir(), reason="the threads of a process are counted in /proc, which Linux has")
async def test_rest_gives_up_the_threads_that_computing_took(model: LlamaModel) -> None:
    context = LlamaContext(model, n_slots=1, n_ctx_slot=512, n_batch=256, n_threads=2, attention=Attention(True))
    # A team of its own: what earlier tests in this thread left is none of ours.
    release_workers()
    before = tasks()
    decode(context, 0, 0, TEXT)
    (worker,) = tasks() - before
    release_workers()
    # A thread that has ended and was waited for stays in /proc for a moment.
    await eventually(lambda: worker not in tasks())
    context.close()

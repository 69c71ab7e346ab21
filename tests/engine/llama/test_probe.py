import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.models.architectures import ARCHITECTURES
from tests.models.shaped import write_model
from tests.models.tiny import FILE_TYPES, Tiny, write_tiny

from afterword.engine.llama.arithmetic import FLOATS, INDEPENDENT, QUANTISED
from afterword.engine.llama.batch_rows import Integers
from afterword.engine.llama.binding import LlamaContext, LlamaModel
from afterword.engine.llama.caches import Attention
from afterword.engine.llama.probe import LogitCheck, check_logits, keeps_its_numbers, threads_do_not_matter


def kept(path: Path, *, n_slots: int = 3) -> list[bool]:
    """Whether a model keeps its numbers as each `Arithmetic` says: quantised, floats, independent rows."""
    model = LlamaModel(path)
    found = []
    for arithmetic in (QUANTISED, FLOATS, INDEPENDENT):
        context = LlamaContext(
            model,
            n_slots=n_slots,
            n_ctx_slot=256,
            n_batch=256,
            n_threads=1,
            attention=Attention(arithmetic.fused_attention),
        )
        found.append(keeps_its_numbers(context, model.n_vocab, arithmetic))
        assert [context.length(slot) for slot in range(n_slots)] == [0] * n_slots
        context.close()
    model.close()
    return found


def kept_by_llama_cpp(path: Path) -> list[bool]:
    """The same with llama.cpp's own kernels, which only another process has."""
    program = (
        "import sys, pathlib; from tests.engine.llama.test_probe import kept; print(kept(pathlib.Path(sys.argv[1])))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, path], env=environment, capture_output=True, text=True, check=True
    )
    found: list[bool] = json.loads(done.stdout.lower())
    return found


@pytest.mark.parametrize("tiny", [Tiny("F32"), Tiny("Q8_0", floats=frozenset({"output.weight"}))], ids=["all", "one"])
def test_for_llama_cpp_a_matrix_of_floats_needs_rows_beside_lone_ones(tmp_path: Path, tiny: Tiny) -> None:
    assert kept_by_llama_cpp(write_tiny(tmp_path, tiny)) == [False, True, False]


@pytest.mark.parametrize("weights", FILE_TYPES)
@pytest.mark.parametrize("n_slots", [1, 3])
def test_the_project_s_kernels_compute_rows_that_depend_on_nothing(tmp_path: Path, weights: str, n_slots: int) -> None:
    assert kept(write_tiny(tmp_path, Tiny(weights)), n_slots=n_slots) == [True, True, True]


def test_a_context_too_short_to_compare_gets_no_promise(tmp_path: Path) -> None:
    model = LlamaModel(write_tiny(tmp_path, Tiny("Q8_0")))
    context = LlamaContext(model, n_slots=1, n_ctx_slot=256, n_batch=256, n_threads=1, attention=Attention(False))
    context.n_ctx_slot = 81
    assert not keeps_its_numbers(context, model.n_vocab, QUANTISED)
    context.close()
    model.close()


class Mixing:
    """A context that computes the last two slots in each other's place."""

    def __init__(self, context: LlamaContext) -> None:
        self._context = context
        self.n_slots = context.n_slots
        self.truncate = context.truncate

    def decode(self, tokens: Integers, positions: Integers, slots: Integers, outputs: Integers) -> NDArray[np.float32]:
        last = self.n_slots - 1
        swapped = {last: last - 1, last - 1: last} if set(slots) == {last, last - 1} else {}
        order = np.argsort([swapped.get(slot, slot) for slot in slots], kind="stable")
        mixed = np.sort([swapped.get(slot, slot) for slot in slots])
        return self._context.decode(
            np.asarray(tokens)[order], np.asarray(positions)[order], mixed, np.asarray(outputs)[order]
        )


@pytest.mark.parametrize("n_slots", [1, 2, 3, 9])
def test_a_model_that_continues_texts_has_a_check_logits_its_own(tmp_path: Path, n_slots: int) -> None:
    model = LlamaModel(write_tiny(tmp_path, Tiny("Q8_0")))
    context = LlamaContext(model, n_slots=n_slots, n_ctx_slot=256, n_batch=256, n_threads=1, attention=Attention(True))
    assert check_logits(context) is LogitCheck.GOOD
    assert [context.length(slot) for slot in range(n_slots)] == [0] * n_slots
    context.close()
    model.close()


def test_sequences_that_get_into_each_other_are_noticed(tmp_path: Path) -> None:
    model = LlamaModel(write_tiny(tmp_path, Tiny("Q8_0")))
    context = LlamaContext(model, n_slots=4, n_ctx_slot=256, n_batch=256, n_threads=1, attention=Attention(True))
    assert check_logits(cast(LlamaContext, Mixing(context))) is LogitCheck.MIXED
    context.close()
    model.close()


@pytest.mark.parametrize("alone", [True, False])
def test_prompts_that_must_not_be_read_together_are_noticed(tmp_path: Path, alone: bool) -> None:
    (arwkv,) = (architecture for architecture in ARCHITECTURES if architecture.name == "arwkv7")
    model = LlamaModel(write_model(tmp_path / "arwkv.gguf", arwkv.name, arwkv.values))
    context = LlamaContext(model, n_slots=2, n_ctx_slot=256, n_batch=256, n_threads=1, attention=Attention(True))
    arithmetic = replace(INDEPENDENT, prompts_alone=alone)
    assert keeps_its_numbers(context, model.n_vocab, arithmetic) == alone
    context.close()
    model.close()


class Counting:
    """A context whose numbers follow from how many threads compute."""

    def __init__(self, context: LlamaContext, n_threads: int) -> None:
        self._context = context
        self._n_threads = n_threads
        self.n_ctx_slot = context.n_ctx_slot
        self.truncate = context.truncate

    def use_threads(self, n: int) -> None:
        self._n_threads = n
        self._context.use_threads(n)

    def decode(self, tokens: Integers, positions: Integers, slots: Integers, outputs: Integers) -> NDArray[np.float32]:
        found: NDArray[np.float32] = self._context.decode(tokens, positions, slots, outputs).copy()
        found[..., 0] += self._n_threads
        return found


@pytest.mark.parametrize("name", ["llama", "mamba", "qwen3moe", "gemma3", "rwkv7"])
def test_numbers_do_not_depend_on_how_many_threads_compute(tmp_path: Path, name: str) -> None:
    (chosen,) = (architecture for architecture in ARCHITECTURES if architecture.name == name)
    model = LlamaModel(write_model(tmp_path / "model.gguf", chosen.name, chosen.values))
    context = LlamaContext(model, n_slots=1, n_ctx_slot=256, n_batch=256, n_threads=4, attention=Attention(True))
    assert threads_do_not_matter(context, model.n_vocab, 4)
    assert context.length(0) == 0
    context.close()
    model.close()


def test_numbers_that_depend_on_threads_are_noticed(tmp_path: Path) -> None:
    model = LlamaModel(write_tiny(tmp_path, Tiny("Q8_0")))
    context = LlamaContext(model, n_slots=1, n_ctx_slot=256, n_batch=256, n_threads=3, attention=Attention(True))
    assert not threads_do_not_matter(cast(LlamaContext, Counting(context, 3)), model.n_vocab, 3)
    context.close()
    model.close()

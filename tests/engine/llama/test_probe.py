from pathlib import Path

import pytest
from tests.models.tiny import Tiny, write_tiny

from afterword.config.model import DEFAULT_MODEL
from afterword.engine.llama.arithmetic import FLOATS, INDEPENDENT, QUANTISED
from afterword.engine.llama.binding import LlamaContext, LlamaModel
from afterword.engine.llama.probe import keeps_its_numbers
from afterword.loading.embedded import model_file


def kept(path: Path, *, n_slots: int = 3) -> list[bool]:
    """Whether a model keeps its numbers as each `Arithmetic` says: quantised, floats, independent rows."""
    model = LlamaModel(path)
    context = LlamaContext(model, n_slots=n_slots, n_ctx_slot=256, n_batch=256, n_threads=1)
    found = [keeps_its_numbers(context, model.n_vocab, arithmetic) for arithmetic in (QUANTISED, FLOATS, INDEPENDENT)]
    assert [context.length(slot) for slot in range(n_slots)] == [0] * n_slots
    context.close()
    model.close()
    return found


@pytest.mark.parametrize("tiny", [Tiny("F32"), Tiny("Q8_0", floats=frozenset({"output.weight"}))], ids=["all", "one"])
@pytest.mark.parametrize("n_slots", [1, 3])
def test_a_matrix_of_floats_needs_rows_beside_lone_ones(tmp_path: Path, tiny: Tiny, n_slots: int) -> None:
    assert kept(write_tiny(tmp_path, tiny), n_slots=n_slots) == [False, True, False]


@pytest.mark.model
def test_single_rows_of_the_default_model_have_other_numbers_than_several() -> None:
    assert kept(model_file(DEFAULT_MODEL.name)) == [True, True, False]


def test_a_context_too_short_to_compare_gets_no_promise(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, Tiny("Q8_0"))
    assert kept(path, n_slots=1) == [True, True, True]
    model = LlamaModel(path)
    context = LlamaContext(model, n_slots=1, n_ctx_slot=256, n_batch=256, n_threads=1)
    context.n_ctx_slot = 81
    assert not keeps_its_numbers(context, model.n_vocab, QUANTISED)
    context.close()
    model.close()

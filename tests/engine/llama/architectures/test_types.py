"""Every type of numbers that llama.cpp writes, with a tiny mixture of experts whose rows are long enough for all."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.llama.architectures.asking import (
    BRANCH,
    HALF,
    OTHERS,
    PROMPT,
    ask,
    bits,
    fill_all_slots,
    scores,
)
from tests.engine.llama.reference import logprobs_by_llama_cpp
from tests.models.architectures import EXPERTS
from tests.models.engines import settings
from tests.models.requantised import FILE_TYPES, requantise
from tests.models.shaped import write_model

from afterword.engine.llama.llama_loading import load_engine

WIDE = {**EXPERTS, "embedding_length": 256, "expert_feed_forward_length": 256}
"""K types have 256 numbers in a block."""

ROUNDING = 0.005
"""Most that is added where quantising changes nearly nothing: numbers of 16 bits."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("types")
    source = write_model(directory / "F32.gguf", "qwen3moe", WIDE)
    for file_type in FILE_TYPES:
        requantise(source, directory / f"{file_type}.gguf", file_type)
    return directory


@pytest.fixture(scope="module")
def reference(files: Path) -> dict[str, NDArray[np.float64]]:
    return logprobs_by_llama_cpp(files, PROMPT)


@pytest.mark.parametrize("file_type", FILE_TYPES)
async def test_every_type_is_exact_and_near_llama_cpp(
    file_type: str, files: Path, reference: dict[str, NDArray[np.float64]]
) -> None:
    engine = load_engine(settings(files / f"{file_type}.gguf", files, context=200))
    try:
        assert engine.capabilities.reproducible
        rows = np.arange(len(PROMPT) - 1)
        of_floats, of_type = (reference[name][rows, PROMPT[1:]] for name in ("F32", file_type))
        by_quantising = np.abs(of_type - of_floats).mean()
        assert np.abs(await scores(engine) - of_type).mean() < HALF * by_quantising + ROUNDING
        await fill_all_slots(engine)
        alone = await ask(engine, BRANCH)
        await fill_all_slots(engine)
        beside, *_ = await asyncio.gather(*(ask(engine, text) for text in (BRANCH, PROMPT, *OTHERS)))
        await ask(engine, BRANCH)
        again = await ask(engine, BRANCH)
        assert bits(beside) == bits(alone) == bits(again)
        assert (alone.prompt.n_cached, again.prompt.n_cached) == (0, len(BRANCH) - 1)
    finally:
        await engine.aclose()

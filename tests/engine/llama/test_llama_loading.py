import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from structlog.testing import capture_logs
from tests.fakes import complete, generation_request
from tests.models.architectures import REFUSED
from tests.models.engines import open_tiny, settings
from tests.models.gguf_tensors import read_gguf, write_gguf
from tests.models.shaped import write_model
from tests.models.tiny import FILE_TYPES, Tiny, write_tiny

from afterword.config.model import KVType
from afterword.config.tree import DEFAULT_CONTEXT
from afterword.engine.llama import llama_loading
from afterword.engine.llama.binding import LlamaContext, LlamaModel
from afterword.engine.llama.llama_loading import LlamaSettings, load_engine
from afterword.errors import ConfigurationError


def refusal(asked: LlamaSettings) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_engine(asked)
    return str(caught.value)


def assert_one_sentence(text: str) -> None:
    assert re.fullmatch(r"[A-Z][^\n]*[^.]\.", text), text
    assert ". " not in text


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write_tiny(tmp_path, Tiny())


def test_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.gguf"
    said = refusal(settings(path, tmp_path))
    assert said == f"The model file {path} does not exist."


@pytest.mark.parametrize("content", [b"", b"GG", b"# Notes\n", bytes(100)], ids=["empty", "short", "text", "zeros"])
def test_file_of_another_kind_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.gguf"
    path.write_bytes(content)
    said = refusal(settings(path, tmp_path))
    assert_one_sentence(said)
    assert said.startswith(f"The model file {path} cannot be loaded: it begins with ")


def cut_to(n: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:n]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(cut_to(4), id="magic-only"),
        pytest.param(cut_to(1000), id="in-the-metadata"),
        pytest.param(lambda data: data[: len(data) // 2], id="in-the-tensors"),
        pytest.param(cut_to(-1), id="last-byte"),
        pytest.param(lambda data: data.replace(b"output_norm.weight", b"output_xxxx.weight"), id="missing-tensor"),
        pytest.param(lambda data: data[:4] + b"\xff" + data[5:], id="unknown-version"),
    ],
)
def test_damaged_file_is_named_with_the_reason(whole: Path, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(damage(whole.read_bytes()))
    said = refusal(settings(path, tmp_path))
    assert_one_sentence(said)
    assert said.startswith(f"The model file {path} cannot be loaded: ")
    assert "no reason" not in said


def test_native_08_a_model_whose_weights_are_no_numbers_is_refused(whole: Path, tmp_path: Path) -> None:
    file = read_gguf(whole)
    last = next(tensor for tensor in file.tensors if tensor.name == "output.weight")
    nothing = replace(last, content=lambda: np.full(last.size // 4, np.nan, dtype=np.float32).view(np.uint8))
    path = tmp_path / "nan.gguf"
    write_gguf(path, file.n_entries, file.entries, [nothing if t is last else t for t in file.tensors])
    said = refusal(settings(path, tmp_path))
    assert_one_sentence(said)
    assert said.endswith("cannot be served: its logits are no numbers.")


@pytest.mark.parametrize("architecture", ["bert", "modern-bert", "nomic-bert"])
def test_native_09_an_encoder_is_refused_as_no_model_of_text(tmp_path: Path, architecture: str) -> None:
    values = next(refused.values for refused in REFUSED if refused.name == architecture)
    said = refusal(settings(write_model(tmp_path / "encoder.gguf", architecture, values), tmp_path))
    assert_one_sentence(said)
    assert said.endswith("does not continue text.")


def test_context_beyond_the_budget_is_refused_with_both_sizes(whole: Path, tmp_path: Path) -> None:
    said = refusal(LlamaSettings(whole, 100_000, 4, 1, 64, 8 * 2**20, tmp_path, "own"))
    assert_one_sentence(said)
    assert "100000 tokens" in said
    assert "budget is 8 MiB" in said


async def test_slots_share_what_the_budget_holds(whole: Path, tmp_path: Path) -> None:
    roomy = load_engine(LlamaSettings(whole, 1000, 8, 1, 64, None, tmp_path, "own"))
    tight = load_engine(LlamaSettings(whole, 1000, 8, 1, 64, 4 * 2**20, tmp_path, "own"))
    assert (roomy.capabilities.n_slots, roomy.capabilities.n_cells) == (8, 8 * 1024)
    assert (tight.capabilities.context, tight.capabilities.n_slots) == (1000, 8)
    n_cells = tight.capabilities.n_cells
    assert n_cells is not None
    assert 1024 <= n_cells < 8 * 1024
    requests = [generation_request([(i + n) % 256 for i in range(300)], max_tokens=8, seed=n) for n in range(12)]
    expected = [(await complete(roomy, request)).text(0) for request in requests]
    found = await asyncio.gather(*(complete(tight, request) for request in requests))
    assert [told.text(0) for told in found] == expected
    await roomy.aclose()
    await tight.aclose()


@pytest.mark.parametrize("weights", FILE_TYPES)
async def test_every_type_of_weights_keeps_the_promise(weights: str) -> None:
    async with open_tiny(Tiny(weights)) as engine:
        assert engine.capabilities.reproducible
        assert engine.capabilities.context == 512


@pytest.mark.model
async def test_every_type_of_keys_and_values_keeps_the_promise(short_model: Path, tmp_path: Path) -> None:
    fingerprints = set()
    for kv_type in get_args(KVType):
        engine = load_engine(replace(settings(short_model, tmp_path), kv_type=kv_type))
        assert engine.capabilities.reproducible
        fingerprints.add(engine.fingerprint)
        await engine.aclose()
    assert len(fingerprints) == len(get_args(KVType))


def test_heads_that_are_no_blocks_of_32_cannot_be_kept_as_q8_0(whole: Path, tmp_path: Path) -> None:
    said = refusal(replace(settings(whole, tmp_path), kv_type="q8_0"))
    assert_one_sentence(said)
    assert "q8_0: set `kv_type` to f16 " in said
    assert "=16)" in said, "the length of a head"


@pytest.mark.model
def test_keys_and_values_cannot_be_kept_as_q8_0_by_llama_cpps_kernels(short_model: Path, tmp_path: Path) -> None:
    said = refusal(replace(settings(short_model, tmp_path), kernels="llama.cpp", kv_type="q8_0"))
    assert_one_sentence(said)
    assert said.endswith("set `kv_type` to f16.")


async def test_quantised_weights_with_a_float_matrix_keep_it_too() -> None:
    async with open_tiny(Tiny("Q8_0", floats=frozenset({"output.weight"}))) as engine:
        assert engine.capabilities.reproducible


@pytest.mark.parametrize("fails", ["keeps_its_numbers", "Vocabulary"], ids=["in-the-probe", "after-it"])
def test_failure_frees_the_context_before_the_model(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    freed: list[str] = []
    close_context, close_model = LlamaContext.close, LlamaModel.close

    def closing_context(context: LlamaContext) -> None:
        freed.append("context")
        close_context(context)

    def closing_model(model: LlamaModel) -> None:
        freed.append("model")
        close_model(model)

    def fail(*_: object) -> None:
        raise RuntimeError("no more memory")

    monkeypatch.setattr(LlamaContext, "close", closing_context)
    monkeypatch.setattr(LlamaModel, "close", closing_model)
    monkeypatch.setattr(llama_loading, fails, fail)
    with pytest.raises(RuntimeError, match="no more memory"):
        load_engine(settings(whole, tmp_path))
    # Of the contexts, the first was only to measure.
    assert freed == ["context", "context", "model"]


async def test_context_is_the_trained_one_where_none_is_asked_for(tmp_path: Path) -> None:
    engine = load_engine(LlamaSettings(write_tiny(tmp_path, Tiny(context=768)), None, 2, 1, 64, None, tmp_path, "own"))
    assert engine.capabilities.context == 768
    await engine.aclose()


async def test_native_07_a_file_that_says_it_has_no_context_gets_the_default_one(tmp_path: Path) -> None:
    engine = load_engine(LlamaSettings(write_tiny(tmp_path, Tiny(context=0)), None, 2, 1, 64, None, tmp_path, "own"))
    assert engine.capabilities.context == DEFAULT_CONTEXT
    await engine.aclose()


@pytest.mark.parametrize(("silent", "warnings"), [(True, ["warning"]), (False, [])])
async def test_native_11_a_guessed_pre_tokenizer_is_a_warning(
    silent: bool, warnings: list[str], tmp_path: Path
) -> None:
    path = write_tiny(tmp_path, Tiny(silent=silent))
    with capture_logs() as logs:
        engine = load_engine(settings(path, tmp_path))
    told = [line for line in logs if "tokenizer.ggml.pre" in line["event"]]
    assert [line["log_level"] for line in told] == warnings
    assert all(line["path"] == str(path) for line in told)
    await engine.aclose()


async def test_fingerprint_follows_the_file_and_the_context(tmp_path: Path) -> None:
    async with open_tiny(Tiny()) as first, open_tiny(Tiny()) as again:
        assert first.fingerprint == again.fingerprint
        async with open_tiny(Tiny(seed=1)) as other, open_tiny(Tiny(), context=600) as longer:
            assert len({first.fingerprint, other.fingerprint, longer.fingerprint}) == 3


async def test_vocabulary_outlives_the_weights() -> None:
    async with open_tiny(Tiny()) as engine:
        await engine.aclose()
        assert engine.tokenizer.encode("the", add_bos=False, parse_special=True) == [257]
        assert engine.tokenizer.piece(257) == b"the"

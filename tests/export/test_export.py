"""Tiny GGUF models in the format of the Hugging Face libraries. What writes weights is installed where vLLM is."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter
from tests.models.tiny import MERGES, Tiny, write_tiny

from afterword.errors import ConfigurationError
from afterword.export.architecture import model_config, tensor_name, tensor_values
from afterword.export.gguf_file import GgufFile
from afterword.export.tokenizer import generation_config, tokenizer_config, tokenizer_json


@pytest.fixture
def tiny(tmp_path: Path) -> GgufFile:
    return GgufFile(write_tiny(tmp_path, Tiny("F32", infill=True)))


def small(directory: Path, **entries: Any) -> Path:
    """A file without tensors: metadata alone, whose keys have `__` for each dot."""
    writer = GGUFWriter(directory / "small.gguf", str(entries.pop("architecture", "llama")))
    for key, value in entries.items():
        name = key.replace("__", ".")
        match value:
            case str():
                writer.add_string(name, value)
            case float():
                writer.add_float32(name, value)
            case int():
                writer.add_uint32(name, value)
            case _:
                writer.add_array(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return directory / "small.gguf"


def test_configuration_says_what_the_metadata_does(tiny: GgufFile) -> None:
    config = model_config(tiny, "float32")
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert (config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]) == (64, 128, 2)
    assert (config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]) == (4, 2, 16)
    assert (config["max_position_embeddings"], config["vocab_size"]) == (1024, 275)
    assert (config["tie_word_embeddings"], config["attention_bias"], config["torch_dtype"]) == (False, False, "float32")


def test_numbers_are_the_decimals_that_were_meant(tiny: GgufFile) -> None:
    assert model_config(tiny, "float32")["rms_norm_eps"] == 1e-5


def test_every_tensor_has_a_name_and_a_shape(tiny: GgufFile) -> None:
    shapes = {tensor_name(tiny, name): tensor_values(tiny, name).shape for name in tiny.names()}
    assert shapes["model.embed_tokens.weight"] == shapes["lm_head.weight"] == (275, 64)
    assert shapes["model.layers.1.self_attn.k_proj.weight"] == (32, 64)
    assert shapes["model.layers.0.mlp.down_proj.weight"] == (64, 128)
    assert shapes["model.norm.weight"] == (64,)
    assert len(shapes) == 21


def test_rows_of_queries_and_keys_go_from_rotary_pairs_to_halves(tiny: GgufFile) -> None:
    stored, exported = tiny.tensor("blk.0.attn_q.weight"), tensor_values(tiny, "blk.0.attn_q.weight")
    # Heads of 16 rows: row 2 of a head is the second pair's first, row 1 the first pair's second.
    assert (exported[1] == stored[2]).all()
    assert (exported[8] == stored[1]).all()
    assert (exported[16] == stored[16]).all()
    assert (tensor_values(tiny, "blk.0.attn_v.weight") == tiny.tensor("blk.0.attn_v.weight")).all()


@pytest.mark.parametrize("weights", ["Q8_0", "Q4_1", "Q4_0", "BF16"])
def test_quantised_weights_become_the_numbers_they_stand_for(tmp_path: Path, weights: str) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    for directory in directories:
        directory.mkdir()
    exact = GgufFile(write_tiny(directories[0], Tiny("F32"))).tensor("blk.0.ffn_up.weight")
    rounded = GgufFile(write_tiny(directories[1], Tiny(weights))).tensor("blk.0.ffn_up.weight")
    steps = {"Q8_0": 127, "Q4_1": 15, "Q4_0": 15, "BF16": 256}
    assert np.abs(exact - rounded).max() <= 1.1 * 2 * np.abs(exact).max() / steps[weights]
    assert not (exact == rounded).all()


def test_tokenizer_has_the_vocabulary_and_its_control_tokens(tiny: GgufFile) -> None:
    written: Any = tokenizer_json(tiny)
    assert written["model"]["vocab"]["A"] == ord("A") - ord("!") + 33
    assert written["model"]["merges"] == [tuple(merge.split(" ")) for merge in MERGES]
    assert [(entry["content"], entry["special"]) for entry in written["added_tokens"]] == [
        ("<|endoftext|>", True),
        ("<s>", True),
        ("<fim_prefix>", True),
        ("<fim_suffix>", True),
        ("<fim_middle>", True),
    ]
    assert written["pre_tokenizer"]["type"] == "ByteLevel"
    assert written["post_processor"] is None
    named = tokenizer_config(tiny)
    assert (named["bos_token"], named["eos_token"], named["add_bos_token"]) == ("<s>", "<|endoftext|>", False)
    assert generation_config(tiny) == {"eos_token_id": [270]}


def test_bos_is_put_first_where_the_metadata_says_so(tmp_path: Path) -> None:
    written: Any = tokenizer_json(GgufFile(write_tiny(tmp_path, Tiny("F32", add_bos=True))))
    assert written["post_processor"]["special_tokens"]["<s>"]["ids"] == [271]


VOCABULARY: dict[str, Any] = {"tokenizer__ggml__tokens": ["a"], "tokenizer__ggml__token_type": [1]}


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        pytest.param(
            {"architecture": "mamba"}, "its architecture is mamba, and only llama, qwen2, qwen3", id="unknown"
        ),
        pytest.param({"llama__expert_count": 8}, "mixture of experts", id="experts"),
        pytest.param({"llama__rope__scaling__type": "yarn"}, "rotary positions", id="rope"),
        pytest.param({}, "no whole number llama.attention.head_count", id="no heads"),
    ],
)
def test_model_that_cannot_be_written_down_is_refused_by_name(
    tmp_path: Path, entries: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        model_config(GgufFile(small(tmp_path, **VOCABULARY, **entries)), "float32")


@pytest.mark.parametrize(
    ("kind", "pre", "words"),
    [
        pytest.param("llama", "default", "of the kind llama", id="sentencepiece"),
        pytest.param("gpt2", "chameleon", "pre-tokenizer is chameleon", id="pre-tokenizer"),
    ],
)
def test_vocabulary_that_cannot_be_written_down_is_refused_by_name(
    tmp_path: Path, kind: str, pre: str, words: str
) -> None:
    entries = {"tokenizer__ggml__model": kind, "tokenizer__ggml__pre": pre, **VOCABULARY}
    with pytest.raises(ConfigurationError, match=words):
        tokenizer_json(GgufFile(small(tmp_path, **entries)))


def test_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"not a model, and long enough to be read")
    with pytest.raises(ConfigurationError, match="cannot be loaded: it begins with"):
        GgufFile(tmp_path / "x.gguf")


def exported(file: Path, directory: Path, dtype: str, **changes: Any) -> dict[str, Any]:
    """Tensors of an exported model, by name."""
    from safetensors import numpy

    from afterword.export.export import export_model

    export_model(file, directory, dtype)
    tensors: dict[str, Any] = numpy.load_file(directory / "model.safetensors")
    return tensors


@pytest.mark.vllm
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 0.0), ("float16", 1e-3)])
def test_directory_holds_the_weights(tmp_path: Path, dtype: str, tolerance: float) -> None:
    file = write_tiny(tmp_path, Tiny("F32"))
    tensors = exported(file, tmp_path / "out", dtype)
    source = GgufFile(file)
    assert set(tensors) == {tensor_name(source, name) for name in source.names()}
    for name in source.names():
        values = tensor_values(source, name)
        assert tensors[tensor_name(source, name)].dtype == dtype
        assert np.allclose(tensors[tensor_name(source, name)], values, rtol=tolerance, atol=1e-6)
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    documents = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"]
    assert files == sorted([*documents, "model.safetensors"])
    assert json.loads((tmp_path / "out" / "config.json").read_text())["torch_dtype"] == dtype


@pytest.mark.vllm
def test_nothing_is_overwritten(tmp_path: Path) -> None:
    from afterword.export.export import export_model

    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(ConfigurationError, match="nothing is overwritten"):
        export_model(write_tiny(tmp_path, Tiny("F32")), tmp_path / "out", "float32")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.vllm
def test_large_models_are_cut_into_files_with_an_index(tmp_path: Path) -> None:
    from safetensors import numpy

    from afterword.export.weights import write_weights

    source = GgufFile(write_tiny(tmp_path, Tiny("F32")))
    write_weights(source, tmp_path, "float32", shard_bytes=100_000)
    places: dict[str, str] = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    assert set(places) == {tensor_name(source, name) for name in source.names()}
    assert len(set(places.values())) > 2
    for file in set(places.values()):
        held = numpy.load_file(tmp_path / file)
        assert set(held) == {name for name, place in places.items() if place == file}


def as_bits(values: Sequence[float]) -> list[str]:
    from afterword.export.weights import as_stored

    return [f"{bits:04x}" for bits in as_stored(np.asarray(values, dtype=np.float32), "bfloat16").tolist()]


@pytest.mark.vllm
def test_bfloat16_rounds_to_the_nearest_and_ties_to_even() -> None:
    ties = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0xBF807FFF], dtype=np.uint32).view(np.float32)
    assert as_bits([1.0, -2.0, 0.0]) == ["3f80", "c000", "0000"]
    assert as_bits(ties.tolist()) == ["3f80", "3f82", "3f81", "bf80"]

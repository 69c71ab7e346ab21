import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from afterword.engine.identity import ResultCache, file_hash, fingerprint, model_hash


class Question:
    """Something that takes long to work out, and how often it was."""

    def __init__(self) -> None:
        self.n_asked = 0

    def compute(self) -> str:
        self.n_asked += 1
        return f"answer {self.n_asked}"


def test_answer_is_worked_out_once_and_outlives_the_notebook(tmp_path: Path) -> None:
    question = Question()
    assert ResultCache(tmp_path).get("key", question.compute) == "answer 1"
    assert ResultCache(tmp_path).get("key", question.compute) == "answer 1"
    assert question.n_asked == 1


def test_each_key_has_its_own_answer(tmp_path: Path) -> None:
    cache, question = ResultCache(tmp_path), Question()
    assert cache.get("a", question.compute) == "answer 1"
    assert cache.get("b", question.compute) == "answer 2"
    assert cache.get("a", question.compute) == "answer 1"


def test_directory_is_made_and_nothing_else_is_left_in_it(tmp_path: Path) -> None:
    directory = tmp_path / "cache" / "afterword"
    ResultCache(directory).get("key", Question().compute)
    assert [path.name for path in directory.iterdir()] == ["cache.json"]
    assert json.loads((directory / "cache.json").read_text())["key"][0] == "answer 1"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"key": "ans', id="cut-off"),
        pytest.param(b"[1, 2]", id="not-an-object"),
        pytest.param(b"\xff\xfe\x00", id="not-text"),
    ],
)
def test_damaged_notebook_costs_only_the_work(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cache.json").write_bytes(content)
    question = Question()
    assert ResultCache(tmp_path).get("key", question.compute) == "answer 1"
    assert ResultCache(tmp_path).get("key", question.compute) == "answer 1"


def test_a_bit_that_flips_anywhere_is_noticed(tmp_path: Path) -> None:
    question = Question()
    ResultCache(tmp_path).get("key", question.compute)
    whole = (tmp_path / "cache.json").read_bytes()
    for place in range(len(whole)):
        for bit in (1, 16):
            flipped = bytearray(whole)
            flipped[place] ^= bit
            (tmp_path / "cache.json").write_bytes(flipped)
            found = ResultCache(tmp_path).get("key", lambda: "worked out anew")
            # Between texts a byte may become another that means the same.
            assert found in ("worked out anew", "answer 1")
            assert found == "worked out anew" or json.loads(flipped.decode()) == json.loads(whole.decode())


def test_directory_that_cannot_be_made_costs_only_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache, question = ResultCache(tmp_path / "file" / "cache"), Question()
    assert cache.get("key", question.compute) == "answer 1"
    assert cache.get("key", question.compute) == "answer 2"


def test_notebook_that_cannot_be_replaced_costs_only_the_work(tmp_path: Path) -> None:
    (tmp_path / "cache.json").mkdir()
    assert ResultCache(tmp_path).get("key", Question().compute) == "answer 1"


def test_failure_to_work_out_is_not_noted(tmp_path: Path) -> None:
    def fail() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ResultCache(tmp_path).get("key", fail)
    assert ResultCache(tmp_path).get("key", Question().compute) == "answer 1"


def test_hash_of_a_file_is_its_sha_256(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"weights")
    expected = hashlib.sha256(b"weights").hexdigest()
    assert file_hash(model, ResultCache(tmp_path)) == file_hash(model, ResultCache(tmp_path)) == expected


def test_file_that_changed_is_hashed_again(tmp_path: Path) -> None:
    model, cache = tmp_path / "model.gguf", ResultCache(tmp_path)
    model.write_bytes(b"weights")
    file_hash(model, cache)
    os.utime(model, ns=(1, 1))
    model.write_bytes(b"heavier")
    assert file_hash(model, cache) == hashlib.sha256(b"heavier").hexdigest()


def test_file_that_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    model, cache = tmp_path / "model.gguf", ResultCache(tmp_path)
    model.write_bytes(b"weights")
    os.utime(model, ns=(5, 5))
    first = file_hash(model, cache)
    model.write_bytes(b"WEIGHTS")  # same size and, below, the same time
    os.utime(model, ns=(5, 5))
    assert file_hash(model, cache) == first


def test_fingerprint_has_ten_hex_digits() -> None:
    assert re.fullmatch("fp_[0-9a-f]{10}", fingerprint("hash", "build", 2, 64, 256, 4096, True))


def test_same_parts_have_the_same_fingerprint() -> None:
    assert fingerprint("hash", 2, True) == fingerprint("hash", 2, True)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(("other", 2, True), id="file"),
        pytest.param(("hash", 4, True), id="threads"),
        pytest.param(("hash", 2, False), id="probe"),
        pytest.param(("hash", 2), id="one-less"),
        pytest.param(("hash2", "", True), id="moved-between-parts"),
    ],
)
def test_every_part_counts(parts: tuple[object, ...]) -> None:
    assert fingerprint(*parts) != fingerprint("hash", 2, True)


def test_native_12_every_part_of_a_split_model_is_in_its_hash(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path / "cache")
    parts = [tmp_path / f"model-{number:05}-of-00003.gguf" for number in (1, 2, 3)]
    for part in parts:
        part.write_bytes(part.name.encode())
    before = model_hash(parts[0], cache)
    assert model_hash(parts[0], cache) == before
    for part in parts:
        os.utime(part, ns=(1, 1))
        part.write_bytes(part.name.encode()[::-1])
        after = model_hash(parts[0], cache)
        assert after != before
        before = after


def test_native_12_a_model_in_one_file_has_the_hash_of_the_file(tmp_path: Path) -> None:
    model, cache = tmp_path / "model.gguf", ResultCache(tmp_path)
    model.write_bytes(b"weights")
    assert model_hash(model, cache) == file_hash(model, cache)

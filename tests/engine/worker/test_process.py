"""Files and machines on which the process of a model does not come to life."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from gguf import GGUFWriter
from tests.models.engines import kept_tiny, settings
from tests.models.tiny import Tiny, write_tiny

from afterword.engine.worker import process
from afterword.engine.worker.process import KEEPS_MEMORY, Worker, check_vocabulary, how_it_ended
from afterword.engine.worker.worker_engine import load_engine
from afterword.engine.worker.worker_messages import CheckVocabulary, Ready
from afterword.errors import ConfigurationError


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "by itself with code 0 (MemoryError)"),
        (1, "by itself with code 1 (MemoryError)"),
        (-signal.SIGKILL, "signal 9 (Killed), as by a system that has no memory left"),
        (-signal.SIGSEGV, "signal 11 (Segmentation fault)"),
        (-signal.SIGRTMAX, f"signal {signal.SIGRTMAX} "),
    ],
)
def test_an_exit_code_is_said_in_words(code: int, said: str) -> None:
    assert said in how_it_ended(code, "MemoryError")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_process_that_ends_while_it_loads_is_a_refusal(number: int) -> None:
    path = kept_tiny(Tiny())
    worker = Worker(settings(path, path.parent))
    worker._process.send_signal(number)
    with pytest.raises(ConfigurationError, match=rf"^The model file {path} cannot be loaded: .*signal {number}"):
        worker.load()


def test_a_program_that_does_not_start_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "CHILD", "no.such.module")
    path = kept_tiny(Tiny())
    worker = Worker(settings(path, path.parent))
    with pytest.raises(ConfigurationError, match=r"code 1 \(.*No module named"):
        worker.load()


@pytest.mark.parametrize("what", ["model", "vocabulary"])
def test_a_file_that_is_never_read_to_its_end_is_refused(tmp_path: Path, what: str) -> None:
    path = kept_tiny(Tiny())
    asked = CheckVocabulary(path, 1) if what == "vocabulary" else replace(settings(path, tmp_path), load_seconds=1)
    worker = Worker(asked)
    worker._process.send_signal(signal.SIGSTOP)
    with pytest.raises(ConfigurationError) as refused:
        worker.answer()
    setting = " (load_timeout)" if what == "model" else ""
    assert str(refused.value) == f"The model file {path} cannot be loaded: it took more than 1 s{setting}."


def test_a_process_has_no_file_of_the_server_s_but_its_connection(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w"):
        path = kept_tiny(Tiny())
        worker = Worker(settings(path, path.parent))
        try:
            worker.load()
            opened = [str(link.readlink()) for link in Path(f"/proc/{worker.pid}/fd").iterdir()]
        finally:
            worker.kill()
            worker.end()
    assert sum(name.startswith("socket:") for name in opened) == 1
    assert not any("secret" in name for name in opened)


def test_a_process_keeps_memory_for_rows_of_logits_unless_the_operator_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = kept_tiny(Tiny())
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "500000")
    worker = Worker(settings(path, path.parent))
    try:
        worker.load()
        variables = Path(f"/proc/{worker.pid}/environ").read_text().split("\0")
    finally:
        worker.kill()
        worker.end()
    assert f"MALLOC_MMAP_THRESHOLD_={KEEPS_MEMORY['MALLOC_MMAP_THRESHOLD_']}" in variables
    assert "MALLOC_TRIM_THRESHOLD_=500000" in variables


def test_a_vocabulary_is_read_by_another_process_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = GGUFWriter.add_token_list
    monkeypatch.setattr(GGUFWriter, "add_token_list", lambda self, texts: real(self, [*texts[:-1], texts[0]]))
    path = write_tiny(tmp_path, Tiny())
    with pytest.raises(ConfigurationError, match=rf"^The model file {path} cannot be loaded: llama.cpp gives up \("):
        check_vocabulary(path)
    assert check_vocabulary(kept_tiny(Tiny())) is None  # type: ignore[func-returns-value]


def test_a_file_that_changes_while_it_is_loaded_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tiny(tmp_path, Tiny())
    load = Worker.load

    def load_and_change(self: Worker) -> Ready:
        ready = load(self)
        os.utime(path, (1, 1))
        return ready

    monkeypatch.setattr(Worker, "load", load_and_change)
    with pytest.raises(ConfigurationError, match="has changed while it was loaded"):
        load_engine(settings(path, tmp_path), step_seconds=300)

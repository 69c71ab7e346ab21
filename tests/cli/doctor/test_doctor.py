"""`afterword doctor`: what it says of sound and of broken machines, builds, configurations, files and services."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.api.served import app_of
from tests.cli.conftest import Afterword
from tests.models.tiny import Tiny, write_tiny

from afterword.cli.doctor import ask_llama
from afterword.cli.doctor.check_machine import machine
from afterword.cli.doctor.finding import Finding, findings
from afterword.gateway.database import open_database

SOURCES = Path(__file__).resolve().parents[3] / "src"

Report = dict[tuple[str, str], dict[str, Any]]

BUILD = {
    "devices": [{"name": "CUDA0", "description": "a GPU", "free": 3 * 2**29, "pointer": 1}],
    "python": "3.12",
    "binding": "0.3.36",
    "llama.cpp": "1 AVX = 1 | NEON = 0 |",
    "kernels": "avx2",
    "reason": None,
}


@pytest.fixture(autouse=True)
def _kernels_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions about models are asked; the build is found to be sound, for compiling takes long."""
    monkeypatch.setenv("PYTHONPATH", str(SOURCES))
    monkeypatch.setattr("afterword.cli.doctor.check_build.ask", lambda question: BUILD)


@pytest.fixture
def doctor(afterword: Afterword) -> Callable[..., tuple[int, Report]]:
    """Runs it with arguments; returns its exit code and what it found, by subject."""

    def run(*arguments: str) -> tuple[int, Report]:
        done = afterword("doctor", "--json", *arguments)
        assert done.exit_code in (0, 1), done.output
        assert done.exception is None or isinstance(done.exception, SystemExit)
        return done.exit_code, {(one["about"], one["what"]): one for one in json.loads(done.stdout)}

    return run


Doctor = Callable[..., tuple[int, Report]]


def wrongs(report: Report) -> list[str]:
    return [one["wrong"] for one in report.values() if one["wrong"] is not None]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def test_a_sound_server_has_a_table_and_exit_code_0(afterword: Afterword) -> None:
    done = afterword("doctor", "--port", str(free_port()))
    assert done.exit_code == 0, done.output
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["About", "What", "Found", "Remark"]
    subjects = list(dict.fromkeys(line.split()[0] for line in lines))
    assert subjects == ["machine", "build", "configuration", "model", "database", "keys", "port"]
    assert "WRONG" not in done.stdout


def test_nothing_is_made(doctor: Doctor, tmp_path: Path) -> None:
    code, report = doctor("--port", "0")
    assert code == 0
    assert report["database", "kept in"]["found"] == f"{tmp_path}/afterword.db, which the first start makes"
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_configuration_is_said_beside_machine_and_build(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "afterword.toml").write_text("[server]\nprot = 1\n")
    code, report = doctor()
    assert code == 1
    assert {about for about, _ in report} == {"machine", "build", "configuration"}
    assert len(wrongs(report)) == 1
    assert "prot" in wrongs(report)[0]


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        pytest.param(("--config", "none.toml"), {}, id="no file"),
        pytest.param(("--port", "nine"), {}, id="flag"),
        pytest.param((), {"AFTERWORD_MEMORY": "much"}, id="variable"),
    ],
)
def test_every_wrong_setting_is_a_finding(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    code, report = doctor(*arguments)
    assert code == 1
    assert report["configuration", "check"]["wrong"].endswith(".")


def test_it_is_said_where_settings_come_from(doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "afterword.toml").write_text("[server]\nport = 0\n")
    monkeypatch.setenv("AFTERWORD_API_KEY", "secret")
    code, report = doctor()
    assert code == 0, wrongs(report)
    assert report["configuration", "file"]["found"] == str(tmp_path / "afterword.toml")
    assert "AFTERWORD_API_KEY" in report["configuration", "variables"]["found"]
    assert report["configuration", "models"]["found"] == "echo"
    assert "secret" not in json.dumps([*report.values()])


def test_an_answer_that_does_not_come_is_a_finding(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask_llama, "MOST_SECONDS", 0.01)
    code, report = doctor("--model", str(write_tiny(tmp_path, Tiny("Q8_0"))), "--port", "0")
    assert code == 1
    assert wrongs(report) == ["llama.cpp gave no answer within 0.01 s."]


def test_a_model_is_read_without_its_weights(doctor: Doctor, tmp_path: Path) -> None:
    file = write_tiny(tmp_path, Tiny("Q8_0"))
    code, report = doctor("--model", str(file), "--port", "0", "--context", "512", "--parallel", "3")
    assert code == 0, wrongs(report)
    about = f"model {file.stem}"
    assert report[about, "file"]["found"].startswith(f"{file}, ")
    assert report[about, "trained context"]["found"] == "1024 tokens"
    assert report[about, "architecture"]["found"] == f"llama, {Tiny().n_vocab} tokens in its vocabulary"
    assert report[about, "memory"]["found"].endswith("with 3 slots of 512 tokens, 2304 in all")
    assert (about, "loaded") not in report


def test_a_model_that_is_loaded_says_what_it_comes_to(doctor: Doctor, tmp_path: Path) -> None:
    file = write_tiny(tmp_path, Tiny("Q8_0"))
    options = ("--context", "512", "--parallel", "3", "--kernels", "llama.cpp", "--load")
    code, report = doctor("--model", str(file), "--port", "0", *options)
    assert code == 0, wrongs(report)
    assert report[f"model {file.stem}", "loaded"]["found"].startswith("3 slots of 512 tokens, fp_")


def test_the_memory_that_is_foretold_is_what_loading_takes(doctor: Doctor, tmp_path: Path) -> None:
    file = write_tiny(tmp_path, Tiny("Q8_0"))
    code, report = doctor("--model", str(file), "--port", "0", "--context", "1000", "--memory", "2MiB")
    assert code == 1
    assert "One slot of 1000 tokens of context needs 5 MiB" in report[f"model {file.stem}", "check"]["wrong"]


def test_a_damaged_file_is_a_finding(doctor: Doctor, tmp_path: Path) -> None:
    file = write_tiny(tmp_path, Tiny("Q8_0"))
    file.write_bytes(file.read_bytes()[:-1])
    code, report = doctor("--model", str(file), "--port", "0")
    assert code == 1
    assert "its tensors end at" in wrongs(report)[0]


def test_a_damaged_file_in_the_folder_of_models_is_advice(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AFTERWORD_MODEL")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "x.gguf").write_bytes(b"GGUF")
    (tmp_path / "afterword.toml").write_text("[engine]\nmodels_dir = 'models'\n[[models]]\npath = 'echo'\n")
    code, report = doctor("--port", "0")
    assert (code, wrongs(report)) == (0, [])
    assert "x.gguf cannot be loaded: it ends within its header" in report["model x", "file"]["advice"]


def test_an_architecture_that_llama_cpp_does_not_know_is_a_finding(doctor: Doctor, tmp_path: Path) -> None:
    file = write_tiny(tmp_path, Tiny("Q8_0"))
    file.write_bytes(file.read_bytes().replace(b"llama", b"lemur"))
    code, report = doctor("--model", str(file), "--port", "0")
    assert code == 1
    assert "unknown model architecture: 'lemur'" in wrongs(report)[0]


def test_what_ends_the_process_that_asks_is_a_finding(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask_llama.AboutVocabulary, "__reduce__", lambda self: (os.abort, ()))
    code, report = doctor("--model", str(write_tiny(tmp_path, Tiny("Q8_0"))), "--port", "0")
    assert code == 1
    assert wrongs(report) == ["The process that asked llama.cpp ended with -6: it says nothing."]


def test_a_missing_file_is_a_finding(doctor: Doctor) -> None:
    code, report = doctor("--model", "none.gguf", "--port", "0")
    assert code == 1
    assert "none.gguf" in report["configuration", "check"]["wrong"]


def test_kernels_that_cannot_be_made_are_advice(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    none = BUILD | {"kernels": None, "reason": "there is no C++ compiler"}
    monkeypatch.setattr("afterword.cli.doctor.check_build.ask", lambda question: none)
    code, report = doctor("--port", "0")
    assert code == 0
    advice = report["build", "kernels"]["advice"]
    assert advice == "There is no C++ compiler: slower, and not the same bytes beside other requests."


def test_accelerators_are_listed(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    _, report = doctor("--port", "0")
    assert report["build", "accelerators"]["found"] == "CUDA0 (a GPU), 1.5 GiB free"
    monkeypatch.setattr("afterword.cli.doctor.check_build.ask", lambda question: BUILD | {"devices": []})
    _, report = doctor("--port", "0")
    assert report["build", "accelerators"]["found"] == "none"


def test_the_build_is_really_asked() -> None:
    answer = ask_llama.ask(ask_llama.AboutBuild())
    assert answer.keys() == BUILD.keys()
    assert answer["kernels"] is not None or answer["reason"] is not None


def test_a_damaged_database_is_a_finding(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "afterword.db").write_bytes(b"no database" * 1000)
    code, report = doctor("--port", "0")
    assert code == 1
    assert wrongs(report)[0].startswith(f"The database {tmp_path}/afterword.db ")


def test_a_database_that_could_not_be_made_is_a_finding(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, report = doctor("--port", "0", "--database", str(tmp_path / "file" / "afterword.db"))
    assert code == 1
    assert wrongs(report) == [f"Nothing can be written to {tmp_path}/file: name another database."]


def test_an_open_server_for_others_is_a_finding(doctor: Doctor, tmp_path: Path) -> None:
    open_database(tmp_path / "afterword.db").close()
    code, report = doctor("--host", "0.0.0.0", "--port", "0")
    assert code == 1
    assert "there is no key" in report["keys", "live"]["wrong"]
    assert doctor("--host", "0.0.0.0", "--port", "0", "--api-key", "secret")[0] == 0


def test_a_port_that_somebody_else_has_is_a_finding(doctor: Doctor) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        code, report = doctor("--port", str(port))
    assert code == 1
    assert wrongs(report) == [f"Nobody can listen on 127.0.0.1:{port}: Address already in use."]


def test_a_port_that_this_program_has_is_fine(
    doctor: Doctor, run_server: Callable[[Any], AbstractContextManager[str]]
) -> None:
    with run_server(app_of()) as url:
        port = url.removesuffix("/v1").rpartition(":")[2]
        code, report = doctor("--port", port)
    assert code == 0, wrongs(report)
    assert "serves there" in report["port", f"127.0.0.1:{port}"]["found"]


def test_vendors_are_asked_only_if_that_is_wanted(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "afterword.toml").write_text(
        f"[[vendors]]\nname = 'there'\nurl = 'http://127.0.0.1:{free_port()}/v1'\napi_key = 'secret'\n"
        "[[models]]\nname = 'm'\nvendor = 'there'\n"
    )
    monkeypatch.delenv("AFTERWORD_MODEL")
    code, report = doctor("--port", "0")
    assert code == 0, wrongs(report)
    code, report = doctor("--port", "0", "--ask-vendors")
    assert code == 1
    assert report["vendor there", "model m"]["wrong"].startswith("It cannot be asked about the model m: ")
    assert "secret" not in json.dumps([*report.values()])


def test_a_redis_that_is_away_is_a_finding_without_its_password(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "afterword.toml").write_text(f"[gateway]\nredis = 'redis://:secret@127.0.0.1:{free_port()}/0'\n")
    code, report = doctor("--port", "0")
    assert code == 1
    assert report["redis", "limits"]["wrong"].endswith("Connection refused.")
    assert "secret" not in json.dumps([*report.values()])


def test_a_filter_that_cannot_be_read_is_a_finding(doctor: Doctor) -> None:
    code, report = doctor("--port", "0", "--content-filter", "none.txt")
    assert code == 1
    assert "none.txt" in wrongs(report)[0]


def test_a_check_that_fails_is_a_finding() -> None:
    def check() -> Iterator[Finding]:
        yield Finding("a", "b", "c")
        raise ZeroDivisionError("no\x1b[0m")

    assert findings("a", check) == [
        Finding("a", "b", "c"),
        Finding("a", "check", None, wrong="The check failed: ZeroDivisionError: no\\x1b[0m."),
    ]


def test_a_machine_that_says_little_is_described_all_the_same(tmp_path: Path) -> None:
    found = {one.what: one for one in machine({}, tmp_path / "none", tmp_path / "none")}
    assert found["instructions"].found is None
    assert found["large pages"].found is None
    assert found["cores"].found is not None


@pytest.mark.parametrize(
    ("flags", "advice"),
    [
        ("flags\t\t: fpu avx2 fma", None),
        ("flags\t\t: fpu sse4_2", "several times as slow"),
        ("Features\t: asimd", None),
    ],
)
def test_slow_instructions_and_small_pages_are_advised_against(tmp_path: Path, flags: str, advice: str | None) -> None:
    info, pages = tmp_path / "cpuinfo", tmp_path / "pages"
    info.write_text(f"model name\t: Some\n{flags}\n")
    pages.write_text("always [madvise] never\n")
    found = {one.what: one for one in machine({}, info, pages)}
    assert found["processor"].found == "Some"
    said = found["instructions"].advice
    assert said is None if advice is None else advice in str(said)
    assert found["large pages"].advice is not None
    asked = machine({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}, info, pages)
    assert {one.what: one for one in asked}["large pages"].advice is None

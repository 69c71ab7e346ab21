"""`afterword pull`: from a hub and from an address to a model that is served by its name."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Afterword
from tests.fake_hub import FakeHub, hub_of_this_process
from tests.models.tiny import Tiny, write_tiny

SOURCES = Path(__file__).resolve().parents[2] / "src"

PULL = ["-c", "from afterword.cli.main import app; app()", "pull", "org/tiny-GGUF:Q8_0"]


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of models."""
    monkeypatch.setenv("AFTERWORD_MODELS_DIR", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture
def hub(tmp_path: Path, models: Path) -> Iterator[FakeHub]:
    file = write_tiny(tmp_path, Tiny(infill=True))
    content = file.read_bytes()
    file.unlink()
    with hub_of_this_process(tmp_path / "hf" / "hub") as hub:
        hub.repositories["org/tiny-GGUF"] = {"README.md": b"-", "tiny-Q8_0.gguf": content}
        hub.files["split/tiny-00001-of-00002.gguf"] = content
        hub.files["split/tiny-00002-of-00002.gguf"] = content
        hub.files["page.gguf"] = b"<html>"
        yield hub


def start(hub: FakeHub, home: Path) -> "subprocess.Popen[str]":
    environment = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(home), "PYTHONPATH": str(SOURCES)}
    environment.pop("HF_HUB_CACHE", None)
    return subprocess.Popen(
        [sys.executable, *PULL], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def test_what_a_kill_has_interrupted_goes_on_where_it_was(hub: FakeHub, models: Path, tmp_path: Path) -> None:
    content = hub.repositories["org/tiny-GGUF"]["tiny-Q8_0.gguf"]
    hub.stops_at = 100_000
    process = start(hub, tmp_path / "hf")
    assert hub.stopped.wait(60)
    sha256 = hashlib.sha256(content).hexdigest()
    part = tmp_path / "hf/hub/models--org--tiny-GGUF/blobs" / f"{sha256}.{sha256[:16]}.part"
    # It has what the hub has sent as soon as it is written.
    while not (part.exists() and part.stat().st_size > 0):
        assert process.poll() is None
    process.kill()
    process.communicate()
    there = part.stat().st_size
    hub.stops_at = None
    hub.goes_on.set()
    again = start(hub, tmp_path / "hf")
    out, _ = again.communicate()
    assert (again.returncode, out.partition(" ")[0]) == (0, "tiny-Q8_0")
    assert [one.range for one in hub.asked] == [None, f"bytes={there}-"]
    assert (models / "tiny-Q8_0.gguf").read_bytes() == content


def test_a_model_is_listed_and_shown_and_removed(
    hub: FakeHub, afterword: Afterword, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AFTERWORD_MODEL")
    assert afterword("pull", "org/tiny-GGUF").exit_code == 0
    listed = afterword("models", "list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["Name", "smollm2-135m-instruct", "tiny-Q8_0"]
    shown = afterword("models", "show", "tiny-Q8_0").stdout
    facts = {line[:15].strip(): line[15:].strip() for line in shown.splitlines()}
    assert facts["architecture"] == "llama"
    assert facts["quantisation"] == "F32"
    assert facts["infill tokens"] == "<fim_prefix> <fim_suffix> <fim_middle>"
    assert "for each token of context" in facts["memory"]
    assert afterword("models", "rm", "tiny-Q8_0").exit_code == 0
    assert not any(path.is_file() for path in (tmp_path / "hf").rglob("*.gguf"))
    gone = afterword("models", "show", "tiny-Q8_0")
    assert gone.stderr == (
        "Error: model is 'tiny-Q8_0': it must be a GGUF file that exists or one of smollm2-135m-instruct, echo.\n"
    )


def test_a_model_that_is_named_by_its_hub_is_fetched_first_and_then_not_asked_for(
    hub: FakeHub, afterword: Afterword
) -> None:
    for _ in range(2):
        result = afterword("complete", "a", "--model", "hf:org/tiny-GGUF:Q8_0", "--max-tokens", "1")
        assert result.exit_code == 0, result.output
        assert len(hub.asked) == 1
    assert len([request for request in hub.requests if "/api/" in request]) == 1


def test_all_parts_are_fetched_from_an_address(hub: FakeHub, afterword: Afterword, models: Path) -> None:
    result = afterword("pull", f"{hub.url}/files/split/tiny-00001-of-00002.gguf?download=true")
    assert (result.exit_code, result.stdout.partition(" ")[0]) == (0, "tiny")
    assert sorted(path.name for path in models.iterdir()) == ["tiny-00001-of-00002.gguf", "tiny-00002-of-00002.gguf"]


def test_what_is_no_model_is_not_kept(hub: FakeHub, afterword: Afterword, models: Path) -> None:
    page = afterword("pull", f"{hub.url}/files/page.gguf")
    assert (page.exit_code, "it begins with b'<htm', not b'GGUF'" in page.stderr) == (2, True)
    missing = afterword("pull", f"{hub.url}/files/other.gguf", "--sha256", "0" * 64)
    assert missing.exit_code == 1
    assert missing.stderr == f"Error: {hub.url}/files/other.gguf cannot be fetched: the server answers 404.\n"
    assert list(models.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("https://host/model.bin",), "https://host/model.bin must be the address of a GGUF file"),
        (("http://[host/m.gguf",), "'http://[host/m.gguf' is no address: Invalid IPv6 URL"),
        (("https://host/m.gguf", "--sha256", "12"), "--sha256 is '12': it must be 64 hex digits"),
        (("org/r", "--sha256", "0" * 64), "--sha256 is for an address"),
        (("no-repository",), "'no-repository' is no model of a hub"),
    ],
)
def test_what_cannot_be_meant_is_refused(afterword: Afterword, arguments: tuple[str, ...], words: str) -> None:
    result = afterword("pull", *arguments)
    assert (result.exit_code, words in result.stderr) == (2, True), result.stderr

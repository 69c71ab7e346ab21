"""One file by HTTP: what was interrupted goes on, and nothing wrong is kept."""

import fcntl
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fake_hub import FakeHub, fake_hub

from afterword.errors import ConfigurationError, PullFailed
from afterword.pulling import download
from afterword.pulling.download import Wanted, fetch

CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[FakeHub]:
    with fake_hub() as hub:
        hub.files["m.gguf"] = CONTENT
        yield hub


def wanted(hub: FakeHub, folder: Path, **more: str) -> Wanted:
    return Wanted(f"{hub.url}/files/m.gguf", folder / "m.gguf", {}, **more)


def left(folder: Path) -> list[Path]:
    return list(folder.glob("*.part"))


def test_a_file_arrives_and_says_how_far_it_is(server: FakeHub, tmp_path: Path) -> None:
    reports: list[tuple[int, int | None]] = []
    fetch(wanted(server, tmp_path / "new"), lambda at, whole: reports.append((at, whole)))
    assert (tmp_path / "new" / "m.gguf").read_bytes() == CONTENT
    assert (reports[0], reports[-1]) == ((0, len(CONTENT)), (len(CONTENT), len(CONTENT)))
    assert left(tmp_path / "new") == []


@pytest.mark.parametrize("tag", [{}, {"tag": SHA256, "sha256": SHA256}], ids=["asked for", "known"])
def test_a_connection_that_breaks_goes_on_where_it_was(server: FakeHub, tmp_path: Path, tag: dict[str, str]) -> None:
    server.stops_at = 1000
    server.goes_on.set()
    asked = wanted(server, tmp_path, **tag)

    def report(at: int, _whole: int | None) -> None:
        if at == 1000:
            server.stops_at = None

    fetch(asked, report)
    assert asked.target.read_bytes() == CONTENT
    assert server.asked[-1].range == "bytes=1000-"


def test_what_an_earlier_try_has_left_is_used(server: FakeHub, tmp_path: Path) -> None:
    (tmp_path / f"m.gguf.{SHA256[:16]}.part").write_bytes(CONTENT[:3000])
    fetch(wanted(server, tmp_path, tag=SHA256, sha256=SHA256), lambda *_: None)
    assert (tmp_path / "m.gguf").read_bytes() == CONTENT
    assert [one.range for one in server.asked] == ["bytes=3000-"]


def test_what_is_there_whole_is_not_fetched_again(server: FakeHub, tmp_path: Path) -> None:
    (tmp_path / f"m.gguf.{SHA256[:16]}.part").write_bytes(CONTENT)
    fetch(wanted(server, tmp_path, tag=SHA256, sha256=SHA256), lambda *_: None)
    assert (tmp_path / "m.gguf").read_bytes() == CONTENT


def test_a_server_without_ranges_sends_all_again(server: FakeHub, tmp_path: Path) -> None:
    server.takes_ranges = False
    (tmp_path / f"m.gguf.{SHA256[:16]}.part").write_bytes(b"x" * 3000)
    fetch(wanted(server, tmp_path, tag=SHA256, sha256=SHA256), lambda *_: None)
    assert (tmp_path / "m.gguf").read_bytes() == CONTENT


def test_a_later_content_at_the_same_address_is_not_mixed_with_an_earlier_one(
    server: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "PAUSES", ())
    server.stops_at = 1000
    server.goes_on.set()
    with pytest.raises(PullFailed, match="cannot be fetched"):
        fetch(wanted(server, tmp_path), lambda *_: None)
    assert [path.read_bytes() for path in left(tmp_path)] == [CONTENT[:1000]]
    server.stops_at = None
    server.files["m.gguf"] = CONTENT[::-1]
    fetch(wanted(server, tmp_path), lambda *_: None)
    assert (tmp_path / "m.gguf").read_bytes() == CONTENT[::-1]


def test_a_wrong_hash_is_not_kept(server: FakeHub, tmp_path: Path) -> None:
    other = "0" * 64
    with pytest.raises(PullFailed, match=f"has the SHA-256 {SHA256}, not {other}: it is not kept"):
        fetch(wanted(server, tmp_path, tag=other, sha256=other), lambda *_: None)
    assert list(tmp_path.iterdir()) == []


def test_what_its_check_refuses_is_not_kept(server: FakeHub, tmp_path: Path) -> None:
    def refuse(_path: Path) -> None:
        raise ConfigurationError("No.")

    with pytest.raises(ConfigurationError, match=r"No\."):
        fetch(wanted(server, tmp_path), lambda *_: None, refuse)
    assert list(tmp_path.iterdir()) == []


def test_two_processes_do_not_write_one_file(server: FakeHub, tmp_path: Path) -> None:
    with (tmp_path / f"m.gguf.{SHA256[:16]}.part").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(PullFailed, match=r"m\.gguf is being fetched by another process"):
            fetch(wanted(server, tmp_path, tag=SHA256), lambda *_: None)


def test_a_disk_that_is_too_small_is_seen_first(
    server: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 100}))
    with pytest.raises(PullFailed, match=r"0 MiB left, and 0 MiB are to come"):
        fetch(wanted(server, tmp_path), lambda *_: None)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("{url}/files/other.gguf", "the server answers 404"),
        ("http://127.0.0.1:1/m.gguf", "cannot be fetched: .*refused"),
        ("http://127.0.0.1:port/m.gguf", "is no address"),
    ],
)
def test_what_cannot_be_had_is_said_in_a_sentence(
    server: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, words: str
) -> None:
    monkeypatch.setattr(download, "PAUSES", ())
    with pytest.raises(PullFailed, match=words):
        fetch(Wanted(url.format(url=server.url), tmp_path / "m.gguf", {}), lambda *_: None)


def test_a_folder_that_cannot_be_written_is_named(server: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PullFailed, match=r"m\.gguf cannot be written: "):
        fetch(wanted(server, tmp_path / "file"), lambda *_: None)


def test_a_server_that_hangs_is_not_waited_for_forever(
    server: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "PAUSES", ())
    monkeypatch.setattr(download, "READ_SECONDS", 0.1)
    server.stops_at = 1000
    with pytest.raises(PullFailed, match="timed out"):
        fetch(wanted(server, tmp_path, tag=SHA256), lambda *_: None)

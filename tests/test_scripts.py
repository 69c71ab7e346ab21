"""The scripts that set the project up: which wheel they reuse, and what they say while one is built."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from scripts import native_wheel
from scripts.with_progress import Progress, run_with_progress

LOCK = """jinja2==3.1.6 \\
    --hash=sha256:aa
llama-cpp-python==0.3.36 \\
    --hash=sha256:bb \\
    --hash=sha256:cc
numpy==2.4.6 ; python_full_version < '3.12' \\
    --hash=sha256:dd
"""
PINNED = "llama-cpp-python==0.3.36 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"


@pytest.mark.parametrize("lock", [LOCK, LOCK[: LOCK.index("numpy")]], ids=["in the middle", "at the end"])
def test_the_wheel_s_pin_is_cut_out_of_the_lock_file(lock: str) -> None:
    assert native_wheel.requirement(lock) == PINNED


def test_wheels_of_different_builds_have_different_places() -> None:
    keys = [native_wheel.key(*parts) for parts in (("a", "b"), ("ab", ""), ("", "ab"), ("a", "c"))]
    assert len(set(keys)) == 4


def test_a_wheel_that_is_there_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CMAKE_ARGS", "-DX=1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.lock").write_text(LOCK)
    (tmp_path / "requirements-build.lock").write_text("cmake==4")
    folder = native_wheel.cache() / native_wheel.key(PINNED, "cmake==4", "-DX=1", native_wheel.processor())
    folder.mkdir(parents=True)
    (folder / "built.whl").touch()
    assert native_wheel.wheel("no-such-uv") == folder / "built.whl"


def test_set_ups_that_start_together_compile_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.lock").write_text(LOCK)
    (tmp_path / "requirements-build.lock").write_text("cmake==4")
    builds: list[Path] = []

    def build(uv: str, pinned: str, folder: Path) -> None:
        builds.append(folder)
        time.sleep(0.05)
        folder.mkdir()
        (folder / "built.whl").touch()

    monkeypatch.setattr(native_wheel, "build", build)
    with ThreadPoolExecutor(4) as pool:
        wheels = set(pool.map(native_wheel.wheel, ["uv"] * 4))
    assert len(builds) == 1
    assert wheels == {builds[0] / "built.whl"}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Collecting llama-cpp-python==0.3.36", True),
        ("ERROR: it did not work", True),
        ("  [46/140] /usr/bin/g++ -O3 x.cpp", False),
        ("  running this and that", False),
    ],
)
def test_only_what_matters_is_shown_at_once(line: str, shown: bool) -> None:
    assert Progress(0.0).see(line) == (line if shown else None)


def test_progress_is_told_every_five_seconds_with_the_step_that_was_reached() -> None:
    progress = Progress(100.0)
    assert progress.tick(104.9) is None
    assert progress.tick(105.0) == "  ... 5 s"
    progress.see("  [46/140] /usr/bin/g++ -O3 x.cpp")
    assert progress.tick(109.0) is None
    assert progress.tick(110.5) == "  ... 10 s, step 46 of 140"


def test_a_failure_shows_the_end_of_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "build.log"
    code = "import sys; print('first'); print('ERROR: why', file=sys.stderr, flush=True); sys.exit(3)"
    assert run_with_progress([sys.executable, "-u", "-c", code], {}, log) == 3
    assert log.read_text() == "first\nERROR: why\n"
    assert capfd.readouterr().err.splitlines()[-2:] == ["first", "ERROR: why"]

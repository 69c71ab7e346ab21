"""deploy/afterword.service: systemd takes it and finds little to add, and the server runs under what it forbids."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.deploy.confined import confined
from tests.models.tiny import Tiny, write_tiny

from afterword.config.tree import ServerConfig

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "afterword.service"

EXPOSED_AT_MOST = 15
"""Tenths, of 100: what `systemd-analyze security` makes of the unit. It must reach the network and open files."""


def unit() -> configparser.SectionProxy:
    """The section about the service. Keys that come twice have their last value."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT, encoding="utf-8")
    return parser["Service"]


def analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    file = tmp_path / UNIT.name
    # The program itself is not where an installation has it.
    file.write_text(
        re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    done = analyze("verify", str(file))
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_finds_little_that_the_unit_could_forbid_yet() -> None:
    done = analyze("security", "--offline=yes", "--no-pager", f"--threshold={EXPOSED_AT_MOST}", str(UNIT))
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_unit_names_settings_that_there_are(tmp_path: Path) -> None:
    program, *arguments = unit()["ExecStart"].split()
    assert program.endswith("/.venv/bin/afterword")
    assert arguments == ["serve", "--config", "/etc/afterword/afterword.toml"]
    assert dict(word.split("=") for word in unit()["Environment"].split()) == {
        "XDG_DATA_HOME": "/var/lib",
        "XDG_CACHE_HOME": "/var/cache",
    }
    assert unit()["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert int(unit()["TimeoutStopSec"]) > ServerConfig().drain_timeout
    # Where these point to is what systemd makes, and all that can be written to.
    assert (unit()["StateDirectory"], unit()["CacheDirectory"]) == ("afterword", "afterword")


def test_the_server_runs_under_what_the_unit_forbids(tmp_path: Path) -> None:
    given, folder = tmp_path / "given", tmp_path / "root"
    given.mkdir()
    folder.mkdir()
    write_tiny(given, Tiny("Q8_0")).rename(given / "tiny.gguf")
    (given / "afterword.toml").write_text('[[models]]\npath = "tiny.gguf"\ncontext = 256\nparallel = 2\n')
    environment = {
        **dict(word.split("=") for word in unit()["Environment"].split()),
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": "/var/lib/afterword",
    }
    program = [sys.executable, "-c", "from afterword.launch import main; main()"]
    # Kernels of our own would be compiled first, which takes long.
    options = ["serve", "--config", "/mnt/afterword.toml", "--port", "0", "--kernels", "llama.cpp"]
    with confined([*program, *options], folder, given, environment) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+/v1", line)
        assert found is not None, process.communicate(timeout=60)[1][-2000:]
        answer = httpx.post(f"{found[0]}/completions", json={"prompt": "the", "max_tokens": 4}, timeout=60)
        state = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        seen = Path(f"/proc/{process.pid}/root")
        kept = {name: (seen / "var" / name / "afterword").is_dir() for name in ("lib", "cache")}
        mounts = Path(f"/proc/{process.pid}/mountinfo").read_text(encoding="utf-8")
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert answer.status_code == 200, answer.text
    assert process.returncode == 0, said[-2000:]
    assert kept == {"lib": True, "cache": True}
    status = dict(line.split(":\t", 1) for line in state.splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    assert any(line.split()[4] == "/" and line.split()[5].startswith("ro") for line in mounts.splitlines())

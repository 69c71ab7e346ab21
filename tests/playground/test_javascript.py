"""What the playground does apart from the page: tests in JavaScript, one a module, run by Node."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.test.js"))

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed: apt-get install nodejs")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".test.js"))
def test_module(path: Path) -> None:
    command = ["node", "--test", "--test-reporter=tap", str(path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    counts = {name: int(count) for name, count in re.findall(r"^# (\w+) (\d+)$", run.stdout, re.MULTILINE)}
    assert run.returncode == 0, run.stdout
    assert counts["pass"] == counts["tests"] > 0, run.stdout

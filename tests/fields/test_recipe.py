"""The recipe "Add a request field" of CONTRIBUTING.md, followed step by step on a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.test_contributing import QUOTED, ROOT, section

FIELD = "min_length"
COPIED = (
    *("src", "tests", "scripts", "docs", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "pyproject.toml"),
    *sorted(path.name for path in ROOT.glob("requirements*.lock")),
)
"""What the steps change, and what their tests read."""

TESTS = (
    "tests/fields/test_table.py",
    "tests/completions/test_fields_matter.py",
    "tests/api/test_completions.py::test_a_choice_has_its_least_length",
    "tests/test_docs.py::test_every_field_of_a_request_has_a_row",
)

STEP_OR_DIFF = re.compile(r"^\d+\. ([^\n]*)$|^( *)```diff\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def changes(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each diff of a recipe, as lines without the list's indent, with the file that its step begins with."""
    path = ""
    for step, indent, diff in STEP_OR_DIFF.findall(text):
        if step:
            path = QUOTED.findall(step)[0]
        else:
            yield path, [line.removeprefix(indent) for line in diff.splitlines()]


def apply(lines: list[str], path: Path) -> None:
    """Make one change to a file that has the lines it begins from, once."""
    before = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
    after = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{path.name} does not have these lines, or has them twice:\n{before}"
    path.write_text(text.replace(before, after), encoding="utf-8")


def run(copy: Path, *command: str) -> None:
    """Run Python in the copy, on the copy's own package."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": f"{copy / 'src'}:{copy}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with every change of the recipe."""
    made = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, made / name, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
        else:
            shutil.copy(source, made / name)
    for path, lines in changes(section("Add a request field")):
        apply(lines, made / path)
    run(made, "scripts/docs.py", "write")
    return made


def test_the_example_is_not_a_field_yet() -> None:
    for path in (ROOT / "src/afterword/fields").glob("*.py"):
        assert FIELD not in path.read_text(encoding="utf-8")


def test_a_field_touches_at_most_six_files_of_the_package() -> None:
    changed = {path for path, _ in changes(section("Add a request field"))}
    assert {"docs/rules.md", "tests/api/test_completions.py"} < changed
    assert 3 <= len([path for path in changed if path.startswith("src/")]) <= 6


def test_the_document_that_is_made_has_the_field(copy: Path) -> None:
    assert f"| `{FIELD}` |" in (copy / "docs" / "fields.md").read_text(encoding="utf-8")


def test_the_tests_of_fields_pass(copy: Path) -> None:
    run(copy, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS)

"""The documents say what the code does."""

import re
from pathlib import Path

import pytest
from scripts import docs
from tests.models.architectures import ARCHITECTURES

from afterword.config.tree import SETTINGS
from afterword.fields.table import FIELDS
from afterword.gateway.ledger import MAX_WAITING

ROOT = Path(__file__).resolve().parent.parent
TEXTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def test_a_document_that_differs_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    assert docs.stale() == [
        "docs/configuration.md",
        "docs/fields.md",
        "docs/cli.md",
        "docs/models.md",
        "docs/code.md",
        "docs/compatibility.md",
        "docs/sbom.cdx.json",
    ]


def test_the_tree_has_a_described_line_for_every_file() -> None:
    lines = [line.split(maxsplit=1) for line in docs.code().splitlines()]
    files = [line for line in lines if line and line[0].endswith((".py", ".js"))]
    sources = (*docs.PACKAGE.rglob("*.py"), *docs.PACKAGE.rglob("*.js"))
    expected = [path for path in sources if path.name != "__init__.py"]
    assert len(files) == len(expected) + 1
    assert [line for line in files if len(line) < 2] == []


def test_the_readme_counts_the_architectures() -> None:
    assert f"of any of {len(ARCHITECTURES)} architectures" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_setting_is_documented_with_flag_and_variable() -> None:
    page = docs.configuration()
    for setting in SETTINGS:
        assert f"| `{setting.name}` | `{setting.flag}` | `{setting.variable}` |" in page


def test_every_field_of_a_request_has_a_row() -> None:
    page = (ROOT / "docs" / "fields.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)`", page, re.MULTILINE) == [field.name for field in FIELDS]


def test_the_ledger_s_waiting_rows_are_as_many_as_the_document_says() -> None:
    page = (ROOT / "docs" / "gateway.md").read_text(encoding="utf-8")
    assert f"rows wait in memory, up to {MAX_WAITING:,};" in page


def test_every_file_that_the_architecture_names_exists() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"[a-z_]+/[a-z_/]+\.(?:py|md)", page))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (docs.PACKAGE / name).exists() and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)", path.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (path.parent / target).exists()] == []


def test_the_table_of_faults_has_a_row_for_every_fault_that_tests_are_named_after() -> None:
    rows = docs.compatibility().partition(docs.FAULTS_HEAD)[2].splitlines()[2:]
    named = [row.split(" | ")[0] for row in rows]
    assert named == sorted(set(named), key=lambda name: (docs.FAULTS.index(name[2:-3]), name))
    [offers] = [row for row in rows if row.startswith("| http-21 | ")]
    assert "an offer of another protocol is ignored and the body read" in offers
    assert "`tests/cases/test_connections.py`" in offers

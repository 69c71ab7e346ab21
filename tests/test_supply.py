"""What the server is made of: the bill of materials, what is said of an audit, and what threats.md names."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from scripts.audit import audit, verdict
from scripts.sbom import bill
from tests.test_licences import listed, locked

from afterword import __version__

ROOT = Path(__file__).resolve().parent.parent


def test_the_bill_keeps_the_rules_of_its_format() -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill()) is None


def test_the_bill_has_every_package_that_is_shipped_and_its_licence() -> None:
    found = json.loads(bill())
    assert (found["metadata"]["component"]["name"], found["metadata"]["component"]["version"]) == (
        "afterword",
        __version__,
    )
    assert {part["name"] for part in found["components"]} == locked()
    for part in found["components"]:
        (licence,) = part["licenses"]
        declared = licence.get("expression") or licence["license"].get("id") or licence["license"]["name"]
        assert declared == listed()[part["name"]]
        assert part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}"
    needed = {one["ref"]: one.get("dependsOn", []) for one in found["dependencies"]}["afterword"]
    assert sorted(needed) == sorted(part["bom-ref"] for part in found["components"])


def test_the_bill_is_the_same_each_time_and_another_for_another_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    first = bill()
    assert bill() == first
    monkeypatch.setattr("scripts.sbom.LOCKS", ("requirements.lock",))
    assert json.loads(bill())["serialNumber"] != json.loads(first)["serialNumber"]


def report(**packages: list[dict[str, Any]] | None) -> str:
    """pip-audit's report; None: the package was not found."""
    return json.dumps(
        {
            "dependencies": [
                {"name": name, "skip_reason": "not found"}
                if vulns is None
                else {"name": name, "version": "1", "vulns": vulns}
                for name, vulns in packages.items()
            ]
        }
    )


BAD = {"id": "CVE-1", "fix_versions": ["2", "3"]}
UNREACHED = "The database of vulnerabilities cannot be reached here: no version was looked up."


@pytest.mark.parametrize(
    ("reports", "code", "lines"),
    [
        pytest.param([report(a=[], b=[])], 0, ["2 packages were looked up, 0 vulnerabilities are known."], id="fine"),
        pytest.param(
            [report(a=[], b=[BAD])],
            1,
            ["2 packages were looked up, 1 vulnerabilities are known.", "b 1: CVE-1, fixed in 2, 3"],
            id="vulnerable",
        ),
        pytest.param([report(a=None), report(b=None)], 0, [UNREACHED], id="a mirror without data"),
        pytest.param([None, None], 0, [UNREACHED], id="nobody there"),
        pytest.param(
            [report(a=[], b=None), None],
            0,
            ["1 packages were looked up, 0 vulnerabilities are known.", "Not in the database: b."],
            id="some",
        ),
    ],
)
def test_an_audit_says_what_was_looked_up(reports: list[str | None], code: int, lines: list[str]) -> None:
    assert verdict(reports) == (code, lines)


def test_a_program_that_fails_gives_no_report() -> None:
    assert audit([sys.executable, "-c", "raise SystemExit('no connection')"]) is None
    assert audit(["no-such-program"]) is None


def test_the_threat_model_names_what_there_is() -> None:
    text = (ROOT / "docs" / "threats.md").read_text(encoding="utf-8")
    named = re.findall(r"\b((?:docs|tests)/[\w/.-]+\w)", text)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []

"""docs/rules.md is where every rule is: what is cited exists there, and a citation means one rule."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "docs" / "rules.md"

HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CITED = re.compile(r"\brules\.md(#[A-Za-z0-9-]*)?")
OWN = re.compile(r"\]\(#([^)]*)\)")


def headings() -> list[str]:
    """Of the page, its title left out."""
    return HEADING.findall(RULES.read_text(encoding="utf-8"))[1:]


def anchor(heading: str) -> str:
    """What every forge makes of a heading that is letters, digits, spaces and hyphens."""
    return heading.lower().replace(" ", "-")


def texts() -> Iterator[tuple[str, str]]:
    """Every file of the repository that is text, with its path."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode != 0:
        pytest.skip("no git repository here, so nothing says which files belong to it")
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_file():
            yield name, path.read_text(encoding="utf-8", errors="replace")


def test_every_cited_rule_exists() -> None:
    known = {f"#{anchor(heading)}" for heading in headings()}
    cited = [(name, found[1]) for name, text in texts() for found in CITED.finditer(text) if found[1] is not None]
    assert [(name, place) for name, place in cited if place not in known] == []
    assert len(cited) >= 70, "a pattern that finds next to nothing proves nothing"


def test_the_page_s_own_links_are_to_its_rules() -> None:
    links = OWN.findall(RULES.read_text(encoding="utf-8"))
    assert links != []
    assert set(links) <= {anchor(heading) for heading in headings()}


def test_no_two_rules_have_one_anchor() -> None:
    assert [name for name, times in Counter(map(anchor, headings())).items() if times > 1] == []


def test_anchors_are_the_same_on_every_forge() -> None:
    assert [
        heading for heading in headings() if re.fullmatch(r"[A-Za-z0-9]+(?:[ -][A-Za-z0-9]+)*", heading) is None
    ] == []


def test_nothing_is_cited_that_a_clone_does_not_have() -> None:
    elsewhere = re.compile(r"\bSPEC\b|\bshared/|\breference/[a-z]+\.md")
    here = str(Path(__file__).relative_to(ROOT))
    assert [name for name, text in texts() if name != here and elsewhere.search(text) is not None] == []

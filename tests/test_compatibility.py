"""The faults that docs/compatibility.md lists are those that tests have in their names."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "compatibility.md"

KINDS = "http|token|native|gate|cli|page"
ROW = re.compile(rf"^\| ((?:{KINDS})-\d\d) \| (.+) \| (.+) \|$", re.MULTILINE)
NAMED = re.compile(rf'(?:\bdef test_|\bCase\(\s*"|\btest\("|pytest\.param\([^()]*\bid=")({KINDS})[_-](\d\d)[ _:]')
FIRST_OF_HTTP = 21
"""Those before are cases of the first round, which tests/cases/ is full of."""


def in_tests() -> dict[str, set[str]]:
    """Every case that tests are named after, with the files of those tests."""
    found = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("*.*")):
        if path.suffix in (".py", ".mjs", ".js") and "node_modules" not in path.parts:
            for kind, number in NAMED.findall(path.read_text(encoding="utf-8")):
                if kind != "http" or int(number) >= FIRST_OF_HTTP:
                    found[f"{kind}-{number}"].add(str(path.relative_to(ROOT)))
    return dict(found)


def in_page() -> Iterator[tuple[str, set[str]]]:
    """Every case of the page's table, with the files that it names."""
    for case, _, files in ROW.findall(PAGE.read_text(encoding="utf-8")):
        yield case, set(re.findall(r"`([^`]+)`", files))


def test_every_row_names_the_files_whose_tests_hold_it() -> None:
    rows = list(in_page())
    assert rows != []
    assert dict(rows) == in_tests()


def test_every_case_has_one_row_and_they_come_kind_by_kind() -> None:
    cases = [case for case, _ in in_page()]
    order = KINDS.split("|")
    assert cases == sorted(set(cases), key=lambda case: (order.index(case[:-3]), case))

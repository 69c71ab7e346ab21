"""The recipe "Add a case" of CONTRIBUTING.md, followed: its example is put into the module and sent."""

import importlib.util
from pathlib import Path

import pytest
from tests.cases import stops
from tests.cases.conftest import Running
from tests.cases.test_cases import check_case, check_same
from tests.test_contributing import blocks, section

pytestmark = pytest.mark.model


def test_the_example_is_a_case_that_holds(server: Running, tmp_path: Path) -> None:
    [example] = blocks(section("Add a case"))
    assert stops.__file__ is not None
    before, list_of_cases, after = Path(stops.__file__).read_text(encoding="utf-8").partition("CASES = [\n")
    changed = tmp_path / "stops.py"
    changed.write_text(before + list_of_cases + example.rstrip() + ",\n" + after, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("changed_stops", changed)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    added = module.CASES[0]
    assert len(module.CASES) == len(stops.CASES) + 1
    assert added.id not in [case.id for case in stops.CASES]
    check_case(server, added, check_same)

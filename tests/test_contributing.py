"""CONTRIBUTING.md is true: the files that it names exist and hold what it says of them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PLACEHOLDER = "NAME"

RECIPES = ("Add a case", "Add a client", "Add an engine", "Add a request field")

CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w./-]+/[\w./-]*|[\w-]+\.(?:py|md|js|toml|txt|json|lock)")
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def section(heading: str) -> str:
    """What is under a heading, up to the next one of its level or above."""
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,3}} |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"there is no heading {heading}"
    return found[2]


def blocks(text: str) -> list[str]:
    """The code of a text that can be carried out, without its indent."""
    found = re.findall(r"^( *)```(?:python|js|markdown)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


def steps(text: str) -> list[str]:
    """The numbered steps of a text, without their code."""
    return re.findall(r"^\d+\. (.*?)(?=^\d+\. |^\S|\Z)", CODE.sub("", text), re.MULTILINE | re.DOTALL)


def files(text: str) -> Iterator[Path]:
    """The files and folders that a text names; those of the package may be named from its top."""
    for quoted in QUOTED.findall(CODE.sub("", text)):
        if PATH.fullmatch(quoted) is not None and PLACEHOLDER not in quoted:
            places = [ROOT / quoted, ROOT / "src" / "afterword" / quoted]
            found = [place for place in places if place.exists()]
            assert found != [], f"there is no {quoted}"
            yield found[0]


def words(text: str) -> list[str]:
    """The names of the code that a text uses."""
    return [
        name
        for name in QUOTED.findall(CODE.sub("", text))
        if WORD.fullmatch(name) is not None and PATH.fullmatch(name) is None
    ]


def missing(text: str) -> list[str]:
    """The names in a text that are in none of the files that it names."""
    read = "\n".join(place.read_text(encoding="utf-8") for place in files(text) if place.is_file())
    return [word for word in words(text) if re.search(rf"\b{re.escape(word)}\b", read) is None]


def test_every_file_that_the_page_names_exists() -> None:
    assert len(list(files(PAGE))) > 50


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_a_recipe_says_of_its_files_is_in_them(recipe: str) -> None:
    found = steps(section(recipe))
    assert len(found) >= 3
    assert missing("".join(found)) == []


def test_ten_questions_are_answered_with_a_place_that_exists() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section("Where would you change ..."), re.MULTILINE)[2:]
    assert len(rows) >= 10
    for question, answer in rows:
        assert list(files(answer)) != [], question
        assert missing(answer) == [], question


def test_ten_words_are_explained_and_used() -> None:
    entries = re.findall(r"^- \*\*(.+?)\*\*: (.*?)(?=^- |^\S|\Z)", section("Ten words"), re.MULTILINE | re.DOTALL)
    assert len(entries) == 10
    for word, meaning in entries:
        assert list(files(meaning)) != [], word
        assert missing(meaning) == [], word

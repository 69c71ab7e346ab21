"""The tree of what was tried: go back, branch, name, delete, keep, export, import."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect
from tests.e2e.playground import Playground

pytestmark = [pytest.mark.e2e, pytest.mark.model]


def entries(playground: Playground) -> Locator:
    """The tree's lines."""
    return playground.page.locator("#tree .go")


def two_branches(playground: Playground) -> tuple[str, str]:
    """Complete one beginning twice; the two texts."""
    playground.set("max_tokens", "6")
    playground.set("temperature", "1.5")
    playground.type("In the beginning")
    playground.complete()
    first = playground.text
    playground.press("Regenerate")
    playground.wait()
    playground.open_tab("Tree")
    return first, playground.text


def test_what_was_tried_is_a_tree_to_go_back_in(playground: Playground) -> None:
    first, second = two_branches(playground)
    expect(entries(playground)).to_have_count(3)
    expect(entries(playground).nth(2)).to_have_attribute("aria-current", "true")
    entries(playground).nth(1).click()
    assert playground.text == first
    playground.complete()
    assert playground.text.startswith(first)
    expect(entries(playground)).to_have_count(4)
    entries(playground).nth(3).click()
    assert playground.text == second


def test_branches_are_named(playground: Playground) -> None:
    two_branches(playground)
    entries(playground).nth(1).hover()
    playground.page.locator("#tree .entry").nth(1).get_by_role("button", name="Name").click()
    playground.page.get_by_label("Name of this branch").fill("the good one")
    playground.page.keyboard.press("Enter")
    expect(entries(playground).nth(1)).to_contain_text("the good one")
    expect(entries(playground).nth(1)).to_be_focused()


def test_deleting_a_branch_takes_what_follows_it_along(playground: Playground) -> None:
    first, _second = two_branches(playground)
    entries(playground).nth(1).click()
    playground.complete()
    playground.page.on("dialog", lambda dialog: dialog.accept())
    playground.page.locator("#tree .entry").nth(1).hover()
    playground.page.locator("#tree .entry").nth(1).get_by_role("button", name="Delete").click()
    expect(entries(playground)).to_have_count(2)
    assert playground.text == "In the beginning"
    assert first not in playground.page.locator("#tree").inner_text()


def delete(playground: Playground, entry: int) -> None:
    """Delete a line of the tree."""
    line = playground.page.locator("#tree .entry").nth(entry)
    line.hover()
    line.get_by_role("button", name="Delete").click()


def test_page_01_undo_brings_back_a_deleted_leaf(playground: Playground) -> None:
    _first, second = two_branches(playground)
    delete(playground, 2)
    expect(entries(playground)).to_have_count(2)
    assert playground.text == "In the beginning"
    expect(playground.notice).to_contain_text("Deleted")
    playground.press("Undo")
    expect(entries(playground)).to_have_count(3)
    assert playground.text == second
    playground.press("Undo")
    assert playground.text == "In the beginning"


def test_page_01_undo_brings_back_a_branch_from_another_text(playground: Playground) -> None:
    _first, second = two_branches(playground)
    playground.page.on("dialog", lambda dialog: dialog.accept())
    playground.press("New text")
    expect(entries(playground)).to_have_count(4)
    delete(playground, 0)
    expect(entries(playground)).to_have_count(2)
    playground.editor.focus()
    playground.page.keyboard.press("Control+z")
    expect(entries(playground)).to_have_count(4)
    entries(playground).nth(2).click()
    assert playground.text == second


def test_page_01_a_notice_takes_a_deletion_back_that_is_kept_after_a_reload(playground: Playground) -> None:
    page = playground.page
    _first, second = two_branches(playground)
    delete(playground, 1)
    expect(entries(playground)).to_have_count(2)
    page.get_by_role("button", name="Take back").click()
    expect(entries(playground)).to_have_count(3)
    expect(playground.notice).to_be_hidden()
    assert playground.text == second
    page.reload()
    playground.open_tab("Tree")
    expect(entries(playground)).to_have_count(3)


def test_page_01_undo_brings_back_a_name_that_was_written_over(playground: Playground) -> None:
    two_branches(playground)
    for name in ("calm", "calmer"):
        entries(playground).nth(1).hover()
        playground.page.locator("#tree .entry").nth(1).get_by_role("button", name="Name:").click()
        playground.page.get_by_label("Name of this branch").fill(name)
        playground.page.keyboard.press("Enter")
        expect(entries(playground).nth(1)).to_contain_text(name)
    playground.press("Undo")
    expect(entries(playground).nth(1)).to_have_text(re.compile("Completion: calm(?!er)"))


def test_page_01_what_is_typed_over_at_once_is_still_there(playground: Playground) -> None:
    page = playground.page
    playground.type("first words")
    page.keyboard.press("Control+a")
    page.keyboard.type("x")
    assert playground.text == "x"
    playground.press("Undo")
    assert playground.text == "first words"


def test_nothing_is_deleted_while_a_completion_is_written(playground: Playground) -> None:
    two_branches(playground)
    playground.open_tab("Parameters")
    playground.set("max_tokens", "1500")
    playground.open_tab("Tree")
    playground.page.keyboard.press("Control+Enter")
    expect(playground.button("Stop")).to_be_visible()
    expect(playground.page.locator("#tree .entry-tools button").nth(1)).to_be_disabled()
    playground.press("Stop")
    playground.wait()


def test_tree_and_text_are_there_after_a_reload(playground: Playground) -> None:
    page = playground.page
    _first, second = two_branches(playground)
    page.reload()
    expect(playground.editor).to_have_value(second)
    playground.open_tab("Tree")
    expect(entries(playground)).to_have_count(3)
    assert "".join(playground.tokens()) == second.removeprefix("In the beginning")


def test_tree_is_exported_and_imported(playground: Playground, tmp_path: Path) -> None:
    first, second = two_branches(playground)
    saved = playground.download("Export", tmp_path)
    tree = json.loads(saved.read_text(encoding="utf-8"))
    assert (tree["format"], tree["version"]) == ("afterword-tree", 1)
    playground.press("New text")
    expect(playground.editor).to_have_value("")
    expect(entries(playground)).to_have_count(4)
    playground.page.locator("#import-file").set_input_files(saved)
    expect(playground.editor).to_have_value(second)
    expect(entries(playground)).to_have_count(7)
    entries(playground).nth(5).click()
    assert playground.text == first


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "The file is not JSON."),
        ('{"nodes": []}', "The file is not a tree saved by this page."),
        (
            '{"format": "afterword-tree", "version": 9, "nodes": []}',
            "The file has version 9; this page reads version 1.",
        ),
        ('{"format": "afterword-tree", "version": 1, "nodes": [{"id": 1}]}', "Entry 1 of the file is damaged."),
        ('{"format": "afterword-tree", "version": 1, "nodes": []}', "The file holds an empty tree."),
    ],
    ids=["no JSON", "another file", "another version", "damaged", "empty"],
)
def test_file_that_is_no_tree_is_refused_in_words(
    playground: Playground, tmp_path: Path, content: str, sentence: str
) -> None:
    file = tmp_path / "tree.json"
    file.write_text(content, encoding="utf-8")
    playground.open_tab("Tree")
    playground.page.locator("#import-file").set_input_files(file)
    expect(playground.notice).to_have_text(sentence)

"""A narrow screen, where everything is in one column: what opens comes into view."""

import pytest
from playwright.sync_api import FloatRect, Locator, expect
from tests.e2e.playground import Playground

pytestmark = [pytest.mark.e2e, pytest.mark.model]

WIDTH, HEIGHT = 390, 780


@pytest.fixture
def narrow(playground: Playground) -> Playground:
    """The page on a telephone, with a completed text."""
    playground.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    playground.set("max_tokens", "8")
    playground.set("seed", "7")
    playground.type("The weather in Paris is")
    playground.complete()
    return playground


def box_of(locator: Locator) -> FloatRect:
    """Where an element is in the window."""
    box = locator.bounding_box()
    assert box is not None
    return box


COVERED = """element => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    const stack = document.elementsFromPoint((left + right) / 2, (top + bottom) / 2);
    return stack.slice(0, stack.indexOf(element)).some(above => above.closest("#dock, #notice"));
}"""
"""Whether the buttons at the bottom, or a notice, are in front of an element."""


def assert_in_view(locator: Locator) -> None:
    """The whole element is in the window, and nothing covers it."""
    expect(locator).to_be_in_viewport(ratio=0.99)
    assert not locator.evaluate(COVERED)


@pytest.mark.parametrize(
    ("tab", "content"),
    [
        ("Parameters", "#preset"),
        ("Tree", "#tree .go >> nth=1"),
        ("Tokens", "#tokens button >> nth=0"),
        ("Code", "#code-copy"),
    ],
)
def test_page_03_a_panel_comes_into_view(narrow: Playground, tab: str, content: str) -> None:
    narrow.open_tab("Code" if tab != "Code" else "Tree")
    narrow.editor.focus()
    narrow.page.evaluate("scrollTo(0, 0)")
    narrow.open_tab(tab)
    assert_in_view(narrow.page.locator(content))
    panel = box_of(narrow.page.get_by_role("tabpanel", name=tab))
    assert panel["y"] < HEIGHT / 4


def test_page_03_a_panel_that_a_key_opens_comes_into_view(narrow: Playground) -> None:
    narrow.editor.focus()
    narrow.page.evaluate("scrollTo(0, 0)")
    narrow.page.keyboard.press("Alt+2")
    assert_in_view(narrow.page.locator("#tree .go").nth(1))


def test_page_03_a_notice_is_in_view_wherever_the_page_is(narrow: Playground) -> None:
    narrow.open_tab("Tree")
    line = narrow.page.locator("#tree .entry").nth(1)
    line.hover()
    line.get_by_role("button", name="Delete").click()
    assert_in_view(narrow.notice)
    narrow.page.get_by_role("button", name="Take back").click()
    expect(narrow.page.locator("#tree .go")).to_have_count(2)
    narrow.open_tab("Tokens")
    narrow.page.locator("#tokens button").last.click()
    assert_in_view(narrow.notice)
    narrow.page.get_by_role("button", name="Close this notice").click()
    expect(narrow.notice).to_be_hidden()


def test_page_03_a_refused_field_comes_into_view(narrow: Playground) -> None:
    narrow.set("temperature", "3")
    narrow.editor.focus()
    narrow.page.keyboard.press("Control+Enter")
    expect(narrow.complaint("temperature")).to_be_in_viewport()
    assert_in_view(narrow.notice)


def test_page_03_candidates_come_into_view(narrow: Playground) -> None:
    narrow.set("n", "3")
    narrow.editor.focus()
    narrow.complete()
    expect(narrow.candidates).to_have_count(3)
    assert_in_view(narrow.candidates.first)


def test_page_03_the_text_that_is_written_stays_in_view(narrow: Playground) -> None:
    narrow.paste("A line.\n" * 60)
    narrow.page.evaluate("scrollTo(0, 0)")
    narrow.set("max_tokens", "16")
    narrow.editor.focus()
    narrow.page.keyboard.press("Control+End")
    narrow.page.evaluate("scrollTo(0, 0)")
    narrow.complete()
    assert_in_view(narrow.page.locator("#mirror .token").last)


def test_page_03_the_card_of_a_token_is_in_view(narrow: Playground) -> None:
    for y in (0, 10_000):
        narrow.editor.focus()
        narrow.page.keyboard.press("Control+End")
        narrow.page.evaluate("y => scrollTo(0, y)", y)
        narrow.page.keyboard.press("Alt+ArrowDown")
        expect(narrow.card).to_be_in_viewport(ratio=0.99)
        narrow.page.keyboard.press("Escape")

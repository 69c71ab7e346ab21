"""A text of 100,000 characters: a key costs no more than in a short one, and everything else still works."""

import pytest
from playwright.sync_api import expect
from tests.e2e.playground import Playground

pytestmark = [pytest.mark.e2e, pytest.mark.model]

SENTENCE = "The quick brown fox jumps over the lazy dog and goes on to the next field. "

LINES = ("".join([SENTENCE * 4, "\n\n"]) * 400)[:100_000]
ONE_LINE = (SENTENCE * 1400)[:100_000]

MOST_NODES = 120
"""What one key may make or move of the page behind the text; whole texts of this length have thousands of nodes."""

COUNT_NODES = """() => {
    window.worst = 0;
    new MutationObserver(records => {
        const moved = records.reduce((sum, one) => sum + one.addedNodes.length + one.removedNodes.length, 0);
        window.worst = Math.max(window.worst, moved);
    }).observe(document.getElementById("mirror"), { childList: true, subtree: true });
}"""


@pytest.mark.parametrize("text", [LINES, ONE_LINE], ids=["lines", "one line"])
def test_a_key_touches_only_its_own_part_of_a_long_text(playground: Playground, text: str) -> None:
    playground.paste(text)
    expect(playground.page.locator("#count")).to_contain_text("tokens")
    for place in ("Control+Home", "Control+End"):
        playground.editor.focus()
        playground.page.keyboard.press(place)
        playground.page.evaluate(COUNT_NODES)
        playground.page.keyboard.type("typing, ")
        assert 0 < playground.page.evaluate("window.worst") < MOST_NODES
    assert playground.text == f"typing, {text}typing, "
    assert (playground.page.locator("#mirror").text_content() or "").removesuffix("\u200b") == playground.text


@pytest.mark.parametrize("text", [LINES, ONE_LINE], ids=["lines", "one line"])
def test_long_text_is_scored_coloured_and_continued(playground: Playground, text: str) -> None:
    playground.choose_model("long")
    playground.paste(text)
    playground.score()
    assert playground.page.locator("#mirror .token").count() > 0
    assert playground.page.locator("#mirror .token").count() < 20_000, "only what is near the window is cut up"
    playground.editor.focus()
    playground.page.keyboard.press("Control+End")
    playground.complete()
    assert playground.text.startswith(text)
    assert len(playground.text) > len(text)
    playground.page.keyboard.press("Control+z")
    assert playground.text == text
    playground.open_tab("Tokens")
    expect(playground.page.locator("#token-summary")).to_contain_text("100000 tokens")
    assert playground.page.locator("#tokens button").count() < 5000

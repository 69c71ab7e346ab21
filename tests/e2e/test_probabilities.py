"""What the model thinks of each token: colours, alternatives, figures."""

import re

import pytest
from playwright.sync_api import expect
from tests.e2e.playground import Playground

MINUS = "\N{MINUS SIGN}"

pytestmark = [pytest.mark.e2e, pytest.mark.model]

PROMPT = "The capital of France is"


def test_generated_tokens_are_coloured(playground: Playground) -> None:
    playground.set("max_tokens", "8")
    playground.set("seed", "3")
    playground.type(PROMPT)
    playground.complete()
    assert "".join(playground.tokens()) == playground.text.removeprefix(PROMPT)
    levels = playground.page.locator("#mirror .token").evaluate_all("all => all.map(t => t.className)")
    assert all(re.fullmatch(r"token level-[0-5]", name) for name in levels)


def test_scoring_colours_the_prompt(playground: Playground) -> None:
    playground.type("The capital of France is Paris. The capital of France is soup.")
    playground.score()
    assert "".join(playground.tokens()) == playground.text
    paris = playground.page.locator("#mirror .token", has_text="Paris")
    soup = playground.page.locator("#mirror .token", has_text="soup")
    expect(paris).to_have_class(re.compile("level-[01]"))
    expect(soup).to_have_class(re.compile("level-5"))
    assert playground.page.locator("#mirror .token").first.get_attribute("class") == "token level-none"


SLIVERS = """selector => {
    const spaces = [];
    for (const element of document.querySelectorAll(`${selector} *`)) {
        if (getComputedStyle(element).backgroundColor === "rgba(0, 0, 0, 0)") continue;
        for (const node of element.childNodes) {
            for (let i = 0; i < (node.data ?? "").length; i += 1) {
                if (node.data[i].trim() !== "") continue;
                const range = document.createRange();
                range.setStart(node, i);
                range.setEnd(node, i + 1);
                if (range.getBoundingClientRect().width > 0) spaces.push(node.data);
            }
        }
    }
    return spaces;
}"""
"""The texts of coloured elements whose colour lies behind white space."""

WRAPPED = """selector => [...document.querySelectorAll(`${selector} .token`)]
    .filter(token => token.textContent.startsWith(" ") && token.getClientRects().length > 1).length"""
"""How many tokens begin with a space at which a line ends."""


@pytest.mark.parametrize("width", [1360, 1000, 390])
def test_page_02_no_coloured_sliver_where_a_token_wraps(playground: Playground, width: int) -> None:
    playground.page.set_viewport_size({"width": width, "height": 860})
    playground.type("Violet anvils quarrel with improbable zebras, while soup invents an umbrella for Thursday. " * 3)
    playground.score()
    assert playground.page.evaluate(WRAPPED, "#mirror") > 0
    assert playground.page.locator("#mirror .word").count() > 10
    assert playground.page.evaluate(SLIVERS, "#mirror") == []
    assert "".join(playground.tokens()) == playground.text


def test_page_02_no_coloured_sliver_in_the_candidates(playground: Playground) -> None:
    for name, value in {"n": "2", "max_tokens": "48", "temperature": "1.6", "seed": "3"}.items():
        playground.set(name, value)
    playground.type(PROMPT)
    playground.complete()
    assert playground.page.evaluate(WRAPPED, "#candidates") > 0
    assert playground.page.locator("#candidates .word").count() > 5
    assert playground.page.evaluate(SLIVERS, "#candidates .card-text") == []


def test_colours_can_be_switched_off_and_on(playground: Playground) -> None:
    playground.type(PROMPT)
    playground.score()
    playground.press("Probabilities")
    expect(playground.page.locator("#mirror .token")).to_have_count(0)
    playground.page.keyboard.press("Alt+p")
    expect(playground.page.locator("#mirror .token")).to_have_count(5)


def test_hovering_a_token_shows_its_alternatives_as_bars(playground: Playground) -> None:
    playground.type(PROMPT)
    playground.score()
    playground.point_at(4)
    expect(playground.card).to_be_visible()
    bars = playground.card.get_by_role("button")
    shares = [float(text.strip("<% ")) for text in bars.locator(".share").all_inner_texts()]
    assert len(shares) in (5, 6)
    assert shares == sorted(shares, reverse=True)
    expect(bars.filter(has_text="is")).to_have_attribute("aria-current", "true")
    widths = bars.locator(".bar").evaluate_all("all => all.map(bar => parseFloat(bar.style.width))")
    assert widths == pytest.approx(shares, abs=0.06)
    playground.page.mouse.move(5, 400)
    expect(playground.card).to_be_hidden()


def test_choosing_an_alternative_replaces_the_token_and_goes_on_from_there(playground: Playground) -> None:
    playground.set("max_tokens", "6")
    playground.set("temperature", "0")
    playground.type(PROMPT)
    playground.complete()
    before = playground.text
    playground.point_at(0)
    other = playground.card.get_by_role("button").nth(1)
    word = other.locator("code").inner_text().replace("·", " ")
    other.click()
    playground.wait()
    assert playground.text.startswith(PROMPT + word)
    assert len(playground.text) > len(PROMPT + word), "it goes on"
    assert playground.tokens()[0] == word
    playground.press("Undo")
    assert playground.text == before


def test_alternatives_are_reached_by_keyboard(playground: Playground) -> None:
    page = playground.page
    playground.set("max_tokens", "4")
    playground.type(PROMPT)
    playground.complete()
    page.keyboard.press("ArrowLeft")
    expect(playground.card).to_be_visible()
    page.keyboard.press("Alt+ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(playground.card.get_by_role("button").nth(1)).to_be_focused()
    page.keyboard.press("Escape")
    expect(playground.card).to_be_hidden()
    expect(playground.editor).to_be_focused()
    page.keyboard.press("Alt+ArrowDown")
    chosen = playground.card.get_by_role("button").nth(2).locator("code").inner_text().replace("·", " ")
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    playground.wait()
    assert chosen.replace("↵", "\n") in playground.text


def test_selection_has_perplexity_and_total(playground: Playground) -> None:
    page = playground.page
    playground.type(PROMPT)
    playground.score()
    whole = page.locator("#likelihood")
    expect(whole).to_have_text(
        re.compile(rf"^Text: 4 tokens · log-probability {MINUS}\d+\.\d\d · perplexity \d+\.\d\d$")
    )
    playground.editor.focus()
    for _ in range(len(" is")):
        page.keyboard.press("Shift+ArrowLeft")
    expect(whole).to_have_text(re.compile(r"^Selection: 1 token "))
    found = re.search(rf"log-probability {MINUS}(\S+) · perplexity (\S+)$", whole.inner_text())
    assert found is not None
    total, perplexity = map(float, found.groups())
    assert perplexity == pytest.approx(2.718281828**total, rel=0.01)


def test_editing_takes_back_what_no_longer_holds(playground: Playground) -> None:
    playground.type(PROMPT)
    playground.score()
    playground.caret_to(len("The capital"))
    playground.page.keyboard.type("s")
    assert "".join(playground.tokens()) == "The capital"
    expect(playground.page.locator("#likelihood")).to_contain_text("Text: 1 token ·")
    expect(playground.page.locator("#likelihood")).to_contain_text("44% of it scored")

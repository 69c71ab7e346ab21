"""For everybody: keyboard only, screen readers, contrast, narrow screens, light and dark."""

import re

import pytest
from playwright.sync_api import BrowserContext, expect
from tests.e2e.conftest import open_page
from tests.e2e.playground import Playground

pytestmark = [pytest.mark.e2e, pytest.mark.model]

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}

NARROW = {"width": 390, "height": 780}


def faults_of(playground: Playground) -> list[str]:
    """What axe-core finds: rule, impact and the elements."""
    # Needed by these tests alone, which the plain run only collects.
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(playground.page, options=RULES).response["violations"]
    return [f"{one['id']} ({one['impact']}): {[node['target'] for node in one['nodes']]}" for one in found]


def fill(playground: Playground) -> None:
    """Fill every part of the page: colours, a card, candidates, a tree, tokens, a complaint."""
    playground.set("max_tokens", "12")
    playground.set("n", "2")
    playground.set("seed", "7")
    playground.type("The weather in Paris is")
    playground.complete()
    playground.score()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("tab", ["Parameters", "Tree", "Tokens", "Code"])
def test_axe_finds_no_fault(playground: Playground, theme: str, tab: str) -> None:
    playground.page.get_by_role("combobox", name="Theme").select_option(theme)
    fill(playground)
    playground.open_tab(tab)
    playground.point_at(3)
    expect(playground.card).to_be_visible()
    assert faults_of(playground) == []


def test_axe_finds_no_fault_in_complaints_and_dialog(playground: Playground) -> None:
    playground.set("temperature", "3")
    playground.press("Complete")
    expect(playground.complaint("temperature")).to_be_visible()
    assert faults_of(playground) == []
    playground.press("Keys")
    expect(playground.page.get_by_role("dialog")).to_be_visible()
    assert faults_of(playground) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_letters_stand_out_from_each_colour(playground: Playground, theme: str) -> None:
    playground.page.get_by_role("combobox", name="Theme").select_option(theme)
    ratios = playground.page.evaluate(
        """() => {
            const canvas = document.createElement("canvas").getContext("2d");
            const luminance = color => {
                canvas.clearRect(0, 0, 1, 1);
                canvas.fillStyle = color;
                canvas.fillRect(0, 0, 1, 1);
                const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(value => {
                    const part = value / 255;
                    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
                });
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
            };
            const ink = luminance(getComputedStyle(document.getElementById("text")).color);
            return [1, 2, 3, 4, 5].map(level => {
                const shown = document.querySelector(`.legend .level-${level}`);
                const ground = luminance(getComputedStyle(shown).backgroundColor);
                return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
            });
        }"""
    )
    assert len(ratios) == 5
    assert min(ratios) >= 4.5


def test_page_follows_the_system_and_the_choice(context: BrowserContext, url: str, faults: list[str]) -> None:
    playground = open_page(context, url, faults)
    page = playground.page

    def ground() -> str:
        color: str = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
        return color

    page.emulate_media(color_scheme="light")
    light = ground()
    page.emulate_media(color_scheme="dark")
    dark = ground()
    assert light != dark
    page.get_by_role("combobox", name="Theme").select_option("light")
    assert ground() == light
    page.reload()
    assert ground() == light


def test_everything_can_be_done_without_a_mouse(playground: Playground) -> None:
    page = playground.page
    keyboard = page.keyboard
    keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the text")).to_be_focused()
    keyboard.press("Enter")
    expect(playground.editor).to_be_focused()
    keyboard.type("My name is")
    playground.complete()
    completed = playground.text
    keyboard.press("Alt+r")
    playground.wait()
    keyboard.press("Control+z")
    assert playground.text == "My name is"
    keyboard.press("Control+y")
    keyboard.press("Alt+s")
    playground.wait()
    expect(page.locator("#likelihood")).to_contain_text("perplexity")
    keyboard.press("Alt+2")
    expect(page.get_by_role("tab", name="Tree")).to_be_focused()
    written = " ".join(completed.removeprefix("My name is").split())[:40]
    for _ in range(12):
        keyboard.press("Tab")
        if page.locator("#tree .go:focus", has_text=written).count() == 1:
            break
    keyboard.press("Enter")
    assert playground.text == completed
    keyboard.press("Alt+3")
    keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Code")).to_have_attribute("aria-selected", "true")
    keyboard.press("Alt+e")
    expect(playground.editor).to_be_focused()


def test_tokens_are_one_stop_of_the_tab_key(playground: Playground) -> None:
    page = playground.page
    playground.type("one two three")
    playground.open_tab("Tokens")
    chips = page.locator("#tokens button")
    expect(chips).to_have_count(3)
    chips.first.focus()
    page.keyboard.press("ArrowRight")
    expect(chips.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(playground.notice).to_have_text(re.compile(r"^Token \d+ \(\" two\"\) has the bias -100\.$"))
    expect(chips.nth(1)).to_be_focused()


def test_done_and_refused_are_said_to_screen_readers(playground: Playground) -> None:
    said = playground.page.locator("#announcement")
    expect(said).to_have_attribute("role", "status")
    playground.set("max_tokens", "3")
    playground.field("ignore_eos").check()
    playground.type("Hello")
    playground.complete()
    expect(said).to_have_text("Done: 3 tokens.")
    expect(playground.notice).to_have_attribute("role", "status")


def test_narrow_screen_has_everything_in_one_column(playground: Playground) -> None:
    page = playground.page
    page.set_viewport_size({"width": NARROW["width"], "height": NARROW["height"]})
    fill(playground)
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0
    for name in ("Complete", "Undo", "Regenerate", "Score text", "Probabilities"):
        box = playground.button(name).bounding_box()
        assert box is not None
        assert (box["x"] >= 0, box["x"] + box["width"] <= NARROW["width"]) == (True, True), name
    playground.open_tab("Tokens")
    expect(page.locator("#tokens button").first).to_be_visible()
    assert faults_of(playground) == []

"""What a model may write: shown as text, whatever it is, and the page goes on. The echo engine replays the prompt."""

import pytest
from playwright.sync_api import expect
from tests.e2e.playground import Playground

pytestmark = [pytest.mark.e2e, pytest.mark.model]

HTML = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>&amp;<b>bold</b> "
COMBINING = "e" + "\u0301" * 10_000 + " "
RIGHT_TO_LEFT = "\u0634\u0644\u0648\u0645 \u0639\u0644\u064a\u0643\u0645 \u202e evil \u202c \u05e9\u05dc\u05d5\u05dd "


def replay(playground: Playground, text: str, max_tokens: int) -> None:
    """Have the model write `text` again, with probabilities, in every view."""
    playground.choose_model("echo")
    playground.set("temperature", "0")
    playground.set("max_tokens", str(max_tokens))
    playground.paste(text)
    playground.page.get_by_role("combobox", name="Write at").select_option("end")
    playground.editor.focus()
    playground.complete()
    for tab in ("Tokens", "Code", "Tree"):
        playground.open_tab(tab)


def height(playground: Playground, part: str) -> int:
    """Pixels that a part's text takes."""
    pixels: int = playground.page.locator(f"#{part}").evaluate("element => element.scrollHeight")
    return pixels


def assert_alive(playground: Playground) -> None:
    """The page still does what it is asked."""
    playground.paste("alive ")
    playground.editor.focus()
    playground.complete()
    assert playground.text.startswith("alive a")


def test_html_is_text(playground: Playground) -> None:
    replay(playground, HTML, len(HTML.encode()))
    assert playground.text == HTML * 2
    assert playground.page.title() == "afterword playground"
    for view in ("#mirror", "#tree", "#code-text", "#tokens", "#alternatives", "#candidates"):
        expect(playground.page.locator(f"{view} :is(img, script, b)")).to_have_count(0)
    expect(playground.page.locator("#tree")).to_contain_text('<img src=x onerror="document.title')
    assert_alive(playground)


def test_ten_thousand_combining_marks_are_text(playground: Playground) -> None:
    replay(playground, COMBINING, len(COMBINING.encode()))
    assert playground.text == COMBINING * 2
    assert_alive(playground)


def test_right_to_left_text_is_text(playground: Playground) -> None:
    replay(playground, RIGHT_TO_LEFT, len(RIGHT_TO_LEFT.encode()))
    assert playground.text == RIGHT_TO_LEFT * 2
    mirror = playground.page.locator("#mirror")
    assert (mirror.text_content() or "").removesuffix("\u200b") == RIGHT_TO_LEFT * 2
    assert_alive(playground)


def test_control_tokens_and_broken_characters_are_text(playground: Playground) -> None:
    text = "a\u0000b\u200b\ufeff\x1b[31m\r"
    playground.choose_model("echo")
    playground.paste(text)
    playground.score()
    playground.open_tab("Tokens")
    expect(playground.page.locator("#tokens code", has_text="U+0000")).to_have_count(1)
    expect(playground.page.locator("#tokens code", has_text="U+001B")).to_have_count(1)
    assert_alive(playground)


def test_colours_stand_behind_their_letters(playground: Playground) -> None:
    lines = [
        "A first line.",
        "",
        "A line that is long enough to wrap in a column of this width, twice " * 4,
        "\ttabbed",
        "",
        "",
    ]
    playground.paste("\n".join(lines) + "end")
    playground.score()
    assert height(playground, "mirror") == height(playground, "text")
    playground.type("\n")
    assert height(playground, "mirror") == height(playground, "text")

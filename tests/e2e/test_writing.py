"""Writing with the model: complete, stop, undo, redo, regenerate, fill gaps."""

import re

import pytest
from playwright.sync_api import expect
from tests.e2e.playground import Playground

pytestmark = [pytest.mark.e2e, pytest.mark.model]

BEGINNING = "The lighthouse keeper had not"


def test_completion_streams_into_the_editor_in_place(playground: Playground) -> None:
    playground.set("max_tokens", "200")
    playground.type(BEGINNING)
    playground.page.keyboard.press("Control+Enter")
    expect(playground.button("Stop")).to_be_visible()
    expect(playground.editor).to_have_value(re.compile(rf"^{BEGINNING}.+", re.DOTALL))
    assert playground.button("Stop").is_visible(), "the text is there before the answer is complete"
    first = playground.text
    expect(playground.editor).not_to_have_value(first)
    assert playground.text.startswith(first)
    playground.press("Stop")
    playground.wait()


def test_escape_stops_and_what_came_stays(playground: Playground) -> None:
    playground.set("max_tokens", "1500")
    playground.type(BEGINNING)
    playground.page.keyboard.press("Control+Enter")
    expect(playground.editor).to_have_value(re.compile(rf"^{BEGINNING}.+", re.DOTALL))
    playground.page.keyboard.press("Escape")
    playground.wait()
    stopped = playground.text
    assert len(stopped) > len(BEGINNING)
    playground.type("!")
    assert playground.text == stopped + "!"


def test_completion_goes_to_the_cursor_or_to_the_end(playground: Playground) -> None:
    playground.set("max_tokens", "3")
    playground.set("temperature", "0")
    playground.type("One, two,\n\nThe end.")
    playground.caret_to(len("One, two,"))
    playground.complete()
    middle = playground.text.removeprefix("One, two,").removesuffix("\n\nThe end.")
    assert 0 < len(middle) < 30
    expect(playground.notice).to_contain_text("did not see the text after the cursor")
    playground.page.get_by_role("combobox", name="Write at").select_option("end")
    playground.complete()
    assert "The end." in playground.text
    assert not playground.text.endswith("The end.")


def test_undo_and_redo_go_through_typing_and_completions(playground: Playground) -> None:
    playground.set("max_tokens", "5")
    playground.type("Once")
    playground.complete()
    completed = playground.text
    playground.page.keyboard.press("Control+z")
    assert playground.text == "Once"
    playground.page.keyboard.press("Control+z")
    assert playground.text == ""
    playground.press("Redo")
    playground.page.keyboard.press("Control+Shift+z")
    assert playground.text == completed
    expect(playground.button("Redo")).to_be_disabled()


def test_typing_after_a_pause_is_undone_by_itself(playground: Playground) -> None:
    playground.type("one")
    playground.page.keyboard.press("Backspace")
    playground.type("ce")
    assert playground.text == "once"
    playground.press("Undo")
    assert playground.text == "on"
    playground.press("Undo")
    assert playground.text == "one"


def test_regenerate_writes_another_text_in_the_same_place(playground: Playground) -> None:
    playground.type(BEGINNING)
    playground.complete()
    first = playground.text
    playground.press("Regenerate")
    playground.wait()
    second = playground.text
    assert second.startswith(BEGINNING)
    assert second != first
    playground.press("Undo")
    assert playground.text == BEGINNING


def test_insert_mark_is_filled_by_a_model_that_can(playground: Playground) -> None:
    playground.choose_model("filler")
    playground.set("max_tokens", "4")
    playground.type("Roses are [insert], violets are blue.")
    with playground.page.expect_request("**/v1/completions") as sent:
        playground.complete()
    body = sent.value.post_data_json or {}
    assert (body.get("prompt"), body.get("suffix")) == ("Roses are ", ", violets are blue.")
    assert "[insert]" not in playground.text
    assert playground.text.endswith(", violets are blue.")


def test_text_after_the_cursor_is_the_suffix_for_a_model_that_can(playground: Playground) -> None:
    playground.choose_model("filler")
    playground.set("max_tokens", "4")
    playground.type("Roses are , violets are blue.")
    playground.caret_to(len("Roses are "))
    with playground.page.expect_request("**/v1/completions") as sent:
        playground.complete()
    assert (sent.value.post_data_json or {}).get("suffix") == ", violets are blue."
    expect(playground.notice).to_be_hidden()


def test_insert_mark_without_infill_tokens_is_refused_in_words(playground: Playground) -> None:
    playground.type("Roses are [insert], violets are blue.")
    playground.complete()
    expect(playground.notice).to_contain_text("smollm2-135m-instruct has no infill tokens")
    assert playground.text == "Roses are [insert], violets are blue."

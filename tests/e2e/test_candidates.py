"""Several candidates side by side."""

import re

import pytest
from playwright.sync_api import expect
from tests.e2e.playground import Playground

pytestmark = [pytest.mark.e2e, pytest.mark.model]

PROMPT = "My favourite colour is"


def means(playground: Playground) -> list[float]:
    heads = playground.candidates.locator(".card-head").all_inner_texts()
    found = [re.search(r"mean log-probability \N{MINUS SIGN}(\d+\.\d+)", head) for head in heads]
    return [-float(match[1]) for match in found if match is not None]


def test_n_candidates_stand_side_by_side_with_their_means(playground: Playground) -> None:
    playground.set("max_tokens", "8")
    playground.set("n", "3")
    playground.set("seed", "1")
    playground.type(PROMPT)
    playground.complete()
    expect(playground.candidates).to_have_count(3)
    assert len(means(playground)) == 3
    boxes = [card.bounding_box() for card in playground.candidates.all()]
    assert len({box["y"] for box in boxes if box is not None}) == 1, "side by side"
    best = playground.candidates.filter(has_text="likeliest")
    expect(best).to_have_count(1)
    assert f"{max(means(playground)):.2f}".replace("-", "\N{MINUS SIGN}") in best.inner_text()


def test_picking_a_candidate_puts_it_into_the_text(playground: Playground) -> None:
    playground.set("max_tokens", "8")
    playground.set("n", "3")
    playground.type(PROMPT)
    playground.complete()
    third = playground.candidates.nth(2)
    written = third.locator(".card-text").text_content()
    third.get_by_role("button").click()
    assert playground.text == f"{PROMPT}{written}"
    expect(third.get_by_role("button")).to_have_attribute("aria-pressed", "true")
    playground.set("n", "")
    playground.complete()
    assert playground.text.startswith(f"{PROMPT}{written}"), "the next one goes on from the picked one"


def test_best_of_shows_the_best_first_and_is_not_streamed(playground: Playground) -> None:
    playground.set("max_tokens", "8")
    playground.set("n", "2")
    playground.set("best_of", "5")
    playground.type(PROMPT)
    with playground.page.expect_request("**/v1/completions") as sent:
        playground.complete()
    assert "stream" not in (sent.value.post_data_json or {})
    expect(playground.candidates).to_have_count(2)
    first, second = means(playground)
    assert first >= second
    assert playground.figure("Completion") == "40 tokens" or int(playground.figure("Completion").split()[0]) <= 40


def test_regenerated_texts_are_candidates_too(playground: Playground) -> None:
    playground.set("max_tokens", "4")
    playground.type(PROMPT)
    playground.complete()
    expect(playground.page.locator("#candidates")).to_be_hidden()
    playground.press("Regenerate")
    playground.wait()
    expect(playground.candidates).to_have_count(2)


def test_candidates_have_means_without_probabilities_shown(playground: Playground) -> None:
    playground.press("Probabilities")
    playground.set("max_tokens", "4")
    playground.set("n", "2")
    playground.type(PROMPT)
    playground.complete()
    assert len(means(playground)) == 2

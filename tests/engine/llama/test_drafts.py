import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterword.engine.llama.drafts import (
    ALIKE,
    LONGEST_COMPARED,
    NO_GUESS,
    ROW_COST,
    GrowingText,
    Guess,
    Odds,
    PastTexts,
    worth_guessing,
)


def text(prompt: list[int], sampled: list[int]) -> GrowingText:
    found = GrowingText(PastTexts(np.array(prompt, dtype=np.int32)))
    found.grow_to(sampled)
    return found


@pytest.mark.parametrize(
    ("prompt", "sampled", "expected"),
    [
        pytest.param([1, 2, 3, 4, 5, 6], [1, 2, 3], Guess([4, 5, 6, 1], 3), id="from the prompt"),
        pytest.param([9], [1, 2, 3, 4, 5, 6, 1, 2, 3], Guess([4, 5, 6, 1], 3), id="from what was sampled"),
        pytest.param([1, 2], [3, 4, 5, 1, 2, 3], Guess([4, 5, 1, 2], 3), id="from both"),
        pytest.param([1, 2, 3, 4, 1, 2, 3], [], Guess([4, 1, 2, 3], 3), id="before anything was sampled"),
        pytest.param([0, 1, 2, 3, 7, 1, 2, 3, 8, 0], [1, 2, 3], Guess([7, 1, 2, 3], 4), id="where more is alike"),
        pytest.param([1, 2, 3, 7, 1, 2, 3, 8], [1, 2, 3], Guess([8, 1, 2, 3], 3), id="the latest of equals"),
        pytest.param([5, 5, 5, 5], [], Guess([5, 5, 5, 5], 3), id="one token over and over"),
        pytest.param([1, 2, 1, 2, 1], [], Guess([2, 1, 2, 1], 3), id="two in turn"),
        pytest.param([1, 2, 3], [2, 3], NO_GUESS, id="too little is alike"),
        pytest.param([1], [], NO_GUESS, id="a short text"),
    ],
)
def test_a_guess_is_what_followed_the_same_text(prompt: list[int], sampled: list[int], expected: Guess) -> None:
    assert text(prompt, sampled).guess(4) == expected


def test_none_is_wanted_none_is_made() -> None:
    assert text([1, 2, 3, 4], [1, 2, 3]).guess(0) == NO_GUESS


@given(st.lists(st.integers(0, 3), max_size=60), st.lists(st.integers(0, 3), max_size=60), st.integers(1, 20))
def test_a_guess_continues_a_place_that_is_alike(prompt: list[int], sampled: list[int], most: int) -> None:
    whole = prompt + sampled
    guess = text(prompt, sampled).guess(most)
    alike = [end for end in range(ALIKE, len(whole)) if whole[end - ALIKE : end] == whole[-ALIKE:]]
    if not alike:
        assert guess == NO_GUESS
        return
    assert len(guess.tokens) == most
    going_on = whole + guess.tokens
    n = min(guess.n_alike, LONGEST_COMPARED)
    assert any(
        whole[end - n : end] == whole[len(whole) - n :] and going_on[end : end + most] == guess.tokens for end in alike
    )


@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(0, 3), max_size=40), st.integers(0, 40))
def test_it_does_not_matter_when_a_text_grew(prompt: list[int], sampled: list[int], first: int) -> None:
    found = text(prompt, sampled[:first])
    found.guess(3)
    found.grow_to(sampled)
    assert found.guess(5) == text(prompt, sampled).guess(5)


def test_odds_follow_what_is_drawn_of_guesses_of_a_kind() -> None:
    odds = Odds()
    first = [odds.of(n) for n in (3, 5, 8, 12, 32)]
    assert first == sorted(first)
    for _ in range(50):
        odds.note(32, 0, 10)
        odds.note(3, 10, 10)
    assert odds.of(32) < 0.25
    assert odds.of(3) > 0.9
    assert odds.of(8) == first[2]


@given(st.lists(st.floats(0.01, 0.999), min_size=1, max_size=32), st.integers(0, 20))
def test_as_many_tokens_are_guessed_as_give_most_for_their_time(odds: list[float], most: int) -> None:
    def worth(n: int) -> float:
        tokens = len(odds) + sum(each**place for each in odds for place in range(1, n + 1))
        return tokens / (1 + ROW_COST * (len(odds) * (1 + n) - 1))

    n = worth_guessing(odds, most)
    assert 0 <= n <= most
    assert worth(n) >= max(worth(other) for other in range(most + 1)) * (1 - 1e-9)

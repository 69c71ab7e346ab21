"""Repetitions are found as by comparing every end of the text with every place in it."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.sampling.test_sampler import Always

from afterword.completions.parse import parse_body
from afterword.engine.sampling.bias import EveryTokenBanned
from afterword.engine.sampling.matches import BreakFinder, Matches
from afterword.engine.sampling.recurrence import Dry
from afterword.engine.sampling.sampler import Sampler, Workspace
from afterword.fields.repeats import Repeats
from afterword.fields.sampling import Sampling

TOKENS = st.lists(st.integers(0, 3), max_size=40)


def piece(token: int) -> bytes:
    return b"abcdefgh\n:"[token : token + 1]


def expected(tokens: list[int], breaks: list[bool], least: int, last: int | None, longest: int) -> dict[int, int]:
    """By the definition: each token that followed the text's last k tokens before, and its largest k."""
    start = 0 if last is None else max(0, len(tokens) - last)
    found: dict[int, int] = {}
    for place in range(start, len(tokens)):
        k = 0
        while (
            k < min(place - start, longest)
            and tokens[place - 1 - k] == tokens[len(tokens) - 1 - k]
            and not breaks[place - 1 - k]
            and not breaks[len(tokens) - 1 - k]
        ):
            k += 1
        if k >= least:
            found[tokens[place]] = max(found.get(tokens[place], 0), k)
    return found


@given(TOKENS, TOKENS, st.integers(0, 4), st.none() | st.integers(1, 30), st.integers(1, 9), st.integers(0, 4))
def test_matches_are_those_of_the_definition(
    prompt: list[int], sampled: list[int], least: int, last: int | None, longest: int, breaker: int
) -> None:
    matches = Matches(prompt, np.array([token == breaker for token in prompt], dtype=np.bool_), longest)
    before = matches.copy()
    for token in sampled:
        matches.append(token, breaks=token == breaker)
    for text, found in ((prompt, before), (prompt + sampled, matches)):
        tokens, lengths = found.followers(least, last)
        mine = dict(zip(tokens.tolist(), lengths.tolist(), strict=True))
        assert mine == expected(text, [token == breaker for token in text], least, last, longest)


@given(st.lists(st.integers(0, 7), max_size=30), st.lists(st.text("abcd", min_size=1, max_size=4), max_size=3))
def test_breaks_are_where_a_text_ends(tokens: list[int], breakers: list[str]) -> None:
    def wide(token: int) -> bytes:
        return ("a", "b", "c", "d", "ab", "bca", "", "dd")[token].encode()

    grown, whole, text = BreakFinder(breakers, wide), BreakFinder(breakers, wide), b""
    found = []
    for token in tokens:
        found.append(grown.would_break(token))
        grown.append(token)
        before, text = text, text + wide(token)
        ends = [
            end for end in range(len(before) + 1, len(text) + 1) for b in breakers if text[:end].endswith(b.encode())
        ]
        assert found[-1] == bool(ends)
    assert whole.read(tokens).tolist() == found


def sampling(**fields: Any) -> Sampling:
    return parse_body(fields, strict=False).sampling.applied()


def test_dry_costs_more_with_each_repeated_token() -> None:
    repeats = Repeats(dry_multiplier=0.5, dry_base=2, dry_allowed_length=2, dry_sequence_breakers=())
    for n, cost in ((1, None), (2, 0.5), (3, 1.0), (5, 4.0)):
        tokens, costs = Dry(repeats, [*range(1, n + 1), 7, 0, *range(1, n + 1)], piece).found()
        assert dict(zip(tokens.tolist(), costs.tolist(), strict=True)) == ({} if cost is None else {7: cost})


def test_no_repetition_reaches_over_a_breaker_and_a_breaker_costs_nothing() -> None:
    line = [0, 1, 2, 8, 3]
    repeats = Repeats(dry_multiplier=1, dry_allowed_length=1)
    assert Dry(repeats, [*line, 0, 1, 2], piece).found()[0].tolist() == []
    assert Dry(repeats, [*line, 8], piece).found()[0].tolist() == []
    assert Dry(repeats, [*line, 0, 1], piece).found()[0].tolist() == [2]


def test_long_repetitions_leave_logits_finite() -> None:
    repeats = Repeats(dry_multiplier=100, dry_base=10, dry_sequence_breakers=())
    _, costs = Dry(repeats, [1, 2] * 600, piece).found()
    assert costs.tolist() == [1e9]


def test_no_ngram_comes_twice_in_prompt_and_completion() -> None:
    sampler = Sampler(sampling(no_repeat_ngram_size=2, temperature=0), Workspace(40), Always(0.0), prompt=(0, 1, 0))
    row = np.arange(40, 0, -1).astype(np.float32)
    text = [0, 1, 0]
    for position in range(12):
        text.append(sampler.sample(row, position))
        sampler.accept(text[-1])
    pairs = list(pairwise(text))
    assert len(pairs) == len(set(pairs))


def test_an_ngram_of_one_bans_what_was_there_and_says_so_when_nothing_is_left() -> None:
    sampler = Sampler(sampling(no_repeat_ngram_size=1), Workspace(3), Always(0.5), prompt=(0, 2))
    row = np.zeros(3, dtype=np.float32)
    assert sampler.sample(row, 0) == 1
    sampler.accept(1)
    with pytest.raises(EveryTokenBanned, match=r"^no_repeat_ngram_size bans every token\.$"):
        sampler.sample(row, 1)


@pytest.mark.parametrize(
    ("fields", "penalised"),
    [
        ({}, [2, 2, 2, 2, 1]),
        ({"repetition_penalty_range": 2}, [1, 1, 2, 2, 1]),
        ({"repetition_penalty_range": 0}, [2, 2, 2, 2, 1]),
        ({"rep_pen_range": 3, "repeat_last_n": 1}, [1, 2, 2, 2, 1]),
        ({"repeat_last_n": 0}, [1, 1, 1, 1, 1]),
        ({"repeat_last_n": 1}, [1, 1, 1, 2, 1]),
        ({"rep_pen_slope": 0.5}, [1.5, 1.5, 2, 2, 1]),
        ({"rep_pen_slope": 0.5, "repetition_penalty_range": 2}, [1, 1, 1.5, 2, 1]),
        ({"rep_pen_slope": 0}, [2, 2, 2, 2, 1]),
    ],
)
def test_the_repetition_penalty_looks_at_its_range(fields: dict[str, Any], penalised: list[float]) -> None:
    """Tokens 0 and 1 are the prompt's, 2 and 3 were sampled; the factor of each is read off the draws."""
    sampler = Sampler(sampling(repetition_penalty=2, **fields), Workspace(5), Always(0.0), prompt=(0, 1))
    for token in (2, 3):
        sampler.accept(token)
    scores = sampler._scores(np.full(5, 6.0, dtype=np.float32), 2)
    assert (6 / scores).tolist() == pytest.approx(penalised)


def test_a_token_that_is_there_twice_has_the_penalty_of_its_later_place() -> None:
    sampler = Sampler(sampling(repetition_penalty=3, rep_pen_slope=0.5), Workspace(4), Always(0.0), prompt=(0, 1, 2, 0))
    assert (6 / sampler._scores(np.full(4, 6.0, dtype=np.float32), 0)).tolist() == [3, 2, 3, 1]


def test_candidates_of_a_request_repeat_nothing_of_each_other() -> None:
    """They share what was found in the prompt, and no more."""
    workspace, prompt = Workspace(6), (0, 1, 2, 0, 1)
    asked = sampling(dry_multiplier=50, dry_allowed_length=1, dry_sequence_breakers=[], temperature=0)
    first, second = (Sampler(asked, workspace, Always(0.0), prompt=prompt, piece=piece) for _ in range(2))
    row = np.array([0, 0, 5, 4, 3, 0], dtype=np.float32)
    assert first.sample(row, 0) == 3, "2 would go on with a repetition"
    for token in (3, 1, 3, 1):
        first.accept(token)
    assert second.sample(row, 0) == 3
    assert first.sample(row, 4) == 2 or math.isfinite(float(row[2]))

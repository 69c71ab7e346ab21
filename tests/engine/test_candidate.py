from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes import generation_request

from afterword.engine.candidate import Candidate, new_candidates
from afterword.engine.events import Chunk, Event, Finished, SampledToken
from afterword.engine.request import GenerationRequest
from afterword.tokens import ByteTokenizer

END, CONTROL = ByteTokenizer.END, ByteTokenizer.CONTROL


class Pairs(ByteTokenizer):
    """Tokens of two letters."""

    def piece(self, token: int) -> bytes:
        return (b"ab", b"cx")[token]


def run(request: GenerationRequest, tokens: Sequence[int]) -> list[list[Event]]:
    """The events of each token; token number i has the log-probability -(i + 1)."""
    candidate = Candidate(0, request, ByteTokenizer())
    events: list[list[Event]] = []
    for number, token in enumerate(tokens, start=1):
        assert not candidate.finished
        events.append(candidate.accept(token, -float(number), ((token, -float(number)),)))
    return events


def listed(token: int, offset: int, number: int) -> SampledToken:
    return SampledToken(token, offset, -float(number), ((token, -float(number)),))


def chunk(text: str, n_tokens: int, *tokens: SampledToken) -> Chunk:
    return Chunk(0, text, tokens, n_tokens)


def test_each_token_makes_a_chunk_and_the_last_allowed_one_ends() -> None:
    assert run(generation_request(b"p", max_tokens=2), b"ab") == [
        [chunk("a", 1)],
        [chunk("b", 2), Finished(0, "length", 2, 0.0, 0)],
    ]


def test_end_token_is_neither_text_nor_counted() -> None:
    request = generation_request(b"p", end_ids=frozenset({END}))
    assert run(request, [97, END]) == [[chunk("a", 1)], [Finished(0, "stop", 1, 0.0, 0)]]


def test_end_token_is_listed_and_scored_when_log_probabilities_are_wanted() -> None:
    request = generation_request(b"p", end_ids=frozenset({END}), logprobs=1, text_offset=4)
    assert run(request, [97, END]) == [
        [chunk("a", 1, listed(97, 4, 1))],
        [chunk("", 1, listed(END, 5, 2)), Finished(0, "stop", 1, -3.0, 2)],
    ]


def test_end_token_first_gives_an_empty_completion() -> None:
    assert run(generation_request(b"p", end_ids=frozenset({97})), b"a") == [[Finished(0, "stop", 0, 0.0, 0)]]


def test_end_token_shows_what_was_held() -> None:
    request = generation_request(b"p", end_ids=frozenset({END}), stops=("xyz",))
    assert run(request, [*b"xy", END]) == [[], [], [chunk("xy", 2), Finished(0, "stop", 2, 0.0, 0)]]


def test_ignored_end_token_has_no_text_but_counts() -> None:
    assert run(generation_request(b"p", max_tokens=2), [END, 97]) == [
        [],
        [chunk("a", 2), Finished(0, "length", 2, 0.0, 0)],
    ]


@pytest.mark.parametrize(
    ("skip", "text"),
    [pytest.param(True, "", id="skipped"), pytest.param(False, "<|control|>", id="shown")],
)
def test_control_token_has_text_only_if_not_skipped(skip: bool, text: str) -> None:
    request = generation_request(b"p", skip_special_tokens=skip, logprobs=0)
    assert run(request, [CONTROL]) == [[chunk(text, 1, listed(CONTROL, 0, 1))]]


def test_stop_across_tokens_ends_with_stop_and_is_cut() -> None:
    assert run(generation_request(b"p", stops=("bc",)), b"abc") == [
        [chunk("a", 1)],
        [],
        [Finished(0, "stop", 3, 0.0, 0)],
    ]


def test_stop_completed_by_the_last_allowed_token_is_a_stop() -> None:
    request = generation_request(b"p", stops=("bc",), max_tokens=3)
    assert run(request, b"abc")[-1] == [Finished(0, "stop", 3, 0.0, 0)]


def test_included_stop_stays_in_the_text() -> None:
    request = generation_request(b"p", stops=("bc",), include_stop=True)
    assert run(request, b"abc")[1:] == [[], [chunk("bc", 3), Finished(0, "stop", 3, 0.0, 0)]]


def test_tokens_of_the_stop_are_scored_but_not_listed() -> None:
    request = generation_request(b"p", stops=("bc",), logprobs=1)
    assert run(request, b"abc") == [
        [chunk("a", 1, listed(97, 0, 1))],
        [],
        [Finished(0, "stop", 3, -6.0, 3)],
    ]


def test_released_tokens_come_one_to_a_chunk() -> None:
    request = generation_request(b"p", stops=("bcd",), logprobs=1, text_offset=9)
    assert run(request, b"abcx")[1:] == [
        [],
        [],
        [
            chunk("b", 4, listed(98, 10, 2)),
            chunk("c", 4, listed(99, 11, 3)),
            chunk("x", 4, listed(120, 12, 4)),
        ],
    ]


def test_halves_of_a_character_share_its_offset_and_its_text_comes_once() -> None:
    request = generation_request(b"p", logprobs=1, max_tokens=2)
    assert run(request, b"\xc3\xa9") == [
        [],
        [
            chunk("", 2, listed(0xC3, 0, 1)),
            chunk("é", 2, listed(0xA9, 0, 2)),
            Finished(0, "length", 2, -3.0, 2),
        ],
    ]


def test_incomplete_last_character_is_listed_but_not_text() -> None:
    request = generation_request(b"p", logprobs=1, max_tokens=2)
    assert run(request, b"a\xc3")[1] == [chunk("", 2, listed(0xC3, 1, 2)), Finished(0, "length", 2, -3.0, 2)]


def test_character_begun_in_the_prompt_is_finished_here() -> None:
    request = generation_request(b"\xc3", pending=b"\xc3", text_offset=0)
    assert run(request, b"\xa9") == [[chunk("é", 1)]]


def test_nothing_to_sample_ends_at_once() -> None:
    candidate = Candidate(3, generation_request(b"p", max_tokens=0), ByteTokenizer())
    assert candidate.finish_empty() == Finished(3, "length", 0, 0.0, 0)
    assert candidate.finished


def test_next_token_starts_at_the_end_of_the_decoded_text() -> None:
    candidate = Candidate(0, generation_request(b"p", text_offset=7, stops=("xyz",)), ByteTokenizer())
    candidate.accept(ord("x"), None, ())
    assert candidate.offset == 8


def test_candidates_of_a_request_are_numbered_and_independent() -> None:
    first, second = new_candidates(generation_request(b"p", n_candidates=2, stops=("ab",)), ByteTokenizer())
    assert [first.index, second.index] == [0, 1]
    assert first.accept(97, None, ()) == []
    assert second.accept(98, None, ()) == [Chunk(1, "b", (), 1)]


TOKENS = st.lists(st.sampled_from([*b"ab\xe2\x82\xac", CONTROL, END]), min_size=1, max_size=12)


@given(TOKENS, st.lists(st.text("ab€", min_size=1, max_size=3), max_size=2), st.booleans())
def test_text_is_the_same_with_and_without_log_probabilities(
    tokens: list[int], stops: list[str], include_stop: bool
) -> None:
    texts = []
    for logprobs in (None, 0):
        request = generation_request(
            b"p",
            max_tokens=len(tokens),
            stops=tuple(stops),
            include_stop=include_stop,
            end_ids=frozenset({END}),
            logprobs=logprobs,
        )
        candidate = Candidate(0, request, ByteTokenizer())
        events: list[Event] = []
        for token in tokens:
            events += candidate.accept(token, -1.0, ())
            if candidate.finished:
                break
        chunks = [event for event in events if isinstance(event, Chunk)]
        assert isinstance(events[-1], Finished)
        assert all(len(chunk.tokens) <= 1 for chunk in chunks)
        assert all(chunk.text or chunk.tokens for chunk in chunks)
        texts.append(("".join(chunk.text for chunk in chunks), events[-1].reason, events[-1].n_tokens))
    assert texts[0] == texts[1]


def test_candidate_ended_from_outside_shows_nothing_that_was_held() -> None:
    candidate = Candidate(0, generation_request(b"p", stops=("bcd",)), ByteTokenizer())
    assert candidate.accept(97, None, ()) == [chunk("a", 1)]
    assert candidate.accept(98, None, ()) == []
    assert candidate.end() == [Finished(0, "content_filter", 2, 0.0, 0)]
    assert candidate.finished


def test_candidate_ended_from_outside_lists_tokens_that_began_in_visible_text() -> None:
    candidate = Candidate(0, generation_request([0], stops=("xy",), logprobs=0), Pairs())
    assert candidate.accept(0, -1.0, ()) == [chunk("ab", 1, SampledToken(0, 0, -1.0, ()))]
    assert candidate.accept(1, -2.0, ()) == [chunk("c", 2)]
    assert candidate.end() == [chunk("", 2, SampledToken(1, 2, -2.0, ())), Finished(0, "content_filter", 2, -3.0, 2)]


def test_who_samples_may_end_it_with_a_reason_of_its_own() -> None:
    candidate = Candidate(0, generation_request(b"p", stops=("xyz",)), ByteTokenizer())
    assert candidate.accept(ord("x"), None, ()) == []
    assert candidate.close("length") == [chunk("x", 1), Finished(0, "length", 1, 0.0, 0)]


def test_a_token_without_a_log_probability_is_counted_and_not_listed() -> None:
    candidate = Candidate(0, generation_request(b"p", logprobs=1), ByteTokenizer())
    assert candidate.accept_unlisted(ord("x")) == [chunk("x", 1)]
    assert candidate.accept(ord("y"), -2.0, ()) == [chunk("y", 2, SampledToken(ord("y"), 1, -2.0, ()))]
    assert candidate.close("stop") == [Finished(0, "stop", 2, -2.0, 1)]

from typing import Any

import pytest
from tests.completions.scripted import completion, scores

from afterword.completions.assemble import Assembler, Choice, Delta, Echo, join
from afterword.completions.completion import Completion
from afterword.completions.counting import Usage
from afterword.engine.events import Chunk, Counted, Event, Finished, PromptDone, SampledToken

DONE = PromptDone(n_cached=0, scores=None)


def token(logprob: float, offset: int = 1) -> SampledToken:
    return SampledToken(65, offset, logprob, ())


def text(index: int, said: str, n_tokens: int, *tokens: SampledToken) -> Chunk:
    return Chunk(index, said, tokens, n_tokens)


def end(index: int, reason: str, n_tokens: int, sum_logprob: float = 0.0, n_scored: int = 0) -> Finished:
    return Finished(index, reason, n_tokens, sum_logprob, n_scored)


def fold(result: Completion, *events: Event | tuple[int, Event]) -> tuple[list[Delta], Usage]:
    """All deltas of these events, and the final usage. An event without a number is of the first prompt."""
    assembler = Assembler(result)
    numbered = [event if isinstance(event, tuple) else (0, event) for event in events]
    return [delta for i, event in numbered for delta in assembler.fold(i, event)], assembler.usage()


def delta(index: int, said: str, reason: str | None = None, *tokens: SampledToken) -> Delta:
    return Delta(index, said, None, tokens, reason)


def shown(echo: Echo | None) -> dict[str, Any] | None:
    if echo is None:
        return None
    return {
        "tokens": echo.tokens,
        "offsets": echo.offsets,
        "logprobs": echo.scores.logprobs.tolist(),
        "top": echo.scores.top_ids.tolist(),
        "top_logprobs": echo.scores.top_logprobs.tolist(),
    }


def test_a_chunk_becomes_a_delta_at_once() -> None:
    assembler = Assembler(completion(prompt="ab"))
    assert assembler.fold(0, DONE) == []
    assert assembler.fold(0, text(0, "x", 1)) == [delta(0, "x")]


def test_stop_comes_on_an_extra_delta_without_text() -> None:
    deltas, _ = fold(completion(max_tokens=9), DONE, text(0, "x", 1), end(0, "stop", 1))
    assert deltas == [delta(0, "x"), delta(0, "", "stop")]


def test_length_comes_on_the_delta_of_the_last_token() -> None:
    deltas, _ = fold(completion(max_tokens=2), DONE, text(0, "x", 1), text(0, "y", 2), end(0, "length", 2))
    assert deltas == [delta(0, "x"), delta(0, "y", "length")]


def test_only_the_last_of_several_chunks_of_the_last_token_waits_for_the_end() -> None:
    deltas, _ = fold(completion(max_tokens=2), DONE, text(0, "x", 2), text(0, "y", 2), end(0, "length", 2))
    assert deltas == [delta(0, "x"), delta(0, "y", "length")]


def test_a_stop_completed_by_the_last_allowed_token_is_a_stop() -> None:
    deltas, _ = fold(completion(max_tokens=1), DONE, text(0, "x", 1), end(0, "stop", 1))
    assert deltas == [delta(0, "x"), delta(0, "", "stop")]


@pytest.mark.parametrize("reason", ["length", "stop", "content_filter"])
def test_an_end_without_anything_before_it_is_a_delta_of_its_own(reason: str) -> None:
    assert fold(completion(max_tokens=2), DONE, end(0, reason, 2))[0] == [delta(0, "", reason)]


def test_length_after_an_empty_last_chunk_is_a_delta_of_its_own() -> None:
    assert fold(completion(max_tokens=1), DONE, text(0, "", 1), end(0, "length", 1))[0] == [delta(0, "", "length")]


def test_no_tokens_asked_for_means_length_and_nothing_counted() -> None:
    deltas, usage = fold(completion(prompt="abc", max_tokens=0), DONE, end(0, "length", 0))
    assert join(deltas) == [Choice(0, "", None, (), "length", None)]
    assert usage == Usage(prompt_tokens=3, completion_tokens=0, cached_tokens=0)


def test_choices_are_numbered_by_prompt_then_candidate() -> None:
    result = completion(prompt=["a", "b", "c"], n=2, max_tokens=9)
    events = [(i, text(k, f"{i}{k}", 1)) for k in (1, 0) for i in (2, 0, 1)]
    ends = [(i, end(k, "stop", 1)) for i in range(3) for k in range(2)]
    deltas, _ = fold(result, *events, *ends)
    assert [(d.index, d.text) for d in deltas[:6]] == [(5, "21"), (1, "01"), (3, "11"), (4, "20"), (0, "00"), (2, "10")]
    assert [(c.index, c.text) for c in join(deltas)] == [(i * 2 + k, f"{i}{k}") for i in range(3) for k in range(2)]


def test_each_choice_starts_with_the_echo_right_after_the_prompt() -> None:
    deltas, _ = fold(completion(prompt="ab", echo=True, n=2, max_tokens=9), DONE, text(1, "x", 1))
    assert deltas == [delta(0, "ab"), delta(1, "ab"), delta(1, "x")]


def test_the_echo_is_the_text_as_sent() -> None:
    result = completion(prompt="a<|control|>", echo=True, max_tokens=0)
    assert fold(result, DONE, end(0, "length", 0))[0][0].text == "a<|control|>"


def test_the_echo_of_an_empty_prompt_makes_no_delta_of_its_own() -> None:
    assert fold(completion(echo=True), DONE, text(0, "x", 1))[0] == [delta(0, "x")]


def test_an_echo_with_log_probabilities_lists_the_prompt_once_in_front() -> None:
    result = completion(prompt="abc", echo=True, logprobs=1, max_tokens=9)
    deltas, _ = fold(result, PromptDone(0, scores(3, 1)), text(0, "x", 1, token(-0.5)), end(0, "stop", 1))
    assert [d.text for d in deltas] == ["abc", "x", ""]
    assert [shown(d.echo) for d in deltas[1:]] == [None, None]
    assert shown(deltas[0].echo) == {
        "tokens": (97, 98, 99),
        "offsets": (0, 1, 2),
        "logprobs": [-1.0, -3.0],
        "top": [[0], [0]],
        "top_logprobs": [[-2.0], [-4.0]],
    }
    assert deltas[0].prompt_scores is None
    assert join(deltas)[0].tokens == (token(-0.5),)


def test_echo_and_prompt_logprobs_show_as_many_columns_as_each_asked_for() -> None:
    result = completion(prompt="ab", echo=True, logprobs=0, prompt_logprobs=2)
    [first], _ = fold(result, PromptDone(0, scores(2, 2)))
    assert first.echo is not None
    assert first.prompt_scores is not None
    assert (first.echo.scores.top_ids.tolist(), first.prompt_scores.scores.top_ids.tolist()) == ([[]], [[0, 1]])


def test_prompt_logprobs_come_without_echo() -> None:
    [first], _ = fold(completion(prompt="ab", prompt_logprobs=1), PromptDone(0, scores(2, 1)))
    assert (first.text, first.echo) == ("", None)
    assert shown(first.prompt_scores) is not None


def test_a_prompt_of_one_token_has_no_scores_to_show() -> None:
    result = completion(echo=True, logprobs=1)
    [first], _ = fold(result, PromptDone(0, scores(1, 1)))
    assert shown(first.echo) == {"tokens": (256,), "offsets": (0,), "logprobs": [], "top": [], "top_logprobs": []}


def test_ids_of_the_prompt_come_first_and_tokens_with_their_text() -> None:
    result = completion(prompt="ab", return_token_ids=True, max_tokens=9, n=2)
    deltas, _ = fold(result, DONE, text(0, "x", 1, token(-0.5)), end(0, "stop", 1), end(1, "length", 0))
    assert [(d.index, d.prompt_ids, d.tokens) for d in deltas[:3]] == [
        (0, (97, 98), ()),
        (1, (97, 98), ()),
        (0, None, (token(-0.5),)),
    ]
    assert [(c.prompt_ids, c.tokens) for c in join(deltas)] == [((97, 98), (token(-0.5),)), ((97, 98), ())]


BEST_OF_EVENTS: list[Event] = [
    DONE,
    text(0, "bad", 1, token(-9.0)),
    text(2, "be", 1, token(-1.0)),
    text(1, "good", 1, token(-2.0)),
    end(1, "length", 1, -2.0, 1),
    text(2, "st", 2, token(-1.5)),
    end(2, "stop", 2, -2.5, 2),
]


def test_best_of_says_nothing_until_all_candidates_have_ended() -> None:
    deltas, usage = fold(completion(n=2, best_of=3), *BEST_OF_EVENTS)
    assert deltas == []
    assert usage.completion_tokens == 4


def test_best_of_returns_the_best_first_and_counts_the_losers() -> None:
    deltas, usage = fold(completion(n=2, best_of=3, logprobs=0), *BEST_OF_EVENTS, end(0, "length", 1, -9.0, 1))
    assert deltas == [delta(0, "best", "stop", token(-1.0), token(-1.5)), delta(1, "good", "length", token(-2.0))]
    assert usage.completion_tokens == 4


def test_best_of_hides_log_probabilities_that_were_not_asked_for() -> None:
    deltas, _ = fold(completion(n=1, best_of=3), *BEST_OF_EVENTS, end(0, "length", 1, -9.0, 1))
    assert deltas == [delta(0, "best", "stop")]


def test_best_of_shows_the_ids_of_the_best() -> None:
    result = completion(prompt="ab", n=1, best_of=3, return_token_ids=True)
    deltas, _ = fold(result, *BEST_OF_EVENTS, end(0, "length", 1, -9.0, 1))
    assert [(c.prompt_ids, c.tokens) for c in join(deltas)] == [((97, 98), (token(-1.0), token(-1.5)))]


def test_best_of_compares_within_a_prompt_only() -> None:
    result = completion(prompt=["a", "b"], n=1, best_of=2)
    deltas, _ = fold(
        result,
        (1, end(1, "stop", 0, -1.0, 1)),
        (0, text(0, "a0", 1)),
        (0, end(0, "length", 1, -3.0, 1)),
        (0, end(1, "stop", 0, -4.0, 1)),
        (1, text(0, "b0", 1)),
        (1, end(0, "length", 1, -2.0, 1)),
    )
    assert deltas == [delta(0, "a0", "length"), delta(1, "", "stop")]


def test_best_of_echoes_the_prompt_in_front_of_each_choice() -> None:
    deltas, _ = fold(completion(prompt="ab", n=1, best_of=3, echo=True), *BEST_OF_EVENTS, end(0, "length", 1, -9.0, 1))
    assert [choice.text for choice in join(deltas)] == ["abbest"]


def test_usage_counts_prompts_once_and_all_candidates_as_they_grow() -> None:
    assembler = Assembler(completion(prompt=["abc", "d"], n=2))
    assert assembler.usage() == Usage(4, 0, 0)
    steps: list[tuple[int, Event, Usage]] = [
        (0, PromptDone(2, None), Usage(4, 0, 2)),
        (1, PromptDone(1, None), Usage(4, 0, 3)),
        (0, text(0, "x", 1), Usage(4, 1, 3)),
        (0, text(1, "xyz", 3), Usage(4, 4, 3)),
        (0, text(0, "", 2), Usage(4, 5, 3)),
        (0, end(0, "stop", 4), Usage(4, 7, 3)),
        (1, end(1, "length", 16), Usage(4, 23, 3)),
    ]
    for number, event, usage in steps:
        assembler.fold(number, event)
        assert assembler.usage() == usage


def test_joining_takes_deltas_of_different_choices_in_any_mixture() -> None:
    mixed = [delta(1, "c"), delta(0, "a"), delta(1, "d", "length", token(-1.0)), delta(0, "b"), delta(0, "", "stop")]
    assert join(mixed) == [
        Choice(0, "ab", None, (), "stop", None),
        Choice(1, "cd", None, (token(-1.0),), "length", None),
    ]


def test_an_upstream_s_counts_replace_ours_also_before_the_last_end() -> None:
    request = completion(prompt=["ab", "abc"], max_tokens=9)
    ours: list[tuple[int, Event]] = [(1, DONE), (1, text(0, "x", 1)), (1, end(0, "stop", 1))]
    theirs: list[tuple[int, Event]] = [(0, DONE), (0, text(0, "xyz", 1)), (0, Counted(7, 4, 5)), (0, end(0, "stop", 3))]
    _, usage = fold(request, *ours, *theirs)
    assert usage == Usage(prompt_tokens=7 + 3, completion_tokens=5 + 1, cached_tokens=4)


def test_what_an_upstream_does_not_count_stays_as_counted_here() -> None:
    events: list[Event] = [DONE, text(0, "x", 2), Counted(None, None, None), end(0, "stop", 3)]
    assert fold(completion(prompt="ab", max_tokens=9), *events)[1] == Usage(2, 3, 0)

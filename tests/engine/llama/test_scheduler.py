from typing import Any

import pytest
from tests.engine.llama.fake_context import N_VOCAB, SEVERAL, SINGLE
from tests.engine.llama.harness import Harness, ask, words

from afterword.engine.events import Finished, PromptDone, Started
from afterword.engine.sampling.bias import EveryTokenBanned
from afterword.errors import AfterwordError
from afterword.fields.sampling import Sampling

BAN_ALL = Sampling(logit_bias=tuple((token, -100.0) for token in range(N_VOCAB)))


@pytest.mark.parametrize("n_prompt", [1, 2, 3, 255, 256, 257, 511, 512, 513, 514, 1024, 1025])
def test_prompt_tokens_have_several_rows_and_sampled_ones_a_single_one(n_prompt: int) -> None:
    harness = Harness(2)
    harness.complete(ask(words(n_prompt), max_tokens=9))
    assert harness.runner.cells[0].ways == [SEVERAL] * n_prompt + [SINGLE] * 8


@pytest.mark.parametrize("n_missing", [1, 2, 3])
def test_rest_of_a_cached_prompt_has_several_rows_however_short(n_missing: int) -> None:
    harness = Harness(1)
    harness.complete(ask(words(100), max_tokens=1))
    harness.complete(ask(words(100 + n_missing), max_tokens=1))
    assert harness.runner.calls == [[(0, 100, 100)], [(0, n_missing, max(2, n_missing))]]
    assert harness.runner.cells[0].ways == [SEVERAL] * (100 + n_missing)


@pytest.mark.parametrize("n_prompt", [2, 63, 100, 200, 700])
def test_many_sequences_never_fill_more_than_a_micro_batch(n_prompt: int) -> None:
    harness = Harness(20)
    for book in range(20):
        harness.add(ask(words(n_prompt + book, book % 8)[book:], max_tokens=2))
    harness.finish()
    rows = [sum(n_rows for _, _, n_rows in call) for call in harness.runner.calls]
    assert min(20 * n_prompt, 200) <= max(rows) <= 256


def test_candidates_share_one_prefill() -> None:
    harness = Harness(8)
    reading = harness.complete(ask(words(600), n_candidates=8, max_tokens=4))
    counters = harness.scheduler.counters
    assert (counters.prompt_tokens, counters.prefill_tokens) == (600, 600 + 7)
    assert counters.completion_tokens == 8 * 4
    assert [copy[:1] + copy[2:] for copy in harness.runner.copies] == [(0, 599)] * 7
    assert len({tuple(reading.tokens(index)) for index in range(8)}) == 8


def test_more_candidates_than_slots_take_turns() -> None:
    harness = Harness(2)
    few = harness.complete(ask(words(200), n_candidates=5, max_tokens=3))
    assert harness.scheduler.counters.prefill_tokens == 200 + 4
    many = Harness(8).complete(ask(words(200), n_candidates=5, max_tokens=3))
    assert [few.tokens(index) for index in range(5)] == [many.tokens(index) for index in range(5)]


@pytest.mark.parametrize("first_reproducible", [True, False])
def test_what_was_sampled_is_for_requests_without_a_seed(first_reproducible: bool) -> None:
    harness = Harness(2)
    first = harness.complete(ask(words(300), max_tokens=12, reproducible=first_reproducible))
    longer = words(300) + tuple(token.id for token in first.listed(0))
    seeded = harness.complete(ask(longer, max_tokens=3))
    assert seeded.prompt == PromptDone(300, None)
    assert seeded.tokens(0) == Harness(1).complete(seeded.request).tokens(0)
    assert harness.complete(seeded.request).prompt == PromptDone(311, None)  # a prompt has said it again
    harness = Harness(2)
    harness.complete(first.request)
    free = harness.complete(ask(longer, max_tokens=3, reproducible=False))
    assert free.prompt == PromptDone(311, None)


@pytest.mark.parametrize("reproducible", [True, False])
def test_requests_that_arrive_together_wait_for_their_common_prefix(reproducible: bool) -> None:
    harness = Harness(4)
    for book in (1, 2, 3):
        harness.add(ask(words(300) + words(100, book), max_tokens=2, reproducible=reproducible))
    harness.finish()
    assert harness.scheduler.counters.prefill_tokens == 400 + 2 * 100


def test_seeded_request_does_not_wait_for_what_it_may_not_use() -> None:
    harness = Harness(2)
    said = harness.complete(ask(words(100), max_tokens=150, reproducible=False)).listed(0)
    longer = words(100) + tuple(token.id for token in said)
    # Goes on behind 149 sampled tokens, so nothing of its slot beyond the first 100 tokens is exact.
    _, free = harness.add(ask(longer + words(2000, 1), max_tokens=1, reproducible=False))
    harness.step()
    _, seeded = harness.add(ask(longer + words(1000, 1), max_tokens=1))
    harness.step()
    assert len(harness.scheduler.running) == 2
    harness.finish()
    assert free.prompt == PromptDone(249, None)
    assert seeded.prompt == PromptDone(100, None)


def test_a_prompt_without_a_common_prefix_does_not_wait() -> None:
    harness = Harness(4)
    harness.add(ask(words(300), max_tokens=2))
    harness.add(ask(words(300, 1), max_tokens=2))
    harness.step()
    assert len(harness.scheduler.running) == 2


def test_nobody_waits_for_a_prefix_that_has_gone_by() -> None:
    harness = Harness(2, can_cut=False)
    harness.add(ask(words(2000), max_tokens=1))
    harness.step()
    # 200 tokens in common, but that slot holds 256 by now and has no state of before.
    harness.add(ask(words(200) + words(50, 1), max_tokens=1))
    harness.step()
    assert len(harness.scheduler.running) == 2


def test_the_follower_goes_on_when_the_one_it_waits_for_leaves() -> None:
    harness = Harness(4)
    first, _ = harness.add(ask(words(1000), max_tokens=2))
    _, reading = harness.add(ask(words(900), max_tokens=2))
    harness.step()
    assert harness.scheduler.n_waiting == 1
    harness.cancel(first)
    harness.finish()
    assert reading.prompt == PromptDone(256, None)


def test_a_scored_prefix_is_answered_from_the_cache() -> None:
    harness = Harness(2)
    first = harness.complete(ask(words(300), max_tokens=0, prompt_logprobs=4))
    again = harness.complete(ask(words(300), max_tokens=0, prompt_logprobs=4))
    assert again.scores() == first.scores()
    assert again.prompt is not None
    # The row of the last token but one has the last one's score.
    assert again.prompt.n_cached == 298
    assert harness.scheduler.counters.prefill_tokens == 299 + 1


def test_nothing_to_sample_ends_every_candidate_without_computing_for_each() -> None:
    harness = Harness(4)
    reading = harness.complete(ask(words(100), n_candidates=3, max_tokens=0))
    assert reading.told == [
        Started(),
        PromptDone(0, None),
        *(Finished(index, "length", 0, 0.0, 0) for index in range(3)),
    ]
    assert harness.scheduler.counters.prefill_tokens == 100


@pytest.mark.parametrize("n_prompt", [pytest.param(20, id="too-short-to-wait-for"), pytest.param(150, id="long")])
def test_scores_come_from_the_scored_candidate_whoever_is_done_first(n_prompt: int) -> None:
    harness = Harness(4)
    harness.complete(ask(words(n_prompt), max_tokens=1))  # in the cache, but without scores
    harness.add(ask(words(200, 1), max_tokens=30))
    reading = harness.complete(ask(words(n_prompt), n_candidates=3, max_tokens=2, prompt_logprobs=1))
    assert reading.scores() == Harness(1).complete(reading.request).scores() != ()


def test_candidates_wait_while_the_scored_one_waits_for_another_request() -> None:
    harness = Harness(4)
    harness.complete(ask(words(150), max_tokens=1))
    harness.add(ask(words(1000), max_tokens=0, prompt_logprobs=1))
    request = ask(words(150), n_candidates=2, max_tokens=2, prompt_logprobs=1)
    reading = harness.complete(request)
    assert reading.scores() == Harness(1).complete(request).scores() != ()


def test_an_error_of_one_candidate_ends_its_group_and_no_other() -> None:
    harness = Harness(6)
    _, spoiled = harness.add(ask(words(100), n_candidates=3, sampling=BAN_ALL))
    _, good = harness.add(ask(words(90, 1), max_tokens=5))
    harness.finish()
    assert [type(message) for message in spoiled.told] == [Started, PromptDone, EveryTokenBanned]
    assert good.finished(0) == Harness(1).complete(good.request).finished(0) is not None
    assert harness.kv.n_running == 0


def test_error_while_candidates_share_a_step_is_told_once() -> None:
    harness = Harness(6)
    _, spoiled = harness.add(ask(words(10), n_candidates=3, sampling=BAN_ALL))
    harness.finish()
    assert sum(isinstance(message, AfterwordError) for message in spoiled.told) == 1


def test_cancelled_group_frees_its_slots_and_leaves_its_tokens_to_others() -> None:
    harness = Harness(2)
    group, _ = harness.add(ask(words(400), n_candidates=2, max_tokens=1000))
    for _ in range(10):
        harness.step()
    assert harness.kv.n_free == 0
    harness.cancel(group)
    assert (harness.kv.n_free, harness.scheduler.idle) == (2, True)
    reading = harness.complete(ask(words(400), max_tokens=1))
    assert reading.prompt == PromptDone(399, None)


def test_next_tokens_and_pieces_of_prompts_take_turns() -> None:
    harness = Harness(2)
    harness.add(ask(words(10), max_tokens=50))
    harness.step()
    harness.add(ask(words(1000, 1), max_tokens=1))
    for _ in range(6):
        harness.step()
    assert [[n for _, n, _ in call] for call in harness.runner.calls[1:]] == [[1], [64], [1], [64], [1], [64]]


@pytest.mark.parametrize(
    ("n_delayed", "n_rows"),
    [
        pytest.param(1, 64, id="least"),
        pytest.param(42, 64, id="as-long-as-their-step"),
        pytest.param(60, 90, id="longer-step"),
        pytest.param(200, 256, id="most"),
    ],
)
def test_a_piece_of_a_prompt_takes_about_as_long_as_the_step_that_it_delays(n_delayed: int, n_rows: int) -> None:
    harness = Harness(n_delayed + 1)
    for _ in range(n_delayed):
        harness.add(ask(words(2), max_tokens=50))
    while any(sequence.prefilling for sequence in harness.scheduler.running) or harness.scheduler.n_waiting > 0:
        harness.step()
    harness.add(ask(words(1000, 1), max_tokens=1))
    harness.step()
    harness.step()
    assert max(n for call in harness.runner.calls[-2:] for _, n, _ in call) == n_rows


def test_a_lone_prompt_goes_in_the_largest_pieces() -> None:
    harness = Harness(1)
    harness.complete(ask(words(600), max_tokens=1))
    assert harness.runner.calls == [[(0, 256, 256)], [(0, 256, 256)], [(0, 88, 88)]]


@pytest.mark.parametrize(
    ("lengths", "call"),
    [
        pytest.param([1], [(0, 1, 2)], id="one-token"),
        pytest.param([80, 80, 80], [(0, 80, 80), (1, 80, 80), (2, 80, 80)], id="equal"),
        pytest.param([100, 125], [(0, 100, 125), (1, 125, 125)], id="a-little-longer"),
        pytest.param([100, 50], [(0, 100, 100), (1, 50, 100)], id="half-as-long"),
        pytest.param([100, 49], [(0, 100, 100)], id="less-than-half-as-long"),
        pytest.param([128, 128], [(0, 128, 128), (1, 128, 128)], id="exactly-a-micro-batch"),
        pytest.param([129, 129], [(0, 129, 129)], id="two-that-do-not-fit"),
        pytest.param([120, 150], [(0, 120, 120)], id="longer-does-not-fit"),
        pytest.param([600, 20], [(0, 256, 256)], id="longer-than-a-micro-batch"),
        pytest.param([100, 300, 90], [(0, 100, 100), (1, 100, 100)], id="a-piece-of-a-longer-one"),
    ],
)
def test_prompts_of_about_the_same_length_share_a_call(lengths: list[int], call: list[tuple[int, int, int]]) -> None:
    harness = Harness(len(lengths))
    for book, n in enumerate(lengths):
        harness.add(ask(words(n, book), max_tokens=1))
    harness.step()
    assert harness.runner.calls == [call]


def test_prompts_share_no_call_where_rows_to_be_thrown_away_have_no_room() -> None:
    calls = []
    for capacity in (104, 105):
        harness = Harness(2, capacity=capacity)
        harness.complete(ask(words(61), max_tokens=1))
        harness.add(ask(words(60) + words(40, 1), max_tokens=1))  # 40 tokens to go, behind 60 that are there
        harness.add(ask(words(45, 2), max_tokens=1))
        harness.step()
        calls.append(harness.runner.calls[-1])
    assert calls == [[(0, 40, 40)], [(0, 40, 45), (1, 45, 45)]]


def test_oldest_and_shortest_prompt_take_turns() -> None:
    harness = Harness(3)
    for book, n in enumerate((2000, 1500, 700)):
        harness.add(ask(words(n, book), max_tokens=1))
    harness.finish()
    leads = [call[0][0] for call in harness.runner.calls]
    assert leads[:6] == [0, 2, 0, 2, 0, 2]


def test_slots_that_sample_lie_side_by_side_while_prompts_of_similar_length_are_read() -> None:
    harness = Harness(8)
    for book, n in enumerate((139, 120, 130, 125, 133, 121, 138, 127)):
        harness.add(ask(words(n, book), max_tokens=40))
    while harness.scheduler.n_waiting > 0 or any(s.prefilling for s in harness.scheduler.running):
        harness.step()
    sampled = [sorted(slot for slot, _, _ in call) for call in harness.runner.calls if call[0][2] == 1]
    assert {len(ids) for ids in sampled} >= {2, 3, 4, 5, 6, 7}
    assert all(ids == list(range(ids[0], ids[0] + len(ids))) for ids in sampled)


def test_memory_that_cannot_be_cut_gets_no_rows_that_would_have_to_be_cut_off() -> None:
    harness = Harness(3, can_cut=False)
    harness.add(ask(words(100), max_tokens=1))
    harness.add(ask(words(357, 1), max_tokens=1))
    harness.add(ask(words(1, 2), max_tokens=1))
    harness.finish()
    assert all(n_rows == n for call in harness.runner.calls for _, n, n_rows in call)
    # Pieces end where a state is kept, and last tokens go with those that sample.
    assert [[piece[:2] for piece in call] for call in harness.runner.calls] == [
        [(0, 64)],
        [(2, 1)],
        [(0, 35), (1, 35)],
        [(0, 1)],
        [(1, 256)],
        [(1, 65)],
        [(1, 1)],
    ]


def cached(*prompts: tuple[int, ...], harness: Harness, **changes: Any) -> list[int]:
    """Tokens that each prompt reuses of those before it, asked for one after another."""
    found = [harness.complete(ask(prompt, **({"max_tokens": 5} | changes))).prompt for prompt in prompts]
    return [0 if done is None else done.n_cached for done in found]


def test_where_memory_cannot_be_cut_candidates_share_one_prefill() -> None:
    harness = Harness(8, can_cut=False)
    harness.complete(ask(words(600), n_candidates=8, max_tokens=4))
    assert harness.scheduler.counters.prefill_tokens == 600 + 7
    assert [copy[:1] + copy[2:] for copy in harness.runner.copies] == [(0, 599)] * 7


def test_where_memory_cannot_be_cut_requests_that_arrive_together_share_their_common_prefix() -> None:
    harness = Harness(4, can_cut=False)
    for book in (1, 2, 3):
        harness.add(ask(words(300) + words(100, book), max_tokens=2))
    harness.finish()
    assert harness.scheduler.counters.prefill_tokens == 400 + 2 * 100


def test_where_memory_cannot_be_cut_a_prompt_is_repeated_from_before_its_last_token() -> None:
    assert cached(words(300), words(300), words(299), harness=Harness(2, can_cut=False)) == [0, 299, 256]


def test_where_memory_cannot_be_cut_a_prompt_that_grows_goes_on_from_before_its_end() -> None:
    prompts = [words(n) for n in (300, 303, 306, 309, 314, 316, 319, 322)]
    # A place of its own is worth a call every 16 tokens.
    assert cached(*prompts, harness=Harness(2, can_cut=False)) == [0, 299, 299, 299, 299, 299, 315, 315]


def test_where_memory_cannot_be_cut_a_prompt_goes_on_behind_what_was_sampled() -> None:
    harness = Harness(2, can_cut=False)
    said = harness.complete(ask(words(300), max_tokens=40)).listed(0)
    longer = words(300) + tuple(token.id for token in said[:39])
    assert cached((*longer, 1, 2), (*longer, 2, 1), harness=harness) == [339, 339]


@pytest.mark.parametrize(
    ("contexts", "n_cached"),
    [
        pytest.param([words(200)] * 4, [0, 184, 184, 184], id="near-the-end"),
        pytest.param([words(200), words(150), words(150), words(150)], [0, 0, 149, 149], id="far-from-the-end"),
    ],
)
def test_where_memory_cannot_be_cut_endings_of_a_scored_context_go_on_from_it(
    contexts: list[tuple[int, ...]], n_cached: list[int]
) -> None:
    prompts = [context + words(16, book) for book, context in enumerate(contexts, start=1)]
    harness = Harness(2, can_cut=False)
    assert cached(*prompts, harness=harness, max_tokens=0, prompt_logprobs=1) == n_cached


def test_where_memory_cannot_be_cut_endings_that_are_scored_at_once_share_all_of_their_context() -> None:
    harness = Harness(4, can_cut=False)
    for book in (1, 2, 3, 4):
        harness.add(ask(words(200) + words(16, book), max_tokens=0, prompt_logprobs=1))
    harness.finish()
    # The last token of the context has another follower in each.
    assert harness.scheduler.counters.prefill_tokens == 215 + 3 * 16


def test_where_memory_cannot_be_cut_a_text_that_was_edited_goes_on_from_some_place_before() -> None:
    harness = Harness(2, can_cut=False)
    edits = [words(1000) + words(900, book) for book in (1, 2, 3)]
    assert cached(words(2000), *edits, harness=harness) == [0, 768, 1000, 1000]


def test_where_memory_cannot_be_cut_states_are_kept_of_what_is_sampled_too() -> None:
    harness = Harness(1, can_cut=False)
    said = harness.complete(ask(words(100), max_tokens=700)).listed(0)
    longer = words(100) + tuple(token.id for token in said)
    assert cached((*longer[:600], 1), harness=harness) == [99 + 256]


def test_where_no_state_can_be_kept_prompts_are_read_again() -> None:
    prompts = [words(300), words(300), words(303)]
    assert cached(*prompts, harness=Harness(2, can_cut=False, n_checkpoints=0)) == [0, 0, 0]


def test_of_more_states_than_there_is_memory_for_the_latest_used_stay() -> None:
    harness = Harness(4, can_cut=False, n_checkpoints=2)
    prompts = [words(100), words(100, 1), words(100), words(100, 2), words(100), words(100, 1)]
    assert cached(*prompts, harness=harness) == [0, 0, 99, 0, 99, 0]


def test_a_short_prompt_does_not_wait_for_the_end_of_a_long_one() -> None:
    harness = Harness(2)
    long, _ = harness.add(ask(words(2000), max_tokens=1))
    harness.step()
    _, short = harness.add(ask(words(40, 1), max_tokens=1))
    harness.step()
    harness.step()
    assert short.finished(0) is not None
    assert long.sequences[0].prefilling


def test_short_prompts_do_not_keep_a_long_one_waiting() -> None:
    harness = Harness(3)
    _, long = harness.add(ask(words(1000), max_tokens=1))
    for number in range(40):
        harness.add(ask(words(30 + number, 1), max_tokens=1, reproducible=False))
        harness.step()
    assert long.finished(0) is not None


def test_gaps_between_running_slots_are_closed_and_what_was_kept_changes_places() -> None:
    harness = Harness(4)
    groups = [harness.add(ask(words(40, book), max_tokens=500))[0] for book in range(4)]
    for _ in range(10):
        harness.step()
    harness.cancel(groups[1])
    harness.step()
    assert sorted(slot for slot, _, _ in harness.runner.calls[-1]) == [0, 1, 2]
    assert harness.kv.slot(3).tokens[:40].tolist() == list(words(40, 1))
    assert harness.complete(ask(words(40, 1), max_tokens=1)).prompt == PromptDone(39, None)


def test_a_sequence_about_to_end_stays_where_it_is() -> None:
    harness = Harness(3)
    groups = [harness.add(ask(words(40, book), max_tokens=8))[0] for book in range(3)]
    while harness.scheduler.counters.completion_tokens < 3 * 5:
        harness.step()
    harness.cancel(groups[1])
    harness.step()
    assert sorted(slot for slot, _, _ in harness.runner.calls[-1]) == [0, 2]

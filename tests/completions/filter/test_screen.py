"""Between an engine and the answer: what leaves of completions that a filter judges, with their tokens and counts."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.completions.filter.watching import listed, sent
from tests.completions.scripted import ScriptedEngine
from tests.completions.scripted import completion as scripted_completion
from tests.fakes import generation_request

from afterword.completions.assemble import Assembler, Choice, Delta, join
from afterword.completions.completion import Completion
from afterword.completions.counting import Usage
from afterword.completions.filter.screen import Hit, Screened
from afterword.completions.filter.verdict import ContentFilter
from afterword.completions.parse import parse_body
from afterword.completions.resolve import resolve
from afterword.completions.run import run
from afterword.config.tree import ServerConfig
from afterword.engine.base import Engine
from afterword.engine.candidate import Candidate
from afterword.engine.echo import EchoEngine
from afterword.engine.events import Chunk, Event, Finished, PromptDone, SampledToken
from afterword.registry import ServedModel
from afterword.tokens import ByteTokenizer

NOTHING = listed()
LONG = 200


class Answer:
    """A whole answer, and how it came about."""

    def __init__(self, deltas: list[Delta], usage: Usage, hits: list[Hit]) -> None:
        self.deltas = deltas
        self.choices: list[Choice] = join(deltas)
        self.usage = usage
        self.hits = hits

    def shown(self) -> list[tuple[str, str]]:
        """Text and reason of each choice."""
        return [(choice.text, choice.finish_reason) for choice in self.choices]


async def answer(completion: Completion, engine: Engine, content_filter: ContentFilter) -> Answer:
    assembler, deltas, hits = Assembler(completion), list[Delta](), list[Hit]()
    async with run(completion, engine) as running:
        async for prompt_index, event in Screened(running, completion, content_filter, "req_1", hits.append):
            deltas += assembler.fold(prompt_index, event)
    return Answer(deltas, assembler.usage(), hits)


async def echoed(content_filter: ContentFilter, **fields: Any) -> Answer:
    """The answer of an echo engine, which goes on with the prompt from its start."""
    engine = EchoEngine()
    body = parse_body({"temperature": 0, "seed": 1, "max_tokens": 16} | fields, strict=False)
    try:
        completion = resolve(body, ServedModel("echo", engine, created=0), ServerConfig())
        return await answer(completion, engine, content_filter)
    finally:
        await engine.aclose()


async def test_a_flagged_choice_ends_before_the_flagged_text() -> None:
    found = await echoed(listed("bad"), prompt="so bad it is ", max_tokens=LONG)
    assert found.shown() == [("so ", "content_filter")]
    assert 7 <= found.usage.completion_tokens < LONG


async def test_nothing_flagged_changes_nothing() -> None:
    fields = {"prompt": ["so good it is ", "and so on "], "n": 2, "temperature": 1, "logprobs": 2, "echo": True}
    with_list, without = await echoed(listed("bad"), **fields), await echoed(NOTHING, **fields)
    assert [(c.text, c.tokens, c.finish_reason) for c in with_list.choices] == [
        (c.text, c.tokens, c.finish_reason) for c in without.choices
    ]
    assert with_list.usage == without.usage
    assert with_list.hits == []


def only_in(text: str, others: Sequence[str]) -> tuple[int, str]:
    """Where a piece of `text` starts that the others do not have, and the entry that finds it."""
    start = next(i for i in range(5, len(text)) if all(text[i : i + 4] not in other for other in [*others, text[:i]]))
    return start, "/" + "".join(f"\\u{ord(character):04x}" for character in text[start : start + 4]) + "/"


async def test_one_choice_of_three_is_hit_and_the_others_finish() -> None:
    fields = {"prompt": "several words to go on with ", "n": 3, "temperature": 1, "max_tokens": 60}
    first, second, third = [choice.text for choice in (await echoed(NOTHING, **fields)).choices]
    start, entry = only_in(second, [first, third])
    found = await echoed(listed(entry), **fields)
    assert found.shown() == [(first, "length"), (second[:start], "content_filter"), (third, "length")]
    assert [(hit.context.candidate, hit.rule) for hit in found.hits] == [(1, "line 1")]
    assert 120 < found.usage.completion_tokens <= 180


async def test_the_hit_knows_who_asked() -> None:
    (hit,) = (await echoed(listed("", "bad"), prompt=["x ", "so bad "], user="me", model="echo")).hits
    context = hit.context
    assert (context.request_id, context.user, context.model) == ("req_1", "me", "echo")
    assert (context.prompt, context.prompt_index, context.candidate) == ("so bad ", 1, 0)
    assert hit.rule == "line 2"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"stop": "it"}, ("so ", "content_filter"), id="flagged before a stop"),
        pytest.param({"stop": "so"}, ("", "stop"), id="stopped before flagged text"),
        pytest.param({"stop": "bad it"}, ("so ", "stop"), id="stop that holds the flagged text back"),
        pytest.param({"stop": "bad i?"}, ("so ", "content_filter"), id="stop that held it back and never came"),
        pytest.param({"stop": "ad"}, ("so b", "stop"), id="stop that cuts the flagged text in two"),
        pytest.param({"stop": " it"}, ("so ", "content_filter"), id="flagged text at a stop is a whole word"),
        pytest.param(
            {"stop": "bad", "include_stop_str_in_output": True},
            ("so ", "content_filter"),
            id="flagged stop in the text",
        ),
        pytest.param({"max_tokens": 6}, ("so ", "content_filter"), id="whole word at the last allowed token"),
        pytest.param({"max_tokens": 5}, ("so ba", "length"), id="cut short before it is a word"),
        pytest.param({"max_tokens": 0}, ("", "length"), id="nothing generated"),
        pytest.param({"max_tokens": 12, "min_tokens": 12}, ("so ", "content_filter"), id="min_tokens"),
        pytest.param({"echo": True}, ("so bad it is so ", "content_filter"), id="echo is the client's own text"),
    ],
)
async def test_the_filter_beside_other_ends(fields: dict[str, Any], expected: tuple[str, str]) -> None:
    found = await echoed(listed("bad"), **{"prompt": "so bad it is ", "max_tokens": LONG, **fields})
    assert found.shown() == [expected]


async def test_no_token_that_reaches_into_flagged_text_is_listed() -> None:
    found = await echoed(listed("bad"), prompt="so bad it is ", logprobs=2, max_tokens=LONG)
    assert bytes(token.id for token in found.choices[0].tokens) == b"so "
    assert [len(delta.tokens) for delta in found.deltas if delta.tokens] == [1, 1, 1]


async def test_a_filtered_candidate_ranks_last() -> None:
    fields = {"prompt": "several words ", "temperature": 1, "max_tokens": 60, "best_of": 3}
    best, second = (await echoed(NOTHING, **fields, n=2)).choices
    _, entry = only_in(best.text, [second.text])
    found = await echoed(listed(entry), **fields, n=2)
    assert found.shown()[0] == (second.text, "length")
    all_hit = await echoed(listed("/./s"), **fields, n=1)
    assert all_hit.shown() == [("", "content_filter")]
    assert len(all_hit.hits) == 3


async def test_each_prompt_of_a_batch_is_judged_by_itself() -> None:
    found = await echoed(listed("bad"), prompt=["so bad ", "so good ", "bad "], max_tokens=8)
    assert found.shown() == [("so ", "content_filter"), ("so good ", "length"), ("", "content_filter")]


async def test_a_word_that_the_prompt_begins_is_not_joined_with_it() -> None:
    assert (await echoed(listed("bad"), prompt="ba", max_tokens=1, logit_bias={str(ord("d")): 100})).hits == []
    starting = await echoed(listed("d"), prompt="ba", max_tokens=1, logit_bias={str(ord("d")): 100})
    assert starting.shown() == [("", "content_filter")]


async def test_the_candidate_is_ended_on_its_engine_and_what_still_comes_is_dropped() -> None:
    script: list[Event] = [PromptDone(0, None), Chunk(1, "so bad ", (), 2), Chunk(0, "good", (), 1)]
    script += [Chunk(1, "bad again", (), 5), Finished(1, "length", 6, 0.0, 0), Finished(0, "stop", 1, 0.0, 0)]
    engine = ScriptedEngine(lambda request: script)
    found = await answer(scripted_completion(prompt="x", n=2), engine, listed("bad"))
    assert found.shown() == [("good", "stop"), ("so ", "content_filter")]
    assert engine.generations[0].ended == [1]
    assert (found.usage.completion_tokens, len(found.hits)) == (7, 1)


async def test_a_hit_that_only_the_end_shows_ends_nothing_on_the_engine() -> None:
    script: list[Event] = [PromptDone(0, None), Chunk(0, "so bad", (), 2), Finished(0, "stop", 2, 0.0, 0)]
    engine = ScriptedEngine(lambda request: script)
    found = await answer(scripted_completion(prompt="x"), engine, listed("bad"))
    assert (found.shown(), engine.generations[0].ended) == ([("so ", "content_filter")], [])


async def test_held_text_is_counted_as_it_is_sampled() -> None:
    script: list[Event] = [PromptDone(0, None), *(Chunk(0, c, (), i) for i, c in enumerate("so bad", start=1))]
    completion = scripted_completion(prompt="x")
    assembler, counts = Assembler(completion), list[int]()
    async with run(completion, ScriptedEngine(lambda request: script)) as running:
        async for prompt_index, event in Screened(running, completion, listed("bad"), "req_1", lambda hit: None):
            assembler.fold(prompt_index, event)
            counts.append(assembler.usage().completion_tokens)
    assert counts == [0, 1, 2, 3, 4, 5, 6]


PIECES = (b"b", b"a", b"d", b"ba", b"ad", b" ", b"so ", b"\xc3", b"\xa9", b"x\xc3", "é".encode(), b"", b"d.")


class PieceTokenizer(ByteTokenizer):
    """A token for each of `PIECES`."""

    def piece(self, token: int) -> bytes:
        return PIECES[token]

    def is_control(self, token: int) -> bool:
        return False


def told(tokens: Sequence[int], stops: tuple[str, ...], logprobs: int | None) -> list[Event]:
    """What an engine says of a candidate of these tokens."""
    request = generation_request([0], max_tokens=len(tokens), stops=stops, logprobs=logprobs)
    candidate = Candidate(0, request, PieceTokenizer())
    events: list[Event] = [PromptDone(0, None)]
    for token in tokens:
        if not candidate.finished:
            events += candidate.accept(token, -1.0, ())
    return events


def all_of(events: Sequence[Event]) -> tuple[str, list[SampledToken], Finished]:
    """Text, tokens and end."""
    chunks, last = [event for event in events if isinstance(event, Chunk)], events[-1]
    assert isinstance(last, Finished)
    return "".join(chunk.text for chunk in chunks), [token for chunk in chunks for token in chunk.tokens], last


@given(
    tokens=st.lists(st.integers(0, len(PIECES) - 1), min_size=1, max_size=24),
    stops=st.sampled_from([(), ("ad b",), ("bad",), ("dé", "ba ba")]),
    logprobs=st.sampled_from([None, 0]),
    entries=st.sampled_from([("bad",), ("é", "b"), ("so bad", "ad"), ("/a.?d/", "é"), ("/b+$/", "x")]),
)
async def test_what_leaves_is_what_the_filter_leaves_of_the_whole(
    tokens: list[int], stops: tuple[str, ...], logprobs: int | None, entries: tuple[str, ...]
) -> None:
    events, content_filter = told(tokens, stops, logprobs), listed(*entries)
    completion = scripted_completion(prompt="x", logprobs=logprobs, max_tokens=len(tokens))
    text, all_tokens, end = all_of(events)
    expected, rule = await sent(content_filter, [text])
    shown: list[Event] = []
    async with run(completion, ScriptedEngine(lambda request: moved(events, request.text_offset))) as running:
        async for _, event in Screened(running, completion, content_filter, "req_1", lambda hit: None):
            shown.append(event)
    leaves, listed_tokens, shown_end = all_of(shown)
    assert leaves == expected
    assert shown_end == (
        end if rule is None else Finished(0, "content_filter", end.n_tokens, end.sum_logprob, end.n_scored)
    )
    if rule is not None:
        all_tokens = [one for one, after in pairwise(all_tokens) if one.offset < len(expected) >= after.offset]
    assert [token.id for token in listed_tokens] == [token.id for token in all_tokens]


def moved(events: Sequence[Event], offset: int) -> list[Event]:
    """The same with the offsets of tokens as a prompt of that length has them."""
    moved_events: list[Event] = []
    for event in events:
        if isinstance(event, Chunk):
            tokens = tuple(SampledToken(t.id, t.offset + offset, t.logprob, t.top) for t in event.tokens)
            event = Chunk(event.index, event.text, tokens, event.n_tokens)
        moved_events.append(event)
    return moved_events

import asyncio
import itertools
import re
import threading

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.completions.filter.watching import held, listed, pieces_of, sent

from afterword.completions.filter.effort import IN_THREAD, Effort
from afterword.completions.filter.matcher import MatchState
from afterword.completions.filter.patterns import REACH, PatternMatcher, compile_pattern

FLAGGED = [
    pytest.param("/bad/", "forbade", "for", id="inside a word"),
    pytest.param("/b.d/i", "so BED!", "so ", id="flag i"),
    pytest.param("/a.b/s", "x a\nb", "x ", id="flag s"),
    pytest.param("/^bad/m", "x\nbad", "x\n", id="flag m"),
    pytest.param("/b a d  # bad/x", "so bad", "so ", id="flag x"),
    pytest.param("/(?i)bad/", "so BAD", "so ", id="flag inside"),
    pytest.param(r"/\bbad\b/", "badge bad", "badge ", id="word boundaries"),
    pytest.param(r"/bad\B/", "bad badge", "bad ", id="no word boundary"),
    pytest.param(r"/foo \bbar/", "foo foo bar", "foo ", id="word boundary in the middle"),
    pytest.param(r"/bad$/", "bad, so bad", "bad, so ", id="end"),
    pytest.param(r"/bad(?!ge)/", "badge bad", "badge ", id="not followed by"),
    pytest.param(r"/bad(?=ge)/", "bad badge", "bad ", id="followed by"),
    pytest.param(r"/(?<=very )bad/", "bad very bad", "bad very ", id="preceded by"),
    pytest.param(r"/(?=bad)/", "so bad", "so ", id="nothing but an assertion"),
    pytest.param(r"/\d{3}-\d{4}/", "call 12-555-1234 now", "call 12-", id="digits"),
    pytest.param("/very bad|bad/", "so very bad", "so ", id="earlier start"),
    pytest.param("/secret.*key/", "a secret\na secret, the key", "a secret\na ", id="unbounded"),
    pytest.param("/key.*/", "the key is", "the ", id="unbounded at its end"),
    pytest.param(r"/\bkey.*/", "the key is", "the ", id="unbounded at its end, with a boundary"),
    pytest.param(r"/a\/b/", "x a/b", "x ", id="escaped slash"),
    pytest.param("/a/b/", "x a/b", "x ", id="slash"),
    pytest.param(r"/[\b]x/", "a \bx", "a ", id="backspace in a set"),
    pytest.param(r"/\p{Cyrillic}+/", "so \u0434\u0430", "so ", id="script"),
    pytest.param(r"/(.)\1\1/", "xyyy", "x", id="backreference"),
]

PASSED = [
    pytest.param("/bad/", "BAD", id="case"),
    pytest.param(r"/\bbad\b/", "badge", id="word goes on"),
    pytest.param(r"/bad$/", "bad, so", id="not at the end"),
    pytest.param(r"/bad(?!ge)/", "badge", id="followed by what it must not be"),
    pytest.param(r"/^bad/", "so bad", id="not at the start"),
    pytest.param("/a.b/", "a\nb", id="line break"),
]


@pytest.mark.parametrize(("entry", "text", "expected"), FLAGGED)
async def test_text_ends_where_a_pattern_matches(entry: str, text: str, expected: str) -> None:
    assert await sent(listed(entry), [text]) == (expected, "line 1")
    assert await sent(listed(entry), text) == (expected, "line 1")


@pytest.mark.parametrize(("entry", "text"), PASSED)
async def test_other_text_leaves_whole(entry: str, text: str) -> None:
    assert await sent(listed(entry), [text]) == (text, None)
    assert await sent(listed(entry), text) == (text, None)


@pytest.mark.parametrize(
    ("entry", "text", "expected"),
    [
        pytest.param("/bad/", "so go", "", id="nothing begun"),
        pytest.param("/bad/", "so ba", "ba", id="begun"),
        pytest.param(r"/bad\B/", "so bad", "bad", id="undecided boundary"),
        pytest.param(r"/bad\b/", "so bad", "bad", id="match that may go on"),
        pytest.param(r"/\d+-\d/", "call 555", "555", id="digits"),
        pytest.param("/secret.*key/", "a secret, a long", "secret, a long", id="unbounded"),
        pytest.param("/secret.*key/", "a secret\n", "", id="line break ends it"),
        pytest.param(r"/bad(?!ge)/", "so badg", "badg", id="undecided assertion"),
    ],
)
async def test_exactly_what_may_become_a_match_is_held(entry: str, text: str, expected: str) -> None:
    assert await held(listed(entry), text) == expected


async def test_a_match_without_assertions_flags_at_once() -> None:
    matcher = PatternMatcher([compile_pattern("key.*", "", "rule")])
    flag = matcher.push("the key").flag
    assert flag is not None
    assert flag.start == 4


async def test_a_pattern_without_bounds_holds_as_much_as_its_reach_and_no_more() -> None:
    content_filter = listed("/secret.*key/s")
    assert await held(content_filter, "secret" + "." * (REACH - 7)) == "secret" + "." * (REACH - 7)
    assert await held(content_filter, "secret" + "." * (REACH - 6)) == ""
    assert await sent(content_filter, ["a secret", "." * (REACH - 9), "key", "!"]) == ("a ", "line 1")
    far = ["a secret", "." * (REACH - 8), "key", "!"]
    assert await sent(content_filter, far) == ("".join(far), None)


async def test_a_look_behind_sees_far_back_in_a_long_text() -> None:
    text = "." * 5000 + "x" + "." * 500 + "bad"
    assert await sent(listed("/(?<=x.{500})bad/"), text) == (text[:-3], "line 1")
    assert await sent(listed("/^bad/"), "." * 5000 + "bad") == ("." * 5000 + "bad", None)


async def test_words_and_patterns_of_one_list_find_the_earliest_together() -> None:
    content_filter = listed("bad", "/very bad indeed/", "# comment", "", "/worse/")
    assert await sent(content_filter, "so very bad indeed") == ("so ", "line 2")
    assert await sent(content_filter, "so very bad, worse") == ("so very ", "line 1")
    assert await sent(content_filter, "so worse, bad") == ("so ", "line 5")


@pytest.mark.parametrize(
    ("source", "flags", "complaint"),
    [
        pytest.param("(bad", "", "is not a regular expression: missing .* at position 4", id="syntax"),
        pytest.param("bad", "q", "has the flag 'q'; it may have i, m, s, x", id="flag"),
        pytest.param("a*", "", "matches the empty text", id="empty"),
        pytest.param("(?r)bad", "", "sets a flag inside that it may not have", id="reverse"),
        pytest.param(r"a\Kb", "", r"uses \\K", id="keep"),
        pytest.param("(?:bad){e<=1}", "", "approximate matching", id="fuzzy"),
        pytest.param("a(?R)?b", "", "the whole pattern within itself", id="recursion"),
        pytest.param("a(*SKIP)b", "", "uses a verb", id="verb"),
    ],
)
def test_patterns_that_cannot_be_looked_for_are_refused(source: str, flags: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        compile_pattern(source, flags, "rule")


async def test_gate_13_a_pattern_that_takes_too_long_is_given_up_and_named() -> None:
    with pytest.raises(TimeoutError, match=r"The pattern in line 2 of .* took more than 0\.1 s\."):
        await sent(listed("/fine/", "/(?:a|aa)+[bc]/"), ["a" * 60 + "!bc"])


async def test_gate_13_the_event_loop_has_its_turns_while_a_pattern_is_slow() -> None:
    search = asyncio.create_task(sent(listed("/(?:a|aa)+[bc]/"), ["a" * 60 + "!bc"]))
    n_turns = 0
    while not search.done():
        n_turns += 1
        await asyncio.sleep(0)
    assert isinstance(search.exception(), TimeoutError)
    assert n_turns > 10


async def test_gate_13_a_pattern_s_searches_in_a_piece_of_text_have_one_limit_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock that each look at it moves on: no search is slow, all of them together are."""
    looks = itertools.count()
    monkeypatch.setattr("time.thread_time", lambda: next(looks) * 0.01)
    with pytest.raises(TimeoutError, match="in rule"):
        PatternMatcher([compile_pattern("a.*x", "", "rule")]).push("a" * (REACH + 300))


async def test_gate_13_a_slow_search_is_made_in_a_thread_with_the_same_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop has no time for it at all."""
    monkeypatch.setattr("afterword.completions.filter.list_filter.ON_LOOP", Effort(0.0, concurrent=False))
    threads: set[int] = set()
    push = PatternMatcher.push

    def noting(self: PatternMatcher, text: str, effort: Effort = IN_THREAD) -> MatchState:
        state = push(self, text, effort)
        threads.add(threading.get_ident())
        return state

    monkeypatch.setattr(PatternMatcher, "push", noting)
    assert await sent(listed("/b.d/", "word"), ["xa", "b", "cd", "e"]) == ("xa", "line 1")
    assert threads
    assert threading.get_ident() not in threads


def test_the_time_of_other_threads_is_not_counted_against_a_search() -> None:
    done = threading.Event()

    def burn() -> None:
        while not done.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=burn) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        matcher = PatternMatcher([compile_pattern("secret.*key", "", "rule")])
        assert matcher.push("a secret" + "." * 900).hold == 2
    finally:
        done.set()
        for thread in threads:
            thread.join()


def is_pattern(source: str) -> bool:
    try:
        compile_pattern(source, "", "")
    except ValueError:
        return False
    return True


ATOMS = [
    "a",
    "b",
    "[ab]",
    ".",
    r"\b",
    r"\B",
    r"\w",
    "(?=b)",
    "(?!b)",
    "(?<=a)",
    "(?<!a)",
    "$",
    "a|b",
    "(?:a|ab)",
    "^",
    " ",
]
PATTERNS = st.lists(
    st.tuples(st.sampled_from(ATOMS), st.sampled_from(["", "?", "+", "*", "+?", "*?", "{1,3}?", "{2}", "++"])),
    min_size=1,
    max_size=4,
).map(lambda parts: "".join(f"(?:{atom}){times}" for atom, times in parts))
TEXTS = st.text("ab \n", max_size=14)


@given(sources=st.lists(PATTERNS, min_size=1, max_size=3), pieces=pieces_of(TEXTS))
@example(sources=[r"(?:b)(?:\B)(?:a)"], pieces=["b", "a"])
@example(sources=["(?:a)(?:b)?(?:$)"], pieces=["ab\n", "a"])
@example(sources=["(?:a|b)+?(?<=a)"], pieces=["b", "b", "a"])
@example(sources=["(?>a|ab)b(?!a)"], pieces=["ab", "b"])
@example(sources=["(?:ab?)*(?<=a)b"], pieces=["ab", "ab"])
@example(sources=["(?:ab?)*$(?<=a)"], pieces=["ab", "a"])
async def test_however_the_text_is_cut_it_ends_at_the_earliest_match(sources: list[str], pieces: list[str]) -> None:
    # Not while the patterns are drawn: the package's cache asks for random numbers.
    assume(all(is_pattern(source) for source in sources))
    text = "".join(pieces)
    found = [re.search(source, text) for source in sources]
    starts = [match.start() for match in found if match is not None]
    leaves, rule = await sent(listed(*(f"/{source}/" for source in sources)), pieces)
    assert leaves == text[: min(starts, default=None)]
    assert (rule is None) == (not starts)

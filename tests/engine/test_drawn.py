"""What is drawn where texts are banned: the distribution that the definition has, and what a candidate tells of it."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.fakes import generation_request
from tests.text.bans import Definition

from afterword.engine.candidate import Candidate, new_candidates
from afterword.engine.drawn import NO_NUMBERS, take
from afterword.engine.events import Chunk, Event, Finished
from afterword.engine.sampling.random_stream import RandomStream
from afterword.engine.sampling.retries import MOST_TAKEN_BACK, NothingLeft
from afterword.engine.sampling.sampler import Sampler, Workspace
from afterword.fields.bans import TextBans
from afterword.fields.repeats import Repeats
from afterword.fields.sampling import Sampling
from afterword.fields.shaping import Shaping
from afterword.tokens import ByteTokenizer

PIECES = (b"a", b"b", b"ab", b"\xc3", b"\xa9")
N = len(PIECES)
TABLE = np.random.default_rng(7).standard_normal((N + 1, N)).astype(np.float32) * 1.5
"""Logits after each token, and at the beginning in the last row: a model that sees one token."""

BANS = [
    pytest.param(TextBans(("ab",)), 4, id="one"),
    pytest.param(TextBans(("aab", "ba")), 4, id="two"),
    pytest.param(TextBans(caseless=("ABB", "é")), 3, id="caseless"),
    pytest.param(TextBans(("bb",), pattern="a.b|é"), 3, id="expression"),
]
"""With the tokens of a sequence."""


class Pieces(ByteTokenizer):
    def piece(self, token: int) -> bytes:
        return PIECES[token]


def row(sampled: Sequence[int]) -> NDArray[np.float32]:
    logits: NDArray[np.float32] = TABLE[sampled[-1] if sampled else N]
    return logits


Found = dict[tuple[int, ...], float]


def defined(bans: TextBans, length: int) -> Found:
    """How likely each sequence of tokens is by the definition, in float64.

    A token is drawn by the model's probabilities without those that are banned at its place. What completes a banned
    text is taken back from where that begins, and the token there is banned at its place while what is before it stays.
    """

    @cache
    def ends(tokens: tuple[int, ...], n_let_go: int, banned: tuple[frozenset[int], ...]) -> Found:
        if len(tokens) == length:
            return {tokens: 1.0}
        here = banned[len(tokens)]
        weights = np.exp(row(tokens).astype(np.float64)) * [token not in here for token in range(N)]
        if not weights.any():
            return {tokens: 1.0}
        found: Found = {}
        for token in np.flatnonzero(weights).tolist():
            text = Definition(bans, [PIECES[one] for one in tokens], n_let_go)
            n_back = text.push(PIECES[token])
            now = (*tokens, token)
            if n_back == 0:
                held = banned[text.n_let_go : len(now)]
                after = ends(now, text.n_let_go, (*nothing(text.n_let_go), *held, *nothing(length + 1 - len(now))))
            else:
                kept = len(now) - n_back
                there = banned[kept] | {now[kept]}
                after = ends(now[:kept], n_let_go, (*banned[:kept], there, *nothing(length - kept)))
            for sequence, share in after.items():
                found[sequence] = found.get(sequence, 0.0) + share * float(weights[token] / weights.sum())
        return found

    return ends((), 0, nothing(length + 1))


def nothing(n: int) -> tuple[frozenset[int], ...]:
    """What is banned at n places where nothing is."""
    return (frozenset(),) * n


def candidates(bans: TextBans, n: int, length: int, **changes: Any) -> list[Candidate]:
    return new_candidates(generation_request(b"p", max_tokens=length, bans=bans, n_candidates=n, **changes), Pieces())


def drawn(candidate: Candidate, seed: int, length: int) -> tuple[list[int], list[Event]]:
    """The tokens that a candidate comes to, and its events."""
    sampler = Sampler(Sampling(), WORKSPACE, RandomStream(seed, 0, candidate.index))
    sampled: list[int] = []
    events: list[Event] = []
    while not candidate.finished:
        try:
            token = sampler.sample(row(sampled), candidate.n_tokens)
        except NothingLeft:
            return sampled, events + candidate.close("stop")
        last = (*sampled, token)
        events += take(candidate, sampler, sampled, token, (-float(len(last)), (), ()))
    return sampled if candidate.n_tokens < length else list(last), events


WORKSPACE = Workspace(N)


@pytest.mark.parametrize(("bans", "length"), BANS)
def test_sequences_are_as_likely_as_the_definition_says(bans: TextBans, length: int) -> None:
    expected = defined(bans, length)
    assert math.isclose(sum(expected.values()), 1.0)
    n = 3000
    seen = Counter(tuple(drawn(one, 5, length)[0]) for one in candidates(bans, n, length))
    assert set(seen) <= {sequence for sequence, share in expected.items() if share > 0}
    likely = [sequence for sequence, share in expected.items() if share * n >= 5]
    counts = [(seen[sequence], expected[sequence] * n) for sequence in likely]
    rest = (n - sum(count for count, _ in counts), n - sum(mean for _, mean in counts))
    if rest[1] >= 5:
        counts.append(rest)
    statistic = sum((count - mean) ** 2 / mean for count, mean in counts)
    freedom = len(counts) - 1
    # 4.5 standard deviations above the mean of the distribution, by Wilson and Hilferty.
    assert statistic < freedom * (1 - 2 / (9 * freedom) + 4.5 * math.sqrt(2 / (9 * freedom))) ** 3


TEXTS = st.lists(st.text("abé", min_size=1, max_size=3), max_size=3).map(tuple)


@given(TEXTS, TEXTS, st.integers(0, 2**63 - 1))
def test_events_add_up_to_the_tokens_that_stay(exact: tuple[str, ...], caseless: tuple[str, ...], seed: int) -> None:
    bans = TextBans(exact, caseless)
    [candidate] = candidates(bans, 1, 12, logprobs=0)
    sampled, events = drawn(candidate, seed, 12)
    text = b"".join(PIECES[token] for token in sampled).decode("utf-8", "replace")
    chunks = [event for event in events if isinstance(event, Chunk)]
    tokens = [token for chunk in chunks for token in chunk.tokens]
    *others, end = events
    assert isinstance(end, Finished)
    assert not any(isinstance(event, Finished) for event in others)
    shown = "".join(chunk.text for chunk in chunks)
    assert text.startswith(shown)
    assert not any(banned in shown.casefold() for banned in caseless)
    assert not any(banned in shown for banned in exact)
    assert [token.id for token in tokens] == sampled
    assert [token.logprob for token in tokens] == [-float(place) for place in range(1, len(sampled) + 1)]
    assert (end.n_tokens, end.n_scored) == (len(sampled), len(sampled))
    assert end.sum_logprob == sum(token.logprob for token in tokens)
    assert end.reason == ("length" if len(sampled) == 12 else "stop")
    assert [chunk.n_tokens for chunk in chunks] == sorted(chunk.n_tokens for chunk in chunks)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(frequency_penalty=2.0, presence_penalty=-1.0, logit_bias=((1, 0.5),)),
        Sampling(repetition_penalty=1.7),
        Sampling(repetition_penalty=1.7, repeats=Repeats(repetition_penalty_range=3)),
        Sampling(repeats=Repeats(dry_multiplier=2.0, dry_allowed_length=1, dry_sequence_breakers=("ab",))),
        Sampling(shaping=Shaping(mirostat=2, mirostat_tau=1.0, mirostat_eta=0.5)),
        Sampling(shaping=Shaping(adaptive_target=0.3)),
    ],
    ids=["penalties", "repetition", "range", "dry", "mirostat", "adaptive p"],
)
def test_what_a_sampler_has_counted_is_taken_back_with_the_tokens(sampling: Sampling) -> None:
    bans, n_returns = TextBans(("abab", "bba")), 0
    for seed in range(40):
        [candidate] = candidates(bans, 1, 20)
        sampler = Sampler(sampling, WORKSPACE, RandomStream(seed, 0, 0), piece=Pieces().piece)
        sampled, states = list[int](), list[Any]()
        while not candidate.finished:
            states[len(sampled) :] = [counted(sampler, sampled)]
            n_before = candidate.n_tokens
            take(candidate, sampler, sampled, sampler.sample(row(sampled), n_before), NO_NUMBERS)
            if candidate.n_tokens <= n_before and not candidate.finished:
                n_returns += 1
                assert counted(sampler, sampled) == states[len(sampled)]
    assert n_returns > 40


def counted(sampler: Sampler, sampled: list[int]) -> tuple[list[float], list[float]]:
    """What a sampler does to the logits, and what its chain remembers."""
    scores = sampler._adjustment.apply(row(sampled), np.empty(N, np.float32), np.empty(N, np.float32))
    remembering = [] if sampler._chain is None else sampler._chain._remembering.values()
    return scores.tolist(), [value for one in remembering for value in vars(one).values() if isinstance(value, float)]


def test_no_candidate_is_taken_back_for_ever() -> None:
    sampler = Sampler(Sampling(), WORKSPACE, RandomStream(1, 0, 0))
    for position in range(MOST_TAKEN_BACK + 1):
        sampler.sample(TABLE[0], position)
        sampler.take_back(position, 0, 1)
    with pytest.raises(NothingLeft):
        sampler.sample(TABLE[0], position)

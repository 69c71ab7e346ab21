"""Random requests for a model whose tokens are bytes: well-formed ones that use every field, and ones that are not.

Texts come from few letters, so that stops are met, characters are cut in two and tokens repeat.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Json = dict[str, Any]

N_VOCAB = 258

LETTERS = st.sampled_from(["a", "b", " ", "\n", "é", "€", "🙂", "\u2028", "\x85", '"', "\ufffd"])
PIECES = st.one_of(LETTERS, st.sampled_from(["<|endoftext|>", "<|control|>"]))
TEXT = st.lists(PIECES, max_size=12).map("".join)
IDS = st.lists(
    st.one_of(st.sampled_from([97, 98, 226, 130, 172, 240, 159, 153, 237, 160, 256, 257]), st.integers(0, 257)),
    max_size=12,
)
PROMPTS = st.one_of(TEXT, IDS, st.lists(TEXT, max_size=3), st.lists(IDS, min_size=1, max_size=3), st.none())
STOPS = st.one_of(st.none(), TEXT, st.lists(st.lists(PIECES, max_size=3).map("".join), max_size=5))
TOKEN = st.integers(0, N_VOCAB - 1)
# No bias bans, as a request may not ban every token.
BIASES = st.dictionaries(TOKEN.map(str), st.floats(-99, 99), max_size=4)
FLAG = st.one_of(st.none(), st.booleans())


def or_null(values: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """`values`, or the null that stands for none."""
    return st.one_of(st.none(), values)


FIELDS: dict[str, SearchStrategy[Any]] = {
    "model": or_null(st.sampled_from(["echo", "default", "", " "])),
    "prompt": PROMPTS,
    "echo": FLAG,
    "frequency_penalty": or_null(st.floats(-2, 2)),
    "logit_bias": or_null(BIASES),
    "logprobs": or_null(st.integers(0, 100)),
    "max_tokens": or_null(st.integers(0, 12)),
    "presence_penalty": or_null(st.floats(-2, 2)),
    "stop": STOPS,
    "temperature": or_null(st.floats(0, 2)),
    "top_p": or_null(st.floats(0, 1)),
    "user": or_null(TEXT),
    "top_k": or_null(st.integers(-1, 300)),
    "min_p": or_null(st.floats(0, 1)),
    "repetition_penalty": or_null(st.floats(0, 1e300, exclude_min=True)),
    "ignore_eos": FLAG,
    "min_tokens": or_null(st.integers(0, 20)),
    "stop_token_ids": or_null(st.lists(TOKEN, max_size=3)),
    "add_special_tokens": FLAG,
    "skip_special_tokens": FLAG,
    "include_stop_str_in_output": FLAG,
    "truncate_prompt_tokens": or_null(st.one_of(st.just(-1), st.integers(1, 8))),
    "prompt_logprobs": or_null(st.integers(0, 100)),
    "return_token_ids": FLAG,
}


@st.composite
def good_bodies(draw: st.DrawFn) -> Json:
    """A request that must be answered, with a seed so that asking twice is asking the same."""
    body: Json = draw(st.fixed_dictionaries({"seed": st.integers(-(2**63), 2**63 - 1)}, optional=FIELDS))
    n = draw(or_null(st.integers(1, 3)))
    best_of = draw(or_null(st.integers(1 if n is None else n, 4)))
    return body | {"n": n, "best_of": best_of}


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=8,
)
"""Any JSON."""

_NUMBERS = (-1, 0, 3, 20, 21, 100, 101, 128, 129, 2**63, -(2**63) - 1, -2.5, 2.5, 1e308)
_ARRAYS: tuple[list[Any], ...] = ([258], [257, 258], [[97], [258]], ["a", 97], [[]])
_BIASES = ({"258": 1}, {"97": 101}, {"-1": 0}, {"01": 0}, {"9" * 19: 0}, dict.fromkeys(map(str, range(N_VOCAB)), -100))

EDGES = st.sampled_from([*_NUMBERS, *_ARRAYS, *_BIASES])
"""Just within and just outside what fields take."""

CHANGES = st.one_of(EDGES, JUNK)

OTHER_FIELDS = ("n", "best_of", "seed", "suffix", "stream", "stream_options", "grammar", "messages", "unheard_of")


@st.composite
def any_bodies(draw: st.DrawFn) -> Json:
    """A good request of which some fields have been replaced by anything."""
    body = draw(good_bodies())
    return body | draw(st.dictionaries(st.sampled_from([*FIELDS, *OTHER_FIELDS]), CHANGES, min_size=1, max_size=3))

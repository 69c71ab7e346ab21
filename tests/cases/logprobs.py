"""Log-probabilities: names, offsets, what is listed, and values no strict JSON reader stumbles over."""

from tests.cases.case import (
    FRANCE,
    FRANCE_IDS,
    HELLO,
    SMILE_HEAD,
    THE,
    TURN_END,
    Alike,
    Answer,
    Case,
    Json,
    Refusal,
    forced,
)


def _names_do_not_collide(body: Json) -> None:
    [top] = body["choices"][0]["logprobs"]["top_logprobs"]
    [chosen] = body["choices"][0]["logprobs"]["tokens"]
    [own] = body["choices"][0]["logprobs"]["token_logprobs"]
    # Greedy: the chosen one is the likeliest, and its name is its own.
    assert top[chosen] == own == max(top.values())
    assert len(top) == 5
    assert all(name.startswith("bytes:") for name in top)


def _one_or_two_keys(body: Json) -> None:
    logprobs = body["choices"][0]["logprobs"]
    sizes = set()
    for token, own, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True):
        assert top[token] == own
        assert len(top) == (1 if own == max(top.values()) else 2)
        sizes.add(len(top))
    assert 2 in sizes, "at this temperature some token is not the likeliest"


def _scored_like_a_harness(body: Json) -> None:
    first, second = (choice["logprobs"] for choice in body["choices"])
    assert [len(first["tokens"]), len(second["tokens"])] == [7, 5]
    for logprobs in (first, second):
        assert logprobs["token_logprobs"][0] is None
        assert logprobs["top_logprobs"][0] is None
        values = logprobs["token_logprobs"][1:]
        assert len(set(values)) == len(values), "one row for all"
        for value, top in zip(values, logprobs["top_logprobs"][1:], strict=True):
            assert (value == max(top.values())) == (len(top) == 1)


def _five_or_six_keys(body: Json) -> None:
    for top in body["choices"][0]["logprobs"]["top_logprobs"]:
        assert 5 <= len(top) <= 6


def _raw_values(body: Json) -> None:
    """What the model finds likely, not what the bias makes of it: another token is far ahead of the forced one."""
    logprobs = body["choices"][0]["logprobs"]
    assert logprobs["tokens"][0] == " the"
    assert logprobs["token_logprobs"][0] < max(logprobs["top_logprobs"][0].values()) - 1


def _an_end_token(body: Json) -> None:
    logprobs = body["choices"][0]["logprobs"]
    assert [len(values) for values in logprobs.values()] == [1, 1, 1, 1]


CASES = [
    Case(
        "logp-01 tokens that are no characters have names of their own",
        {"prompt": [HELLO, SMILE_HEAD], "max_tokens": 1, "temperature": 0, "logprobs": 5},
        Answer(check=_names_do_not_collide),
    ),
    Case(
        "logp-02 a sampled token that is not among the likeliest",
        {"prompt": "Once upon a time", "max_tokens": 32, "temperature": 2, "seed": 7, "logprobs": 1},
        Answer(check=_one_or_two_keys),
    ),
    Case(
        "logp-03 none but the sampled token",
        {"prompt": "test", "max_tokens": 2, "logprobs": 0, **forced(THE)},
        Answer(
            tokens=[" the", " the"], check=lambda body: _equal(body["choices"][0]["logprobs"]["top_logprobs"], None)
        ),
    ),
    *(
        Case(f"logp-04 {value!r} is no number of likeliest tokens", {"prompt": "A", "logprobs": value}, expect)
        for value, expect in (
            (True, Refusal(param="logprobs", code="invalid_type")),
            (False, Refusal(param="logprobs", code="invalid_type")),
            (-1, Refusal(param="logprobs", code="integer_below_min_value")),
            (101, Refusal(param="logprobs", code="integer_above_max_value", words=("100", "101"))),
            (100_000, Refusal(param="logprobs", code="integer_above_max_value")),
            (10**30, Refusal(param="logprobs")),
            (1.5, Refusal(param="logprobs", code="invalid_type")),
            (5.0, Refusal(param="logprobs", code="invalid_type")),
            ("5", Refusal(param="logprobs", code="invalid_type")),
            ([5], Refusal(param="logprobs", code="invalid_type")),
        )
    ),
    Case(
        "logp-04 more than the documented five",
        {"prompt": "A", "max_tokens": 1, "logprobs": 100, "temperature": 0},
        Answer(check=lambda body: _equal(len(body["choices"][0]["logprobs"]["top_logprobs"][0]) >= 90, True)),
    ),
    Case(
        "logp-05 two token arrays scored as an evaluation harness does",
        {
            "prompt": [[504, 3575, 282, 4649, 314, 7042], [6403, 1980, 253, 655]],
            "echo": True,
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": 1,
            "seed": 1234,
        },
        Answer(finish="length", prompt_tokens=10, completion_tokens=2, check=_scored_like_a_harness),
    ),
    Case(
        "logp-06 a prompt of one token has nothing to score",
        {"prompt": "A", "echo": True, "max_tokens": 0, "logprobs": 3},
        Answer(["A"], "length", 1, 0, tokens=["A"], offsets=[0]),
    ),
    Case(
        "logp-07 offsets count from the start of the prompt",
        {"prompt": "test", "max_tokens": 2, "logprobs": 1, **forced(THE)},
        Answer([" the the"], "length", 1, 2, offsets=[4, 8]),
    ),
    Case(
        "logp-07 and with echo begin with it",
        {"prompt": "test", "max_tokens": 2, "logprobs": 1, "echo": True, **forced(THE)},
        Answer(["test the the"], "length", 1, 2, tokens=["test", " the", " the"], offsets=[0, 4, 8]),
    ),
    Case(
        "logp-08 a banned token has a finite value",
        {"prompt": "Once upon a time", "max_tokens": 3, "logprobs": 5, "logit_bias": {"504": -100, "28": -100}},
        Answer(check=_five_or_six_keys),
    ),
    Case(
        "logp-08 so has all that a forced token pushes away",
        {"prompt": "Once upon a time", "max_tokens": 3, "logprobs": 5, "logit_bias": {"260": 100}, "top_p": 0.0001},
        Answer([" the the the"], check=_raw_values),
    ),
    Case(
        "logp-08 and all that a small nucleus cuts off",
        {"prompt": "Once upon a time", "max_tokens": 3, "logprobs": 5, "top_p": 0.0001, "temperature": 1},
        Answer(check=_five_or_six_keys),
    ),
    Case(
        "logp-08 and all that min_p and top_k cut off",
        {"prompt": "Once upon a time", "max_tokens": 3, "logprobs": 5, "min_p": 0.9, "top_k": 1},
        Answer(check=_five_or_six_keys),
    ),
    Case(
        "logp-11 an end of text as the first token is listed",
        {"prompt": "A", "max_tokens": 4, "logprobs": 2, **forced(TURN_END)},
        Answer([""], "stop", 1, 0, tokens=["<|im_end|>"], offsets=[1], check=_an_end_token),
    ),
    Case(
        "logp-11 with echo there is one entry behind the prompt's",
        {"prompt": FRANCE, "max_tokens": 1, "logprobs": 2, "echo": True, **forced(TURN_END)},
        Answer([FRANCE], "stop", 5, 0, offsets=[0, 3, 11, 14, 21, 24]),
    ),
    Case(
        "log-probabilities of the prompt beside the choice",
        {"prompt": FRANCE, "max_tokens": 1, "prompt_logprobs": 2, **forced(THE)},
        Answer([" the"], check=lambda body: _equal(len(body["choices"][0]["prompt_logprobs"]), 5)),
    ),
    Case(
        "a null for the first token only",
        {"prompt": FRANCE_IDS, "max_tokens": 0, "echo": True, "logprobs": 1},
        Answer(
            [FRANCE],
            "length",
            5,
            0,
            tokens=["The", " capital", " of", " France", " is"],
            check=lambda body: _equal(body["choices"][0]["logprobs"]["token_logprobs"].count(None), 1),
        ),
    ),
]

ALIKE: list[Alike] = [
    Alike(
        "to list likely tokens does not change the sampled ones",
        tuple(
            {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 1.2} | more
            for more in ({}, {"logprobs": 0}, {"logprobs": 7}, {"prompt_logprobs": 1})
        ),
        4,
    )
]


def _equal(found: object, expected: object) -> None:
    assert found == expected

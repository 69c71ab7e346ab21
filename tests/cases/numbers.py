"""`n`, `best_of`, usage, `max_tokens`, null and unknown fields."""

from tests.cases.case import FRANCE, NEVER_ENDS, THE, Alike, Answer, Body, Case, Json, Refusal, forced

NULLS: Body = dict.fromkeys(
    [
        "best_of",
        "echo",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_tokens",
        "n",
        "presence_penalty",
        "stop",
        "stream",
        "stream_options",
        "suffix",
        "temperature",
        "top_p",
        "user",
        "model",
        "top_k",
        "min_p",
        "min_tokens",
        "response_format",
        "grammar",
    ]
)

FOREIGN: Body = {
    "top_k": 40,
    "repeat_penalty": 1.1,
    "min_p": 0.05,
    "max_completion_tokens": 5,
    "metadata": {"a": "b"},
    "store": False,
    "cache_prompt": True,
    "__proto__": {},
    "Prompt": "x",
    "": 1,
    "n_predict": 100,
}


def _in_falling_order(body: Json) -> None:
    means = [
        sum(values) / len(values) for values in (choice["logprobs"]["token_logprobs"] for choice in body["choices"])
    ]
    assert means == sorted(means, reverse=True)
    assert len(set(means)) == 2


def _all_the_same(body: Json) -> None:
    assert len({choice["text"] for choice in body["choices"]}) == 1


CASES = [
    *(
        Case(f"n-01 {name} of {value!r}", {"prompt": "A", "max_tokens": 1, name: value}, Refusal(param=name, code=code))
        for name, value, code in (
            ("n", 0, "integer_below_min_value"),
            ("n", -1, "integer_below_min_value"),
            ("n", 1.5, "invalid_type"),
            ("n", 1.0, "invalid_type"),
            ("n", "2", "invalid_type"),
            ("n", True, "invalid_type"),
            ("n", [1], "invalid_type"),
            ("n", 129, "integer_above_max_value"),
            ("n", 10**9, "integer_above_max_value"),
            ("n", 10**40, None),
            ("best_of", 0, "integer_below_min_value"),
            ("best_of", 21, "integer_above_max_value"),
            ("best_of", True, "invalid_type"),
            ("seed", 2**63, "integer_above_max_value"),
            ("seed", 1.5, "invalid_type"),
            ("seed", True, "invalid_type"),
            ("seed", "1", "invalid_type"),
            ("echo", 1, "invalid_type"),
            ("echo", "true", "invalid_type"),
            ("user", 5, "invalid_type"),
            ("model", 5, "invalid_type"),
        )
    ),
    Case("n-02 both too large", {"prompt": "A", "n": 129, "best_of": 129}, Refusal(param="best_of")),
    Case("n-02 a hundred thousand prompts", {"prompt": ["a"] * 100_000}, Refusal(param="prompt")),
    Case("n-02 two thousand prompts with many choices", {"prompt": ["a"] * 2000, "n": 128}, Refusal(param="prompt")),
    Case("n-02 a hundred thousand empty arrays", {"prompt": [[]] * 100_000}, Refusal(param="prompt")),
    Case("n-03 fewer candidates than choices", {"prompt": "A", "n": 3, "best_of": 2}, Refusal(param="best_of")),
    Case(
        "n-03 more choices than slots",
        {"prompt": "A", "n": 20, "max_tokens": 1, **forced(THE)},
        Answer([" the"] * 20, "length", 1, 20),
    ),
    Case(
        "n-04 the best come first and all are paid for",
        {
            "prompt": FRANCE,
            "n": 2,
            "best_of": 4,
            "max_tokens": 8,
            "temperature": 1,
            "seed": 3,
            "logprobs": 0,
            **NEVER_ENDS,
        },
        Answer(None, "length", 5, 32, check=_in_falling_order),
    ),
    Case(
        "n-04 greedy choices are all the same",
        {"prompt": FRANCE, "n": 3, "max_tokens": 8, "temperature": 0, "logprobs": 0, **NEVER_ENDS},
        Answer(None, "length", 5, 24, check=_all_the_same),
    ),
    *(
        Case(
            f"usage-01 {more}",
            {"prompt": "Once upon a time", **forced(THE)} | more,
            Answer(None, None, n_prompt, n_completion),
        )
        for more, n_prompt, n_completion in (
            ({"max_tokens": 8}, 4, 8),
            ({"max_tokens": 1}, 4, 1),
            ({"max_tokens": 8, "stop": ["e th"]}, 4, 2),
            ({"prompt": ["Hello", "Once upon a time"], "max_tokens": 8}, 5, 16),
            ({"prompt": ["Hello", "Once upon a time"], "max_tokens": 3, "n": 2}, 5, 12),
        )
    ),
    Case("type-01 nulls are not given", NULLS | {"prompt": FRANCE} | {"max_tokens": None}, Answer(None, None, 5)),
    Case("type-02 fields of other servers", FOREIGN | {"prompt": "A", "max_tokens": 1}, Answer(None, None, 1, 1)),
    Case(
        "type-03 an unknown model",
        {"prompt": "A", "model": "no-such-model"},
        Refusal(404, "model", "model_not_found", ("no-such-model",)),
    ),
    Case(
        "type-03 a model's name in another case",
        {"prompt": "A", "model": "DEFAULT"},
        Refusal(404, "model", "model_not_found"),
    ),
    *(
        Case(
            f"type-03 {model!r} is the default model",
            {"prompt": "A", "model": model, "max_tokens": 1},
            Answer(None, None, 1),
        )
        for model in ("", "  ", None)
    ),
    *(
        Case(
            f"type-05 {name} is not supported",
            {"prompt": "A", name: value},
            Refusal(param=name, code="unsupported_parameter", words=(name,)),
        )
        for name, value in (
            ("min_length", 2),
            ("penalty_alpha", 0.6),
            ("messages", [{"role": "user", "content": "x"}]),
        )
    ),
]

ALIKE: list[Alike] = [
    Alike("type-01 nulls and nothing", ({"prompt": FRANCE}, NULLS | {"prompt": FRANCE}), 5),
    Alike("seed-03 a zero is a seed", ({"prompt": FRANCE, "seed": 0}, {"prompt": FRANCE, "seed": 0, "n": 1})),
    Alike(
        "seed-03 a negative number is one", ({"prompt": FRANCE, "seed": -(2**63)}, {"prompt": FRANCE, "seed": -(2**63)})
    ),
]

"""The prompt in front of the text: as it was sent, once for each choice, scored without generating."""

from tests.cases.case import END_OF_TEXT, FRANCE, HELLO, THE, Alike, Answer, Case, Json, forced


def _nothing_in_front(body: Json) -> None:
    assert body["choices"][0]["logprobs"]["token_logprobs"][0] is None


CASES = [
    Case(
        "echo-01 scoring generates nothing",
        {"prompt": FRANCE, "max_tokens": 0, "echo": True, "logprobs": 1, "temperature": 1},
        Answer([FRANCE], "length", 5, 0, offsets=[0, 3, 11, 14, 21]),
    ),
    Case("echo-01 without scores", {"prompt": FRANCE, "max_tokens": 0, "echo": True}, Answer([FRANCE], "length", 5, 0)),
    Case("echo-01 without echo", {"prompt": FRANCE, "max_tokens": 0}, Answer([""], "length", 5, 0)),
    Case(
        "echo-01 without echo, with log-probabilities of nothing",
        {"prompt": FRANCE, "max_tokens": 0, "logprobs": 3},
        Answer([""], "length", 5, 0, tokens=[], offsets=[]),
    ),
    Case(
        "echo-01 several choices of nothing",
        {"prompt": ["Hello", FRANCE], "max_tokens": 0, "echo": True, "n": 2, "logprobs": 0},
        Answer(["Hello", "Hello", FRANCE, FRANCE], "length", 6, 0),
    ),
    Case(
        "echo-01 nothing for nothing",
        {"prompt": "", "max_tokens": 0, "echo": True, "logprobs": 1},
        Answer([""], "length", 1, 0, tokens=["<|endoftext|>"], offsets=[0]),
    ),
    Case(
        "echo-02 each choice has its own prompt in front",
        {"prompt": ["Hello", FRANCE], "n": 2, "echo": True, "max_tokens": 1, **forced(THE)},
        Answer(["Hello the", "Hello the", f"{FRANCE} the", f"{FRANCE} the"], "length", 6, 4),
    ),
    Case(
        "echo-02 also the winners of more",
        {"prompt": ["Hello", FRANCE], "n": 1, "best_of": 3, "echo": True, "max_tokens": 1, **forced(THE)},
        Answer(["Hello the", f"{FRANCE} the"], "length", 6, 6),
    ),
    Case(
        "echo-03 the end of text at once leaves the prompt",
        {"prompt": "Hello", "echo": True, "max_tokens": 4, **forced(END_OF_TEXT)},
        Answer(["Hello"], "stop", 1, 0),
    ),
    Case(
        "echo-04 nothing is put in front of a text",
        {"prompt": "Hello", "echo": True, "max_tokens": 1, "logprobs": 1, **forced(THE)},
        Answer(["Hello the"], "length", 1, 1, tokens=["Hello", " the"], offsets=[0, 5], check=_nothing_in_front),
    ),
    Case(
        "echo-04 nor of a token array",
        {"prompt": [HELLO], "echo": True, "max_tokens": 1, "logprobs": 1, **forced(THE)},
        Answer(["Hello the"], "length", 1, 1, tokens=["Hello", " the"], offsets=[0, 5], check=_nothing_in_front),
    ),
    Case(
        "echo-04 a separator that was given is used once",
        {"prompt": [END_OF_TEXT, HELLO], "echo": True, "max_tokens": 1, "logprobs": 1, **forced(THE)},
        Answer(["Hello the"], "length", 2, 1, tokens=["<|endoftext|>", "Hello", " the"], offsets=[0, 0, 5]),
    ),
    Case(
        "a cut prompt is echoed as it was sent",
        {"prompt": FRANCE, "echo": True, "max_tokens": 1, "truncate_prompt_tokens": 2, "logprobs": 0, **forced(THE)},
        Answer([f"{FRANCE} the"], "length", 2, 1, tokens=[" France", " is", " the"], offsets=[14, 21, 24]),
    ),
]

ALIKE: list[Alike] = []

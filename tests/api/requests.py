"""Requests that the tests of several rules go through: each field that an answer depends on, alone and together."""

from typing import Any

import pytest

GREEDY = {"prompt": "hello ", "max_tokens": 4, "temperature": 0}

REQUESTS: list[Any] = [
    pytest.param(GREEDY, id="greedy"),
    pytest.param({"prompt": "hello", "seed": 1}, id="sampled"),
    pytest.param({"prompt": "hello", "seed": 1, "logprobs": 0}, id="logprobs 0"),
    pytest.param({"prompt": "hello", "seed": 1, "logprobs": 3}, id="logprobs 3"),
    pytest.param({"prompt": "hello", "seed": 1, "echo": True}, id="echo"),
    pytest.param({"prompt": "hello", "seed": 1, "echo": True, "logprobs": 2}, id="echo with logprobs"),
    pytest.param({"prompt": "hello", "echo": True, "logprobs": 2, "max_tokens": 0}, id="scoring"),
    pytest.param({"prompt": "hello", "max_tokens": 0}, id="nothing"),
    pytest.param({"prompt": ["hello", "world"], "n": 3, "seed": 5, "logprobs": 1}, id="batch with n"),
    pytest.param({"prompt": [[104, 105], [195]], "seed": 5, "logprobs": 1, "echo": True}, id="token arrays"),
    pytest.param({"prompt": "héllo\u2028", "temperature": 0, "logprobs": 2, "max_tokens": 9}, id="split characters"),
    pytest.param({"prompt": "hello ", "temperature": 0, "stop": ["lo"], "logprobs": 1}, id="stop"),
    pytest.param({"prompt": "hello ", "temperature": 0, "stop": "o h", "include_stop_str_in_output": True}, id="in"),
    pytest.param({"prompt": "hi", "temperature": 0, "logit_bias": {"256": 100}, "logprobs": 1}, id="end of text"),
    pytest.param({"prompt": "hello", "seed": 1, "prompt_logprobs": 2}, id="prompt_logprobs"),
    pytest.param({"prompt": "hello", "seed": 1, "return_token_ids": True}, id="token ids"),
    pytest.param({"prompt": "hello", "echo": True, "max_tokens": 0, "return_token_ids": True}, id="ids of nothing"),
    pytest.param({"prompt": [[104, 105], [195]], "n": 2, "return_token_ids": True, "echo": True}, id="ids of a batch"),
    pytest.param({}, id="no prompt"),
]

EVERY_FIELD: dict[str, Any] = {
    "return_tokens_as_token_ids": True,
    "return_token_ids": True,
    "prompt": ["hello ", "world "],
    "best_of": 2,
    "echo": True,
    "frequency_penalty": 0.5,
    "logit_bias": {"104": 2, "105": -100},
    "logprobs": 2,
    "max_tokens": 12,
    "n": 2,
    "presence_penalty": -0.5,
    "seed": -7,
    "stop": ["zz", "d w"],
    "suffix": "",
    "temperature": 1.5,
    "top_p": 0.9,
    "user": "u-1",
    "top_k": 50,
    "min_p": 0.001,
    "repetition_penalty": 1.1,
    "ignore_eos": True,
    "min_tokens": 2,
    "stop_token_ids": [9],
    "add_special_tokens": False,
    "skip_special_tokens": False,
    "include_stop_str_in_output": True,
    "truncate_prompt_tokens": 5,
    "prompt_logprobs": 1,
}

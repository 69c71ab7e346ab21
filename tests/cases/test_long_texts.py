"""Very long texts without a break: nothing is quadratic, nothing overflows, and others are served meanwhile."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from tests.cases.conftest import CONTEXT, Running
from tests.cases.wellformed import check_error

pytestmark = pytest.mark.model

RUNS = [
    pytest.param("a" * 30_000, 7500, id="7500 tokens of four letters"),
    pytest.param(" " * 400_000, None, id="spaces"),
    pytest.param("=" * 400_000, None, id="signs"),
    pytest.param("\u4f60" * 100_000, None, id="characters of three bytes"),
    pytest.param("\U0001f642" * 50_000, 100_000, id="characters of two tokens"),
    pytest.param("1" * 100_000, 100_000, id="digits"),
    pytest.param("<|im_end|>" * 20_000, 20_000, id="control text"),
    pytest.param("\x04" * 100_000 + "a" * 9000, 2250, id="bytes without a token"),
]


@pytest.mark.parametrize(("prompt", "n_tokens"), RUNS)
def test_prompt_07_others_are_served_while_a_long_text_is_read(
    server: Running, prompt: str, n_tokens: int | None
) -> None:
    with ThreadPoolExecutor(1) as pool, httpx.Client(base_url=server.url, timeout=20) as other:
        asked = pool.submit(server.post, {"prompt": prompt, "max_tokens": 1})
        assert other.get("/health").status_code == 200
        while not asked.done():
            assert other.get("/health").status_code == 200
    error = check_error(asked.result(), 400)
    assert error["code"] == "context_length_exceeded"
    assert f"maximum context length is {CONTEXT} tokens" in error["message"]
    if n_tokens is not None:
        assert f"{n_tokens} in the prompt" in error["message"]


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param("a" * 8000, id="one long stop"),
        pytest.param(["=" * 990 + str(i) for i in range(8)], id="eight that begin alike"),
    ],
)
def test_stop_05_a_very_long_stop_is_only_one_that_never_comes(server: Running, stop: object) -> None:
    body = {"prompt": "A", "max_tokens": 2, "temperature": 0, "logit_bias": {"260": 100}, "stop": stop}
    assert server.post(body).json()["choices"][0]["text"] == " the the"

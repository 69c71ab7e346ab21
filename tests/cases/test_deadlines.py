"""A deadline in front of a real model: what runs, is being read or waits is ended, and the model goes on."""

import pytest
from tests.api.served import is_idle, wait_until
from tests.cases.case import NEVER_ENDS, Body
from tests.cases.conftest import Running
from tests.cases.wellformed import body_of, folded

pytestmark = pytest.mark.model

LONG: Body = {"prompt": "Once upon a time, in a house " * 8, "max_tokens": 500, "n": 40, "seed": 3, **NEVER_ENDS}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("seconds", ["0.4", "0.7", "1.5"])
def test_more_choices_than_run_at_once_all_end_with_what_there_is(server: Running, stream: bool, seconds: str) -> None:
    answer = server.http.post("/v1/completions", json=LONG | {"stream": stream}, headers={"x-request-timeout": seconds})
    if answer.status_code == 504:
        assert answer.json()["error"]["code"] == "request_timed_out"
    else:
        body = folded(answer) if stream else body_of(answer)
        assert [choice["index"] for choice in body["choices"]] == list(range(40))
        assert {choice["finish_reason"] for choice in body["choices"]} == {"length"}
        assert any(choice["text"] != "" for choice in body["choices"])
    wait_until(server.url, lambda: is_idle(server.engine))
    assert body_of(server.post({"prompt": "A", "max_tokens": 3}))["usage"]["completion_tokens"] <= 3

"""The server against its own description: requests from the OpenAPI document, right and wrong, over a real port."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from tests.api.served import app_of
from tests.live import run_server

N_CASES = 25
"""Random requests for each route, beside those that schemathesis derives from every field's limits."""

# The servers of the description are relative to where it was found, which is nowhere here.
schema = schemathesis.openapi.from_dict({**app_of().openapi(), "servers": [{"url": "/"}]})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with run_server(app_of()) as running:
        yield running


@schema.parametrize()
@settings(max_examples=N_CASES, suppress_health_check=[HealthCheck.too_slow])
def test_every_answer_is_as_described(case: schemathesis.Case[Any], url: str) -> None:
    # A schema cannot say all: 1.0 is an integer to it, and it knows neither vocabulary nor context.
    case.call_and_validate(base_url=url, excluded_checks=[positive_data_acceptance])


@pytest.mark.parametrize("more", [{}, {"logprobs": 2, "echo": True}, {"stream_options": {"include_usage": True}}])
@pytest.mark.parametrize("path", ["/v1/completions", "/v5/completions"])
def test_a_stream_is_as_described(url: str, path: str, more: dict[str, Any]) -> None:
    operation = schema[path]["POST"]
    body = {"prompt": "hello ", "max_tokens": 4, "stream": True, **more}
    operation.Case(body=body, media_type="application/json").call_and_validate(base_url=url)


def test_the_description_is_valid_openapi() -> None:
    schema.validate()

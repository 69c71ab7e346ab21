"""scale-gp-beta, the SDK of the Scale GP dialect: against models that repeat their prompts, then a real one."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.api.folding import fold
from tests.api.served import CREATED, BreakingEngine, is_idle, wait_until
from tests.clients.conftest import OpenClient
from tests.clients.reference import Reference
from tests.live import run_server

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.base import Engine
from afterword.engine.echo import EchoEngine
from afterword.errors import EngineFailed, Overloaded
from afterword.gateway.opening import single_key_gateway
from afterword.registry import Registry, ServedModel
from afterword.text.infill_template import parse_template

KEY = "k-1"
PROMPT = "The café on the corner sells"
ORDER = ["local/echo", "openai/davinci", "local/full", "local/broken", "local/slow"]


class Recorder:
    """An application that remembers the requests it passes on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.requests: list[tuple[str, dict[bytes, bytes]]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Remember, then pass on."""
        if scope["type"] == "http":
            self.requests.append((scope["raw_path"].decode(), dict(scope["headers"])))
        await self._app(scope, receive, send)


def application(slow: Engine) -> Recorder:
    failure, full = EngineFailed("The model broke."), Overloaded("The queue is full.", retry_after=1)
    davinci = ServedModel(
        "davinci",
        EchoEngine(),
        CREATED + 60,
        ("text-davinci-003",),
        vendor="openai",
        infill_template=parse_template("{prefix}|{suffix}"),
    )
    models = [
        ServedModel("echo", EchoEngine(), CREATED, aliases=("default",)),
        davinci,
        ServedModel("full", BreakingEngine(full, 0), CREATED + 10),
        ServedModel("broken", BreakingEngine(failure, 2, state="failed"), CREATED + 20),
        ServedModel("slow", slow, CREATED - 60),
    ]
    return Recorder(create_app(Registry(models), ServerConfig(), single_key_gateway(KEY)))


@pytest.fixture(scope="module")
def slow() -> Engine:
    """No answer of 8000 tokens ends within a test."""
    return EchoEngine(token_delay=0.02)


@pytest.fixture(scope="module")
def app(slow: Engine) -> Recorder:
    return application(slow)


@pytest.fixture(scope="module")
def url(app: Recorder) -> Iterator[str]:
    with run_server(app) as running:
        yield running


@pytest.fixture(scope="module")
def seen(open_client: OpenClient, url: str) -> Any:
    """What the SDK understood of the server's answers."""
    return open_client("scale-gp").run("scale_gp", url, KEY)


def of_the_other_dialect(url: str, asked: dict[str, Any]) -> Any:
    answer = httpx.post(f"{url}/v1/completions", json=asked, headers={"x-api-key": KEY})
    return {"choices": answer.json()["choices"], "usage": answer.json()["usage"]}


def test_a_completion_with_every_field_is_the_one_of_the_other_dialect(url: str, seen: Any) -> None:
    expected = of_the_other_dialect(url, seen["asked"])
    for answer in (seen["whole"], seen["awaited"]["whole"]):
        assert (answer["object"], answer["model"]) == ("text_completion", "openai/davinci")
        assert {name: answer[name] for name in expected} == expected
    assert [choice["text"][:6] for choice in expected["choices"]] == ["hello ", "hello ", "world ", "world "]
    assert len({choice["text"] for choice in expected["choices"]}) == 4


def test_the_chunks_add_up_to_the_whole_answer(url: str, seen: Any) -> None:
    expected = of_the_other_dialect(url, seen["asked"] | {"best_of": 2})
    for chunks in (seen["chunks"], seen["awaited"]["chunks"]):
        assert fold(chunks) == expected
        assert {chunk["model"] for chunk in chunks} == {"openai/davinci"}


def test_an_end_without_a_name_is_an_error_to_the_sdk(seen: Any) -> None:
    assert seen["end of the other dialect"] == "JSONDecodeError"


def test_a_suffix_is_filled_in_before(seen: Any) -> None:
    assert seen["infill"]["choices"][0]["text"] == "ab|c"


def test_answers_pass_the_sdk_s_own_validation(seen: Any) -> None:
    assert seen["strict"]["choices"] == [{"text": "hi", "index": 0, "logprobs": None, "finish_reason": "length"}]


def test_models_answer_to_full_names_and_aliases_and_a_blank_one_is_the_default(seen: Any) -> None:
    assert seen["names"] == ["openai/davinci", "local/echo", "local/echo", "openai/davinci", "local/echo"]


def test_each_request_brings_key_account_and_escaped_model(app: Recorder, seen: Any) -> None:
    assert seen is not None
    keys = {headers.get(b"x-api-key") for _, headers in app.requests if b"x-selected-account-id" in headers}
    assert keys == {b"k-1", b"wrong"}
    paths = {path for path, headers in app.requests if headers.get(b"x-selected-account-id") == b"acc-1"}
    assert {"/v5/completions", "/v5/models", "/v5/models/openai%2Fdavinci"} <= paths


def test_an_error_within_a_stream_is_its_last_chunk(seen: Any) -> None:
    *chunks, last = seen["broken"]
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["h"]
    message = "The server failed while it worked on this request."
    assert last == {"error": {"message": message, "type": "server_error", "param": None, "code": None}}


def test_models_are_listed_in_their_order_whatever_the_size_of_a_page(seen: Any) -> None:
    assert seen["models"] == seen["awaited"]["models"] == ORDER
    assert seen["pages"] == [ORDER[:2], ORDER[2:4], ORDER[4:]]
    assert seen["backwards"] == [["local/full"], ["openai/davinci"], ["local/echo"]]


def test_models_are_filtered_and_sorted(seen: Any) -> None:
    assert (seen["by vendor"], seen["by name"]) == (["openai/davinci"], ["local/echo"])
    assert seen["newest first"] == ["openai/davinci", "local/broken", "local/full", "local/echo", "local/slow"]


def test_a_model_has_the_sdk_s_shape(seen: Any) -> None:
    metadata = seen["model"].pop("model_metadata")
    assert seen["model"] == {
        "id": "openai/davinci",
        "object": "model",
        "name": "davinci",
        "model_vendor": "openai",
        "model_type": "completion",
        "model_availability": "available",
        "status": "ready",
        "status_reason": None,
        "created_at": "2023-11-14T22:14:20Z",
        "created_by_identity_type": "service_account",
        "created_by_user_id": "afterword",
        "vendor_configuration": None,
    }
    assert (metadata["max_model_len"], metadata["aliases"]) == (8192, ["text-davinci-003"])
    assert seen["created"] == [CREATED + 60, "local/echo"]
    assert seen["status"] == ["failed", "openai", "completion"]


@pytest.mark.parametrize(
    ("case", "exception", "status", "param", "code"),
    [
        ("bad field", "BadRequestError", 400, "temperature", "decimal_above_max_value"),
        ("bad field, streamed", "BadRequestError", 400, "temperature", "decimal_above_max_value"),
        ("bad page", "BadRequestError", 400, "limit", "invalid_value"),
        ("bad cursor", "BadRequestError", 400, "starting_after", "invalid_value"),
        ("wrong key", "AuthenticationError", 401, None, "invalid_api_key"),
        ("wrong key for models", "AuthenticationError", 401, None, "invalid_api_key"),
        ("short name", "NotFoundError", 404, "model", "model_not_found"),
        ("unknown model", "NotFoundError", 404, "model", "model_not_found"),
        ("read only", "APIStatusError", 405, None, "method_not_supported"),
        ("full", "InternalServerError", 503, None, "overloaded"),
    ],
)
def test_refusals_become_the_exceptions_of_the_sdk(
    seen: Any, case: str, exception: str, status: int, param: str | None, code: str
) -> None:
    name, got, body = seen["refused"][case]
    assert (name, got) == (exception, status)
    assert (body["error"]["param"], body["error"]["code"]) == (param, code)


def test_a_full_server_is_asked_again(app: Recorder, seen: Any) -> None:
    assert seen["patience"][:2] == ["InternalServerError", 503]
    retries = [headers for _, headers in app.requests if headers.get(b"x-stainless-retry-count") == b"1"]
    assert len(retries) == 1


def test_closing_a_stream_frees_the_engine(url: str, slow: Engine, seen: Any) -> None:
    assert seen["left"] == ["h", "h"]
    wait_until(url, lambda: is_idle(slow))
    assert slow.stats().cancelled == 2


@pytest.fixture(scope="module")
def seen_of_the_model(open_client: OpenClient, server: str) -> Any:
    """What the SDK understood of the default model's answers."""
    return open_client("scale-gp").run("scale_gp_model", server)


@pytest.mark.model
def test_a_real_model_gives_the_text_and_the_numbers_it_gives_in_process(
    seen_of_the_model: Any, reference: Reference
) -> None:
    text = reference.text(PROMPT, 12)
    assert seen_of_the_model["model"] == "local/smollm2-135m-instruct"
    assert seen_of_the_model["text"] == "".join(seen_of_the_model["streamed"]) == text
    assert seen_of_the_model["context"] == 2048
    [choice] = seen_of_the_model["scored"]["choices"]
    first, *rest = choice["logprobs"]["token_logprobs"]
    assert (choice["text"], first) == (PROMPT, None)
    assert rest == pytest.approx(reference.logprobs(reference.tokens(PROMPT)), abs=1e-6)


@pytest.mark.model
def test_concurrent_requests_to_a_real_model_get_what_they_get_alone(
    seen_of_the_model: Any, reference: Reference
) -> None:
    assert seen_of_the_model["at once"] == [reference.text(f"{number} plus one is", 6) for number in range(12)]

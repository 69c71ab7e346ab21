"""What our client is told when an upstream refuses, fails, hangs or breaks off."""

from typing import Any

import pytest
from tests.engine.upstream.fakes import (
    Answer,
    Fake,
    breaks_after,
    fake_upstream,
    hangs,
    refuses,
    says,
    text_event,
    token_event,
    usage_event,
)
from tests.engine.upstream.opening import upstream_engine, vendor
from tests.fakes import Told, eventually, generation_request, tell, until_prompt_is_done

from afterword.engine.base import Generation
from afterword.engine.events import Chunk, Event
from afterword.engine.upstream.failures import retry_after
from afterword.engine.upstream.upstream_engine import UpstreamEngine
from afterword.errors import (
    AfterwordError,
    ContextExceeded,
    InvalidRequest,
    Overloaded,
    UpstreamFailed,
    UpstreamTimedOut,
)

GOOD = says(text_event("fine", finish="stop"), usage_event(3, 1))


async def ask(fake: Fake, **settings: float) -> Told:
    """One prompt to the fake, by an engine without a tokenizer; `settings` of its vendor."""
    engine = upstream_engine(vendor(fake.url, settings=settings), "m", None)
    try:
        return await tell(engine.generate(generation_request(b"hi")))
    finally:
        await engine.aclose()


async def failure(fake: Fake, **settings: float) -> AfterwordError:
    with pytest.raises(AfterwordError) as caught:
        await ask(fake, **settings)
    return caught.value


def detail(error: AfterwordError) -> str:
    assert isinstance(error, UpstreamFailed)
    return error.detail


@pytest.mark.parametrize("status", [401, 403, 404, 418, 500, 501, 502, 302])
async def test_an_upstream_s_own_trouble_is_a_failure_that_says_no_more(status: int) -> None:
    with fake_upstream(refuses(status, {"message": "key sk-secret is wrong"})) as fake:
        error = await failure(fake)
    assert type(error) is UpstreamFailed
    assert str(error) == "The server that runs this model failed."
    assert detail(error) == f"HTTP status {status}: key [removed] is wrong"


@pytest.mark.parametrize("body", [b"<html>Bad Gateway</html>", b"", b"null", b'{"error": "no"}', b"\xff\xfe"])
async def test_an_error_page_is_an_error_too(body: bytes) -> None:
    async def page(call: Any) -> None:
        await call.refuse(500, body)

    with fake_upstream(page) as fake:
        assert detail(await failure(fake)).startswith("HTTP status 500: ")


@pytest.mark.parametrize(
    ("status", "headers", "seconds"), [(429, {}, 1), (429, {"retry_after": "17"}, 17), (503, {"retry_after": "2.5"}, 3)]
)
async def test_a_busy_upstream_makes_us_busy(status: int, headers: dict[str, str], seconds: int) -> None:
    with fake_upstream(refuses(status, {"message": "slow down"}, **headers)) as fake:
        error = await failure(fake)
    assert isinstance(error, Overloaded)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 1),
        ("-5", 1),
        ("1.01", 2),
        ("99999", 3600),
        ("inf", 3600),
        ("nan", 1),
        ("soon", 1),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 1),
        ("Wed, 21 Oct 2155 07:28:00 GMT", 3600),
    ],
)
def test_how_long_to_stay_away_is_between_a_second_and_an_hour(header: str, seconds: int) -> None:
    assert retry_after({"retry-after": header}) == seconds


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_client_s_mistake_is_handed_on(status: int) -> None:
    said = {"message": "bad stop", "param": "stop", "code": "invalid_value", "type": "invalid_request_error"}
    with fake_upstream(refuses(status, said)) as fake:
        error = await failure(fake)
    assert isinstance(error, InvalidRequest)
    assert (str(error), error.param, error.code) == ("bad stop", "stop", "invalid_value")


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(
            {
                "message": "This model's maximum context length is 64 tokens, however you requested 80 tokens",
                "code": "context_length_exceeded",
            },
            id="with its code",
        ),
        pytest.param(
            {"message": "This model's maximum context length is 64 tokens. However, ...", "code": 400},
            id="by its words",
        ),
        pytest.param(
            {
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_ctx": 64,
            },
            id="llama-server's",
        ),
    ],
)
async def test_a_prompt_that_is_too_long_is_said_in_our_words(said: dict[str, Any]) -> None:
    with fake_upstream(refuses(400, said | {"n_prompt_tokens": 70})) as fake:
        error = await failure(fake)
    assert isinstance(error, ContextExceeded)
    assert (error.limit, error.prompt_tokens, error.max_tokens) == (64, 70, 16)
    assert "maximum context length is 64 tokens" in str(error)


async def test_a_prompt_of_unknown_length_keeps_the_upstream_s_words() -> None:
    said = {"message": "maximum context length is 64 tokens", "code": "context_length_exceeded", "param": "messages"}
    with fake_upstream(refuses(400, said)) as fake:
        error = await failure(fake)
    assert isinstance(error, InvalidRequest)
    assert (str(error), error.code) == ("maximum context length is 64 tokens", "context_length_exceeded")


@pytest.mark.parametrize(
    ("answers", "n_calls"),
    [
        pytest.param([refuses(502), GOOD], 2, id="502"),
        pytest.param([refuses(503), refuses(504), GOOD], 3, id="503 and 504"),
    ],
)
async def test_what_may_pass_is_tried_again(answers: list[Answer], n_calls: int) -> None:
    with fake_upstream(*answers) as fake:
        told = await ask(fake, retries=2)
        assert told.text() == "fine"
        assert len(fake.calls) == n_calls
        assert fake.bodies[0] == fake.bodies[-1]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refuses(400), id="a mistake"),
        pytest.param(refuses(401), id="a wrong key"),
        pytest.param(refuses(429), id="a limit"),
        pytest.param(refuses(500), id="a failure"),
        pytest.param(refuses(503, retry_after="60"), id="busy for long"),
        pytest.param(breaks_after(), id="no event"),
        pytest.param(breaks_after(text_event("a")), id="an answer that has begun"),
        pytest.param(says(b"data: {\n\n"), id="no JSON"),
    ],
)
async def test_nothing_else_is_tried_again(answer: Answer) -> None:
    with fake_upstream(answer, GOOD) as fake:
        await failure(fake, retries=2)
        assert len(fake.calls) == 1


async def test_a_server_that_is_not_there_is_tried_again_and_then_a_failure() -> None:
    with fake_upstream(GOOD) as fake:
        pass
    engine = upstream_engine(vendor(fake.url, settings={"retries": 1}), "m", None)
    with pytest.raises(UpstreamFailed) as caught:
        await tell(engine.generate(generation_request(b"hi")))
    assert "no connection" in detail(caught.value)
    assert [(each.retries, each.failures) for each in engine.stats().upstreams] == [(1, 1)]
    await engine.aclose()


async def test_a_server_that_never_answers_is_given_up() -> None:
    with fake_upstream(hangs(lambda: fake)) as fake:
        error = await failure(fake, first_event_timeout=0.05)
        await eventually(lambda: len(fake.left) == 1)
    assert isinstance(error, UpstreamTimedOut)
    assert detail(error) == "no event in 0.05 s"


async def test_comments_are_no_events_to_wait_for() -> None:
    with fake_upstream(hangs(lambda: fake, b": ping\n\n")) as fake:
        error = await failure(fake, first_event_timeout=0.05)
    assert detail(error) == "no event in 0.05 s"


async def test_an_answer_that_stops_coming_is_given_up() -> None:
    with fake_upstream(hangs(lambda: fake, text_event("a"))) as fake:
        error = await failure(fake, idle_timeout=0.05)
        await eventually(lambda: len(fake.left) == 1)
    assert isinstance(error, UpstreamTimedOut)
    assert detail(error) == "no further event in 0.05 s"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(breaks_after(text_event("a")), "broken in the middle", id="cut"),
        pytest.param(says(text_event("a")), "ended before every choice had a finish_reason", id="no end"),
        pytest.param(says(), "ended before every choice", id="nothing"),
        pytest.param(says(b"data: {\n\n"), "not JSON", id="no JSON"),
        pytest.param(says({"choices": [{"text": 5}]}), "not the shape of a completion", id="wrong shape"),
        pytest.param(says(text_event("a", index=1)), "a choice of index 1 where 1 were asked for", id="wrong choice"),
        pytest.param(says(text_event("a", finish="abort")), "finish_reason 'abort'", id="given up"),
        pytest.param(says(text_event("a"), {"error": {"message": "out of memory"}}), "out of memory", id="error event"),
    ],
)
async def test_a_broken_answer_is_a_failure_with_its_cause_for_the_log(answer: Answer, said: str) -> None:
    with fake_upstream(answer) as fake:
        error = await failure(fake)
    assert str(error) == "The server that runs this model failed."
    assert said in detail(error)


async def test_what_came_before_the_break_was_told() -> None:
    with fake_upstream(breaks_after(text_event("ab"))) as fake:
        engine = upstream_engine(vendor(fake.url), "m", None)
        events: list[Event] = []
        with pytest.raises(UpstreamFailed):
            await collect(engine.generate(generation_request(b"hi")), events)
        await engine.aclose()
    assert [event.text for event in events if isinstance(event, Chunk)] == ["ab"]


async def test_an_error_event_may_be_the_client_s_mistake() -> None:
    said = {"error": {"message": "bad", "type": "BadRequestError", "code": 400, "param": "stop"}}
    with fake_upstream(says(said)) as fake:
        error = await failure(fake)
    assert isinstance(error, InvalidRequest)
    assert (str(error), error.param) == ("bad", "stop")


async def test_whoever_leaves_has_the_upstream_stop() -> None:
    with fake_upstream(hangs(lambda: fake, text_event("a"))) as fake:
        engine = upstream_engine(vendor(fake.url), "m", None)
        async with engine.generate(generation_request(b"hi")) as generation:
            await until_prompt_is_done(generation)
        await eventually(lambda: len(fake.left) == 1)
        await eventually(lambda: is_idle(engine))
        assert engine.stats().cancelled == 1
        await engine.aclose()


async def test_a_stop_found_here_has_the_upstream_stop() -> None:
    with fake_upstream(hangs(lambda: fake, token_event(("a", -1.0), ("b", -1.0)), token_event(("c", -1.0)))) as fake:
        engine = upstream_engine(vendor(fake.url), "m", None)
        told = await tell(engine.generate(generation_request(b"hi", stops=("bc",), include_stop=True)))
        await eventually(lambda: len(fake.left) == 1)
        await engine.aclose()
    assert (told.text(), told.finished().reason) == ("abc", "stop")


async def collect(generation: Generation, events: list[Event]) -> None:
    async for event in generation:
        events.append(event)


def is_idle(engine: UpstreamEngine) -> bool:
    stats = engine.stats()
    return stats.running + stats.waiting == 0

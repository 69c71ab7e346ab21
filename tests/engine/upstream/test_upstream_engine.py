"""The engine without a tokenizer, its breaker, and what it counts; with one, tests/contract has the rules."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.engine.upstream.fakes import (
    Answer,
    Call,
    Fake,
    fake_upstream,
    hangs,
    refuses,
    says,
    text_event,
    token_event,
    usage_event,
)
from tests.engine.upstream.opening import upstream_engine, vendor
from tests.fakes import Told, complete, eventually, generation_request

from afterword.config.vendor import PRESETS
from afterword.engine.events import Counted, SampledToken
from afterword.engine.upstream.upstream_engine import UpstreamEngine
from afterword.errors import AfterwordError, InvalidRequest, Overloaded, UpstreamFailed
from afterword.tokens import ByteTokenizer

FINE = (text_event("fine", finish="stop"), usage_event(3, 1))


@asynccontextmanager
async def engine_of(
    fake: Fake, tokenizer: ByteTokenizer | None = None, settings: Mapping[str, float] = {}, **supports: Any
) -> AsyncIterator[UpstreamEngine]:
    there = vendor(fake.url, supports=PRESETS["openai"].model_copy(update=supports), settings=settings)
    engine = upstream_engine(there, "m", tokenizer)
    try:
        yield engine
    finally:
        await engine.aclose()


async def ask(*answers: Answer, **changes: Any) -> Told:
    with fake_upstream(*answers) as fake:
        async with engine_of(fake) as engine:
            return await complete(engine, generation_request(b"hi", text_offset=2, **changes))


def counted(told: Told) -> Counted:
    (found,) = [event for event in told.events if isinstance(event, Counted)]
    return found


async def test_text_comes_as_it_is_sent() -> None:
    told = await ask(says(text_event("Hel"), text_event("lo"), text_event("", finish="length"), usage_event(3, 2)))
    assert told.text() == "Hello"
    assert (told.finished().reason, told.finished().n_tokens) == ("length", 2)
    assert counted(told) == Counted(3, None, 2)


async def test_cached_tokens_are_passed_on() -> None:
    assert counted(await ask(says(text_event("a", finish="stop"), usage_event(9, 1, cached_tokens=8)))).n_cached == 8


async def test_without_counts_ours_stand() -> None:
    told = await ask(says(text_event("a"), text_event("b", finish="stop")))
    assert counted(told) == Counted(None, None, None)
    assert told.finished().n_tokens == 2


async def test_counts_in_every_chunk_are_those_of_the_last() -> None:
    events = [
        text_event("a") | {"usage": usage_event(3, 1)["usage"]},
        text_event("b", finish="stop"),
        usage_event(3, 2),
    ]
    assert counted(await ask(says(*events))).n_completion == 2


async def test_an_answer_in_one_piece_is_read_too() -> None:
    async def whole(call: Call) -> None:
        await call.refuse(
            200, b'{"choices":[{"index":0,"text":"all","finish_reason":"stop"}],"usage":{"prompt_tokens":3}}'
        )

    told = await ask(whole)
    assert (told.text(), told.finished().reason) == ("all", "stop")


async def test_comments_and_line_ends_do_not_matter() -> None:
    frames = [b": ping\r\n\r\n", b'data: {"choices":[{"index":0,"text":"a","finish_reason":"stop"}]}\r\n\r\n']
    assert (await ask(says(*frames))).text() == "a"


async def test_stops_are_ours_even_where_the_upstream_does_not_know_them() -> None:
    told = await ask(says(text_event("one tw"), text_event("o three"), text_event("", finish="length")), stops=("two",))
    assert (told.text(), told.finished().reason) == ("one ", "stop")


async def test_tokens_are_listed_with_our_offsets() -> None:
    events = [
        token_event(("bytes:\\xc3", -1.0), text=""),
        token_event(("bytes:\\xa4", -0.5), text="ä"),
        token_event(("bc", -0.25), finish="length"),
    ]
    told = await ask(says(*events), logprobs=1)
    assert told.text() == "äbc"
    assert [(token.offset, token.logprob) for token in told.tokens()] == [(2, -1.0), (2, -0.5), (3, -0.25)]
    assert (told.finished().n_tokens, told.finished().sum_logprob, told.finished().n_scored) == (3, -1.75, 3)


async def test_text_decides_where_the_tokens_spell_another() -> None:
    told = await ask(says(token_event(("\ufffd", -1.0), ("\ufffd", -1.0), text="ä", finish="stop")), logprobs=0)
    assert told.text() == "ä"
    assert len(told.tokens()) == 2


async def test_tokens_of_a_stop_that_was_cut_off_are_not_listed() -> None:
    told = await ask(says(token_event(("a", -1.0)), token_event((".", -1.0), text="", finish="stop")), logprobs=0)
    assert (told.text(), len(told.tokens())) == ("a", 1)


async def test_each_choice_has_its_own_text() -> None:
    events = [text_event("a", 0), text_event("b", 1), text_event("", 1, "stop"), text_event("c", 0, "length")]
    with fake_upstream(says(*events, usage_event(3, 7))) as fake:
        async with engine_of(fake) as engine:
            told = await complete(engine, generation_request(b"hi", n_candidates=2))
        assert [body["n"] for body in fake.bodies] == [2]
    assert [told.text(index) for index in (0, 1)] == ["ac", "b"]
    assert [told.finished(index).reason for index in (0, 1)] == ["length", "stop"]
    assert counted(told).n_completion == 7


async def test_an_upstream_without_n_is_asked_once_for_each() -> None:
    answers = [says(text_event(text, finish="stop"), usage_event(3, count)) for text, count in (("a", 1), ("b", 2))]
    with fake_upstream(*answers) as fake:
        async with engine_of(fake, n=False) as engine:
            told = await complete(engine, generation_request(b"hi", n_candidates=2))
        assert len({body["seed"] for body in fake.bodies}) == 2
        assert all("n" not in body for body in fake.bodies)
    assert {told.text(0), told.text(1)} == {"a", "b"}
    assert counted(told).n_completion == 3


async def test_one_failing_candidate_fails_the_prompt_and_the_others_are_left() -> None:
    with fake_upstream(hangs(lambda: fake, text_event("a")), refuses(500), hangs(lambda: fake)) as fake:
        async with engine_of(fake, n=False) as engine:
            with pytest.raises(UpstreamFailed):
                await complete(engine, generation_request(b"hi", n_candidates=3))
            await eventually(lambda: len(fake.left) == 2)


async def test_the_prompt_is_scored_and_each_token_checked() -> None:
    echo = token_event(("h", 0.0), ("i", -1.5))
    echo["choices"][0]["logprobs"]["token_logprobs"][0] = None
    request = generation_request(b"hi", max_tokens=0, prompt_logprobs=1)
    with fake_upstream(says(echo, text_event("", finish="length"))) as fake:
        async with engine_of(fake, ByteTokenizer()) as engine:
            scores = (await complete(engine, request)).prompt.scores
            assert scores is not None
            assert (scores.logprobs.tolist(), scores.top_ids.tolist()) == ([-1.5], [[ord("i")]])
            with pytest.raises(UpstreamFailed) as broken:
                await complete(engine, replace(request, prompt=(104, 106)))
    assert "the echoed prompt has another token at place 1 than was sent" in broken.value.detail


async def test_another_tokenizer_than_the_configured_one_is_noticed() -> None:
    with fake_upstream(says(token_event(("hello", -1.0)))) as fake:
        async with engine_of(fake, ByteTokenizer()) as engine:
            with pytest.raises(UpstreamFailed) as broken:
                await complete(engine, generation_request(b"hi"))
    assert "not in the configured tokenizer's vocabulary" in broken.value.detail


async def test_tokens_that_llama_server_keeps_back_are_found_in_the_bytes_of_the_next() -> None:
    content = [{"id": 0xA4, "token": "ä", "bytes": [0xC3, 0xA4], "logprob": -1.0, "top_logprobs": []}]
    event = {"choices": [{"index": 0, "text": "ä", "logprobs": {"content": content}, "finish_reason": "stop"}]}
    with fake_upstream(says(event)) as fake:
        async with engine_of(fake, ByteTokenizer()) as engine:
            told = await complete(engine, generation_request(b"hi", logprobs=0, text_offset=2))
    assert (told.text(), told.finished().n_tokens) == ("ä", 2)
    assert told.tokens() == [SampledToken(0xA4, 2, -1.0, ())]


async def test_the_fingerprint_follows_what_the_upstream_says_of_itself() -> None:
    with fake_upstream(says(text_event("a", finish="stop", system_fingerprint="fp_b"))) as fake:
        async with engine_of(fake) as engine:
            before = engine.fingerprint
            await complete(engine, generation_request(b"hi"))
            after = engine.fingerprint
            await complete(engine, generation_request(b"hi"))
            assert before != after == engine.fingerprint


BREAKER = {"failures": 2, "cooldown": 60.0, "health_interval": 0.01}


async def fail(engine: UpstreamEngine) -> None:
    with pytest.raises(UpstreamFailed):
        await complete(engine, generation_request(b"hi"))


async def test_a_server_that_fails_is_left_alone_until_it_says_it_is_well() -> None:
    with fake_upstream(refuses(500), refuses(500), says(*FINE)) as fake:
        fake.health = 503
        async with engine_of(fake, settings=BREAKER) as engine:
            await fail(engine)
            await fail(engine)
            assert engine.stats().state == "unreachable"
            with pytest.raises(Overloaded) as refused:
                engine.generate(generation_request(b"hi"))
            assert 1 <= refused.value.retry_after <= 60
            assert len(fake.calls) == 2
            checked = fake.health_checks
            await eventually(lambda: fake.health_checks >= checked + 2)
            assert engine.stats().upstreams[0].breaker == "open"
            fake.health = 200
            await eventually(lambda: engine.stats().upstreams[0].breaker == "half_open")
            assert (await complete(engine, generation_request(b"hi"))).text() == "fine"
            stats = engine.stats()
    assert (stats.state, stats.upstreams[0].breaker, stats.upstreams[0].failures) == ("ready", "closed", 2)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [pytest.param(refuses(400), InvalidRequest, id="a mistake"), pytest.param(refuses(429), Overloaded, id="a limit")],
)
async def test_an_answer_of_any_kind_is_no_failure_of_the_server(answer: Answer, kind: type[AfterwordError]) -> None:
    with fake_upstream(answer) as fake:
        async with engine_of(fake, settings=BREAKER) as engine:
            for _ in range(3):
                with pytest.raises(kind):
                    await complete(engine, generation_request(b"hi"))
            assert engine.stats().upstreams[0].breaker == "closed"


def goes_on(chunk: bytes, content_type: str = "text/event-stream") -> Answer:
    """Sends the same bytes again and again until the client goes."""

    async def answer(call: Call) -> None:
        await call.start(content_type=content_type)
        gone = asyncio.create_task(call.until_left())
        while not gone.done():
            await call.write(chunk)
            await asyncio.sleep(0)

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(goes_on(b": nothing\n" * 1000), id="comments"),
        pytest.param(goes_on(b"data: " + b"x" * 10_000), id="one event"),
        pytest.param(goes_on(b"data: {}\n\n" * 1000), id="events that say nothing"),
        pytest.param(goes_on(b" " * 10_000, content_type="application/json"), id="a body"),
    ],
)
async def test_an_answer_without_an_end_is_given_up(answer: Answer) -> None:
    with fake_upstream(answer) as fake:
        async with engine_of(fake) as engine:
            with pytest.raises(UpstreamFailed):
                await complete(engine, generation_request(b"hi"))


@pytest.mark.parametrize("status", [200, 400])
async def test_a_compressed_answer_is_not_unpacked(status: int) -> None:
    bomb = gzip.compress(bytes(10_000_000))
    with fake_upstream(lambda call: call.refuse(status, bomb, content_encoding="gzip")) as fake:
        async with engine_of(fake) as engine:
            with pytest.raises(UpstreamFailed) as failed:
                await complete(engine, generation_request(b"hi"))
        assert fake.calls[0].headers["accept-encoding"] == "identity"
    assert "it is compressed ('gzip'), which was not asked for" in failed.value.detail


async def test_the_key_and_further_headers_go_with_every_request() -> None:
    with fake_upstream(says(*FINE)) as fake:
        settings = vendor(fake.url, settings={"api_key": "k", "headers": {"X-Team": "7"}})
        engine = upstream_engine(settings, "m", None)
        await complete(engine, generation_request(b"hi"))
        await engine.aclose()
        (call,) = fake.calls
    assert (call.headers["authorization"], call.headers["x-team"]) == ("Bearer k", "7")


async def test_what_upstreams_count_is_in_the_statistics() -> None:
    with fake_upstream(says(text_event("a", finish="stop"), usage_event(9, 4, cached_tokens=5))) as fake:
        async with engine_of(fake) as engine:
            await complete(engine, generation_request(b"hi"))
            await eventually(lambda: engine.stats().running == 0)
            stats = engine.stats()
    assert (stats.prompt_tokens, stats.cached_tokens, stats.prefill_tokens) == (9, 5, 4)
    assert stats.upstreams[0].requests == 1

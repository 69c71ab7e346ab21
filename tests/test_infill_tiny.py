"""`suffix` from the request's body to the tokens the engine computes, on models with and without infill tokens."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.engines import load_default, open_tiny
from tests.models.tiny import Tiny

from afterword.completions.assemble import Assembler, Choice, Delta, join
from afterword.completions.completion import Completion
from afterword.completions.parse import parse_body
from afterword.completions.resolve import resolve
from afterword.completions.run import run
from afterword.config.tree import ServerConfig
from afterword.engine.base import Engine
from afterword.errors import InvalidRequest
from afterword.registry import ServedModel

PRE, SUF, MID = 272, 273, 274
BOS = 271


def completion(engine: Engine, **fields: Any) -> Completion:
    return resolve(
        parse_body({"seed": 1, **fields}, strict=False), ServedModel("tiny", engine, created=0), ServerConfig()
    )


async def choices(engine: Engine, asked: Completion) -> list[Choice]:
    assembler = Assembler(asked)
    deltas: list[Delta] = []
    async with run(asked, engine) as events:
        async for prompt_index, event in events:
            deltas += assembler.fold(prompt_index, event)
    return join(deltas)


def letters(text: str) -> list[int]:
    return list(text.encode())


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with open_tiny(Tiny(infill=True)) as opened:
        yield opened


async def test_engine_gets_prefix_suffix_middle(engine: Engine) -> None:
    asked = completion(engine, prompt="xy", suffix="zw", max_tokens=4)
    assert asked.generations[0].prompt == (PRE, *letters("xy"), SUF, *letters("zw"), MID)


async def test_bos_stays_in_front_where_the_model_wants_it() -> None:
    async with open_tiny(Tiny(infill=True, add_bos=True)) as engine:
        asked = completion(engine, prompt="xy", suffix="zw")
        assert asked.generations[0].prompt == (BOS, PRE, *letters("xy"), SUF, *letters("zw"), MID)


async def test_middle_is_what_follows_the_same_tokens_sent_as_they_are(engine: Engine) -> None:
    fields = {"max_tokens": 12, "n": 2, "logprobs": 2}
    filled = await choices(engine, completion(engine, prompt="for x", suffix="return", **fields))
    ids = [PRE, *engine.tokenizer.encode("for x", add_bos=False, parse_special=True)]
    ids += [SUF, *engine.tokenizer.encode("return", add_bos=False, parse_special=True), MID]
    plain = await choices(engine, completion(engine, prompt=ids, **fields))
    assert [choice.text for choice in filled] == [choice.text for choice in plain]
    assert [[t.logprob for t in choice.tokens] for choice in filled] == [
        [t.logprob for t in choice.tokens] for choice in plain
    ]


async def test_suffix_changes_the_middle(engine: Engine) -> None:
    texts = {
        suffix: (await choices(engine, completion(engine, prompt="for x", suffix=suffix, max_tokens=24)))[0].text
        for suffix in ("", "return", "yield")
    }
    assert len(set(texts.values())) == 3


async def test_echo_shows_the_prefix_only(engine: Engine) -> None:
    (choice,) = await choices(engine, completion(engine, prompt="for x", suffix="return", echo=True, max_tokens=4))
    (plain,) = await choices(engine, completion(engine, prompt="for x", suffix="return", max_tokens=4))
    assert choice.text == "for x" + plain.text


@pytest.mark.parametrize("tiny", [Tiny(), Tiny(add_bos=True)], ids=["plain", "bos"])
async def test_model_without_infill_tokens_refuses_the_suffix(tiny: Tiny) -> None:
    async with open_tiny(tiny) as engine:
        with pytest.raises(InvalidRequest) as caught:
            completion(engine, prompt="xy", suffix="zw")
        assert caught.value.param == "suffix"


@pytest.mark.model
async def test_default_model_refuses_the_suffix(cache_dir: Path) -> None:
    engine = load_default(cache_dir, context=256, parallel=1)
    try:
        with pytest.raises(InvalidRequest, match="cannot fill in the middle") as caught:
            completion(engine, prompt="xy", suffix="zw")
        assert (caught.value.param, caught.value.code) == ("suffix", "unsupported_parameter")
    finally:
        await engine.aclose()

"""Bans with real weights and their vocabularies, in which texts and characters fall into tokens as they do outside."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.engine.llama.test_real_models import WHOLE
from tests.fakes import Told, complete, generation_request
from tests.models.engines import settings
from tests.models.prose import excerpt

from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.llama_loading import load_engine
from afterword.engine.request import GenerationRequest
from afterword.fields.bans import NO_BANS, TextBans
from afterword.fields.sampling import Sampling

pytestmark = pytest.mark.models

BANS = TextBans((", ", "é", "🙂"), ("the", "and", " of a", "was "), "[a-z]+ing|(?:to|in) [a-z]+e|[0-9]{2}")
BANNED = re.compile("(?i:the|and| of a|was )|, |é|🙂|[a-z]+ing|(?:to|in) [a-z]+e|[0-9]{2}")

TEXTS = (
    excerpt(0, 400),
    "Smileys: 🙂 🙂 🙂 🙃 🙂 🙂 🙂 😀 🙂 🙂 🙂",
    "Été: l'été dernier, le café près du musée était fermé. Désolé, répéta",
)


@pytest.fixture(params=WHOLE)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LlamaEngine]:
    opened = load_engine(settings(WHOLE[request.param](), tmp_path, context=2048))
    yield opened
    await opened.aclose()


def asked(engine: LlamaEngine, text: str, seed: int, temperature: float, bans: TextBans) -> GenerationRequest:
    return generation_request(
        engine.tokenizer.encode(text, add_bos=engine.tokenizer.add_bos, parse_special=False),
        sampling=Sampling(temperature=temperature),
        seed=seed,
        max_tokens=40,
        logprobs=0,
        bans=bans,
    )


def bits(told: Told) -> list[tuple[int, str]]:
    return [(token.id, token.logprob.hex()) for token in told.tokens()]


async def test_no_text_has_what_is_banned_and_its_bytes_are_the_same_beside_others(engine: LlamaEngine) -> None:
    asks = [(text, seed, temperature) for text in TEXTS for seed, temperature in ((1, 0.0), (2, 0.8))]
    free = [await complete(engine, asked(engine, *ask, NO_BANS)) for ask in asks]
    assert sum(BANNED.search(told.text()) is not None for told in free) >= 4, "the model would write it"
    requests = [asked(engine, *ask, BANS) for ask in asks]
    alone = [await complete(engine, request) for request in requests]
    together = await asyncio.gather(*(complete(engine, request) for request in requests))
    assert engine.capabilities.reproducible
    for one, beside in zip(alone, together, strict=True):
        assert BANNED.search(one.text()) is None
        assert bits(one) == bits(beside)
        assert len(bits(one)) >= one.finished().n_tokens

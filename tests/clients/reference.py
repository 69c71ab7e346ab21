"""What the default model says in this process, to hold the clients' numbers against: no HTTP, no JSON, no client."""

import asyncio
import math
from collections.abc import Sequence

import numpy as np

from afterword.cli.local_backend import LocalBackend
from afterword.config.tree import ServerConfig
from afterword.engine.base import Engine
from afterword.engine.events import PromptDone, PromptScores
from afterword.engine.request import GenerationRequest
from afterword.fields.sampling import Sampling
from afterword.registry import Registry, ServedModel


class Reference:
    """An engine of our own on the default model; the caller closes it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._source = LocalBackend(Registry([ServedModel("reference", engine, created=0)]), ServerConfig())

    def tokens(self, text: str) -> list[int]:
        """The text's tokens; text that spells control tokens means them."""
        return self._engine.tokenizer.encode(text, add_bos=False, parse_special=True)

    @property
    def bos_id(self) -> int:
        """The token that begins a text."""
        bos_id = self._engine.tokenizer.bos_id
        assert bos_id is not None
        return bos_id

    def logprobs(self, tokens: Sequence[int]) -> list[float]:
        """(P - 1,) natural log-probabilities of the P tokens after the first."""
        return [float(value) for value in asyncio.run(self._scores(tokens)).logprobs]

    def continuation(self, context: str, text: str) -> tuple[float, bool]:
        """Log-probability of `text` after `context`, and whether each of its tokens is the likeliest there."""
        tokens = self.tokens(context + text)
        first = len(self.tokens(context))
        scores = asyncio.run(self._scores(tokens))
        rows = slice(first - 1, None)
        greedy = bool(np.array_equal(scores.top_ids[rows, 0], tokens[first:]))
        return math.fsum(scores.logprobs[rows]), greedy

    def text(self, prompt: str, max_tokens: int, stop: Sequence[str] = ()) -> str:
        """The likeliest completion."""
        request = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "seed": 1, "stop": list(stop)}
        answer = asyncio.run(self._source.answer(request))
        text: str = answer["choices"][0]["text"]
        return text

    def close(self) -> None:
        """Free the model."""
        asyncio.run(self._engine.aclose())

    async def _scores(self, tokens: Sequence[int]) -> PromptScores:
        request = GenerationRequest(
            prompt=tuple(tokens),
            n_candidates=1,
            max_tokens=0,
            sampling=Sampling(),
            seed=1,
            reproducible=True,
            prompt_logprobs=1,
        )
        async with self._engine.generate(request) as events:
            async for event in events:
                if isinstance(event, PromptDone) and event.scores is not None:
                    return event.scores
        raise AssertionError("the engine gave no scores")

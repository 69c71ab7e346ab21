"""Completions by a model in this process: the same calls as for an HTTP request, without HTTP."""

from collections.abc import Callable
from typing import Any

import orjson
from typing_extensions import override

from afterword.api.render import BodyRenderer, new_head
from afterword.api.render_scores import score_object
from afterword.cli.backend import Backend, Ending
from afterword.completions.assemble import Assembler, Delta, join
from afterword.completions.completion import Completion
from afterword.completions.parse import parse_body
from afterword.completions.resolve import resolve
from afterword.completions.run import run
from afterword.completions.scoring.score_body import parse_score
from afterword.completions.scoring.score_plan import plan_score
from afterword.config.tree import ServerConfig
from afterword.engine.events import PromptDone, PromptScores
from afterword.registry import Registry, ServedModel


class LocalBackend(Backend):
    """A model that this process has loaded."""

    def __init__(self, registry: Registry, server: ServerConfig) -> None:
        self._registry = registry
        self._server = server

    @override
    async def stream(self, request: dict[str, Any], write: Callable[[str], object]) -> Ending:
        served, completion = self._resolve(request)
        reason = ""

        def take(delta: Delta) -> None:
            nonlocal reason
            if delta.text != "":
                write(delta.text)
            if delta.finish_reason is not None:
                reason = delta.finish_reason

        assembler = await _fold(served, completion, take)
        usage = assembler.usage()
        return Ending(reason, usage.prompt_tokens, usage.completion_tokens)

    @override
    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        served, completion = self._resolve(request)
        deltas: list[Delta] = []
        assembler = await _fold(served, completion, deltas.append)
        head = new_head(completion.model, served.engine.fingerprint)
        renderer = BodyRenderer(head, completion, served.engine.tokenizer)
        body: dict[str, Any] = orjson.loads(renderer.body(join(deltas), assembler.usage()))
        return body

    @override
    async def score(self, request: dict[str, Any]) -> dict[str, Any]:
        wanted = parse_score(request, strict=self._server.strict)
        served = self._registry.get(wanted.model)
        plan = plan_score(wanted, served, self._server)
        assembler = Assembler(plan.completion)
        found: dict[int, PromptScores] = {}
        async with run(plan.completion, served.engine) as events:
            async for prompt_index, event in events:
                assembler.count(prompt_index, event)
                if isinstance(event, PromptDone) and event.scores is not None:
                    found[prompt_index] = event.scores
        body = score_object(plan, served, [scores for _, scores in sorted(found.items())], assembler.usage())
        answer: dict[str, Any] = orjson.loads(orjson.dumps(body))
        return answer

    @override
    async def aclose(self) -> None:
        for served in self._registry.all():
            await served.engine.aclose()

    def _resolve(self, request: dict[str, Any]) -> tuple[ServedModel, Completion]:
        body = parse_body(request, strict=self._server.strict)
        served = self._registry.get(body.model)
        return served, resolve(body, served, self._server)


async def _fold(served: ServedModel, completion: Completion, take: Callable[[Delta], None]) -> Assembler:
    """Run to the end, handing over each delta; what is left is the usage."""
    assembler = Assembler(completion)
    async with run(completion, served.engine) as events:
        async for prompt_index, event in events:
            for delta in assembler.fold(prompt_index, event):
                take(delta)
    return assembler

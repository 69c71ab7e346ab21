"""The score route: how likely a model finds continuations of a context, all at once (docs/scoring.md).

The same stages as for a completion, whose prompts are read and of which nothing is sampled.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from afterword.api.auth import find_model, grant_of
from afterword.api.completions import count_unread, rendered
from afterword.api.dialect import OPENAI
from afterword.api.disconnect import unless_client_leaves
from afterword.api.exchange import Exchange, exchange_of
from afterword.api.holding import hold
from afterword.api.intake import parse_object
from afterword.api.openapi import SCORE_DOCS
from afterword.api.party import claim_of
from afterword.api.render_scores import score_object
from afterword.api.serving import Serving, serving
from afterword.api.timeout import deadline_for
from afterword.api.wire import dumps
from afterword.completions.assemble import Assembler
from afterword.completions.deadline import run_until
from afterword.completions.scoring.score_body import ScoreRequest, parse_score
from afterword.completions.scoring.score_plan import ScorePlan, plan_score
from afterword.config.tree import ServerConfig
from afterword.engine.events import PromptDone, PromptScores
from afterword.registry import ServedModel

router = APIRouter(tags=["scores"])


@dataclass(frozen=True, slots=True)
class ScoreTask:
    """One valid request, and what its answer is made with."""

    plan: ScorePlan
    served: ServedModel
    assembler: Assembler
    exchange: Exchange
    serve: Serving
    deadline: float | None
    """When it ends at the latest, by the loop's clock."""


@router.post("/v1/score", **SCORE_DOCS)
@router.post("/score", include_in_schema=False)
async def score(request: Request) -> Response:
    """Score continuations of a prompt, pairs, or labels after a query and its items."""
    serve, exchange = serving(request), exchange_of(request.scope)
    plan, served = await _read(request)
    plan = plan.sent(exchange.trace, claim_of(request.scope, plan.completion.priority))
    deadline = deadline_for(exchange, request.headers, serve.server.request_timeout)
    task = ScoreTask(plan, served, Assembler(plan.completion), exchange, serve, deadline)
    exchange.begin(plan.completion, task.assembler, served.full_name)
    exchange.reservation = await serve.gateway.limiter.admit(grant_of(request.scope), plan.completion.most_tokens)
    return await unless_client_leaves(_answer(task), request.receive)


async def _read(request: Request) -> tuple[ScorePlan, ServedModel]:
    """What the body asks for, of which model. Its bytes are held until that is known."""
    serve, receive = serving(request), request.receive
    async with serve.intake.body(request) as raw:
        wanted = await serve.lanes.run(len(raw), partial(_understand, raw, serve.server), receive)
        served = find_model(OPENAI, serve.registry, wanted.model, request.scope)
        await hold(request, served)
        # A context is tokenized with each of its continuations.
        n_bytes = max(len(raw), wanted.n_characters)
        return await serve.lanes.run(n_bytes, partial(plan_score, wanted, served, serve.server), receive), served


def _understand(raw: bytearray, server: ServerConfig) -> ScoreRequest:
    return parse_score(parse_object(raw, server.max_body_values), strict=server.strict)


async def _answer(task: ScoreTask) -> Response:
    found = await _run(task)
    n_listed = sum(len(scores.logprobs) for scores in found)
    usage = task.assembler.usage()
    content = await rendered(n_listed, lambda: dumps(score_object(task.plan, task.served, found, usage)))
    return Response(content, headers={"content-type": "application/json"})


async def _run(task: ScoreTask) -> list[PromptScores]:
    """The scores of the plan's prompts."""
    completion, engine = task.plan.completion, task.served.engine
    found: dict[int, PromptScores] = {}
    with task.serve.parties.counted(completion, engine), ExitStack() as after:
        async with run_until(completion, engine, task.deadline) as running:
            task.exchange.submit()
            after.callback(count_unread, task.assembler, running)
            async for prompt_index, event in running:
                task.exchange.note_event(prompt_index, event)
                task.assembler.count(prompt_index, event)
                if isinstance(event, PromptDone):
                    assert event.scores is not None, "every prompt is scored"
                    found[prompt_index] = event.scores
    return [found[number] for number in range(len(completion.generations))]

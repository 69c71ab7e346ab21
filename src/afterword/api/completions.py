"""The completions routes: three calls (parse, resolve, run), then the answer, streamed or plain.

Both answers are made of the same deltas. Knows only those fields of a request that decide its route.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from afterword.api.auth import find_model, grant_of
from afterword.api.dialect import OPENAI, SCALE_GP, Dialect
from afterword.api.disconnect import unless_client_leaves
from afterword.api.error_responses import REPORTED, describe, report
from afterword.api.exchange import Exchange, exchange_of
from afterword.api.holding import hold
from afterword.api.intake import parse_object
from afterword.api.lanes import SMALL
from afterword.api.openapi import COMPLETION_DOCS, SCALE_COMPLETION_DOCS
from afterword.api.party import claim_of
from afterword.api.render import AnswerHead, BodyRenderer, ChunkRenderer, new_head
from afterword.api.serving import Serving, serving
from afterword.api.sse import EventStream, frame
from afterword.api.timeout import TIMED_OUT, deadline_for
from afterword.completions.assemble import Assembler, Delta, join
from afterword.completions.completion import Completion
from afterword.completions.deadline import TIMEOUT, run_until
from afterword.completions.filter.screen import Hit, Screened
from afterword.completions.parse import parse_body
from afterword.completions.resolve import resolve
from afterword.completions.run import CompletionEvents
from afterword.config.tree import ServerConfig
from afterword.engine.events import Event
from afterword.fields.body import CompletionBody
from afterword.logs import log_flagged
from afterword.registry import ServedModel

FEW_LISTED = 5000
"""Log-probabilities that are rendered on the event loop: milliseconds."""

router = APIRouter(tags=["completions"])


@dataclass(frozen=True, slots=True)
class CompletionTask:
    """One valid request, and what its answer is made with."""

    dialect: Dialect
    completion: Completion
    served: ServedModel
    assembler: Assembler
    exchange: Exchange
    serve: Serving
    deadline: float | None
    """When it ends at the latest, by the loop's clock."""

    def new_head(self) -> AnswerHead:
        """The head of its answer, with an id of its own."""
        return new_head(self.dialect.name_of(self.served), self.served.engine.fingerprint)


@router.post("/v1/completions", **COMPLETION_DOCS)
@router.post("/openai/v1/completions", include_in_schema=False)
async def complete(request: Request) -> Response:
    """Complete a text; the body says which model."""
    return await _answer(request, OPENAI, {})


@router.post("/v5/completions", **SCALE_COMPLETION_DOCS)
async def complete_for_scale_gp(request: Request) -> Response:
    """Complete a text; models are named `vendor/name`, and the end of a stream is an event named `done`."""
    return await _answer(request, SCALE_GP, {})


@router.post("/v1/engines/{model:path}/completions", include_in_schema=False)
@router.post("/openai/deployments/{model:path}/completions", include_in_schema=False)
async def complete_by_path(request: Request) -> Response:
    """The same with the model in the path, which overrides the body's: openai-python 0.x, Azure SDKs."""
    return await _answer(request, OPENAI, {"model": request.path_params["model"]})


async def _answer(request: Request, dialect: Dialect, override: dict[str, Any]) -> Response:
    serve = serving(request)
    completion, served = await _read(request, dialect, override)
    exchange = exchange_of(request.scope)
    completion = completion.sent(exchange.trace, claim_of(request.scope, completion.priority))
    deadline = deadline_for(exchange, request.headers, serve.server.request_timeout)
    task = CompletionTask(dialect, completion, served, Assembler(completion), exchange, serve, deadline)
    task.exchange.begin(task.completion, task.assembler, served.full_name)
    task.exchange.reservation = await serve.gateway.limiter.admit(grant_of(request.scope), completion.most_tokens)
    if completion.stream:
        return EventStream(_frames(task), partial(_error_frame, scope=request.scope), exchange.send)
    return await unless_client_leaves(_plain(task), request.receive)


async def _read(request: Request, dialect: Dialect, override: dict[str, Any]) -> tuple[Completion, ServedModel]:
    """What the body asks for, of which model. Its bytes are held until that is known."""
    serve, receive = serving(request), request.receive
    async with serve.intake.body(request) as raw:
        body = await serve.lanes.run(len(raw), partial(_understand, raw, override, serve.server), receive)
        served = find_model(dialect, serve.registry, body.model, request.scope)
        await hold(request, served)
        # A short grammar may take long to compile.
        n_bytes = max(len(raw), SMALL + 1) if body.constraints.given or body.bans.patterns else len(raw)
        return await serve.lanes.run(n_bytes, partial(resolve, body, served, serve.server), receive), served


def _understand(raw: bytearray, override: dict[str, Any], server: ServerConfig) -> CompletionBody:
    return parse_body(parse_object(raw, server.max_body_values) | override, strict=server.strict)


@asynccontextmanager
async def _deltas(task: CompletionTask) -> AsyncIterator[AsyncGenerator[Delta, None]]:
    """Submit the request on entering, yield its deltas, cancel what still runs on leaving.

    Events that the reader did not wait for are counted.
    """
    with task.serve.parties.counted(task.completion, task.served.engine), ExitStack() as after:
        async with (
            run_until(task.completion, task.served.engine, task.deadline) as running,
            aclosing(_fold(task, _screened(task, running))) as deltas,
        ):
            task.exchange.submit()
            after.callback(count_unread, task.assembler, running)
            yield deltas


def count_unread(assembler: Assembler, running: CompletionEvents) -> None:
    """Count the events that have come and that nobody will read."""
    for prompt_index, event in running.unread():
        assembler.count(prompt_index, event)


def _screened(task: CompletionTask, running: CompletionEvents) -> AsyncIterator[tuple[int, Event]]:
    """The events after the operator's content filter."""
    content_filter = task.serve.content_filter
    if content_filter is None:
        return running

    def note(hit: Hit) -> None:
        task.serve.recording.metrics.flagged(hit.context.model)
        log_flagged(hit)

    return Screened(running, task.completion, content_filter, task.exchange.request_id, note)


async def _fold(task: CompletionTask, events: AsyncIterator[tuple[int, Event]]) -> AsyncGenerator[Delta, None]:
    count_gap: Callable[[float], None] | None = None
    async for prompt_index, event in events:
        gap = task.exchange.note_event(prompt_index, event)
        if gap is not None:
            if count_gap is None:
                count_gap = task.serve.recording.metrics.between_tokens(task.completion.model)
            count_gap(gap)
        for delta in task.assembler.fold(prompt_index, event):
            if delta.finish_reason is not None:
                task.exchange.finish_reasons.append(delta.finish_reason)
            yield delta


async def _plain(task: CompletionTask) -> Response:
    async with _deltas(task) as deltas:
        choices = join([delta async for delta in deltas])
    renderer = BodyRenderer(task.new_head(), task.completion, task.served.engine.tokenizer)
    content = await rendered(task.completion.n_listed, partial(renderer.body, choices, task.assembler.usage()))
    cut = TIMED_OUT if TIMEOUT in task.exchange.finish_reasons else {}
    return Response(content, headers={"content-type": "application/json", **cut})


@asynccontextmanager
async def _frames(task: CompletionTask) -> AsyncIterator[AsyncGenerator[bytes, None]]:
    async with _deltas(task) as deltas, aclosing(_render(task, deltas)) as frames:
        yield frames


async def _render(task: CompletionTask, deltas: AsyncIterator[Delta]) -> AsyncGenerator[bytes, None]:
    renderer = ChunkRenderer(task.new_head(), task.completion, task.served.engine.tokenizer)
    async for delta in deltas:
        usage = task.assembler.usage() if task.completion.continuous_usage else None
        if delta.echo is None and delta.prompt_scores is None:
            yield renderer.chunk(delta, usage)
        else:
            yield await rendered(task.completion.n_listed, partial(renderer.chunk, delta, usage))
    if task.completion.include_usage:
        yield renderer.usage(task.assembler.usage())
    yield task.dialect.end


async def rendered(n_listed: int, render: Callable[[], bytes]) -> bytes:
    """What `render` gives; long lists are made in a thread, so that they hold nobody up."""
    return render() if n_listed <= FEW_LISTED else await asyncio.to_thread(render)


def _error_frame(error: Exception, scope: Scope) -> bytes:
    failure, exchange = describe(error, scope), exchange_of(scope)
    exchange.broke = failure.status
    if failure.status in REPORTED:
        report(error, exchange.request_id)
    return frame(failure.body())

"""The engine that is another server: a prompt becomes HTTP requests, their answers become events.

Everything runs on the event loop, a task a prompt. A prompt waits for a slot at its vendor, is sent, and is cancelled
when its reader leaves. A circuit breaker counts failures; while it is open, requests are refused at once.
"""

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

import structlog

from afterword.engine.base import Capabilities, EngineStats, Generation, UpstreamStats
from afterword.engine.candidate import new_candidates
from afterword.engine.capacity import Capacity
from afterword.engine.events import Finished, PromptDone
from afterword.engine.mailbox import Mailbox, MailboxGeneration
from afterword.engine.request import GenerationRequest
from afterword.engine.sampling.bias import check_tokens_are_left
from afterword.engine.tasks import Tasks
from afterword.engine.tracker import Counters, RequestTracker
from afterword.engine.upstream.answer import Answer
from afterword.engine.upstream.asking import Ask, Target, plan
from afterword.engine.upstream.breaker import Breaker
from afterword.engine.upstream.failures import Sizes
from afterword.engine.upstream.learned import LearnedTokenizer
from afterword.engine.upstream.link import Link
from afterword.engine.upstream.reply import MalformedReply, Reply
from afterword.engine.upstream.spelling import Spelling
from afterword.engine.upstream.voices import TextVoice, TokenVoice, Voice
from afterword.errors import EngineFailed, InvalidRequest, Overloaded, UpstreamFailed
from afterword.text.stops import StopAutomaton
from afterword.tokens import Tokenizer

_log = structlog.get_logger("afterword.upstream")


@dataclass(frozen=True, slots=True)
class UpstreamModel:
    """Everything an engine is made of, put together by `loading/upstream.py`."""

    target: Target
    tokenizer: Tokenizer
    """The model's own if `target.exact`, else a `LearnedTokenizer`."""
    capabilities: Capabilities
    fingerprint: str
    """What the upstream says of itself, empty if nothing."""


class UpstreamEngine:
    """An `Engine`."""

    def __init__(self, model: UpstreamModel, capacity: Capacity, now: Callable[[], float]) -> None:
        """`capacity`: of the vendor, shared by its models. `now`: a clock in seconds for the breaker."""
        self.tokenizer = model.tokenizer
        self.capabilities = model.capabilities
        self._target = model.target
        self._spelling = Spelling(model.tokenizer) if model.target.exact else None
        self._their_fingerprint = model.fingerprint
        self._link = Link(model.target.vendor)
        self._breaker = Breaker(model.target.vendor.failures, model.target.vendor.rest, now)
        self._n_requests = self._n_failures = 0
        """See `UpstreamStats`."""
        self._n_running = 0
        """Sequences of this model that are running; `capacity` counts those of all the vendor's models."""
        self._watch: asyncio.Task[None] | None = None
        self._tracker = RequestTracker(capacity, Counters())
        self._tasks: Tasks[_Job] = Tasks(self._tracker, run=self._complete, post=Mailbox.post, on_end=self._job_ended)

    @property
    def fingerprint(self) -> str:
        """See `Engine.fingerprint`: of the server, the model, and what the server last said of itself."""
        parts = (self._target.vendor.url, self._target.model, self._their_fingerprint)
        return "fp_" + hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:10]

    def generate(self, request: GenerationRequest) -> Generation:
        """See `Engine.generate`."""
        self._check_breaker()
        job = _Job(request, self._tracker.add(request.n_candidates))
        self._tasks.start(job)
        return MailboxGeneration(job.mailbox, lambda: self._tasks.cancel(job), lambda index: self._end(job, index))

    def check_capacity(self, n_sequences: int) -> None:
        """See `Engine.check_capacity`."""
        self._tracker.capacity.check(n_sequences)

    def stats(self) -> EngineStats:
        """See `Engine.stats`. Prompt tokens without a tokenizer are those that the upstream has counted."""
        stats, breaker = self._tracker.stats(self._n_running), self._breaker.state
        return replace(
            stats,
            state="unreachable" if stats.state == "ready" and breaker == "open" else stats.state,
            upstreams=(
                UpstreamStats(
                    self._target.vendor.name, breaker, self._n_requests, self._n_failures, self._link.n_retries
                ),
            ),
        )

    async def aclose(self) -> None:
        """See `Engine.aclose`. Whoever still reads gets `EngineFailed`."""
        self._tracker.end("closed", EngineFailed("The engine is closed."))
        await self._tasks.aclose()
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await self._link.aclose()

    def _check_breaker(self) -> None:
        wait = self._breaker.wait
        if wait > 0:
            raise Overloaded("The server that runs this model does not answer; it is left alone.", retry_after=wait)

    def _end(self, job: "_Job", index: int) -> None:
        """See `Generation.end`. The upstream is not told, unless it was the last candidate that ran."""
        assert job.answer is not None, "a chunk of the candidate was read"
        job.answer.end_candidate(index)
        if job.answer.n_unfinished == 0:
            self._close_answer(job, job.answer)
            self._tasks.cancel(job)

    def _job_ended(self, job: "_Job") -> None:
        if job.answer is not None:
            self._tracker.counters.completion_tokens += job.answer.n_tokens
        self._tracker.remove(job.request.n_candidates)

    async def _complete(self, job: "_Job") -> None:
        n = job.request.n_candidates
        async with self._tracker.capacity.slots(n):
            self._n_running += n
            try:
                await self._answer(job)
            finally:
                self._n_running -= n

    async def _answer(self, job: "_Job") -> None:
        request = job.request
        if self._target.exact and request.max_tokens == 0 and request.prompt_logprobs is None:
            # Nothing is asked that is not known here.
            self._tracker.counters.add_prompt(len(request.prompt), n_cached=0)
            ends = [Finished(index, "length", 0, 0.0, 0) for index in range(request.n_candidates)]
            job.mailbox.post([PromptDone(0, None), *ends])
            return
        if self._target.exact:
            check_tokens_are_left(request, self.tokenizer.n_vocab)
        answer = job.answer = Answer(request, self._voices(request), self._spelling, job.mailbox.post)
        await self._ask_carefully(plan(request, self._target), answer, request)
        self._close_answer(job, answer)

    def _close_answer(self, job: "_Job", answer: Answer) -> None:
        """Tell what is left to tell, and count."""
        counted = answer.end(exact=self._target.exact)
        self._tracker.counters.add_prompt(
            len(job.request.prompt) if counted.n_prompt is None else counted.n_prompt,
            0 if counted.n_cached is None else counted.n_cached,
        )

    def _voices(self, request: GenerationRequest) -> list[Voice]:
        if self._spelling is not None:
            candidates = new_candidates(request, self.tokenizer)
            return [TokenVoice(each, request, self.tokenizer, self._spelling) for each in candidates]
        assert isinstance(self.tokenizer, LearnedTokenizer)
        stops = StopAutomaton(request.stops, include_stop=request.include_stop)
        return [TextVoice(index, request, self.tokenizer, stops) for index in range(request.n_candidates)]

    async def _ask_carefully(self, asks: list[Ask], answer: Answer, request: GenerationRequest) -> None:
        """Ask, and tell the breaker how it went."""
        self._check_breaker()
        self._breaker.enter()
        self._n_requests += 1
        try:
            await self._ask_all(asks, answer, request)
        except UpstreamFailed as failure:
            self._n_failures += 1
            self._breaker.fail()
            self._rest_if_open(failure)
            raise
        except InvalidRequest:
            # It takes a working server to find a mistake.
            self._breaker.succeed()
            raise
        finally:
            self._breaker.abandon()

    async def _ask_all(self, asks: list[Ask], answer: Answer, request: GenerationRequest) -> None:
        """All requests of a prompt at once. The first failure ends the others."""
        for ask in asks:
            answer.expect(ask)
        if len(asks) == 1:
            await self._ask(asks[0], answer, request)
            return
        try:
            async with asyncio.TaskGroup() as group:
                for ask in asks:
                    group.create_task(self._ask(ask, answer, request))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _ask(self, ask: Ask, answer: Answer, request: GenerationRequest) -> None:
        sizes = Sizes(len(request.prompt) if self._target.exact else None, request.max_tokens)
        try:
            async with aclosing(self._link.replies(ask.body, sizes)) as replies:
                async for reply in replies:
                    self._heard(reply)
                    answer.take(ask, reply)
                    if answer.is_wasted(ask):
                        return
            answer.check_whole(ask)
        except MalformedReply as error:
            raise UpstreamFailed(str(error)) from None

    def _heard(self, reply: Reply) -> None:
        """Something has come: the server works."""
        if self._breaker.state != "closed":
            _log.info("upstream answers again", vendor=self._target.vendor.name, model=self._target.model)
        self._breaker.succeed()
        if reply.fingerprint is not None:
            self._their_fingerprint = reply.fingerprint

    def _rest_if_open(self, failure: UpstreamFailed) -> None:
        if self._breaker.state != "open":
            return
        _log.warning(
            "upstream is left alone",
            vendor=self._target.vendor.name,
            model=self._target.model,
            seconds=self._breaker.wait,
            detail=failure.detail,
        )
        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().create_task(self._watch_health())

    async def _watch_health(self) -> None:
        """Ask an upstream that rests how it is, and let a request try as soon as it says well."""
        while self._breaker.state == "open":
            await asyncio.sleep(self._target.vendor.health_interval)
            if self._breaker.state == "open" and await self._link.is_healthy():
                self._breaker.heal()


class _Job:
    """One prompt from `generate` to its end."""

    __slots__ = ("answer", "mailbox", "request")

    def __init__(self, request: GenerationRequest, mailbox: Mailbox) -> None:
        self.request = request
        self.mailbox = mailbox
        self.answer: Answer | None = None

    @property
    def n_unfinished(self) -> int:
        """Candidates that have not ended."""
        return self.request.n_candidates if self.answer is None else self.answer.n_unfinished

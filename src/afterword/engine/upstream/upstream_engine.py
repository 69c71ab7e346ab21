"""The engine that is another server: a prompt becomes HTTP requests, their answers become events.

Everything runs on the event loop, a task a prompt. A prompt waits for a slot at its vendor, is sent, and is cancelled
when its reader leaves. A circuit breaker counts failures; while it is open, requests are refused at once.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import structlog
from typing_extensions import override

from afterword.engine.base import Capabilities, Engine, EngineStats, Generation, UpstreamStats
from afterword.engine.candidate import new_candidates
from afterword.engine.capacity import Capacity
from afterword.engine.events import Finished, PromptDone, Started
from afterword.engine.mailbox import Mailbox, MailboxGeneration
from afterword.engine.request import GenerationRequest
from afterword.engine.sampling.bias import check_tokens_are_left
from afterword.engine.tasks import Tasks
from afterword.engine.tracker import Counters, RequestTracker
from afterword.engine.upstream.breaker import Breaker
from afterword.engine.upstream.candidate_readers import CandidateReader, TextReader, TokenReader
from afterword.engine.upstream.connection import UpstreamConnection
from afterword.engine.upstream.failures import Sizes
from afterword.engine.upstream.learned_tokenizer import LearnedTokenizer
from afterword.engine.upstream.outgoing import OutgoingRequest, Target, most_answer_bytes, outgoing_requests
from afterword.engine.upstream.reply import MalformedReply, Reply
from afterword.engine.upstream.token_lookup import TokenLookup
from afterword.engine.upstream.upstream_answer import UpstreamAnswer
from afterword.errors import AfterwordError, EngineClosed, InvalidRequest, Overloaded, UpstreamFailed
from afterword.fields.bans import NO_BANS
from afterword.text.stops import shared_stops
from afterword.tokens import Tokenizer

SECONDS_FOR_COUNTS = 1.0
"""How long the counts of a finished answer may take to follow it."""

_log = structlog.get_logger("afterword.upstream")


@dataclass(frozen=True, slots=True)
class UpstreamModel:
    """What an engine is made of; `loading/upstream.py` makes it."""

    target: Target
    tokenizer: Tokenizer
    """The model's own if `target.exact`, else a `LearnedTokenizer`."""
    capabilities: Capabilities
    fingerprint: str
    """What the upstream says of itself, empty if nothing."""


class UpstreamEngine(Engine):
    """One model at one vendor."""

    def __init__(self, model: UpstreamModel, capacity: Capacity, now: Callable[[], float]) -> None:
        """`capacity`: of the vendor, shared by its models. `now`: a clock in seconds for the breaker."""
        self.tokenizer = model.tokenizer
        self.capabilities = model.capabilities
        self._target = model.target
        self._lookup = TokenLookup(model.tokenizer) if model.target.exact else None
        self._upstream_fingerprint = model.fingerprint
        self._connection = UpstreamConnection(model.target.vendor)
        self._breaker = Breaker(model.target.vendor.failures, model.target.vendor.cooldown, now)
        self._n_requests = self._n_failures = 0
        """As in `UpstreamStats`."""
        self._n_running = 0
        """Sequences of this model that are running; `capacity` counts those of all the vendor's models."""
        self._health_check: asyncio.Task[None] | None = None
        self._tracker = RequestTracker(capacity, Counters())
        self._tasks: Tasks[_Job] = Tasks(self._tracker, run=self._run, post=Mailbox.post, on_end=self._job_ended)

    @property
    @override
    def fingerprint(self) -> str:
        # The upstream's own is the latest that it has sent, so ours changes when the server behind it does.
        parts = (self._target.vendor.url, self._target.model, self._upstream_fingerprint)
        return "fp_" + hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:10]

    @override
    def generate(self, request: GenerationRequest) -> Generation:
        self._check_breaker()
        job = _Job(request, self._tracker.add(request.n_candidates))
        self._tasks.start(job)
        return MailboxGeneration(job.mailbox, lambda: self._left(job), lambda index: self._end(job, index))

    @override
    def check_capacity(self, n_sequences: int) -> None:
        self._tracker.capacity.check(n_sequences)

    @override
    def stats(self) -> EngineStats:
        stats, breaker = self._tracker.stats(self._n_running), self._breaker.state
        return replace(
            stats,
            state="unreachable" if stats.state == "ready" and breaker == "open" else stats.state,
            upstreams=(
                UpstreamStats(
                    self._target.vendor.name, breaker, self._n_requests, self._n_failures, self._connection.n_retries
                ),
            ),
        )

    @override
    async def aclose(self) -> None:
        self._tracker.end("closed", EngineClosed())
        await self._tasks.aclose()
        if self._health_check is not None:
            self._health_check.cancel()
            await asyncio.gather(self._health_check, return_exceptions=True)
        await self._connection.aclose()

    def _check_breaker(self) -> None:
        wait = self._breaker.wait
        if wait > 0:
            raise Overloaded(
                "The server that runs this model has failed several times; it gets no requests at present.",
                retry_after=wait,
            )

    def _left(self, job: "_Job") -> None:
        """Its reader has gone: what the upstream has counted by now is there for who counts after it."""
        if job.answer is not None:
            job.answer.break_off(exact=self._target.exact)
        self._tasks.cancel(job)

    def _end(self, job: "_Job", index: int) -> None:
        """End one candidate. The API has no way to tell the upstream, so its request goes on until all have ended."""
        assert job.answer is not None, "a chunk of the candidate was read"
        job.answer.end_candidate(index)
        if job.answer.n_unfinished == 0:
            self._close_answer(job, job.answer)
            self._tasks.cancel(job)

    def _job_ended(self, job: "_Job") -> None:
        if job.answer is not None:
            self._tracker.counters.completion_tokens += job.answer.n_tokens
        self._tracker.remove(job.request.n_candidates)

    async def _run(self, job: "_Job") -> None:
        n = job.request.n_candidates
        async with self._tracker.capacity.slots(n, job.request.claim):
            self._n_running += n
            try:
                await self._answer(job)
            finally:
                self._n_running -= n

    async def _answer(self, job: "_Job") -> None:
        request = job.request
        if self._target.exact and request.max_tokens == 0 and request.prompt_logprobs is None:
            # Only the prompt's tokens are asked for, and those are known here.
            self._tracker.counters.add_prompt(len(request.prompt), n_cached=0)
            ends = [Finished(index, "length", 0, 0.0, 0) for index in range(request.n_candidates)]
            job.mailbox.post([Started(), PromptDone(0, None), *ends])
            return
        if self._target.exact:
            check_tokens_are_left(request, self.tokenizer.n_vocab)
        answer = job.answer = UpstreamAnswer(request, self._readers(request), self._lookup, job.mailbox.post)
        # Again: the breaker may have opened while the prompt waited for its slot.
        self._check_breaker()
        job.mailbox.post([Started()])
        try:
            await self._send_with_breaker(outgoing_requests(request, self._target), answer, request)
        except AfterwordError:
            answer.break_off(exact=self._target.exact)
            raise
        self._close_answer(job, answer)

    def _close_answer(self, job: "_Job", answer: UpstreamAnswer) -> None:
        """Post the last events, and count."""
        counted = answer.end(exact=self._target.exact)
        n_prompt = len(job.request.prompt) if counted.n_prompt is None else counted.n_prompt
        # Where the upstream counts cached tokens alone, they are measured against our own count of the prompt.
        self._tracker.counters.add_prompt(n_prompt, min(n_prompt, 0 if counted.n_cached is None else counted.n_cached))

    def _readers(self, request: GenerationRequest) -> list[CandidateReader]:
        if self._lookup is not None:
            # The upstream has seen to what is banned.
            candidates = new_candidates(replace(request, bans=NO_BANS), self.tokenizer)
            return [TokenReader(each, request, self.tokenizer, self._lookup) for each in candidates]
        assert isinstance(self.tokenizer, LearnedTokenizer)
        stops = shared_stops(request.stops, include_stop=request.include_stop)
        return [TextReader(index, request, self.tokenizer, stops) for index in range(request.n_candidates)]

    async def _send_with_breaker(
        self, requests: Sequence[OutgoingRequest], answer: UpstreamAnswer, request: GenerationRequest
    ) -> None:
        """Send all requests of a prompt, and count success or failure."""
        self._breaker.enter()
        self._n_requests += 1
        try:
            await self._send_all(requests, answer, request)
        except UpstreamFailed as failure:
            self._n_failures += 1
            self._breaker.fail()
            self._check_health_if_open(failure)
            raise
        except InvalidRequest:
            # A server that finds a mistake in the request works.
            self._breaker.succeed()
            raise
        finally:
            self._breaker.abandon()

    async def _send_all(
        self, requests: Sequence[OutgoingRequest], answer: UpstreamAnswer, request: GenerationRequest
    ) -> None:
        """All requests of a prompt at once. The first failure ends the others."""
        for outgoing in requests:
            answer.expect(outgoing)
        if len(requests) == 1:
            await self._send(requests[0], answer, request)
            return
        try:
            async with asyncio.TaskGroup() as group:
                for outgoing in requests:
                    group.create_task(self._send(outgoing, answer, request))
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _send(self, outgoing: OutgoingRequest, answer: UpstreamAnswer, request: GenerationRequest) -> None:
        n_prompt = len(request.prompt) if self._target.exact else None
        sizes = Sizes(n_prompt, request.max_tokens, most_answer_bytes(outgoing))
        try:
            async with aclosing(self._connection.replies(outgoing.body, request.trace, sizes)) as replies:
                while (reply := await _next(replies, ended=answer.has_ended(outgoing))) is not None:
                    self._note_reply(reply)
                    answer.take(outgoing, reply)
                    if answer.is_wasted(outgoing):
                        return
                    if not reply.choices and answer.has_ended(outgoing) and answer.is_counted(outgoing):
                        # The counts come last. Some servers keep the connection open behind them.
                        return
            answer.check_whole(outgoing)
        except MalformedReply as error:
            raise UpstreamFailed(str(error)) from None

    def _note_reply(self, reply: Reply) -> None:
        """Any reply shows that the server works."""
        if self._breaker.state != "closed":
            _log.info("upstream answers again", vendor=self._target.vendor.name, model=self._target.model)
        self._breaker.succeed()
        if reply.fingerprint is not None:
            self._upstream_fingerprint = reply.fingerprint

    def _check_health_if_open(self, failure: UpstreamFailed) -> None:
        if self._breaker.state != "open":
            return
        _log.warning(
            "upstream gets no requests for a while",
            vendor=self._target.vendor.name,
            model=self._target.model,
            seconds=self._breaker.wait,
            detail=failure.detail,
        )
        if self._health_check is None or self._health_check.done():
            self._health_check = asyncio.get_running_loop().create_task(self._check_health())

    async def _check_health(self) -> None:
        """Repeat health checks while the breaker is open; after a good one it lets a trial request through."""
        while self._breaker.state == "open":
            await asyncio.sleep(self._target.vendor.health_interval)
            if self._breaker.state == "open" and await self._connection.is_healthy():
                self._breaker.note_healthy()


async def _next(replies: AsyncIterator[Reply], *, ended: bool) -> Reply | None:
    """The next reply, None behind the last one.

    If all choices have `ended`, counts are waited for a little while, and nothing that breaks can cost the answer.
    """
    try:
        async with asyncio.timeout(SECONDS_FOR_COUNTS if ended else None):
            return await anext(replies, None)
    except TimeoutError:
        return None
    except (UpstreamFailed, InvalidRequest):
        if ended:
            return None
        raise


class _Job:
    """One prompt from `generate` to its end."""

    __slots__ = ("answer", "mailbox", "request")

    def __init__(self, request: GenerationRequest, mailbox: Mailbox) -> None:
        self.request = request
        self.mailbox = mailbox
        self.answer: UpstreamAnswer | None = None

    @property
    def n_unfinished(self) -> int:
        """Candidates that have not ended."""
        return self.request.n_candidates if self.answer is None else self.answer.n_unfinished

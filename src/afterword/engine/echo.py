"""An engine without a model file: it repeats the prompt. For demonstrations, tests and measuring the server.

Deterministic, and it supports every field of `GenerationRequest`: the token that it repeats is the likeliest of a whole
distribution, so log-probabilities, sampling, bias and penalties work as elsewhere. Everything runs on the
event loop, one task a prompt.
"""

import asyncio
import hashlib
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from afterword.engine.base import Capabilities, Engine, EngineStats, Generation
from afterword.engine.beam_search import Beam, BeamSearch
from afterword.engine.candidate import Candidate, new_candidates
from afterword.engine.capacity import Capacity
from afterword.engine.drawn import NO_NUMBERS, take
from afterword.engine.echo_model import EchoModel, likeliest, log_softmax
from afterword.engine.events import Event, PromptDone, PromptScores, Started
from afterword.engine.mailbox import Mailbox, MailboxGeneration
from afterword.engine.request import GenerationRequest
from afterword.engine.sampling.guidance import guided
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.engine.sampling.masks import Mask, Masks, masks_of
from afterword.engine.sampling.random_stream import RandomStream
from afterword.engine.sampling.retries import NothingLeft
from afterword.engine.sampling.sampler import Sampler, Workspace
from afterword.engine.tasks import Tasks
from afterword.engine.tracker import Counters, RequestTracker
from afterword.errors import EngineClosed
from afterword.fields.bans import NO_BANS
from afterword.fields.sampling import Sampling
from afterword.tokens import ByteTokenizer, Tokenizer

_SCORED_AT_ONCE = 256
"""Prompt tokens scored before other tasks may run."""


class EchoEngine(Engine):
    """Token number i of a completion is expected to be token i modulo P of the prompt of P tokens.

    A prompt starts when all its candidates have a slot; one with more candidates than there are slots runs alone.
    Slots cost nothing, so there are many.
    """

    # An attribute here: the protocol's property only asks for something to read.
    fingerprint: str = ""

    def __init__(
        self, *, context: int = 8192, n_slots: int = 256, max_waiting: int = 1024, token_delay: float = 0.0
    ) -> None:
        """`max_waiting`: sequences beyond the slots before `Overloaded`. `token_delay`: seconds between tokens."""
        self.tokenizer: Tokenizer = ByteTokenizer()
        self.capabilities = Capabilities(
            context=context, max_logprobs=self.tokenizer.n_vocab, reproducible=True, prefix_cache=False, n_slots=n_slots
        )
        self.fingerprint = "fp_" + hashlib.blake2b(f"echo 1, context {context}".encode(), digest_size=5).hexdigest()
        self._model = EchoModel(self.tokenizer.n_vocab, first_control=ByteTokenizer.END)
        self._workspace = Workspace(self.tokenizer.n_vocab)
        self._log_softmax = LogSoftmax(self.tokenizer.n_vocab)
        self._masks = Masks(self.tokenizer)
        self._token_delay = token_delay
        self._tracker = RequestTracker(Capacity(n_slots, max_waiting), Counters())
        self._tasks: Tasks[_Job] = Tasks(
            self._tracker,
            run=self._complete,
            post=Mailbox.post,
            on_end=lambda job: self._tracker.remove(job.request.n_sequences),
        )

    @override
    def generate(self, request: GenerationRequest) -> Generation:
        job = _Job(request, self._tracker.add(request.n_candidates, request.n_sequences))
        self._tasks.start(job)
        return MailboxGeneration(job.mailbox, lambda: self._tasks.cancel(job), lambda index: self._end(job, index))

    @override
    def check_capacity(self, n_sequences: int) -> None:
        self._tracker.capacity.check(n_sequences)

    @override
    def stats(self) -> EngineStats:
        return self._tracker.stats(self._tracker.capacity.n_running)

    @override
    async def aclose(self) -> None:
        self._tracker.end("closed", EngineClosed())
        await self._tasks.aclose()
        self._masks.close()

    def _end(self, job: "_Job", index: int) -> None:
        job.end(index)
        if job.n_unfinished == 0:
            self._tasks.cancel(job)

    async def _complete(self, job: "_Job") -> None:
        async with self._tracker.capacity.slots(job.request.n_sequences, job.request.claim):
            await self._sample(job)

    async def _sample(self, job: "_Job") -> None:
        request = job.request
        job.mailbox.post([Started()])
        scores = await self._scores(request)
        self._tracker.counters.add_prompt(len(request.prompt), n_cached=0)
        job.mailbox.post([PromptDone(0, scores)])
        candidates = new_candidates(request, self.tokenizer)
        if request.beams is not None:
            await self._search(job, candidates[0])
            return
        job.candidates = candidates
        if request.max_tokens == 0:
            job.mailbox.post([candidate.finish_empty() for candidate in candidates])
            return
        masks = await self._opened(request)
        samplers = [
            _CandidateSampler(candidate, request, self._model, self._workspace, mask, self._log_softmax)
            for candidate, mask in zip_longest(candidates, masks)
        ]
        while True:
            events: list[Event] = []
            for sampler in samplers:
                n_before = sampler.candidate.n_tokens
                events += sampler.next_events()
                # An end token does not count, nor does one that is taken back.
                self._tracker.counters.completion_tokens += sampler.candidate.n_tokens > n_before
            self._tracker.counters.add_step(len(samplers))
            job.mailbox.post(events)
            if job.n_unfinished == 0:
                return
            await asyncio.sleep(self._token_delay)
            # After the pause, in which the reader may have ended some of them.
            samplers = [each for each in samplers if not each.candidate.finished]

    async def _opened(self, request: GenerationRequest) -> list[Mask]:
        masks = masks_of(request, self._masks)
        # Without a grammar nothing is waited for, not even a turn of the loop.
        return masks.result() if masks.done() else await asyncio.wrap_future(masks)

    async def _search(self, job: "_Job", candidate: Candidate) -> None:
        """By beam search; what was found comes at the end."""
        request = job.request
        masks = await self._opened(request)
        mask = masks[0] if masks else None
        first = _CandidateSampler(candidate, request, self._model, self._workspace, mask, self._log_softmax)
        search = BeamSearch(request, self._log_softmax, Beam(candidate, first.sampler))
        while search.beams:
            extensions = [
                extension
                for number, beam in enumerate(search.beams)
                for extension in search.extensions(number, first.row(beam.candidate.n_tokens, beam.token))
            ]
            self._tracker.counters.add_step(len(search.beams))
            search.choose(extensions)
            await asyncio.sleep(self._token_delay)
        answers = list(search.answers())
        job.candidates = [found for found, _ in answers]
        self._tracker.counters.completion_tokens += sum(found.n_tokens for found in job.candidates)
        job.mailbox.post([event for _, events in answers for event in events])

    async def _scores(self, request: GenerationRequest) -> PromptScores | None:
        """Scores of the prompt, if any are wanted. Its first token is the expected one after each."""
        if request.prompt_logprobs is None:
            return None
        parts = [_score(self._model, request, range(0))]
        for start in range(request.score_from, len(request.prompt) - 1, _SCORED_AT_ONCE):
            end = min(start + _SCORED_AT_ONCE, len(request.prompt) - 1)
            parts.append(_score(self._model, request, range(start, end)))
            await asyncio.sleep(0)
        named = [part.named_logprobs for part in parts if part.named_logprobs is not None]
        return PromptScores(
            np.concatenate([part.logprobs for part in parts]),
            np.concatenate([part.top_ids for part in parts]),
            np.concatenate([part.top_logprobs for part in parts]),
            request.score_from,
            np.concatenate(named) if named else None,
        )


class _Job:
    """One prompt from `generate` to its end."""

    __slots__ = ("candidates", "mailbox", "request")

    def __init__(self, request: GenerationRequest, mailbox: Mailbox) -> None:
        self.request = request
        self.mailbox = mailbox
        self.candidates: list[Candidate] = []
        """In order of their index; empty before the prompt is done."""

    @property
    def n_unfinished(self) -> int:
        """Candidates that have not finished."""
        if not self.candidates:
            return self.request.n_candidates
        return sum(not candidate.finished for candidate in self.candidates)

    def end(self, index: int) -> None:
        """End one candidate from outside."""
        candidate = self.candidates[index]
        if not candidate.finished:
            self.mailbox.post(candidate.end())


class _CandidateSampler:
    """One candidate being sampled."""

    def __init__(
        self,
        candidate: Candidate,
        request: GenerationRequest,
        model: EchoModel,
        workspace: Workspace,
        mask: Mask | None,
        log_softmax: LogSoftmax,
    ) -> None:
        self.candidate = candidate
        self._request = request
        self._model = model
        self._log_softmax = log_softmax
        self._sampled: list[int] = []
        self._is_plain = _is_plain(request)
        self.sampler = Sampler(
            request.sampling,
            workspace,
            RandomStream(request.seed, request.prompt_index, candidate.index),
            piece=ByteTokenizer().piece,
            prompt=request.prompt,
            end_ids=request.end_ids,
            min_tokens=request.min_tokens,
            mask=mask,
        )

    def next_events(self) -> list[Event]:
        """Sample one token; the events that follow from it."""
        if self._is_plain:
            prompt = self._request.prompt
            return self.candidate.accept(prompt[self.candidate.n_tokens % len(prompt)], None, ())
        row = self.row(self.candidate.n_tokens, self._previous)
        try:
            token = self.sampler.sample(self._guided(row), self.candidate.n_tokens)
        except NothingLeft:
            return self.candidate.close("stop")
        return self._take(token, row)

    def _take(self, token: int, row: NDArray[np.float32]) -> list[Event]:
        k, numbers = self._request.logprobs, NO_NUMBERS
        if k is not None:
            logprobs = log_softmax(row[np.newaxis])
            top_ids: list[int] = likeliest(logprobs, k)[0].tolist()
            top = tuple((top_id, float(logprobs[0, top_id])) for top_id in top_ids)
            named: list[float] = logprobs[0, list(self._request.named_ids)].tolist()
            numbers = (float(logprobs[0, token]), top, tuple(named))
        return take(self.candidate, self.sampler, self._sampled, token, numbers)

    @property
    def _previous(self) -> int:
        """The token that was sampled last; -1: none."""
        return self._sampled[-1] if self._sampled else -1

    def row(self, n_sampled: int, previous: int) -> NDArray[np.float32]:
        """(n_vocab,) logits after so many tokens, the last of which is `previous`."""
        return self._row(self._request.prompt, n_sampled, previous)

    def _row(self, prompt: tuple[int, ...], n_sampled: int, previous: int) -> NDArray[np.float32]:
        before = previous if n_sampled > 0 else prompt[-1]
        row: NDArray[np.float32] = self._model.logits([before], prompt[n_sampled % len(prompt)])[0]
        return row

    def _guided(self, row: NDArray[np.float32]) -> NDArray[np.float32]:
        guidance = self._request.guidance
        if guidance is None:
            return row
        negative = self._row(guidance.tokens, self.candidate.n_tokens, self._previous)
        return guided(row, negative, guidance.scale, self._log_softmax)


def _is_plain(request: GenerationRequest) -> bool:
    """Whether every sampled token is the expected one and no numbers are wanted: then no logits need be computed."""
    likeliest_only = request.sampling.plain() == Sampling(temperature=0.0)
    unbound = request.min_tokens == 0 and request.grammar is None and request.bans == NO_BANS
    return likeliest_only and request.logprobs is None and unbound and request.guidance is None


def _score(model: EchoModel, request: GenerationRequest, places: range) -> PromptScores:
    """Scores of the tokens after those at `places`."""
    assert request.prompt_logprobs is not None
    prompt = np.asarray(request.prompt, dtype=np.intp)
    tokens, followers = prompt[places.start : places.stop], prompt[places.start + 1 : places.stop + 1]
    logprobs = log_softmax(model.logits(tokens.tolist(), request.prompt[0]))
    top_ids = likeliest(logprobs, request.prompt_logprobs)
    return PromptScores(
        logprobs[np.arange(len(tokens)), followers[: len(tokens)]],
        top_ids,
        np.take_along_axis(logprobs, top_ids.astype(np.intp), axis=1),
        places.start,
        logprobs[:, list(request.named_ids)] if request.named_ids else None,
    )

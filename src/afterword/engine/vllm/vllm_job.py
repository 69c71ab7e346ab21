"""One prompt in vLLM: its candidates, each a request of its own, and their events.

Everything here runs on the core's loop. Owns the order of the events; does not know where they are read.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from afterword.engine.candidate import Candidate, new_candidates
from afterword.engine.events import Event, PromptDone, Started
from afterword.engine.mailbox import Mailbox
from afterword.engine.request import GenerationRequest
from afterword.engine.tracker import RequestTracker
from afterword.engine.vllm.core import Core, CoreOutput
from afterword.engine.vllm.plan import Plan
from afterword.errors import EngineFailed
from afterword.fields.bans import NO_BANS
from afterword.tokens import Tokenizer


class VllmJob:
    """One prompt's candidates. `tracker` counts each sequence off as it ends, `post` takes the events."""

    def __init__(
        self,
        request: GenerationRequest,
        plans: Sequence[Plan],
        tokenizer: Tokenizer,
        mailbox: Mailbox,
        tracker: RequestTracker,
        post: Callable[[Mailbox, Sequence[Event]], None],
    ) -> None:
        self.mailbox = mailbox
        self.n_unfinished = request.n_candidates
        """Sequences that have not been released."""
        self._request = request
        self._plans = plans
        # vLLM has seen to what is banned.
        self._candidates = new_candidates(replace(request, bans=NO_BANS), tokenizer)
        self._post = post
        self._tracker = tracker
        self._started = False
        self._prompt_done = asyncio.Event()

    async def run(self, core: Core) -> None:
        """Complete every candidate. Raises what `Core.sample` raises; then some are left unfinished."""
        # vLLM does not say when it begins. In order of arrival: at once where nothing waits.
        if self._tracker.stats(self._tracker.capacity.n_slots).waiting == 0:
            self._start()
        # A prompt that nothing is sampled for is computed once, whatever the number of candidates.
        plans = self._plans if self._request.max_tokens > 0 else self._plans[:1]
        tasks = [
            asyncio.create_task(self._follow(core, plan, candidate))
            for plan, candidate in zip(plans, self._candidates, strict=False)
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            # The job ends only when vLLM has stopped all of them: until then its slots are in use.
            await asyncio.gather(*tasks, return_exceptions=True)

    def end(self, index: int) -> None:
        """End one candidate, as `Generation.end` does. vLLM is stopped when its next step arrives."""
        candidate = self._candidates[index]
        if not candidate.finished:
            self._post(self.mailbox, candidate.end())
            self._ended(1)

    async def _follow(self, core: Core, plan: Plan, candidate: Candidate) -> None:
        is_first = True
        async with aclosing(core.sample(plan)) as steps:
            async for step in steps:
                if is_first:
                    is_first = False
                    self._tracker.capacity.note_wait(step.queue_seconds)
                    await self._post_prompt(step, candidate)
                if self._request.max_tokens == 0:
                    self._finish_empty()
                    return
                if candidate.finished:
                    return  # ended from outside, and released there
                self._accept(step, candidate)
                if candidate.finished:
                    self._ended(1)
                    return
        raise EngineFailed("vLLM ended a completion before its end.")

    def _start(self) -> None:
        self._started = True
        self._post(self.mailbox, [Started()])

    async def _post_prompt(self, step: CoreOutput, candidate: Candidate) -> None:
        """Post `PromptDone` for the first candidate; the others wait for that, as `events.py` has the order."""
        if candidate.index > 0:
            await self._prompt_done.wait()
            return
        self._tracker.counters.add_prompt(len(self._request.prompt), step.n_cached)
        if not self._started:
            self._start()
        self._post(self.mailbox, [PromptDone(step.n_cached, step.scores)])
        self._prompt_done.set()

    def _accept(self, step: CoreOutput, candidate: Candidate) -> None:
        n_before = candidate.n_tokens
        events: list[Event] = []
        for token in step.tokens:
            events += candidate.accept(token.id, token.logprob, token.top)
            if candidate.finished:
                break
        self._tracker.counters.completion_tokens += candidate.n_tokens - n_before
        self._post(self.mailbox, events)

    def _finish_empty(self) -> None:
        self._post(self.mailbox, [candidate.finish_empty() for candidate in self._candidates])
        self._ended(self.n_unfinished)

    def _ended(self, n_sequences: int) -> None:
        self.n_unfinished -= n_sequences
        self._tracker.remove(n_sequences)

"""A scheduler without a model: requests in, what their readers were told out, everything checked after each step."""

from asyncio import AbstractEventLoop
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from tests.engine.llama.fake_context import N_VOCAB, STATE_BYTES, Kernels
from tests.engine.llama.fake_runner import FakeRunner
from tests.fakes import generation_request

from afterword.engine.candidate import new_candidates
from afterword.engine.events import Chunk, Event, Finished, PromptDone, SampledToken, Started
from afterword.engine.llama.arithmetic import INDEPENDENT, QUANTISED, Arithmetic
from afterword.engine.llama.beam_team import search_together
from afterword.engine.llama.guided_pair import guide
from afterword.engine.llama.kv import KVSlots
from afterword.engine.llama.policy import Policy, next_batch
from afterword.engine.llama.scheduler import Scheduler
from afterword.engine.llama.sequence import Group, Sequence, demand_of
from afterword.engine.mailbox import Mailbox, Message
from afterword.engine.request import GenerationRequest
from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.engine.sampling.random_stream import RandomStream
from afterword.engine.sampling.sampler import Sampler, Workspace
from afterword.errors import AfterwordError
from afterword.fields.sampling import Sampling
from afterword.tokens import ByteTokenizer

WARM = Sampling(temperature=1.0)
WORDS = np.random.default_rng(0).integers(0, N_VOCAB, (8, 2400)).tolist()


def words(n: int, book: int = 0) -> tuple[int, ...]:
    """The first n tokens of a numbered text."""
    return tuple(WORDS[book][:n])


@dataclass(slots=True, eq=False)
class Reading:
    """What one group's reader was told."""

    request: GenerationRequest
    told: list[Event | AfterwordError] = field(default_factory=list)

    def listed(self, index: int) -> list[SampledToken]:
        chunks = [event for event in self.told if isinstance(event, Chunk) and event.index == index]
        return [token for chunk in chunks for token in chunk.tokens]

    def tokens(self, index: int) -> list[tuple[object, ...]]:
        """The listed tokens, their log-probabilities to the bit."""
        return [(token.id, token.offset, token.logprob.hex(), token.top) for token in self.listed(index)]

    def finished(self, index: int) -> Finished | None:
        ends = [event for event in self.told if isinstance(event, Finished) and event.index == index]
        assert len(ends) <= 1, "a candidate ends once"
        return ends[0] if ends else None

    @property
    def prompt(self) -> PromptDone | None:
        done = [event for event in self.told if isinstance(event, PromptDone)]
        assert len(done) <= 1, "a prompt is done once"
        assert not done or self.told[:2] == [Started(), done[0]], "nothing but `Started` comes before the prompt"
        return done[0] if done else None

    def scores(self) -> tuple[bytes, ...]:
        if self.prompt is None or self.prompt.scores is None:
            return ()
        scores = self.prompt.scores
        return scores.logprobs.tobytes(), scores.top_ids.tobytes(), scores.top_logprobs.tobytes()


class Harness:
    """A scheduler over a fake runner, with everything checked after each step."""

    def __init__(
        self,
        n_slots: int,
        *,
        capacity: int = 3000,
        can_cut: bool = True,
        arithmetic: Arithmetic = QUANTISED,
        kernels: Kernels | None = None,
        policy: Policy = next_batch,
        n_checkpoints: int = 1000,
        window: int | None = None,
        drafts: bool = True,
    ) -> None:
        """`can_cut` False goes with `INDEPENDENT`; `n_checkpoints`: those for which there is memory."""
        if not can_cut:
            arithmetic = INDEPENDENT
        self.kv = KVSlots(n_slots, capacity, can_cut=can_cut, checkpoint_bytes=n_checkpoints * STATE_BYTES)
        self.runner = FakeRunner(
            n_slots, capacity=capacity, can_cut=can_cut, arithmetic=arithmetic, kernels=kernels, window=window
        )
        self.scheduler = Scheduler(self.kv, self.runner, LogSoftmax(N_VOCAB), arithmetic, policy, drafts=drafts)
        self._workspace = Workspace(N_VOCAB)
        self._readings: dict[Mailbox, Reading] = {}

    def add(self, request: GenerationRequest) -> tuple[Group, Reading]:
        reading = Reading(request)
        # Never read, so it needs no loop.
        mailbox = Mailbox(cast("AbstractEventLoop", None), request.n_candidates)
        self._readings[mailbox] = reading
        group = Group(request, mailbox, 0.0)
        for candidate in new_candidates(request, ByteTokenizer()):
            stream = RandomStream(request.seed, request.prompt_index, candidate.index)
            sampler = Sampler(request.sampling, self._workspace, stream, end_ids=request.end_ids)
            demand = demand_of(request, reproducible=request.reproducible, scored=candidate.index == 0)
            sequence = Sequence(group, candidate, sampler, demand)
            group.sequences.append(sequence)
            if request.guidance is not None:
                group.sequences.append(guide(sequence, LogSoftmax(N_VOCAB)))
        if request.beams is not None:
            search_together(group.sequences, LogSoftmax(N_VOCAB))
        self.scheduler.add(group)
        return group, reading

    def step(self) -> list[Message]:
        messages = [*self.scheduler.admit(), *self.scheduler.step()]
        for mailbox, said in messages:
            self._readings[mailbox].told.append(said)
        self.kv.check_invariants()
        self.runner.check_records(self.kv)
        kept = sum(slot.n for slot in self.kv if not slot.running)
        assert kept + sum(s.n_cells for s in self.scheduler.running) <= self.kv.n_cells
        held = [s.slot for s in self.scheduler.running]
        assert sorted(slot.id for slot in self.kv if slot.running) == sorted(s.id for s in held if s is not None)
        return messages

    def cancel(self, group: Group) -> None:
        self.scheduler.cancel(group)
        assert not any(s.group is group for s in self.scheduler.running)
        assert not group.waiting
        assert all(s.slot is None for s in group.sequences)

    def finish(self) -> None:
        for _ in range(2000):
            if self.scheduler.idle:
                return
            self.step()
        raise AssertionError("the work never ends")

    def complete(self, request: GenerationRequest) -> Reading:
        _, reading = self.add(request)
        self.finish()
        return reading


def ask(prompt: tuple[int, ...], **changes: Any) -> GenerationRequest:
    return generation_request(prompt, **({"sampling": WARM, "logprobs": 2, "seed": 5} | changes))

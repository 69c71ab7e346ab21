"""One candidate in the engine, and the group of candidates that share a prompt.

All state of a running completion lives here and dies with it. Engine thread only.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from afterword.engine.candidate import Candidate
from afterword.engine.events import Event
from afterword.engine.line import Claim
from afterword.engine.llama.demand import Demand, Kin
from afterword.engine.llama.drafts import NO_GUESS, GrowingText, Guess
from afterword.engine.llama.kv import Books, Slot
from afterword.engine.mailbox import EventOrError
from afterword.engine.request import GenerationRequest
from afterword.engine.sampling.sampler import Sampler

Message = tuple[Any, EventOrError]
"""The address of a group, and what is told of it."""

SHORT_CONTEXT = 16
"""Tokens: contexts that are shorter are computed again."""

Saved = NDArray[np.uint8]
"""What a slot held, in llama.cpp's own format."""


@dataclass(slots=True, eq=False)
class Group:
    """One `GenerationRequest` in the engine."""

    request: GenerationRequest
    address: Any
    """Whose its events are: a mailbox, or a number in another process. Only who made the group knows what it is."""
    queued_at: float
    """Seconds on the monotonic clock."""
    admitted_at: float | None = None
    """When the step began in which its first sequence got a slot."""
    sequences: list["Sequence"] = field(default_factory=list)
    """Of each candidate as many, in order."""
    prompt_done: bool = False
    """`PromptDone` has been sent: some sequence has processed the prompt."""
    leader: "Sequence | None" = None
    """The first sequence to be admitted: it is scored, and the others wait for its prefill."""
    kin: Kin | None = None
    """The same for all groups of a request whose prompts begin with one context, which is reason to have them in one
    slot one after another; None: it has none."""
    waiting: deque["Sequence"] = field(default_factory=deque)
    """Those without a slot, in the order in which they get one."""

    def of_candidate(self, index: int) -> "Sequence":
        """The first sequence of a candidate."""
        return self.sequences[index * len(self.sequences) // self.request.n_candidates]

    @property
    def claim(self) -> Claim:
        """On whose behalf its sequences run."""
        return self.request.claim


class Team(Protocol):
    """Sequences of one group that get their slots together and go on together.

    Each rests once its row is computed, until those of all others are.
    """

    members: list["Sequence"]
    """In the order in which they get their slots."""

    def take(self, sequence: "Sequence", row: NDArray[np.float32]) -> None:
        """The (n_vocab,) logits after all tokens of a member, which rests from now on. Raises what `sample` does."""
        ...

    def go_on(self) -> tuple[list[Event], int]:
        """Once all rest: choose what comes next, and wake those that have something to compute. Raises likewise.

        What is to be told, and how many tokens were sampled.
        """
        ...


@dataclass(frozen=True, slots=True)
class Parked:
    """What was in the slot of a sequence that has made room for another."""

    books: Books
    saved: Saved


@dataclass(slots=True, eq=False)
class Sequence:
    """One candidate: it has `n_tokens`, its slot has `n_computed` of them, a step computes some of the difference.

    Once the prompt is computed those are one, but for a sequence that has gone back (`Scheduler._go_back`).
    """

    group: Group
    candidate: Candidate
    sampler: Sampler
    demand: Demand
    """What it looks for in the prefix cache; `demand.prompt` is the prompt."""
    slot: Slot | None = None
    n_computed: int = 0
    n_entered: int = 0
    """`n_computed` when it got its slot."""
    parked: Parked | None = None
    """Set while it waits to go on."""
    went_on: bool = False
    """It has made room once and got another slot."""
    sampled: list[int] = field(default_factory=list)
    """The last of its candidate's tokens: all at least that are not in its slot."""
    n_reused: int = 0
    waits_for: "Sequence | None" = None
    """A running sequence that is computing a prefix worth waiting for."""
    waits_until: int = 0
    """`waits_for.n_computed` at which waiting ends."""
    places: set[int] = field(default_factory=set)
    """Where its state is kept (checkpoints.py): pieces of its prompt end there."""
    team: Team | None = None
    """Those with which it goes on; None: it goes on alone."""
    is_negative: bool = False
    """Its prompt is the one to steer away from."""
    rests: bool = False
    """It computes nothing until its team goes on."""
    copy_of: "Sequence | None" = None
    """Another one of its team, which has computed what it goes on from."""
    text: GrowingText | None = None
    """Where guesses are found; None: nothing is guessed for it."""
    guess: Guess = NO_GUESS
    """What the step computes beyond the token that it has."""

    @property
    def together(self) -> list["Sequence"]:
        """Those that get their slots with it, in order; itself if it has no team."""
        return [self] if self.team is None else self.team.members

    @property
    def slot_id(self) -> int:
        """Id of its slot; asserts that it has one."""
        assert self.slot is not None
        return self.slot.id

    @property
    def n_prompt(self) -> int:
        """Tokens of the prompt."""
        return len(self.demand.prompt)

    @property
    def n_cells(self) -> int:
        """Tokens that its slot may come to hold."""
        return self.n_prompt + self.group.request.max_tokens

    @property
    def n_tokens(self) -> int:
        """Tokens it has: the prompt and every sampled token that must be computed to go on."""
        return self.n_prompt + self.candidate.n_tokens

    @property
    def n_pending(self) -> int:
        """Tokens it has but its slot has not."""
        return self.n_tokens - self.n_computed

    @property
    def n_next(self) -> int:
        """Tokens that it has up to the next of its places, of the prompt alone as long as it has some of that left."""
        ends = {*self.places, self.n_prompt}
        ahead = [place - self.n_computed for place in ends if place > self.n_computed]
        return min(self.n_pending, *ahead) if ahead else self.n_pending

    @property
    def n_room(self) -> int:
        """Rows that its slot has room for."""
        assert self.slot is not None
        return len(self.slot.tokens) - self.n_computed

    @property
    def n_to_sample(self) -> int:
        """Tokens it may still sample."""
        return self.group.request.max_tokens - self.candidate.n_tokens

    @property
    def prefilling(self) -> bool:
        """Whether part of its prompt is still to be computed."""
        return not self.rests and self.n_computed < self.n_prompt

    @property
    def scored(self) -> bool:
        """Whether its prompt's log-probabilities are wanted from it."""
        return self.demand.score_top is not None

    def pending_tokens(self, n: int) -> NDArray[np.int32]:
        """The next n tokens to compute."""
        if self.prefilling:
            return self.demand.prompt[self.n_computed : self.n_computed + n]
        start = len(self.sampled) - self.n_pending
        own = self.sampled[start : start + n]
        return np.array([*own, *self.guess.tokens[: n - len(own)]], dtype=np.int32)


def kin_of(request: GenerationRequest) -> Kin | None:
    """`Group.kin`: of prompts that are only scored, and that behind a context."""
    if request.max_tokens > 0 or request.prompt_logprobs is None or request.score_from < SHORT_CONTEXT:
        return None
    return hash((request.claim.party, request.claim.request)), hash(request.prompt[: request.score_from])


def demand_of(request: GenerationRequest, *, reproducible: bool, scored: bool) -> Demand:
    """What a candidate of `request` looks for; `scored`: it has the prompt's scores to give, if any are wanted."""
    prompt = np.array(request.prompt, dtype=np.int32)
    if request.prompt_logprobs is None or not scored:
        return Demand(prompt, reproducible, None)
    # A last token that nothing follows has its score from the row before it.
    n_computed = len(prompt) - 1 if request.max_tokens == 0 and len(prompt) > 1 else len(prompt)
    last = request.prompt[-1] if n_computed < len(prompt) else None
    return Demand(
        prompt[:n_computed], reproducible, request.prompt_logprobs, request.score_from, request.named_ids, last
    )


@dataclass(frozen=True, slots=True)
class Span:
    """The next n tokens of one sequence, as a step computes them."""

    sequence: Sequence
    start: int
    n: int
    outputs: NDArray[np.int8]
    """(n,) 1 where the logits after that token are wanted."""

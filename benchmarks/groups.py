"""Everything that is measured over HTTP on a model: name, workload, and the room the servers get for it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from benchmarks.client import Client
from benchmarks.servers import Shape
from benchmarks.sizes import Sizes
from benchmarks.workloads import Measures

from benchmarks import growth, load, workloads

Workload = Callable[[Client, Random, Sizes], Awaitable[Measures]]

DEEP = Shape(slots=16, context=4224)
"""For prompts of 4,000 tokens and their completions."""

WIDE = Shape(slots=64, context=1024)

BROAD = Shape(slots=16, context=2560)
"""For short prompts beside long ones."""


@dataclass(frozen=True, slots=True)
class Group:
    """One workload. Groups of one shape share one start of a server."""

    name: str
    workload: Workload
    shape: Shape = DEEP
    needs_batching: bool = True
    """Left out on servers that answer one request at a time: it would take hours and say nothing."""


GROUPS = (
    Group("single", workloads.single, needs_batching=False),
    Group("concurrent", workloads.concurrent, needs_batching=False),
    Group("fanout", workloads.fanout, needs_batching=False),
    Group("best_of", workloads.best_of, needs_batching=False),
    Group("score", workloads.score, needs_batching=False),
    Group("typing", workloads.typing, needs_batching=False),
    Group("seeded", load.seeded),
    Group("growth-prompt", growth.prompt),
    Group("growth-score", growth.scores),
    Group("growth-clients", growth.clients, WIDE),
    Group("growth-n", growth.candidates, WIDE),
    Group("between-tokens", load.between_tokens, WIDE),
    Group("first-token", load.first_token, BROAD),
    Group("fairness", load.fairness, BROAD),
)

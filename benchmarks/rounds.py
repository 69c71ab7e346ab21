"""Goes round the servers, each alone on the machine while it is measured, and records the figures.

The order is A, B, C, A, B, C …: what the machine does to one round it does to all servers, so ratios within a round
say more than times.
"""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.client import Refused
from benchmarks.groups import Group
from benchmarks.memory import forget_the_peak, peak_mib, resident_mib
from benchmarks.report import Failure, Record, Start, figures
from benchmarks.servers import NotStarted, Running, Server, Shape, running
from benchmarks.sizes import Sizes


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured by whom."""

    groups: Sequence[Group]
    servers: Sequence[Server]
    sizes: Sizes
    salt: int
    logs: Path


async def go_round(plan: Plan, number: int, record: Record) -> None:
    """Measure every group on every server once, adding to `record` as it goes."""
    shapes = list(dict.fromkeys(group.shape for group in plan.groups))
    for shape in shapes:
        for server in plan.servers:
            groups = [group for group in plan.groups if group.shape == shape and _fits(server, group)]
            if groups:
                await _visit(plan, server, shape, groups, Visit(number, server.name, record))


@dataclass(frozen=True, slots=True)
class Visit:
    """One start of one server in one round, and where its figures go."""

    round: int
    server: str
    record: Record

    def begin(self, group: str) -> None:
        """Note how busy the machine is before anything is measured."""
        one_minute = os.getloadavg()[0]
        self.record.starts.append(Start(self.round, self.server, group, time.time(), one_minute))

    def add(self, group: str, measures: dict[str, float]) -> None:
        """Record what was measured and say it."""
        found = figures(self.round, self.server, group, measures)
        self.record.figures.extend(found)
        shown = ", ".join(f"{name} {value:.4g}" for name, value in measures.items())
        print(f"round {self.round} {self.server:20} {group:16} {shown}", file=sys.stderr, flush=True)

    def fail(self, group: str, reason: str) -> None:
        """Record that nothing could be measured, and why."""
        self.record.failures.append(Failure(self.round, self.server, group, reason))
        print(f"round {self.round} {self.server:20} {group:16} {reason}", file=sys.stderr, flush=True)


def _fits(server: Server, group: Group) -> bool:
    return server.batches or not group.needs_batching


async def _visit(plan: Plan, server: Server, shape: Shape, groups: Sequence[Group], visit: Visit) -> None:
    try:
        async with running(server, shape, plan.logs) as started:
            idle = resident_mib(started.process_id)
            forget_the_peak(started.process_id)
            for group in groups:
                await _measure(plan, group, started, visit)
            _remember_memory(started, shape, idle, visit)
    except NotStarted as error:
        for group in groups:
            visit.fail(group.name, str(error))


def _remember_memory(started: Running, shape: Shape, idle: float, visit: Visit) -> None:
    name = f"memory-{shape.slots}x{shape.context}"
    try:
        visit.add(name, {"idle_mib": idle, "peak_mib": peak_mib(started.process_id)})
    except ProcessLookupError:
        visit.fail(name, "the server has ended")


async def _measure(plan: Plan, group: Group, started: Running, visit: Visit) -> None:
    # The same prompts for every server, and new ones in every round.
    random = Random(f"{group.name} {plan.salt} {visit.round}")
    visit.begin(group.name)
    try:
        visit.add(group.name, await group.workload(started.client, random, plan.sizes))
    except (Refused, OSError, TimeoutError, ExceptionGroup) as error:
        visit.fail(group.name, f"{type(error).__name__}: {error}")

"""What the project wants to reach, as ratios of one run's figures. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.names import (
    CEILING,
    CEILING_OURS,
    ECHO,
    IK,
    OURS,
    OURS_ON_LLAMA_CPP,
    REFERENCE,
    VLLM,
)
from benchmarks.report import Figure, Key, by_round, gain


@dataclass(frozen=True, slots=True)
class Target:
    """`measured` is at least `least` times as good as `reference`, in the median of the rounds."""

    name: str
    measured: Key
    reference: Key
    least: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far a target was reached; `reached` is None where a figure is missing."""

    name: str
    reached: float | None
    least: float

    @property
    def met(self) -> bool | None:
        """None if it cannot be told."""
        return None if self.reached is None else self.reached >= self.least


def targets(ours: str) -> list[Target]:
    """The targets of one configuration of ours."""
    single = Key(ours, "single", "decode_tokens_per_s")
    concurrent = Key(ours, "concurrent", "out_tokens_per_s")
    fanout, best_of = Key(ours, "fanout", "wall_s"), Key(ours, "best_of", "wall_s")
    score, typing = Key(ours, "score", "requests_per_s"), Key(ours, "typing", "next_first_token_ms")
    gap = Key(ours, "between-tokens", "gap_p99_ms")
    theirs = Key(REFERENCE, "fanout", "wall_s")
    firsts = [Key(ours, "single", "first_token_ms", at) for at in (None, 1000)]
    return [
        Target("single decode", single, _of(REFERENCE, single), 1.10),
        *_beside_the_ceiling(ours, single),
        Target("16 clients", concurrent, _of(REFERENCE, concurrent), 1.5),
        *(Target(f"first token, ik_llama.cpp's, {key.at or 128} words", key, _of(IK, key), 0.95) for key in firsts),
        Target("single decode, ik_llama.cpp's", single, _of(IK, single), 1.0),
        Target("16 clients, ik_llama.cpp's", concurrent, _of(IK, concurrent), 1.2),
        Target("n = 8", fanout, theirs, 1.5),
        Target("best_of = 8", best_of, theirs, 1.5),
        Target("best_of costs what n costs", best_of, fanout, 0.95),
        Target("scoring", score, _of(VLLM, score), 3.0),
        Target("typing, next first token", typing, _of(REFERENCE, typing), 1.0),
        Target("seeded as fast as unseeded", *_seeded(ours), 0.95),
        Target("p99 between tokens", gap, Key(ours, gap.group, "gap_p50_ms"), 0.5),
    ]


def _beside_the_ceiling(ours: str, single: Key) -> list[Target]:
    """llama-bench knows nothing of this project's kernels: a loop of ours does the same on them."""
    if ours == OURS_ON_LLAMA_CPP:
        bench = "single decode, llama-bench at depth"
        return [Target(f"{bench} {at}", single, Key(CEILING, "ceiling", single.metric, at), 0.95) for at in (0, 128)]
    batched = Key(CEILING_OURS, "ceiling", "batched_decode_tokens_per_s", 1)
    return [Target("single decode, a bare loop", single, batched, 0.95)]


CHUNKS = Key(ECHO, "overhead-stream_16", "chunks_per_s")
CHUNKS_WANTED = 20_000.0


ADDED = Key(ECHO, "gateway", "keyed_added_ms")
ADDED_WANTED_MS = 1.0


OUTSIDE_DECODE_WANTED = 0.05
STEPS_OF = (1, 16, 32)
"""Sequences."""


def verdicts(figures: Sequence[Figure]) -> list[Verdict]:
    """All targets of all configurations of ours that have figures."""
    servers = {figure.server for figure in figures}
    found = [
        Verdict(f"{ours}: {target.name}", gain(figures, target.measured, target.reference), target.least)
        for ours in (OURS, OURS_ON_LLAMA_CPP)
        if ours in servers
        for target in targets(ours)
    ]
    chunks = by_round(figures, CHUNKS).values()
    added = by_round(figures, ADDED).values()
    return [
        *found,
        Verdict("echo engine: 20,000 chunks/s", max(chunks, default=0) / CHUNKS_WANTED or None, 1.0),
        Verdict("keys, limits, ledger: 1 ms", ADDED_WANTED_MS / statistics.median(added) if added else None, 1.0),
        *(_outside_decode(figures, n) for n in STEPS_OF),
    ]


def _outside_decode(figures: Sequence[Figure], n: int) -> Verdict:
    shares = by_round(figures, Key(OURS, "steps", "outside_decode_share", n)).values()
    reached = OUTSIDE_DECODE_WANTED / statistics.median(shares) if shares else None
    return Verdict(f"{n} sequences: 5 % outside llama_decode", reached, 1.0)


def _of(server: str, key: Key) -> Key:
    """The same figure of another server."""
    return Key(server, key.group, key.metric, key.at)


def _seeded(ours: str) -> tuple[Key, Key]:
    return Key(ours, "seeded", "seeded_out_tokens_per_s"), Key(ours, "seeded", "unseeded_out_tokens_per_s")

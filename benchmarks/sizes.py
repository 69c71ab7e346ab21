"""How much work each workload does: as measured, and as small as shows that everything runs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Words of prompts, tokens of completions, counts of requests. The defaults are what is measured."""

    repeats: int = 3
    """Runs of a workload that takes its own median."""
    prompt: int = 128
    """Words of an ordinary prompt."""
    long_prompt: int = 512
    """Words of the prompt that several candidates share."""
    single_out: int = 128
    out: int = 64
    clients: int = 16
    candidates: int = 8
    contexts: int = 12
    """Multiple-choice questions of four endings each."""
    file: int = 1000
    """Words of the text an editor has open."""
    keystrokes: int = 12
    probes: int = 8
    """Short requests sent, one after the other, to a busy server."""
    many_choices: int = 128
    """Candidates of each of the four requests that others must not wait for."""
    intruder: int = 2000
    """Words of the long prompts that short ones must not wait for."""
    many_clients: int = 64
    growing_clients: tuple[int, ...] = (1, 4, 16, 64)
    growing_prompts: tuple[int, ...] = (64, 256, 1000, 2000, 4000)
    growing_candidates: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    growing_scores: tuple[int, ...] = (1, 10, 100, 500, 2000)
    scoring_seconds: float = 60.0
    """No further prompt of one size is scored after this long; the rate is of those that were."""
    pour_seconds: float = 10.0
    """How long the server's own overhead is measured."""
    tokens_in_process: int = 4000
    requests_in_process: int = 2000


SMOKE = Sizes(
    repeats=1,
    prompt=16,
    long_prompt=32,
    single_out=8,
    out=4,
    clients=2,
    candidates=2,
    contexts=1,
    file=64,
    keystrokes=3,
    probes=2,
    many_choices=20,
    intruder=200,
    many_clients=3,
    growing_clients=(1, 2),
    growing_prompts=(16, 64),
    growing_candidates=(1, 2),
    growing_scores=(1, 4),
    scoring_seconds=5.0,
    pour_seconds=1.0,
    tokens_in_process=500,
    requests_in_process=20,
)
"""Seconds in all; its figures mean nothing."""

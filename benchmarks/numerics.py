"""Time the numerics of the embedded engine per row of logits, beside the plain numpy way of saying the same.

    python benchmarks/numerics.py [--vocab 49152] [--rounds 400]

Prints the best time of each in milliseconds (the machine may be busy) and how many times faster ours is; the plain
way of `penalties` leaves the penalties out. Rows are made up: `peaked` has the shape of a language model's (a few
likely tokens, a long tail), `flat` is noise.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afterword.engine.sampling.logprobs import LogSoftmax
from afterword.engine.sampling.random_stream import RandomStream
from afterword.engine.sampling.sampler import Sampler, Workspace
from afterword.fields.sampling import Sampling

Row = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    ours: Callable[[Row, int], object]
    naive: Callable[[Row, int], object]


def naive_lse(row: Row, _: int) -> float:
    shifted = row.astype(np.float64) - row.max()
    return float(np.log(np.exp(shifted).sum()) + row.max())


def naive_top(row: Row, k: int) -> list[tuple[int, float]]:
    order = np.argsort(-row, kind="stable")[:k]
    return list(zip(order.tolist(), row[order].tolist(), strict=True))


def naive_probabilities(row: Row, temperature: float) -> NDArray[np.float64]:
    scaled = row.astype(np.float64) / temperature
    weights = np.exp(scaled - scaled.max())
    probabilities: NDArray[np.float64] = weights / weights.sum()
    return probabilities


def naive_draw(row: Row, temperature: float, u: float) -> int:
    return int(naive_probabilities(row, temperature).cumsum().searchsorted(u, side="right"))


def naive_likeliest(row: Row, sampling: Sampling, u: float) -> int:
    """Sort everything, then cut by min_p, top_k and top_p (one of them is set), then draw."""
    probabilities = naive_probabilities(row, sampling.temperature)
    order = np.argsort(-probabilities, kind="stable")[: sampling.top_k or None]
    order = order[probabilities[order] >= sampling.min_p * probabilities.max()]
    cumulative = probabilities[order].cumsum()
    kept = cumulative[: int(cumulative.searchsorted(sampling.top_p)) + 1]
    return int(order[kept.searchsorted(u * kept[-1], side="right")])


def cases(n_vocab: int) -> list[Case]:
    softmax = LogSoftmax(n_vocab)
    workspace = Workspace(n_vocab)
    random = RandomStream(seed=1, prompt_index=0, candidate=0)

    def sampler(sampling: Sampling) -> Callable[[Row, int], object]:
        made = Sampler(sampling, workspace, random, prompt=range(min(500, n_vocab)))
        for token in range(0, n_vocab, 97):
            made.accept(token)
        return made.sample

    def drawn(name: str, temperature: float) -> Case:
        sampling = Sampling(temperature=temperature)
        return Case(name, sampler(sampling), lambda row, i: naive_draw(row, temperature, random.uniform(i)))

    def cut(name: str, sampling: Sampling) -> Case:
        return Case(name, sampler(sampling), lambda row, i: naive_likeliest(row, sampling, random.uniform(i)))

    penalised = Sampling(frequency_penalty=0.5, repetition_penalty=1.1)
    return [
        Case("lse", lambda row, _: softmax.lse(row), naive_lse),
        Case("top 5", lambda row, _: softmax.top(row, 0.0, 5), lambda row, _: naive_top(row, 5)),
        Case("top 100", lambda row, _: softmax.top(row, 0.0, 100), lambda row, _: naive_top(row, 100)),
        Case("greedy", sampler(Sampling(temperature=0.0)), lambda row, _: int(row.argmax())),
        drawn("temperature 1", 1.0),
        drawn("temperature 0.8", 0.8),
        cut("top_p 0.95 at 0.8", Sampling(temperature=0.8, top_p=0.95)),
        cut("top_p 0.99 at 2", Sampling(temperature=2.0, top_p=0.99)),
        cut("top_k 40 at 0.8", Sampling(temperature=0.8, top_k=40)),
        cut("min_p 0.05 at 0.8", Sampling(temperature=0.8, min_p=0.05)),
        Case("penalties at 1", sampler(penalised), lambda row, i: naive_draw(row, 1.0, random.uniform(i))),
    ]


def rows(n_vocab: int) -> dict[str, Row]:
    generator = np.random.default_rng(0)
    noise = generator.standard_normal(n_vocab)
    ranks = generator.permutation(n_vocab) + 1.0
    return {
        "peaked": (12.0 - 1.5 * np.log(ranks) + 0.5 * noise).astype(np.float32),
        "flat": noise.astype(np.float32),
    }


def best_of(function: Callable[[Row, int], object], row: Row, rounds: int) -> float:
    """Least time of a call in milliseconds; every call draws at a position of its own."""
    times = []
    for position in range(rounds):
        start = time.perf_counter_ns()
        function(row, position)
        times.append(time.perf_counter_ns() - start)
    return min(times) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=int, default=49152)
    parser.add_argument("--rounds", type=int, default=400)
    options = parser.parse_args()
    print(f"{'row':8}{'what':20}{'ours ms':>10}{'naive ms':>10}{'ratio':>8}")
    for name, row in rows(options.vocab).items():
        for case in cases(options.vocab):
            ours = best_of(case.ours, row, options.rounds)
            naive = best_of(case.naive, row, max(options.rounds // 20, 1))
            print(f"{name:8}{case.name:20}{ours:10.4f}{naive:10.4f}{naive / ours:8.1f}")


if __name__ == "__main__":
    main()

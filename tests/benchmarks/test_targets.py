"""Targets are judged by the figures of one run."""

from benchmarks.names import ECHO, OURS, REFERENCE
from benchmarks.report import Figure
from benchmarks.targets import Verdict, verdicts


def judged(figures: list[Figure], name: str) -> Verdict:
    (found,) = (verdict for verdict in verdicts(figures) if verdict.name.endswith(name))
    return found


def test_a_target_is_met_by_the_ratio_to_the_reference() -> None:
    figures = [
        Figure(1, OURS, "single", "decode_tokens_per_s", None, 120.0),
        Figure(1, REFERENCE, "single", "decode_tokens_per_s", None, 100.0),
    ]
    verdict = judged(figures, ": single decode")
    assert (verdict.reached, verdict.met) == (1.2, True)


def test_a_tail_twice_as_long_as_the_median_is_just_allowed() -> None:
    def with_tail(milliseconds: float) -> list[Figure]:
        gaps = {"gap_p50_ms": 20.0, "gap_p99_ms": milliseconds}
        return [Figure(1, OURS, "between-tokens", name, None, value) for name, value in gaps.items()]

    assert judged(with_tail(40.0), "p99 between tokens").met is True
    assert judged(with_tail(41.0), "p99 between tokens").met is False


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    figures = [Figure(1, OURS, "single", "decode_tokens_per_s", None, 120.0)]
    assert judged(figures, ": single decode").met is None
    assert judged(figures, "chunks/s").met is None
    assert judged(figures, ": 1 ms").met is None


def test_what_the_gateway_adds_is_judged_by_the_median_of_the_rounds() -> None:
    figures = [Figure(n, ECHO, "gateway", "keyed_added_ms", None, ms) for n, ms in enumerate((0.4, 0.5, 3.0))]
    verdict = judged(figures, ": 1 ms")
    assert (verdict.reached, verdict.met) == (2.0, True)


def test_time_outside_the_model_is_judged_for_each_number_of_sequences() -> None:
    shares = {1: 0.02, 16: 0.05, 32: 0.08}
    figures = [Figure(1, OURS, "steps", "outside_decode_share", n, share) for n, share in shares.items()]
    found = {v.name: v.met for v in verdicts(figures) if "outside" in v.name}
    assert found == {f"{n} sequences: 5 % outside llama_decode": n < 32 for n in shares}

"""Single candidates ended in front of an engine that can only be cancelled whole."""

from afterword.cluster.candidate_ends import CandidateEnds
from afterword.engine.events import Chunk, Finished, PromptDone, SampledToken

SCORED = Chunk(0, "a", (SampledToken(1, 0, -0.5, ()), SampledToken(2, 1, -1.5, ())), 2)
OTHER = Chunk(1, "b", (), 1)


def test_events_pass_until_their_candidate_is_ended() -> None:
    ends = CandidateEnds(2)
    assert [ends.passes(event) for event in (PromptDone(0, None), SCORED, OTHER)] == [True, True, True]
    assert ends.end(0) == [Finished(0, "content_filter", 2, -2.0, 2)]
    assert [ends.passes(event) for event in (SCORED, Finished(0, "stop", 9, -9.0, 9), OTHER)] == [False, False, True]


def test_a_candidate_ends_once() -> None:
    ends = CandidateEnds(1)
    assert ends.end(0) == [Finished(0, "content_filter", 0, 0.0, 0)]
    assert ends.end(0) == []


def test_what_has_finished_stays_finished() -> None:
    ends = CandidateEnds(1)
    assert ends.passes(Finished(0, "length", 3, 0.0, 0))
    assert ends.end(0) == []

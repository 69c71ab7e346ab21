"""Models of a hub: what is asked, what lies where, and what is said if it cannot be had."""

from pathlib import Path

import pytest
from huggingface_hub import constants
from tests.fake_hub import FakeHub

from afterword.config.hub_name import HubModel
from afterword.errors import ConfigurationError, PullFailed
from afterword.pulling import hub as ours

MODEL = HubModel.parsed("o/r:Q8_0")
CONTENT = b"GGUF" * 500


@pytest.fixture
def filled(hub: FakeHub) -> FakeHub:
    hub.repositories["o/r"] = {"m-Q8_0.gguf": CONTENT, "m-Q4_0.gguf": CONTENT[::-1]}
    return hub


def pull() -> Path:
    (path,) = ours.listed(MODEL)
    return ours.pull(MODEL, path, lambda *_: None)


def test_a_file_lies_where_other_programs_look_for_it(filled: FakeHub) -> None:
    file = pull()
    assert file.read_bytes() == CONTENT
    assert str(file).endswith("/models--o--r/snapshots/" + "c" * 40 + "/m-Q8_0.gguf")
    assert file.resolve().parent == ours.blobs("o/r").resolve()
    assert ours.cached(MODEL) == file


def test_what_is_here_is_not_fetched_again_and_nobody_is_asked_for_it(filled: FakeHub) -> None:
    assert ours.cached(MODEL) is None
    pull()
    pull()
    assert len(filled.asked) == 1
    n_requests = len(filled.requests)
    assert ours.cached(MODEL) is not None
    assert len(filled.requests) == n_requests


def test_the_token_goes_to_the_hub_and_not_to_where_it_keeps_its_files(
    filled: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.tokens["o/r"] = "secret"
    with pytest.raises(PullFailed, match="gives o/r only to those who have accepted its terms"):
        pull()
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert pull().read_bytes() == CONTENT
    assert [one.authorization for one in filled.asked] == [None]


def test_nothing_but_the_model_is_asked_for(filled: FakeHub) -> None:
    pull()
    assert {request.partition("?")[0].split("/")[1] for request in filled.requests} == {"api", "o", "blobs"}
    assert [request for request in filled.requests if "/api/" in request] == ["GET /api/models/o/r"]


def test_a_file_is_forgotten_under_all_its_names(filled: FakeHub) -> None:
    file = pull()
    assert ours.forget(file) == len(CONTENT)
    assert not file.exists()
    assert list(ours.blobs("o/r").iterdir()) == []
    assert ours.cached(MODEL) is None


def test_what_lies_elsewhere_is_not_forgotten(hub: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "x").write_bytes(b"1")
    assert ours.forget(tmp_path / "blobs" / "x") == 0
    assert (tmp_path / "blobs" / "x").exists()


def test_what_is_not_there_is_a_sentence(filled: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="has no o/other, or not for you"):
        ours.listed(HubModel.parsed("o/other"))
    with pytest.raises(ConfigurationError, match="no name that a repository can have"):
        ours.listed(HubModel.parsed("-/--"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(PullFailed, match=r"^HF_HUB_OFFLINE is set, so .* is not asked: o/r:Q8_0 is not fetched\.$"):
        ours.listed(MODEL)


def test_a_hub_that_cannot_be_reached_is_a_sentence(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(PullFailed, match=r"^http://127.0.0.1:1 cannot be reached \(.*\): o/r:Q8_0 is not fetched\.$"):
        ours.listed(MODEL)

"""Which files of a repository are meant."""

import pytest

from afterword.config.hub_name import HubModel
from afterword.errors import ConfigurationError
from afterword.pulling.choice import chosen

MANY = ["README.md", "m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-UD-Q2_K.gguf", "mmproj-m-Q4_K_M.gguf"]
SPLIT = ["big/m-Q8_0-00001-of-00002.gguf", "big/m-Q8_0-00002-of-00002.gguf", "m.Q4_0.gguf"]


@pytest.mark.parametrize(
    ("asked", "paths", "found"),
    [
        pytest.param("o/r", ["a.gguf", "b.txt"], ["a.gguf"], id="the only one"),
        pytest.param("o/r", MANY, ["m-Q4_K_M.gguf"], id="the usual one of several"),
        pytest.param("o/r:q8_0", MANY, ["m-Q8_0.gguf"], id="in any case"),
        pytest.param("o/r:Q2_K", MANY, ["m-UD-Q2_K.gguf"], id="the end of a name"),
        pytest.param("o/r:m-Q4_K_S.gguf", MANY, ["m-Q4_K_S.gguf"], id="a file"),
        pytest.param("o/r:Q8_0", SPLIT, SPLIT[:2], id="all parts"),
        pytest.param("o/r:Q4_0", SPLIT, SPLIT[2:], id="after a point"),
    ],
)
def test_the_files_that_are_meant(asked: str, paths: list[str], found: list[str]) -> None:
    assert chosen(HubModel.parsed(asked), paths) == found


@pytest.mark.parametrize(
    ("asked", "paths", "words"),
    [
        pytest.param("o/r", ["README.md", "mmproj-f16.gguf"], "o/r has no GGUF file", id="none"),
        pytest.param("o/r:Q6_K", MANY, "o/r has no model Q6_K: .* m-Q4_K_M.gguf", id="another"),
        pytest.param("o/r", ["a-F16.gguf", "b-F16.gguf"], "o/r has several models: .* a-F16.gguf, b-F16", id="which"),
        pytest.param("o/r:F16", ["a-F16.gguf", "b-F16.gguf"], "several models F16", id="which of a quantisation"),
        pytest.param("o/r:4_K_M", MANY, "no model 4_K_M", id="half a word"),
        pytest.param("o/r:Q8_0", SPLIT[:1], "lacks big/m-Q8_0-00002-of-00002.gguf", id="a part is missing"),
    ],
)
def test_what_is_not_there_is_refused(asked: str, paths: list[str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        chosen(HubModel.parsed(asked), paths)

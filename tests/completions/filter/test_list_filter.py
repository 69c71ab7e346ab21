from pathlib import Path

import pytest
from tests.completions.filter.watching import listed, sent

from afterword.completions.filter.function_filter import FunctionFilter
from afterword.completions.filter.list_filter import ListFilter, read_list
from afterword.completions.filter.load_filter import load_filter
from afterword.config.values import FunctionName
from afterword.errors import ConfigurationError


async def test_a_list_has_words_patterns_comments_and_blank_lines() -> None:
    content_filter = listed("# words", "", "  bad  ", "/w.rse/i", "#bad")
    assert await sent(content_filter, "so bad") == ("so ", "line 3")
    assert await sent(content_filter, "so WORSE") == ("so ", "line 4")
    assert await sent(content_filter, "# words #bad"[:9]) == ("# words #", None)


@pytest.mark.parametrize("lines", [(), ("# nothing",), ("", " ")])
async def test_an_empty_list_lets_everything_pass(lines: tuple[str, ...]) -> None:
    assert await sent(listed(*lines), ["so ", "bad"]) == ("so bad", None)


@pytest.mark.parametrize(
    "written", [pytest.param(b"\xef\xbb\xbfbad", id="mark"), pytest.param(b"\r\nbad\r\n", id="crlf")]
)
async def test_a_list_is_read_as_editors_write_it(written: bytes, tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(written)
    assert (await sent(read_list(path), "bad"))[0] == ""


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        pytest.param("/bad", r"Line 2 of .*list\.txt is wrong: '/bad' begins like a pattern", id="no second slash"),
        pytest.param("//", "begins like a pattern", id="empty pattern"),
        pytest.param("/(bad/", r"Line 2 .* the pattern '\(bad' is not a regular expression", id="syntax"),
        pytest.param("/bad/g", "Line 2 .* the pattern 'bad' has the flag 'g'", id="flag"),
        pytest.param("\u200b", "Line 2 .* has no visible character", id="invisible word"),
    ],
)
def test_a_wrong_entry_names_its_line(line: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        listed("good", line)


def test_a_list_that_cannot_be_read_is_said_at_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"list .*nowhere\.txt cannot be read: .*No such file"):
        read_list(tmp_path / "nowhere.txt")
    path = tmp_path / "latin.txt"
    path.write_bytes("schön".encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"latin\.txt cannot be read: 'utf-8' codec"):
        read_list(path)


def test_the_setting_names_a_list_or_a_function(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("bad", encoding="utf-8")
    assert isinstance(load_filter(path), ListFilter)
    named = FunctionName("tests.completions.filter.test_function_filter", "judge")
    assert isinstance(load_filter(named), FunctionFilter)

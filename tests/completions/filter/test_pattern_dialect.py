import pytest

from afterword.completions.filter.pattern_dialect import LOOKAHEAD, lookahead, relax, translate

BOUNDARY = r"(?:(?<=\w)(?!\w)|(?<!\w)(?=\w))"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(r"\bx", BOUNDARY + "x", id="boundary"),
        pytest.param(r"[\b]\\b", r"[\b]\\b", id="backspace and an escaped backslash"),
        pytest.param(r"[]\b]", r"[]\b]", id="set that begins with its end"),
        pytest.param(r"\p{Latin}{2,3}+?", r"\p{Latin}{2,3}+?", id="braces that are no approximation"),
        pytest.param("a{2}{d", "a{2}{d", id="brace that is not closed"),
        pytest.param(r"(?#\b)x", r"(?#\b)x", id="comment"),
    ],
)
def test_boundaries_are_spelled_out_and_the_rest_stays(source: str, expected: str) -> None:
    assert translate(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("a+?b*?c??d{2,}?", "a+b*c?d{2,}", id="lazy"),
        pytest.param("a++b?+c{,3}+", "a+b?c{,3}", id="possessive"),
        pytest.param("(?>a|ab)c", "(?:a|ab)c", id="atomic"),
        pytest.param("(?:a)+?(?P<n>b)?", "(?:a)+(?P<n>b)?", id="groups"),
        pytest.param("a+?(?!b++(c*?))d+?", "a+(?!b++(c*?))d+", id="not in assertions"),
        pytest.param("a(?<=b+?)*c", r"a(?:(?<=b+?)|(?!(?s:.)))*c", id="looking behind"),
        pytest.param("(?=(?<=a)^)^b", r"(?=(?<=a)^)(?:^|(?!(?s:.)))b", id="anchor"),
        pytest.param(r"\++?[+?]\??", r"\++[+?]\??", id="escapes and sets"),
    ],
)
def test_relaxed_patterns_match_at_least_as_much(source: str, expected: str) -> None:
    assert relax(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("a+?b[$]", 0, id="nothing"),
        pytest.param(r"\ba", 2, id="boundary"),
        pytest.param("a$", 2, id="anchor"),
        pytest.param("a(?!b)", LOOKAHEAD, id="assertion"),
        pytest.param("a++b", LOOKAHEAD, id="possessive"),
        pytest.param("(?>a)", LOOKAHEAD, id="atomic"),
        pytest.param(r"a\++", 0, id="escaped plus"),
    ],
)
def test_only_assertions_look_behind_a_match(source: str, expected: int) -> None:
    assert lookahead(source) == expected

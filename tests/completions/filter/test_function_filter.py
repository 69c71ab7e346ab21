import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.completions.filter.watching import CONTEXT, held, sent

from afterword.completions.filter.function_filter import FunctionFilter, load_function
from afterword.completions.filter.verdict import Context, Flag, Hold, Verdict
from afterword.errors import ConfigurationError


def judge(text: str, final: bool, context: Context) -> Verdict:
    """Flags `bad`; what may be its beginning waits."""
    place = text.find("bad")
    if place >= 0:
        return Flag(place, "badness")
    return None if final else Hold(len(text) - 2)


async def judge_on_loop(text: str, final: bool, context: Context) -> Verdict:
    return judge(text, final, context)


def judge_later(text: str, final: bool, context: Context) -> Awaitable[Verdict]:
    return judge_on_loop(text, final, context)


class Judge:
    async def __call__(self, text: str, final: bool, context: Context, /) -> Verdict:
        return judge(text, final, context)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(judge, id="plain"),
        pytest.param(judge_on_loop, id="async"),
        pytest.param(judge_later, id="returns an awaitable"),
        pytest.param(Judge(), id="object"),
    ],
)
async def test_a_function_judges_the_whole_text_each_time(function: Any) -> None:
    content_filter = FunctionFilter(function, "m:judge")
    assert await sent(content_filter, ["so b", "a", "d", " it"]) == ("so ", "badness")
    assert await sent(content_filter, ["so ba", "t"]) == ("so bat", None)
    assert await held(content_filter, "so ba") == "ba"
    assert await held(content_filter, "s") == "s"
    assert await held(FunctionFilter(lambda text, final, context: Hold(5), "m:f"), "so") == ""


async def test_a_function_sees_the_text_the_end_and_whose_it_is() -> None:
    calls: list[tuple[str, bool, Context]] = []

    def remember(text: str, final: bool, context: Context) -> None:
        calls.append((text, final, context))

    await sent(FunctionFilter(remember, "m:f"), ["a", "b"])
    assert calls == [("a", False, CONTEXT), ("ab", False, CONTEXT), ("ab", True, CONTEXT)]


async def test_a_plain_function_leaves_the_event_loop_free() -> None:
    threads: list[threading.Thread] = []

    def note(text: str, final: bool, context: Context) -> None:
        threads.append(threading.current_thread())

    await sent(FunctionFilter(note, "m:f"), ["a"])
    assert threading.main_thread() not in threads


async def test_a_hit_without_a_rule_is_logged_by_the_function_s_name() -> None:
    assert await sent(FunctionFilter(lambda text, final, context: Flag(0), "m:f"), ["a"]) == ("", "m:f")


@pytest.mark.parametrize(
    ("answer", "error", "complaint"),
    [
        pytest.param(True, TypeError, "m:f returned bool: it must be None, a Flag or a Hold", id="bool"),
        pytest.param(2, TypeError, "m:f returned int", id="number"),
        pytest.param(Flag(-1), ValueError, "of 1 characters", id="flag before the start"),
        pytest.param(Flag(2), ValueError, "of 1 characters", id="flag beyond the end"),
        pytest.param(Hold(None), TypeError, "returned Hold", id="hold without a number"),  # type: ignore[arg-type]
    ],
)
async def test_an_answer_that_is_none_is_an_error(answer: Any, error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=complaint):
        await sent(FunctionFilter(lambda text, final, context: answer, "m:f"), ["a"])


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Writes a module where Python looks; gives back its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(source: str) -> str:
        name = f"filter_{abs(hash(source))}"
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        return name

    return write


async def test_a_function_is_found_by_its_name(module: Callable[[str], str]) -> None:
    source = "from afterword.completions.filter.verdict import Flag\ndef f(text, final, context):\n    return Flag(1)\n"
    name = module(source)
    assert await sent(load_function(name, "f"), ["ab"]) == ("a", f"{name}:f")


@pytest.mark.parametrize(
    ("source", "name", "complaint"),
    [
        pytest.param("", "f", "cannot be used: .* has no 'f'", id="no function"),
        pytest.param("f = 3", "f", "it is no function but int", id="no callable"),
        pytest.param("def f(text): ...", "f", "it must take a text, a bool and a context", id="parameters"),
        pytest.param("import nothing_of_that_name", "f", "No module named 'nothing_of_that_name'", id="missing import"),
        pytest.param("def", "f", "cannot be loaded: invalid syntax", id="syntax"),
        pytest.param("raise OSError('no network')", "f", "cannot be loaded: no network", id="raises"),
    ],
)
def test_what_cannot_be_used_is_said_at_start(
    module: Callable[[str], str], source: str, name: str, complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        load_function(module(source), name)


def test_a_missing_module_is_said_at_start() -> None:
    with pytest.raises(ConfigurationError, match="no_such_module:f cannot be loaded: No module named"):
        load_function("no_such_module", "f")

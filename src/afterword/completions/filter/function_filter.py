"""A filter that is a Python function of the operator's own, found by name when the server starts."""

import asyncio
import importlib
import inspect
from collections.abc import Callable
from typing import cast

from typing_extensions import override

from afterword.completions.filter.verdict import ContentFilter, Context, FilterFunction, Flag, Hold, Verdict, Watch
from afterword.errors import ConfigurationError


class FunctionFilter(ContentFilter):
    """A content filter that calls a function."""

    def __init__(self, function: FilterFunction, name: str) -> None:
        """`name`: what the log calls a hit whose `Flag` has no rule."""
        self._function = function
        self._name = name

    @override
    def watch(self, context: Context) -> "FunctionWatch":
        return FunctionWatch(self._function, self._name, context)


class FunctionWatch(Watch):
    """Calls the function with the whole text each time. Errors of the function are passed on."""

    __slots__ = ("_context", "_function", "_name", "_text")

    def __init__(self, function: FilterFunction, name: str, context: Context) -> None:
        self._function = function
        self._name = name
        self._context = context
        self._text = ""

    @override
    async def push(self, text: str) -> Verdict:
        self._text += text
        return await self._call(final=False)

    @override
    async def flush(self) -> Verdict:
        return await self._call(final=True)

    async def _call(self, *, final: bool) -> Verdict:
        function = self._function
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            answer = function(self._text, final, self._context)
        else:
            answer = await asyncio.to_thread(function, self._text, final, self._context)
        if inspect.isawaitable(answer):
            answer = await answer
        return self._checked(answer)

    def _checked(self, answer: object) -> Verdict:
        n = len(self._text)
        match answer:
            case None:
                return None
            case Hold(int(start)):
                return Hold(min(max(start, 0), n))
            # Not clamped, unlike `Hold`: -1, which str.find returns for no match, must not flag the whole text.
            case Flag(int(start), str(rule)) if 0 <= start <= n:
                return Flag(start, self._name if rule == "" else rule)
            case Flag():
                raise ValueError(f"{self._name} returned {answer} about a text of {n} characters")
            case _:
                raise TypeError(f"{self._name} returned {type(answer).__name__}: it must be None, a Flag or a Hold")


def load_function(module: str, name: str) -> FunctionFilter:
    """The filter that calls `module:name`. Raises `ConfigurationError`."""
    full = f"{module}:{name}"
    try:
        found = importlib.import_module(module)
    except Exception as error:  # a module may raise anything while it is imported
        raise ConfigurationError(f"The content filter {full} cannot be loaded: {error}.") from error
    function = getattr(found, name, None)
    if not callable(function):
        what = f"{module} has no {name!r}" if function is None else f"it is no function but {type(function).__name__}"
        raise ConfigurationError(f"The content filter {full} cannot be used: {what}.")
    if not _takes_three(function):
        raise ConfigurationError(
            f"The content filter {full} cannot be used: it must take a text, a bool and a context."
        )
    return FunctionFilter(cast(FilterFunction, function), full)


def _takes_three(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind("", False, None)
    except TypeError:
        return False
    except ValueError:
        # Some functions written in C have no signature.
        return True
    return True

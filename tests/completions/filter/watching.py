"""Watching texts with a filter as the server does, without an engine."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st

from afterword.completions.filter.list_filter import ListFilter, read_list
from afterword.completions.filter.verdict import ContentFilter, Context, Flag, Hold, Verdict

CONTEXT = Context(request_id="req_1", user="u", model="m", prompt="p", prompt_index=0, candidate=0)


def listed(*lines: str) -> ListFilter:
    """The filter of a list file with these lines."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "list.txt"
        path.write_text("\n".join(lines), encoding="utf-8")
        return read_list(path)


async def sent(content_filter: ContentFilter, pieces: Iterable[str]) -> tuple[str, str | None]:
    """What leaves of a text that comes in pieces, and the rule that ended it, None if none did.

    The text that the verdict on a piece lets go is gone; a later one that flags or holds it comes too late.
    """
    watch = content_filter.watch(CONTEXT)
    text, n_sent = "", 0
    for piece in pieces:
        text += piece
        verdict = await watch.push(piece)
        n_sent = max(n_sent, _end(verdict, text))
        if isinstance(verdict, Flag):
            return text[:n_sent], verdict.rule
    verdict = await watch.flush()
    if isinstance(verdict, Flag):
        return text[: max(n_sent, verdict.start)], verdict.rule
    return text, None


async def held(content_filter: ContentFilter, text: str) -> str:
    """What is held back of a text that may go on."""
    verdict = await content_filter.watch(CONTEXT).push(text)
    assert not isinstance(verdict, Flag)
    return text[_end(verdict, text) :]


def _end(verdict: Verdict, text: str) -> int:
    return verdict.start if isinstance(verdict, Flag | Hold) else len(text)


@st.composite
def pieces_of(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> list[str]:
    """A text, cut in random places."""
    text = draw(texts)
    cuts: Sequence[int] = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]

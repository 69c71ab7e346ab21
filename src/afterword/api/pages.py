"""Pages of lists for the Scale GP dialect: filter, sort, then cut a page before or after a cursor.

Owns the query's rules. Knows no model: items are JSON objects with unique `id`s.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from afterword.errors import InvalidRequest
from afterword.text.brief import brief

Item = dict[str, Any]

ORDERS = ("asc", "desc")


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which part of a list is asked for. None: the query does not say."""

    where: tuple[tuple[str, str], ...]
    """Fields and the values they must have."""
    sort_by: str | None
    """A field; None keeps the list's own order."""
    descending: bool
    after: str | None
    """Id of the item that the page follows."""
    before: str | None
    """Id of the item after the page; never together with `after`."""
    limit: int | None
    """Most items of a page, at least 1."""

    def page(self, items: Sequence[Item]) -> tuple[list[Item], bool]:
        """The page, and whether there are more items after it (before it, with `before`).

        Raises `InvalidRequest` if the cursor is no item of the filtered list.
        """
        found = self._ordered([item for item in items if all(item[name] == value for name, value in self.where)])
        if self.before is not None:
            left = found[: _position(found, "ending_before", self.before)]
            start = 0 if self.limit is None else max(0, len(left) - self.limit)
            return left[start:], start > 0
        if self.after is not None:
            found = found[_position(found, "starting_after", self.after) + 1 :]
        page = found[: self.limit]
        return page, len(page) < len(found)

    def _ordered(self, items: list[Item]) -> list[Item]:
        if self.sort_by is not None:
            return sorted(items, key=itemgetter(self.sort_by), reverse=self.descending)
        return items[::-1] if self.descending else items


def read_page_query(query: Mapping[str, str], *, filters: Sequence[str], sortable: Sequence[str]) -> PageQuery:
    """The page that a query asks for; parameters it does not know are ignored. Raises `InvalidRequest`."""
    after, before = query.get("starting_after"), query.get("ending_before")
    if after is not None and before is not None:
        raise InvalidRequest("'starting_after' and 'ending_before' exclude each other.", param="ending_before")
    return PageQuery(
        where=tuple((name, query[name]) for name in filters if name in query),
        sort_by=_one_of(query, "sort_by", sortable),
        descending=_one_of(query, "sort_order", ORDERS) == "desc",
        after=after,
        before=before,
        limit=_limit(query.get("limit")),
    )


def _one_of(query: Mapping[str, str], param: str, allowed: Sequence[str]) -> str | None:
    value = query.get(param)
    if value is not None and value not in allowed:
        raise InvalidRequest(
            f"'{param}' must be one of {', '.join(allowed)}, not '{brief(value)}'.", param=param, code="invalid_value"
        )
    return value


def _limit(text: str | None) -> int | None:
    if text is None:
        return None
    if re.fullmatch("0*[1-9][0-9]{0,8}", text, re.ASCII) is None:
        raise InvalidRequest(
            f"'limit' must be a whole number from 1 to 999999999, not '{brief(text)}'.",
            param="limit",
            code="invalid_value",
        )
    return int(text)


def _position(items: list[Item], param: str, id_: str) -> int:
    for number, item in enumerate(items):
        if item["id"] == id_:
            return number
    raise InvalidRequest(
        f"'{param}' must be the id of a listed model, not '{brief(id_)}'.", param=param, code="invalid_value"
    )

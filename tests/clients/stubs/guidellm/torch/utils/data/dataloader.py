from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class DataLoader(Generic[Item]):
    """One item after the other, in the data set's own order."""

    def __init__(self, dataset: Iterable[Any], collate_fn: Any, **rest: Any) -> None:
        self.dataset = dataset
        self._collate = collate_fn

    def __iter__(self) -> Iterator[Any]:
        for item in self.dataset:
            yield self._collate([item])

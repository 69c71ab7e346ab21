from typing import Generic, TypeVar

Item = TypeVar("Item")


class IterableDataset(Generic[Item]):
    """A base class without anything in it."""

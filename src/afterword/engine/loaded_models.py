"""Which of many models are loaded at once: they share one amount of memory, and make room for each other.

Everything is called on one event loop.
"""

import asyncio
from typing import Protocol

from afterword.errors import ConfigurationError


class Loadable(Protocol):
    """A model that is loaded and unloaded."""

    @property
    def is_wanted(self) -> bool:
        """Somebody waits for it, and it is not loaded."""
        ...

    @property
    def stays(self) -> bool:
        """It makes room for none."""
        ...

    @property
    def is_loaded(self) -> bool:
        """It can be used; False also while it is unloaded."""
        ...

    @property
    def is_idle(self) -> bool:
        """Nobody uses it, and nobody who waits is about to."""
        ...

    @property
    def last_used(self) -> float:
        """When it was used last, by the loop's clock."""
        ...

    def set_leaving(self, leaving: bool) -> None:
        """Whether it takes no further requests, because it is to make room."""
        ...

    async def need(self) -> int:
        """Bytes that it takes, once loaded. Raises `ConfigurationError` if its file cannot be read."""
        ...

    async def load(self, n_bytes: int) -> None:
        """Load it with that much memory. Raises `ConfigurationError`."""
        ...

    async def unload(self) -> None:
        """Free its memory, which nobody uses, and say `gone`."""
        ...


class LoadedModels:
    """Loads one model after the other, in the order in which they were asked for."""

    def __init__(self) -> None:
        self.budget = 0
        """Bytes for all together."""
        self._turn = asyncio.Lock()
        self._loaded: dict[Loadable, int] = {}
        """Those that take memory, and how much."""
        self._changed = asyncio.Event()
        """One is idle or gone."""

    async def load(self, model: Loadable) -> None:
        """Load the model once it is its turn and there is room, unless nobody waits for it then.

        Models that were unused for longest make room: at once if they are idle, else once their requests have ended;
        those that come meanwhile wait for their turn. Raises `ConfigurationError` if the model cannot be loaded.
        """
        async with self._turn:
            if model.is_wanted:
                n_bytes = min(await model.need(), self.budget)
                await self._make_room(n_bytes)
                await model.load(n_bytes)
                self._loaded[model] = n_bytes

    def idle(self) -> None:
        """One of the models is not used any more."""
        self._changed.set()

    def gone(self, model: Loadable) -> None:
        """The model takes no memory any more. Calling it again changes nothing."""
        self._loaded.pop(model, None)
        self._changed.set()

    async def _make_room(self, n_bytes: int) -> None:
        leaving: Loadable | None = None
        try:
            while sum(self._loaded.values()) + n_bytes > self.budget:
                others = [model for model in self._loaded if not model.stays]
                if not others:
                    raise ConfigurationError("Models that stay loaded (keep_alive -1) take the memory that it needs.")
                loaded = sorted((model for model in others if model.is_loaded), key=lambda model: model.last_used)
                idle = [model for model in loaded if model.is_idle]
                self._changed.clear()
                if idle:
                    await idle[0].unload()
                elif leaving is None and loaded:
                    # It may be idle by that: whoever waits for it waits for its next turn.
                    leaving = loaded[0]
                    leaving.set_leaving(True)
                else:
                    await self._changed.wait()
        finally:
            if leaving is not None:
                leaving.set_leaving(False)

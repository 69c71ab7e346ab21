"""An engine whose model is loaded when it is asked for, and unloaded when it was not used for a while.

`loaded_models.py` decides when. Everything is called on the event loop, but `stats` on any thread.
"""

import asyncio
import math
from asyncio import Event, Task, TimerHandle
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog
from typing_extensions import override

from afterword.engine.base import Capabilities, Engine, EngineStats, Generation
from afterword.engine.loaded_models import Loadable, LoadedModels
from afterword.engine.request import GenerationRequest
from afterword.errors import ConfigurationError, EngineClosed, EngineLost, Overloaded
from afterword.tokens import InfillTokens, Tokenizer

SECONDS_BEFORE_ANOTHER_TRY = 10
"""After a model could not be loaded: what is asked for it meanwhile gets the same answer, and others their turn."""

_COUNTED = (
    *("steps", "rows", "prompt_tokens", "prefill_tokens", "cached_tokens", "completion_tokens", "cancelled"),
    *("fallbacks", "restarts"),
)
"""Figures that go on growing when a model is loaded again."""

_log = structlog.get_logger("afterword.engine")


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model that can be loaded."""

    name: str
    need: Callable[[], int]
    """Bytes that it takes, once loaded; in a thread. Raises `ConfigurationError`."""
    load: Callable[[int], Engine]
    """Loads it with that many bytes; in a thread. Raises `ConfigurationError`."""
    keep_alive: float
    """Seconds after its last request that it stays; infinite: it stays for good, and makes room for none."""
    expected: Capabilities
    """What is said of it until it was loaded once."""
    max_waiting: int
    """Requests that may wait for it to be loaded."""


class OnDemandEngine(Engine, Loadable):
    """Loads the model for whoever waits; who uses it holds it, and it stays as long as anybody does."""

    fingerprint: str = ""
    last_used: float = 0.0

    def __init__(self, source: ModelSource, models: LoadedModels) -> None:
        self.capabilities = source.expected
        self.infill: InfillTokens | None = None
        """As it was when the model was loaded last."""
        self._source = source
        self._models = models
        self._engine: Engine | None = None
        self._n_users = 0
        self._n_waiting = 0
        self._leaving = self._closed = False
        self._loading: Task[None] | None = None
        self._unloading: Task[None] | None = None
        self._timer: TimerHandle | None = None
        self._news = Event()
        """Set, and replaced, when those who wait should look again."""
        self._failure: EngineLost | None = None
        self._failed_until = -math.inf
        self._before = EngineStats()
        """What was counted while it was loaded before."""

    @property
    @override
    def tokenizer(self) -> Tokenizer:  # type: ignore[override] # read only
        """Of the loaded model: it must be held."""
        return self._held.tokenizer

    @property
    def _held(self) -> Engine:
        assert self._engine is not None, "who uses a model holds it"
        return self._engine

    @property
    @override
    def is_loaded(self) -> bool:
        return self._engine is not None

    @property
    @override
    def stays(self) -> bool:
        return self._source.keep_alive == math.inf

    @property
    @override
    def is_wanted(self) -> bool:
        return self._engine is None and self._n_waiting > 0 and not self._closed

    @property
    @override
    def is_idle(self) -> bool:
        return self._n_users == 0 and (self._leaving or self._n_waiting == 0)

    @property
    def takes_requests(self) -> bool:
        """It is loaded, and not to make room."""
        return self._engine is not None and not self._leaving

    def hold(self) -> bool:
        """Keep the model loaded until `release`, for a request; False: it is to be waited for, `wait_and_hold`."""
        if not self.takes_requests:
            return False
        self._n_users += 1
        self.last_used = asyncio.get_running_loop().time()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return True

    async def wait_and_hold(self) -> None:
        """Have the model loaded, in turn, and hold it.

        Raises `Overloaded` at once, `EngineLost` if it cannot be loaded, and `EngineClosed`.
        """
        if self._n_waiting >= self._source.max_waiting:
            raise Overloaded(
                f"{self._n_waiting} requests wait for the model '{self._source.name}' to be loaded; one more does not "
                "fit. Try again later.",
                retry_after=1,
            )
        self._n_waiting += 1
        try:
            while not self.hold():
                self._check()
                if self._loading is None:
                    self._loading = asyncio.create_task(self._load())
                await self._news.wait()
        finally:
            self._n_waiting -= 1

    def release(self) -> None:
        """A request that held the model has ended."""
        self._n_users -= 1
        loop = asyncio.get_running_loop()
        self.last_used = loop.time()
        if self._n_users == 0:
            self._models.idle()
            if not self.stays and self._timer is None:
                self._timer = loop.call_later(self._source.keep_alive, self._expire)

    @override
    def set_leaving(self, leaving: bool) -> None:
        self._leaving = leaving
        if not leaving:
            self._tell()

    @override
    async def need(self) -> int:
        return await asyncio.to_thread(self._source.need)

    @override
    async def load(self, n_bytes: int) -> None:
        began = asyncio.get_running_loop().time()
        engine = await asyncio.to_thread(self._source.load, n_bytes)
        engine.start()
        self._engine, self.capabilities, self.fingerprint = engine, engine.capabilities, engine.fingerprint
        self.infill = engine.tokenizer.infill
        self.last_used = asyncio.get_running_loop().time()
        _log.info("a model was loaded", model=self._source.name, seconds=round(self.last_used - began, 2))

    @override
    async def unload(self) -> None:
        engine, self._engine = self._held, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        counted = self._sum(engine.stats())
        self._before = EngineStats(**{name: getattr(counted, name) for name in (*_COUNTED, "step_rows")})
        await engine.aclose()
        self._models.gone(self)
        _log.info("a model was unloaded", model=self._source.name)

    @override
    def generate(self, request: GenerationRequest) -> Generation:
        return self._held.generate(request)

    @override
    def check_capacity(self, n_sequences: int) -> None:
        self._held.check_capacity(n_sequences)

    @override
    def stats(self) -> EngineStats:
        engine = self._engine
        if engine is None:
            state = "closed" if self._closed else "unloaded" if self._loading is None else "starting"
            problem = None if self._failure is None else str(self._failure)
            return replace(self._before, state=state, waiting=self._n_waiting, problem=problem)
        return replace(self._sum(engine.stats()), waiting=engine.stats().waiting + self._n_waiting)

    @override
    async def aclose(self) -> None:
        self._closed = True
        self._tell()
        begun = [task for task in (self._loading, self._unloading) if task is not None]
        if self._engine is not None:
            begun.append(asyncio.create_task(self.unload()))
        if begun:
            await asyncio.wait(begun)
        if self._engine is not None:
            # It was loaded meanwhile.
            await self.unload()

    async def _load(self) -> None:
        """Take its turn, and tell all that wait how it went."""
        try:
            await self._models.load(self)
            self._failure = None
        except ConfigurationError as error:
            self._fail(str(error))
        except Exception as error:
            _log.error("a model was not loaded", model=self._source.name, exc_info=error)
            self._fail("The server's log has the cause.")
        finally:
            self._loading = None
            self._tell()
        if self._engine is not None and self._n_users == self._n_waiting == 0:
            # Those who waited have left.
            self._n_users = 1
            self.release()

    def _fail(self, why: str) -> None:
        self._failed_until = asyncio.get_running_loop().time() + SECONDS_BEFORE_ANOTHER_TRY
        self._failure = EngineLost(
            f"The model '{self._source.name}' cannot be served: {why}", retry_after=SECONDS_BEFORE_ANOTHER_TRY
        )
        _log.error("a model cannot be loaded", model=self._source.name, reason=why)

    def _check(self) -> None:
        if self._closed:
            raise EngineClosed
        if self._failure is not None and asyncio.get_running_loop().time() < self._failed_until:
            raise EngineLost(str(self._failure), retry_after=self._failure.retry_after)

    def _tell(self) -> None:
        self._news.set()
        self._news = Event()

    def _expire(self) -> None:
        self._timer = None
        if self._engine is not None and self.is_idle:
            self._unloading = asyncio.create_task(self.unload())

    def _sum(self, stats: EngineStats) -> EngineStats:
        before = self._before
        n_kinds = max(len(stats.step_rows), len(before.step_rows))
        rows = [each.step_rows or (0,) * n_kinds for each in (stats, before)]
        figures = {name: getattr(stats, name) + getattr(before, name) for name in _COUNTED}
        return replace(stats, step_rows=tuple(map(sum, zip(*rows, strict=True))), **figures)

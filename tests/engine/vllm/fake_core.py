"""A core that says what it is told to, token by token, and remembers what it was asked."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

from afterword.engine.vllm.core import CoreOutput, NewToken
from afterword.engine.vllm.plan import Plan


class FakeCore:
    """A `Core` that repeats the tokens of `words`, `at_once` in a step, until the plan's end."""

    def __init__(
        self,
        words: Sequence[int] = b"abc",
        *,
        at_once: int = 1,
        n_missing: int = 0,
        stalls: bool = False,
        error: Exception | None = None,
    ) -> None:
        """`n_missing`: tokens that never come. `stalls`: wait for `go` after a token. `error`: raised after one."""
        self.loop = asyncio.new_event_loop()
        self.on_end: Callable[[], None] = lambda: None
        self.is_dead = False
        self.n_steps = 0
        self.asked: list[Plan] = []
        self.n_open = 0
        """Candidates being sampled."""
        self.hold: Callable[[Plan], bool] = lambda _: False
        """Plans that never get anywhere."""
        self._go = asyncio.Event()
        self._stalls = stalls
        self._words = words
        self._at_once = at_once
        self._n_missing = n_missing
        self._error = error
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    async def sample(self, plan: Plan) -> AsyncGenerator[CoreOutput, None]:
        self.asked.append(plan)
        self.n_open += 1
        try:
            if self.hold(plan):
                await asyncio.Event().wait()
            for tokens in self._steps(plan):
                await asyncio.sleep(0)
                self.n_steps += 1
                yield CoreOutput(tokens, n_cached=1, scores=None, queue_seconds=0.0)
                if self._stalls:
                    await self._go.wait()
            if self._error is not None:
                raise self._error
        finally:
            self.n_open -= 1

    def go(self) -> None:
        """Let everything that stalls go on. Any thread."""
        self.loop.call_soon_threadsafe(self._go.set)

    def die(self, error: BaseException) -> None:
        """End the loop as an error does that no task can hold. Any thread."""

        def fail() -> None:
            raise error

        self.loop.call_soon_threadsafe(fail)

    def close(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()

    def _serve(self) -> None:
        try:
            self.loop.run_forever()
        except SystemExit:
            self.is_dead = True
        self.on_end()
        for task in (tasks := asyncio.all_tasks(self.loop)):
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks))

    def _steps(self, plan: Plan) -> Iterator[tuple[NewToken, ...]]:
        n_tokens = plan.max_tokens - self._n_missing if self._error is None else 1
        logprob = None if plan.logprobs is None else -1.0
        tokens = [NewToken(self._words[i % len(self._words)], logprob, ()) for i in range(n_tokens)]
        for start in range(0, n_tokens, self._at_once):
            yield tuple(tokens[start : start + self._at_once])

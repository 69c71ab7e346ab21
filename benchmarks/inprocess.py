"""Time and allocations a token costs from the echo engine to the bytes of an event. Runs in the project's environment.

    .venv/bin/python benchmarks/inprocess.py N_TOKENS

Calls the application as a server would, without a socket, and prints one JSON object. With `count_allocations.so`
preloaded and PYTHONMALLOC=malloc, every allocation of the interpreter is counted.
"""

import asyncio
import ctypes
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from afterword import logs
from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.echo import EchoEngine
from afterword.engine.request import GenerationRequest
from afterword.fields.sampling import Sampling
from afterword.registry import Registry, ServedModel

PROMPT = "the quick brown fox "

KINDS: dict[str, dict[str, Any]] = {
    "stream": {"stream": True},
    "stream_stops": {"stream": True, "stop": ["\n\n", "###"]},
    "stream_logprobs": {"stream": True, "logprobs": 5},
    "answer": {},
    "answer_logprobs": {"logprobs": 5},
}
"""Fields of the request by the name of the metric."""


Headers = tuple[tuple[bytes, bytes], ...]


async def exchange(app: Any, body: dict[str, Any], headers: Headers = ()) -> int:
    """Send one request through the application; the bytes of its answer. Raises `RuntimeError` unless it is 200."""
    content = json.dumps(body).encode()
    sent = False
    n_bytes = 0
    stays = asyncio.Event()

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            await stays.wait()
        sent = True
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal n_bytes
        if message.get("status", 200) != 200:
            raise RuntimeError(f"the application answered {message['status']}")
        n_bytes += len(message.get("body", b""))

    await app(_scope(len(content), headers), receive, send)
    return n_bytes


def _scope(length: int, more: Headers) -> dict[str, Any]:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(length).encode()), *more]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/completions",
        "raw_path": b"/v1/completions",
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }


async def engine_alone(engine: EchoEngine, n_tokens: int) -> None:
    """The same tokens as events, without the API."""
    request = GenerationRequest(
        prompt=tuple(engine.tokenizer.encode(PROMPT, add_bos=False, parse_special=True)),
        n_candidates=1,
        max_tokens=n_tokens,
        sampling=Sampling(temperature=0.0),
        seed=1,
        reproducible=True,
    )
    async with engine.generate(request) as generation:
        async for _ in generation:
            pass


async def cost(work: Callable[[int], Awaitable[object]], n_tokens: int) -> tuple[float, int]:
    """Microseconds and allocations a token: what `n_tokens` cost more than one does, after a run to warm up."""
    await work(n_tokens)
    seconds, allocations = [], []
    for n in (1, n_tokens):
        before, started = allocation_count(), time.perf_counter()
        await work(n)
        seconds.append(time.perf_counter() - started)
        allocations.append(allocation_count() - before)
    more = n_tokens - 1
    return 1e6 * (seconds[1] - seconds[0]) / more, round((allocations[1] - allocations[0]) / more)


def allocation_count() -> int:
    """Allocations of this process so far; 0 without the counter."""
    counter = getattr(ctypes.CDLL(None), "allocation_count", None)
    return 0 if counter is None else int(counter())


async def measure(n_tokens: int) -> dict[str, float]:
    """All kinds, by metric."""
    engine = EchoEngine()
    app = create_app(Registry([ServedModel("echo", engine, created=0)]), ServerConfig())
    works: dict[str, Callable[[int], Awaitable[object]]] = {"engine": lambda n: engine_alone(engine, n)}
    for kind, fields in KINDS.items():
        body = {"prompt": PROMPT, "temperature": 0, **fields}
        works[kind] = lambda n, body=body: exchange(app, {**body, "max_tokens": n})  # type: ignore[misc]
    found: dict[str, float] = {}
    for name, work in works.items():
        microseconds, allocations = await cost(work, n_tokens)
        found[f"{name}_token_us"] = microseconds
        if allocations > 0:
            found[f"{name}_allocations_per_token"] = allocations
    await engine.aclose()
    return found


if __name__ == "__main__":
    logs.configure("console", "warning")
    print(json.dumps(asyncio.run(measure(int(sys.argv[1])))))

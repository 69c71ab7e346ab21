"""Whether a server whose configuration is changed again and again under load fails a request.

    python -m benchmarks.reloads [--model FILE] [--reloads N] [--pause SECONDS]

Clients ask for plain and streamed answers without a pause, each with a key; meanwhile the file is written anew and the
server sent SIGHUP: another static key, other limits of requests, a model that comes and goes, and the model that all of
them ask, loaded anew with another context. Prints a row of the table in docs/reliability.md; the exit code is 1 if a
request failed, or a reload did not come about.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from benchmarks.own_server import OwnServer, make_key, percentiles, serving

from afterword.config.model import DEFAULT_MODEL
from afterword.loading.embedded import model_file

CLIENTS = 8
SLOTS = 4
SECONDS_TO_RELOAD = 60

SERVER = """
[server]
api_key = "static-key-of-turn-{turn}"
max_candidates = {candidates}

[[models]]
name = "main"
aliases = ["alias-{turn}"]
path = "{path}"
context = {context}
parallel = {slots}
"""
GUEST = """
[[models]]
name = "guest"
path = "echo"
context = 64
"""


def configuration(path: Path, turn: int) -> str:
    """What the file says after so many reloads: every second has a guest, every third another context."""
    text = SERVER.format(
        turn=turn, path=path, candidates=100 + turn, context=1024 if turn // 3 % 2 == 0 else 768, slots=SLOTS
    )
    return text + (GUEST if turn % 2 else "")


@dataclass(slots=True)
class Seen:
    """What the clients saw."""

    seconds: list[float] = field(default_factory=list)
    """Of each whole answer."""
    failures: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)


async def client(http: httpx.AsyncClient, key: str, number: int, enough: asyncio.Event, seen: Seen) -> None:
    """Ask until it is enough; every second client for streams."""
    body: dict[str, Any] = {"model": "main", "prompt": f"Once upon {number}", "max_tokens": 40, "ignore_eos": True}
    streams = number % 2 == 1
    while not enough.is_set():
        began = time.perf_counter()
        try:
            answer = await http.post(
                "/v1/completions", json=body | {"stream": streams}, headers={"Authorization": f"Bearer {key}"}
            )
            text = answer.text
            whole = text.endswith("data: [DONE]\n\n") and '"error"' not in text if streams else "choices" in text
            if answer.status_code != 200 or not whole:
                seen.failures.append(f"{answer.status_code} {text[-300:]}")
        except (httpx.HTTPError, json.JSONDecodeError) as error:
            seen.failures.append(repr(error))
        seen.seconds.append(time.perf_counter() - began)
        seen.kinds["streams" if streams else "plain answers"] += 1


async def reload(server: OwnServer, file: Path, path: Path, turn: int) -> float:
    """Seconds from the signal until requests are served with the new configuration. Raises `TimeoutError`."""
    file.write_text(configuration(path, turn), encoding="utf-8")
    began = time.perf_counter()
    os.kill(server.process_id, signal.SIGHUP)
    headers = {"Authorization": f"Bearer static-key-of-turn-{turn}"}
    async with asyncio.timeout(SECONDS_TO_RELOAD):
        while (models := await server.http.get("/v1/models", headers=headers)).status_code != 200:
            await asyncio.sleep(0.02)
    taken = time.perf_counter() - began
    names = [model["id"] for model in models.json()["data"]]
    assert names == (["main", "guest"] if turn % 2 else ["main"]), names
    return taken


async def measure(model: Path, n_reloads: int, pause: float) -> bool:
    """Run it; whether nothing failed."""
    seen, enough, taken = Seen(), asyncio.Event(), []
    with tempfile.TemporaryDirectory() as directory:
        file, database = Path(directory) / "afterword.toml", Path(directory) / "keys.db"
        file.write_text(configuration(model, 0), encoding="utf-8")
        key = make_key(database, "client")
        async with (
            serving("--config", str(file), "--database", str(database)) as server,
            httpx.AsyncClient(base_url=server.http.base_url, timeout=300) as http,
        ):
            clients = [asyncio.create_task(client(http, key, number, enough, seen)) for number in range(CLIENTS)]
            for turn in range(1, n_reloads + 1):
                await asyncio.sleep(pause)
                taken.append(await reload(server, file, model, turn))
            await asyncio.sleep(pause)
            enough.set()
            await asyncio.gather(*clients)
            n_processes = len(server.children)
    kinds = ", ".join(f"{n} {kind}" for kind, n in seen.kinds.items())
    print(
        f"{n_reloads} reloads, {CLIENTS} clients: {kinds}; {len(seen.failures)} failed; an answer took "
        f"{percentiles(seen.seconds)}; a reload was in force after {percentiles(taken)}; at the end the model has "
        f"{n_processes} process"
    )
    for failure in seen.failures[:20]:
        print("  " + failure)
    return not seen.failures and n_processes == 1


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=None, help="a GGUF file; the default model")
    parser.add_argument("--reloads", type=int, default=20)
    parser.add_argument("--pause", type=float, default=1.0)
    options = parser.parse_args()
    model = model_file(DEFAULT_MODEL.name) if options.model is None else options.model
    sys.exit(0 if asyncio.run(measure(model, options.reloads, options.pause)) else 1)


if __name__ == "__main__":
    main()

"""Many models in a folder and room for a few: whether a request is lost under load, and how long loading takes.

    python -m benchmarks.many_models [--models 20] [--room 3] [--clients 6] [--seconds 60] [--file NAME=FILE ...]

Writes tiny models into a folder of its own and serves it on loopback. Each client asks a model that it draws, some for
streams, for all of the time. Then, alone, the first answer of a model and of each file is timed: as it is, and again
after it made room for others. Prints what docs/memory.md has.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.own_server import OwnServer, serving
from tests.models.tiny import Tiny, write_tiny

TOKENS = 16


async def ask(server: OwnServer, model: str, *, stream: bool) -> str:
    """What became of a request: `ok`, or what was wrong."""
    body = {"model": model, "prompt": "the quick", "max_tokens": TOKENS, "ignore_eos": True, "stream": stream}
    answer = await server.http.post("/v1/completions", json=body, timeout=600)
    if answer.status_code != 200:
        return f"{answer.status_code} {answer.text[:200]}"
    if stream:
        return "ok" if answer.text.endswith("data: [DONE]\n\n") and '"error"' not in answer.text else answer.text[-200:]
    return "ok" if answer.json()["usage"]["completion_tokens"] == TOKENS else answer.text


async def under_load(server: OwnServer, models: list[str], n_clients: int, seconds: float) -> None:
    """Print how many requests were answered, and how long they took."""
    outcomes: Counter[str] = Counter()
    took: list[float] = []
    most_loaded = 0
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        drawn = random.Random(number)
        while time.monotonic() < end:
            began = time.monotonic()
            outcomes[await ask(server, drawn.choice(models), stream=drawn.random() < 0.5)] += 1
            took.append(time.monotonic() - began)

    async def watch() -> None:
        nonlocal most_loaded
        while time.monotonic() < end:
            states = (await server.http.get("/ready")).json()["models"]
            most_loaded = max(most_loaded, sum(states[name] == "ready" for name in models))
            await asyncio.sleep(0.1)

    await asyncio.gather(watch(), *(client(number) for number in range(n_clients)))
    took.sort()
    print(
        f"{len(models)} models, {n_clients} clients, {seconds:g} s: {dict(outcomes)}, most loaded at once {most_loaded}"
    )
    print(f"an answer took {took[len(took) // 2]:.1f} s in the middle, {took[-1]:.1f} s at most")


async def loading(server: OwnServer, names: list[str], others: list[str]) -> None:
    """Print the first answer's time of each, as it is and loaded again, and that of the next answer."""
    for name in names:
        found = []
        for _ in range(2):
            for _ in range(2):
                began = time.monotonic()
                outcome = await ask(server, name, stream=False)
                assert outcome == "ok", outcome
                found.append(time.monotonic() - began)
            for other in others:
                await ask(server, other, stream=False)
        print(f"{name}: first loaded {found[0]:.2f} s, again {found[2]:.2f} s; the next answer {found[3]:.2f} s")


async def measure(options: argparse.Namespace) -> None:
    """Both."""
    with tempfile.TemporaryDirectory() as made:
        home, folder = Path(made), Path(made) / "models"
        folder.mkdir()
        names = [f"tiny-{number:02}" for number in range(options.models)]
        for number, name in enumerate(names):
            write_tiny(home, Tiny(seed=number)).rename(folder / f"{name}.gguf")
        files = dict(one.split("=", 1) for one in options.file)
        for name, file in files.items():
            (folder / f"{name}.gguf").symlink_to(Path(file).resolve())
        config = home / "afterword.toml"
        config.write_text("[[models]]\npath = 'echo'\n")
        own = ("--models-dir", str(folder), "--cache-dir", str(home / "cache"), "--database", "none")
        async with serving("--config", str(config), *own, "--max-loaded", str(options.room)) as server:
            await under_load(server, names, options.clients, options.seconds)
            await loading(server, [names[0], *files], names[1 : options.room + 1])


def main() -> None:
    """As the file's first lines say."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", type=int, default=20)
    options.add_argument("--room", type=int, default=3)
    options.add_argument("--clients", type=int, default=6)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--file", action="append", default=[])
    asyncio.run(measure(options.parse_args()))


if __name__ == "__main__":
    main()

"""What other programs cost: tokens/s beside some that never rest, as a share of those without them.

    python -m benchmarks.busy [--model FILE] [--programs 1] [--rounds 3]

Each program is a session of its own, as another user's is: Linux shares processors out among sessions, so one that
the server's own session starts takes less. Rounds take turns; the median of their shares is printed. A minute or two.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from statistics import median

from benchmarks.client import Client
from benchmarks.peers import afterword
from benchmarks.prompts import request, text
from benchmarks.servers import Shape, running
from benchmarks.workloads import all_at_once, joint_measures

NEVER_RESTS = "while True: pass"
CLIENTS: Mapping[int, int] = {1: 32, 16: 16}
"""Clients at once, and the tokens that each wants."""
SECONDS_TO_NOTICE = 1.0


@contextmanager
def busy(n_programs: int) -> Iterator[None]:
    """Have so many programs compute."""
    programs = [
        subprocess.Popen([sys.executable, "-c", NEVER_RESTS], start_new_session=True) for _ in range(n_programs)
    ]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


async def rates(client: Client, random: Random) -> dict[int, float]:
    """Tokens/s by clients."""
    found = {}
    for n, tokens in CLIENTS.items():
        bodies = [request(text(16, random), tokens, temperature=1, seed=place) for place in range(n)]
        found[n] = joint_measures(*await all_at_once(client, bodies))["out_tokens_per_s"]
    return found


async def measure(model: Path | None, n_programs: int, rounds: int) -> None:
    """Print the rates of each round, and the shares that are left."""
    random = Random(0)
    options = () if model is None else ("--model", str(model))
    shares: dict[int, list[float]] = {n: [] for n in CLIENTS}
    with tempfile.TemporaryDirectory(prefix="afterword-busy-") as logs:
        async with running(afterword("afterword", *options), Shape(slots=16, context=512), Path(logs)) as server:
            for _ in range(rounds):
                alone = await rates(server.client, random)
                with busy(n_programs):
                    await asyncio.sleep(SECONDS_TO_NOTICE)
                    beside = await rates(server.client, random)
                for n in CLIENTS:
                    shares[n].append(beside[n] / alone[n])
                    print(f"{n} clients: {alone[n]:.0f} tokens/s alone, {beside[n]:.0f} beside", flush=True)
    for n, found in shares.items():
        print(f"{n} clients: {median(found):.2f} of what they get alone ({min(found):.2f} to {max(found):.2f})")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--programs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.model, arguments.programs, arguments.rounds))


if __name__ == "__main__":
    main()

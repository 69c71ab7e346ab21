"""Measure this server and its peers on this machine: see README.md beside this file.

make bench
make bench ARGS="--only single,concurrent --rounds 3"
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import uvloop
from benchmarks.ceiling import ceilings
from benchmarks.cluster import cluster
from benchmarks.groups import GROUPS
from benchmarks.machine import facts
from benchmarks.names import CEILING, ECHO, OURS, REFERENCE
from benchmarks.overhead import gateway, in_process, overhead, steps
from benchmarks.peers import servers
from benchmarks.places import BENCHMARKS, OUR_PROGRAMS, Places, cache, known_models
from benchmarks.plot import plot
from benchmarks.report import Record, document, summary, table
from benchmarks.rounds import Plan, Visit, go_round
from benchmarks.servers import NotStarted
from benchmarks.sizes import SMOKE, Sizes
from benchmarks.targets import Verdict, verdicts
from benchmarks.workloads import Measures

REFERENCES = (REFERENCE,)

BESIDE_GROUPS = {
    "overhead": ECHO,
    "in-process": ECHO,
    "gateway": ECHO,
    "steps": OURS,
    "ceiling": CEILING,
    "cluster": ECHO,
}
"""What is measured beside the groups of `groups.py`, and of whom."""

NAMES = (*(group.name for group in GROUPS), *BESIDE_GROUPS)

UNASKED = tuple(name for name in NAMES if name != "cluster")
"""What is measured if nothing is named: all that needs no other environment."""


def main() -> None:
    options = _parser().parse_args()
    started = time.strftime("%Y-%m-%d-%H%M")
    options.results.mkdir(parents=True, exist_ok=True)
    for model in options.model or known_models():
        _measure(options, started, model.resolve())


def _measure(options: argparse.Namespace, started: str, model: Path) -> None:
    """All rounds on one file; results are named after it."""
    name = f"{started}-{model.stem}"
    places = _places(options, name, model)
    plan = _plan(options, places)
    record = Record()
    about = {"date": started, "command": sys.argv[1:], "salt": plan.salt, "smoke": options.smoke, **facts(places)}
    for number in range(1, options.rounds + 1):
        # The client takes half as much from the server's processors as on asyncio's own loop.
        uvloop.run(_round(plan, number, record, options.only, places))
        # After every round: a run that is broken off keeps what it had.
        _write(options.results / f"{name}.json", record, about)
    lines = summary(record.figures, REFERENCES)
    plot(lines, options.results, name)
    print(model.name)
    print(table(lines, REFERENCES))
    for verdict in verdicts(record.figures):
        print(_sentence(verdict))


async def _round(plan: Plan, number: int, record: Record, only: Sequence[str], places: Places) -> None:
    await go_round(plan, number, record)
    for name, server in BESIDE_GROUPS.items():
        if name in only:
            visit = Visit(number, server, record)
            visit.begin(name)
            try:
                await _measure_alone(name, visit, plan, places)
            except (RuntimeError, NotStarted) as error:
                visit.fail(name, str(error))


async def _measure_alone(name: str, visit: Visit, plan: Plan, places: Places) -> None:
    """One of `BESIDE_GROUPS`."""
    match name:
        case "overhead":
            for group, measures in (await overhead(plan.sizes, plan.logs)).items():
                visit.add(group, measures)
        case "in-process":
            visit.add(name, await in_process(plan.sizes))
        case "gateway":
            visit.add(name, await gateway(plan.sizes))
        case "steps":
            visit.add(name, await steps(places.model))
        case "ceiling":
            _add_each(await ceilings(places), name, visit)
        case "cluster":
            _add_each(await cluster(plan.sizes, places), name, visit)


def _add_each(found: Mapping[str, Measures], name: str, visit: Visit) -> None:
    """Figures of several servers in one group."""
    for server, measures in found.items():
        Visit(visit.round, server, visit.record).add(name, measures)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    names = ", ".join(NAMES)
    parser.add_argument("--only", type=_names, default=UNASKED, help=f"what to measure, with commas between: {names}")
    parser.add_argument("--servers", type=lambda text: text.split(","), help="which servers, default all there are")
    parser.add_argument("--rounds", type=int, default=3, help="times that everything is measured (default 3)")
    parser.add_argument(
        "--model",
        type=Path,
        action="append",
        help="GGUF file, as often as wanted (default: the packaged one and what `make test-models` fetched)",
    )
    parser.add_argument("--peer-bin", type=Path, help="directory of llama-server (default: what build_peers.sh made)")
    parser.add_argument("--ik-bin", type=Path, help="directory of ik_llama.cpp's llama-server (default: as above)")
    parser.add_argument("--with-vllm", action="store_true", help="measure vLLM too; installs it the first time")
    parser.add_argument("--with-openvino", action="store_true", help="measure OpenVINO's prompts in `ceiling` too")
    parser.add_argument("--results", type=Path, default=BENCHMARKS / "results", help="directory for what was found")
    parser.add_argument("--salt", type=int, help="number that decides the prompts (default: the time)")
    parser.add_argument("--smoke", action="store_true", help="as little work as shows that everything runs")
    return parser


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"nothing is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return names


def _places(options: argparse.Namespace, name: str, model: Path) -> Places:
    logs = cache() / "bench-logs" / name
    logs.mkdir(parents=True, exist_ok=True)
    return Places(
        model=model,
        peers=(options.peer_bin or cache() / "bench-peers" / "bin").resolve(),
        ik=(options.ik_bin or cache() / "bench-ik" / "bin").resolve(),
        vllm=_vllm(model) if options.with_vllm else None,
        openvino=_openvino() if options.with_openvino else None,
        logs=logs,
    )


def _vllm(model: Path) -> Path:
    script, environment = BENCHMARKS / "build_vllm.sh", {**os.environ, "PYTHON": str(OUR_PROGRAMS / "python")}
    done = subprocess.run([script, model], check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return Path(done.stdout.splitlines()[-1])


def _openvino() -> Path:
    done = subprocess.run([BENCHMARKS / "build_openvino.sh"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.splitlines()[-1])


def _plan(options: argparse.Namespace, places: Places) -> Plan:
    groups = [group for group in GROUPS if group.name in options.only]
    found = servers(places) if groups else []
    return Plan(
        groups=groups,
        servers=[server for server in found if options.servers is None or server.name in options.servers],
        sizes=SMOKE if options.smoke else Sizes(),
        salt=int(time.time()) if options.salt is None else options.salt,
        logs=places.logs,
    )


def _write(file: Path, record: Record, about: dict[str, object]) -> None:
    file.write_text(json.dumps(document(record, REFERENCES, about), indent=1) + "\n")


def _sentence(verdict: Verdict) -> str:
    reached = "not measured" if verdict.reached is None else f"{verdict.reached:.3f}"
    word = {True: "met", False: "MISSED", None: ""}[verdict.met]
    return f"{verdict.name:50}{reached:>14}  of {verdict.least:.2f}  {word}"


if __name__ == "__main__":
    main()

"""What llama.cpp's own loops reach on the same files: nothing above them can be faster by much.

`llama-bench` decodes one sequence without sampling; `llama-batched-bench` several, in KV slots of their own. Neither
knows this project's kernels, so those have a loop of ours (`decode_loop.py`).
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from benchmarks.names import CEILING, CEILING_OURS, OPENVINO
from benchmarks.places import BENCHMARKS, OUR_PROGRAMS, Places
from benchmarks.workloads import Measures

PROMPT, SINGLE_OUT, OUT = 128, 128, 64
"""Tokens, as in the workloads `single` and `concurrent`."""

SEQUENCES = (1, 4, 16, 32)


async def ceilings(places: Places) -> dict[str, Measures]:
    """Name of the file's figures to measures; none where the programs are not built."""
    if not (places.peers / "llama-bench").is_file():
        return {}
    found = {CEILING: await _single(places.peers, places.model) | await _batched(places.peers, places.model)}
    found[CEILING_OURS] = await _looped(places.model)
    if places.openvino is not None:
        found |= await _openvino(places.openvino, places.model)
    return found


def bench_measures(rows: list[dict[str, Any]]) -> Measures:
    """`llama-bench`'s JSON: prefill of an empty context, decode at each depth."""
    found: Measures = {}
    for row in rows:
        if row["n_gen"] > 0:
            found[f"decode_tokens_per_s@{row['n_depth']}"] = row["avg_ts"]
        elif row["n_depth"] == 0:
            found["prefill_tokens_per_s"] = row["avg_ts"]
    return found


def batched_measures(rows: list[dict[str, Any]]) -> Measures:
    """`llama-batched-bench`'s JSON lines: tokens out a second by sequences, prompts included in the time and not."""
    found: Measures = {}
    for row in rows:
        n = row["pl"]
        found[f"out_tokens_per_s@{n}"] = n * row["tg"] / row["t"]
        found[f"batched_decode_tokens_per_s@{n}"] = row["speed_tg"]
        if n == 1:
            found["prefill_tokens_per_s"] = row["speed_pp"]
    return found


async def _single(directory: Path, model: Path) -> Measures:
    single = ("-p", str(PROMPT), "-n", str(SINGLE_OUT), "-d", f"0,{PROMPT}", "-r", "3", "-o", "json")
    output = await _output_of(str(directory / "llama-bench"), *_common(model), *single)
    return bench_measures(json.loads(output))


async def _batched(directory: Path, model: Path) -> Measures:
    context = max(SEQUENCES) * (PROMPT + OUT)
    counts = ("-npp", str(PROMPT), "-ntg", str(OUT), "-npl", ",".join(str(n) for n in SEQUENCES))
    streams = ("-c", str(context), "--no-kv-unified", "--output-format", "jsonl")
    lines = await _output_of(str(directory / "llama-batched-bench"), *_common(model), *counts, *streams)
    return batched_measures([json.loads(line) for line in lines.splitlines() if line.startswith(b"{")])


async def _looped(model: Path) -> Measures:
    program = (str(OUR_PROGRAMS / "python"), str(BENCHMARKS / "decode_loop.py"), str(PROMPT))
    lone = await _output_of(*program, str(SINGLE_OUT), "1", str(model))
    many = await _output_of(*program, str(OUT), ",".join(str(n) for n in SEQUENCES if n > 1), str(model))
    return batched_measures([json.loads(line) for output in (lone, many) for line in output.splitlines()])


async def _openvino(directory: Path, model: Path) -> dict[str, Measures]:
    """None for a file that it does not read."""
    program = (str(directory / "env" / "bin" / "python"), str(BENCHMARKS / "openvino_prefill.py"))
    try:
        output = await _output_of(*program, str(model), str(len(os.sched_getaffinity(0))), str(PROMPT))
    except RuntimeError:
        return {}
    return {OPENVINO: json.loads(output)}


def _common(model: Path) -> tuple[str, ...]:
    return "-m", str(model), "-t", str(len(os.sched_getaffinity(0)))


async def _output_of(*command: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    return output

"""Which servers there are to measure, and with which options each is started."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.names import IK, OURS, OURS_ON_LLAMA_CPP, PACKAGED, REFERENCE, VLLM
from benchmarks.places import OUR_PROGRAMS, Places, site_packages
from benchmarks.servers import Server, Shape

_CORES = str(len(os.sched_getaffinity(0)))


def servers(places: Places) -> list[Server]:
    """Those whose parts are installed, ours first; says on stderr which are left out."""
    found = [afterword(OURS, "--model", str(places.model))]
    found.append(afterword(OURS_ON_LLAMA_CPP, "--model", str(places.model), "--kernels", "llama.cpp"))
    for name, directory, options in ((REFERENCE, places.peers, ("--offline",)), (IK, places.ik, ())):
        program = directory / "llama-server"
        if program.is_file():
            found.append(llama_server(name, program, places.model, *options))
        else:
            _leave_out(name, f"{program} does not exist; benchmarks/build_peers.sh builds it")
    if places.vllm is not None:
        found.append(vllm(places.vllm))
    found.append(llama_cpp_python(places.model))
    return found


def afterword(name: str, *options: str) -> Server:
    """Ours, from the project's own environment."""

    def command(shape: Shape, port: int) -> Sequence[str]:
        room = ["--parallel", str(shape.slots), "--context", str(shape.context), "--max-waiting", "4096"]
        # The ledger is beside the log: it is part of what is measured, and not the user's own.
        where = ["--port", str(port), "--log-level", "warning", "--database", "afterword.db"]
        return [str(OUR_PROGRAMS / "afterword"), "serve", *where, *room, *options]

    return Server(name, command)


def llama_server(name: str, program: Path, model: Path, *options: str) -> Server:
    """llama.cpp's server or that of its fork; slots given as a number have KV cells of their own, its faster way."""

    def command(shape: Shape, port: int) -> Sequence[str]:
        room = ["--parallel", str(shape.slots), "--ctx-size", str(shape.slots * shape.context)]
        place = ["--host", "127.0.0.1", "--port", str(port)]
        return [str(program), "--model", str(model), "--threads", _CORES, *room, *place, *options]

    return Server(name, command)


def vllm(directory: Path) -> Server:
    """vLLM's CPU build, serving the same weights in BF16."""

    def command(shape: Shape, port: int) -> Sequence[str]:
        room = ["--max-num-seqs", str(shape.slots), "--max-model-len", str(shape.context)]
        place = ["--host", "127.0.0.1", "--port", str(port)]
        # Not its command: that asks for the version of a package called vllm, which this build is not.
        program = [str(directory / "env" / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server"]
        serve = [*program, "--model", str(directory / "model"), "--dtype", "bfloat16"]
        return [*serve, *room, *place]

    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return Server(VLLM, command, {"VLLM_CPU_KVCACHE_SPACE": "4", **offline})


def llama_cpp_python(model: Path) -> Server:
    """The server that comes with llama-cpp-python, on the same build of llama.cpp as ours; one request at a time."""

    def command(shape: Shape, port: int) -> Sequence[str]:
        place = ["--host", "127.0.0.1", "--port", str(port)]
        threads = ["--n_threads", _CORES, "--n_threads_batch", _CORES]
        # By default a new request ends the one that is being answered.
        room = ["--n_ctx", str(shape.context), "--interrupt_requests", "false"]
        return [sys.executable, "-m", "llama_cpp.server", "--model", str(model), *threads, *room, *place]

    return Server(PACKAGED, command, {"PYTHONPATH": str(site_packages())}, batches=False)


def _leave_out(name: str, reason: str) -> None:
    print(f"{name} is left out: {reason}.", file=sys.stderr)

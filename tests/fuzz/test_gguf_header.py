"""Mutated GGUF files: each is read or refused in a sentence, and what is read never crashes llama.cpp.

AFTERWORD_TEST_MUTANTS is how many there are; `make fuzz` has ten thousand.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.fuzz.headers import mutants
from tests.models.gguf_tensors import ALIGNMENT, read_gguf
from tests.models.tiny import Tiny, write_tiny

from afterword.errors import ConfigurationError
from afterword.gguf_header import read_header

COUNT = int(os.environ.get("AFTERWORD_TEST_MUTANTS", "400"))
SEED = 1

LOADED, REFUSED, GAVE_UP = 0, 1, 2
"""Ends of a process that loads a file. llama.cpp gives up with an assertion, which is said before it aborts."""

MEMORY = 1 << 20
"""KiB that a process may take to load one."""

LOAD = """
import json, os, signal, sys
from pathlib import Path
from afterword.engine.llama.aborting import say_why_it_aborts
from afterword.engine.llama.binding import LIBRARY, LlamaModel
from afterword.errors import ConfigurationError

say_why_it_aborts(LIBRARY)
ends = {}
for file in sys.argv[1:]:
    said = Path(file + ".said")
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os.dup2(os.open(said, os.O_CREAT | os.O_WRONLY), 2)
        try:
            LlamaModel(Path(file))
        except ConfigurationError as error:
            os._exit(1)
        os._exit(0)
    _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGABRT and said.read_text("utf-8", "replace").startswith("llama.cpp gives up ("):
        code = 2
    ends[file] = code, usage.ru_maxrss
print(json.dumps(ends))
"""


def test_a_mutated_file_is_read_or_refused_and_never_crashes_llama_cpp(tmp_path: Path) -> None:
    whole = write_tiny(tmp_path, Tiny("Q8_0"))
    data = whole.read_bytes()
    head = len(data) - sum(-(-tensor.size // ALIGNMENT) * ALIGNMENT for tensor in read_gguf(whole).tensors)
    sound = []
    for number, mutant in enumerate(mutants(data, head, SEED, COUNT)):
        path = tmp_path / f"{number}.gguf"
        path.write_bytes(mutant)
        said = refusal(path)
        if said is None:
            sound.append(path)
            continue
        assert re.fullmatch(r"The model file \S+ cannot be loaded: [^\n]{1,1000}\.", said), number
        path.unlink()
    assert 0.05 < len(sound) / COUNT < 0.5
    ends = load(sound)
    assert {end for end, _ in ends.values()} <= {LOADED, REFUSED, GAVE_UP}, ends
    assert max(memory for _, memory in ends.values()) < MEMORY


def refusal(path: Path) -> str | None:
    """What is said of the file, None if it is sound."""
    try:
        read_header(path)
    except ConfigurationError as error:
        return str(error)
    return None


def load(files: list[Path]) -> dict[str, tuple[int, int]]:
    """How the loading of each file ends, in a process of its own, and the most memory that it takes, in KiB."""
    command = [sys.executable, "-c", LOAD, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    ends: dict[str, tuple[int, int]] = json.loads(done.stdout)
    return ends

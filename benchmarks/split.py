"""Write the copy that the server makes of a Q4_1 file, for its peers. Runs in the project's environment.

.venv/bin/python benchmarks/split.py SOURCE.gguf WEIGHTS.gguf OFFSETS.gguf      (nothing is written of other files)
"""

import sys
from pathlib import Path

from afterword.engine.llama.split import write_split

if __name__ == "__main__":
    write_split(*map(Path, sys.argv[1:]))

"""Runs the programs of a client in that client's own environment, cut off from the network and from this user's home.

Knows no client; what is run and what must come of it is in the tests.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
STUBS = Path(__file__).parent / "stubs"
SECONDS = 600


@dataclass(frozen=True, slots=True)
class Client:
    """One client's environment and a folder of its own to run in."""

    name: str
    environment: Path
    home: Path

    def run(self, program: str, *arguments: str) -> Any:
        """What `programs/PROGRAM.py` writes as the last line of its standard output, as JSON."""
        out = self._finish("python", str(PROGRAMS / f"{program}.py"), *arguments)
        return json.loads(out.splitlines()[-1])

    def command(self, name: str, *arguments: str) -> str:
        """The standard output of a command that the client installs."""
        return self._finish(name, *arguments)

    def _finish(self, command: str, *arguments: str) -> str:
        done = subprocess.run(
            [self.environment / "bin" / command, *arguments],
            cwd=self.home,
            env=self._variables(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command} {arguments} ended with {done.returncode}:\n{done.stderr[-4000:]}"
        return done.stdout

    def _variables(self) -> dict[str, str]:
        return {
            "PATH": f"{self.environment / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "PYTHONPATH": str(STUBS / self.name),
            "NO_PROXY": "127.0.0.1",
            "HF_HOME": str(self.home / "hf"),
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LLM_USER_PATH": str(self.home / "llm"),
        }

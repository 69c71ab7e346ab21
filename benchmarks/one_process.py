"""The server with the engine in its own process, as no server is shipped: what `processes.py` measures it against.

    python benchmarks/one_process.py serve ...

All else is the program `afterword` as it is.
"""

from typing import Any

from afterword.engine.llama import llama_loading
from afterword.engine.llama.llama_engine import LlamaEngine
from afterword.engine.llama.llama_loading import LlamaSettings
from afterword.engine.worker import worker_engine
from afterword.launch import main


def load_engine(settings: LlamaSettings, **_: Any) -> LlamaEngine:
    """In place of the engine that starts a process."""
    return llama_loading.load_engine(settings)


if __name__ == "__main__":
    worker_engine.load_engine = load_engine  # type: ignore[assignment]
    main()

"""The shape of the source: imports point one way, each library has one home, files and functions stay short."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "afterword"
FILES = sorted(PACKAGE.rglob("*.py"))
IDS = [str(path.relative_to(PACKAGE)) for path in FILES]

LAYERS = (
    {"text"},
    {"errors", "machine", "gguf_parts", "gguf_types"},
    {"fields"},
    {"config"},
    {"tokens", "gguf_header"},
    {"export"},
    {"engine"},
    {"pulling"},
    {"registry"},
    {"loading"},
    {"completions"},
    {"logs"},
    {"metrics"},
    {"tracing"},
    {"gateway"},
    {"api"},
    {"cluster"},
    {"cli"},
    {"launch"},
    {"lm_eval_model"},
)
"""A part may import itself and whatever is in a set above it."""

HOMES = {
    "llama_cpp": ("engine/llama/binding.py",),
    "llguidance": ("engine/sampling/", "engine/grammars/read_grammar.py"),
    "vllm": ("engine/vllm/vllm_binding.py",),
    "torch": ("engine/vllm/vllm_binding.py",),
    "transformers": ("engine/vllm/huggingface.py",),
    "tokenizers": ("engine/vllm/hf_vocabulary.py",),
    "gguf": ("export/gguf_file.py",),
    "safetensors": ("export/weights.py",),
    "lm_eval": ("lm_eval_model.py",),
    "requests": ("lm_eval_model.py",),
    "httpx": ("engine/upstream/", "cli/", "pulling/download.py"),
    "huggingface_hub": ("pulling/hub.py",),
    "httpx2": ("pulling/hub.py",),
    "fastapi": ("api/",),
    "starlette": ("api/",),
    "uvicorn": ("api/", "cli/http_server.py"),
    "typer": ("cli/",),
    "rich": ("cli/",),
    "pydantic": ("config/", "fields/", "completions/"),
    "opentelemetry": ("tracing/otlp_tracer.py",),
    "prometheus_client": ("metrics.py",),
    "ray": ("cluster/",),
    "regex": ("completions/filter/",),
    "sqlalchemy": ("gateway/",),
    "alembic": ("gateway/",),
    "psycopg": ("gateway/",),
    "limits": ("gateway/",),
    "redis": ("gateway/",),
}
"""The only files that may import a library."""

MAX_ROOT_FILES = 12
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 50


def part(path: Path) -> str:
    """The part of the package a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Every module a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports by relative name"
            assert node.module is not None
            yield from (f"{node.module}.{name.name}" for name in node.names)


def layer(name: str) -> int:
    """How high a part stands."""
    return next(height for height, parts in enumerate(LAYERS) if name in parts)


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_imports_point_one_way(path: Path) -> None:
    own = part(path)
    used = {module.split(".")[1] for module in imports(path) if module.startswith("afterword.")} - {"__version__", own}
    assert own == "__init__" or [name for name in sorted(used) if layer(name) >= layer(own)] == []


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_each_library_is_imported_in_its_home_only(path: Path) -> None:
    here = str(path.relative_to(PACKAGE))
    libraries = {module.split(".")[0] for module in imports(path)}
    assert [name for name in sorted(libraries & HOMES.keys()) if not here.startswith(HOMES[name])] == []


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_files_and_functions_stay_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = [(node.name, (node.end_lineno or 0) - node.lineno + 1) for node in functions]
    assert len(text.splitlines()) <= MAX_FILE_LINES
    assert [(name, length) for name, length in lengths if length > MAX_FUNCTION_LINES] == []


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_each_file_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is not None


def test_no_two_files_have_the_same_name() -> None:
    names = Counter(path.name for path in FILES if path.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []


def test_few_files_lie_beside_the_folders() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= MAX_ROOT_FILES


def test_the_architecture_lists_the_parts_in_the_order_of_imports() -> None:
    text = (PACKAGE.parent.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.partition("\n## Parts\n")[2].partition("\n## ")[0]
    firsts = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    names = [name.removesuffix(".py").rstrip("/") for first in firsts for name in re.findall("`([^`]+)`", first)]
    listed = [layer(name) for name in names]
    assert listed == sorted(listed)
    assert set(listed) == set(range(len(LAYERS)))


def test_a_file_is_found_in_each_home() -> None:
    assert {name for parts in LAYERS for name in parts} <= {part(path) for path in FILES}
    assert "llama_cpp" in {module.split(".")[0] for module in imports(PACKAGE / "engine" / "llama" / "binding.py")}

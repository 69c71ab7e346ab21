"""The configuration: which source wins, what is refused and in which words."""

import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from afterword.config import service_links
from afterword.config.load import load_config
from afterword.config.model import RETIRED_NAMES, ModelConfig
from afterword.config.tree import SETTINGS, Config
from afterword.config.values import FunctionName, Share
from afterword.errors import ConfigurationError
from afterword.text.infill_template import parse_template

NAME = "smollm2-135m-instruct"


def load(tmp_path: Path, toml: str = "", environment: Mapping[str, str] | None = None, **flags: object) -> Config:
    if toml:
        (tmp_path / "afterword.toml").write_text(toml, encoding="utf-8")
    return load_config(flags, {} if environment is None else environment, tmp_path)


def refusal(tmp_path: Path, toml: str = "", environment: Mapping[str, str] | None = None, **flags: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, toml, environment, **flags)
    return str(caught.value)


def test_without_any_source_the_defaults_hold(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert (config.server.host, config.server.port, config.server.api_key) == ("127.0.0.1", 8000, None)
    assert (config.server.strict, config.server.max_logprobs, config.server.max_candidates) == (False, 100, 2048)
    assert config.server.max_body_bytes == 12 * 1024 * 1024
    assert (config.engine.max_waiting, config.engine.memory, config.engine.threads) == (2048, Share(0.75), None)
    aliases = ("default", *RETIRED_NAMES)
    assert config.models == (ModelConfig(name=NAME, path=NAME, aliases=aliases, context=None, parallel=16),)


FILE = "[server]\nport = 3"


@pytest.mark.parametrize(
    ("toml", "environment", "flags", "port"),
    [
        pytest.param("", {}, {}, 8000, id="default"),
        pytest.param(FILE, {}, {}, 3, id="file over default"),
        pytest.param(FILE, {"AFTERWORD_PORT": "2"}, {}, 2, id="environment over file"),
        pytest.param(FILE, {"AFTERWORD_PORT": "2"}, {"port": "1"}, 1, id="flag over environment"),
        pytest.param(FILE, {"AFTERWORD_PORT": "2"}, {"port": "0"}, 0, id="a flag of zero is given"),
        pytest.param(FILE, {"AFTERWORD_PORT": "2"}, {"port": None}, 2, id="a flag of None is not given"),
        pytest.param(FILE, {"AFTERWORD_PORT": ""}, {}, 3, id="an empty variable is not set"),
    ],
)
def test_flags_win_over_environment_over_file_over_default(
    tmp_path: Path, toml: str, environment: dict[str, str], flags: dict[str, str | None], port: int
) -> None:
    assert load(tmp_path, toml, environment, **flags).server.port == port


def test_a_switch_turned_off_by_flag_wins_over_one_turned_on_below(tmp_path: Path) -> None:
    assert load(tmp_path, "[server]\nstrict = true", {"AFTERWORD_STRICT": "1"}, strict=False).server.strict is False


@pytest.mark.parametrize(
    ("toml", "environment", "flags", "message"),
    [
        pytest.param(
            "", {}, {"port": "70000"}, "--port is '70000': it must be a whole number from 0 to 65535.", id="flag"
        ),
        pytest.param(
            "",
            {"AFTERWORD_LOG_FORMAT": "xml"},
            {},
            "AFTERWORD_LOG_FORMAT is 'xml': it must be one of console, json.",
            id="variable",
        ),
        pytest.param(
            "", {"AFTERWORD_API_KEY": " "}, {}, "AFTERWORD_API_KEY is not usable: ", id="a key is not repeated"
        ),
        pytest.param(
            '[server]\nport = "8000"', {}, {}, "port in [server] of {file} is '8000': it must be a whole", id="file"
        ),
        pytest.param("[server]\nport = true", {}, {}, "port in [server] of {file} is True", id="true is no number"),
        pytest.param(
            "[server]\nprot = 1",
            {},
            {},
            "There is no setting 'prot' in [server] of {file}; did you mean 'port'?",
            id="key",
        ),
        pytest.param(
            "[engine]\nx = 1",
            {},
            {},
            "There is no setting 'x' in [engine] of {file}: it has cache_dir, context, devices, drafts, gpu_layers, ",
            id="key like no other",
        ),
        pytest.param(
            "port = 1",
            {},
            {},
            "There is no table 'port' in {file}: it has cluster, engine, gateway, models, server, vendors.",
            id="table",
        ),
        pytest.param(
            "server = 1", {}, {}, "server in {file} is 1: it must be a table, written [server].", id="no table"
        ),
        pytest.param(
            "[models]\npath = 'a'",
            {},
            {},
            "models in {file} is not usable: it must be a list of tables, each written [[models]].",
            id="models",
        ),
        pytest.param(
            "[[models]]\nname = 'a'",
            {},
            {},
            "There is no path in [[models]] number 1 of {file}",
            id="model without path",
        ),
        pytest.param(
            "[[models]]\npath = 'a'\n[[models]]\npath = 'b'\nparallel = 0",
            {},
            {},
            "parallel in [[models]] number 2 of {file} is 0: it must be a whole number from 1 to 255.",
            id="model setting",
        ),
        pytest.param(
            "[[models]]\npath = 'a'\ninfill_template = '{prefix}'",
            {},
            {},
            "infill_template in [[models]] number 1 of {file} is '{prefix}': it must be a text that holds",
            id="template",
        ),
        pytest.param(
            "[[models]]\npath = 'a'\nengine = 'torch'",
            {},
            {},
            "engine in [[models]] number 1 of {file} is 'torch': it must be one of llama, echo",
            id="engine",
        ),
        pytest.param(
            "[[models]]\npath = 'a'\noptions = 'fast'",
            {},
            {},
            "options in [[models]] number 1 of {file} is 'fast': it must be a table.",
            id="options that are no table",
        ),
        pytest.param(
            "[[models]]\npath = 'a'\noptions = {x = 1}",
            {},
            {},
            "options in [[models]] number 1 of {file} is set, but the engine 'llama' takes none.",
            id="options without use",
        ),
        pytest.param(
            "[[models]]\npath = 'echo'\nkv_type = 'q8_0'",
            {},
            {},
            "kv_type in [[models]] number 1 of {file} is set, but the engine 'echo' takes none.",
            id="kv_type without use",
        ),
        pytest.param(
            "[[models]]\npath = 'echo'\ngpu_layers = 3",
            {},
            {},
            "gpu_layers in [[models]] number 1 of {file} is set, but the engine 'echo' takes none.",
            id="gpu_layers without use",
        ),
        *(
            pytest.param(
                f"[engine]\ngpu_layers = {value}",
                {},
                {},
                f"gpu_layers in [engine] of {{file}} is {value}: it must be auto, all, none, or a number of layers.",
                id=f"gpu_layers {value}",
            )
            for value in ("-1", "'most'", "1.5")
        ),
        pytest.param(
            "[[models]]\npath = 'a'\ncontxt = 1",
            {},
            {},
            "There is no setting 'contxt' in [[models]] number 1 of {file}; did you mean 'context'?",
            id="model key",
        ),
        pytest.param(
            "[[models]]\npath = 'a'\naliases = ['b']\n[[models]]\npath = 'b'",
            {},
            {},
            "Two models answer to 'b': names and aliases must differ.",
            id="names twice",
        ),
        pytest.param(
            "[[models]]\npath = 'a'\naliases = ['local/b']\n[[models]]\npath = 'b'",
            {},
            {},
            "Two models answer to 'local/b': names and aliases must differ.",
            id="full name as an alias",
        ),
        pytest.param("=", {}, {}, "The configuration file {file} cannot be read: Invalid", id="no TOML"),
        pytest.param(
            "", {}, {"config": "no.toml"}, "--config names no.toml, which is not a file.", id="no file by flag"
        ),
        pytest.param(
            "",
            {"AFTERWORD_CONFIG": "no.toml"},
            {},
            "AFTERWORD_CONFIG names no.toml, which is not a file.",
            id="no file by variable",
        ),
        pytest.param(
            "",
            {},
            {"model": "gpt"},
            f"model is 'gpt': it must be a GGUF file that exists or one of {NAME}, echo.",
            id="unknown model",
        ),
    ],
)
def test_a_refusal_names_the_setting_the_value_its_place_and_the_limit(
    tmp_path: Path, toml: str, environment: dict[str, str], flags: dict[str, str], message: str
) -> None:
    said = refusal(tmp_path, toml, environment, **flags)
    assert said.startswith(message.replace("{file}", str(tmp_path / "afterword.toml")))


def test_a_named_file_is_read_instead_of_the_usual_one(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[server]\nport = 1")
    (tmp_path / "b.toml").write_text("[server]\nport = 2")
    assert load(tmp_path, FILE, {"AFTERWORD_CONFIG": "a.toml"}).server.port == 1
    assert load(tmp_path, FILE, {"AFTERWORD_CONFIG": "a.toml"}, config="b.toml").server.port == 2


def test_paths_in_a_file_are_relative_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "x.toml").write_text("[engine]\ncache_dir = 'cache'\n[[models]]\npath = 'm/llama.Q8_0.gguf'")
    config = load(tmp_path, config="etc/x.toml")
    assert config.engine.cache_dir == folder / "cache"
    assert [(model.name, model.path) for model in config.models] == [
        ("llama.Q8_0", str(folder / "m" / "llama.Q8_0.gguf"))
    ]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({"XDG_CACHE_HOME": "/x"}, Path("/x/afterword"), id="XDG"),
        pytest.param({}, Path.home() / ".cache" / "afterword", id="home"),
        pytest.param({"XDG_CACHE_HOME": "/x", "AFTERWORD_CACHE_DIR": "~/y"}, Path.home() / "y", id="own setting"),
    ],
)
def test_the_cache_directory_follows_the_desktop_rules(
    tmp_path: Path, environment: dict[str, str], expected: Path
) -> None:
    assert load(tmp_path, "", environment).engine.cache_dir == expected


URL = "postgresql://me@db/afterword"


@pytest.mark.parametrize(
    ("toml", "environment", "flags", "expected"),
    [
        pytest.param("", {"XDG_DATA_HOME": "/x"}, {}, Path("/x/afterword/afterword.db"), id="XDG"),
        pytest.param("", {}, {}, Path.home() / ".local/share/afterword/afterword.db", id="home"),
        pytest.param("", {}, {"database": "~/a.db"}, Path.home() / "a.db", id="path"),
        pytest.param("", {"AFTERWORD_DATABASE": URL}, {}, URL, id="URL"),
        pytest.param("", {"AFTERWORD_DATABASE": URL}, {"database": "none"}, None, id="none wins over a URL"),
        pytest.param("[gateway]\ndatabase = 'none'", {}, {}, None, id="none in the file"),
    ],
)
def test_the_database_is_a_file_a_url_or_none(
    tmp_path: Path, toml: str, environment: dict[str, str], flags: dict[str, str], expected: Path | str | None
) -> None:
    assert load(tmp_path, toml, environment, **flags).gateway.database == expected


def test_redis_is_none_or_a_url_that_no_message_shows(tmp_path: Path) -> None:
    assert load(tmp_path).gateway.redis is None
    assert load(tmp_path, "[gateway]\nredis = 'redis://:secret@cache/1'").gateway.redis == "redis://:secret@cache/1"
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, "", {"AFTERWORD_REDIS": "secret"})
    assert str(caught.value) == (
        "AFTERWORD_REDIS is not usable: it must be a URL such as redis://user:password@host:6379/0, rediss://host or "
        "unix:///path/to/socket."
    )


def test_a_content_filter_is_a_file_beside_the_configuration_or_a_function(tmp_path: Path) -> None:
    assert load(tmp_path).server.content_filter is None
    assert load(tmp_path, content_filter="list.txt").server.content_filter == Path("list.txt")
    in_file = load(tmp_path, '[server]\ncontent_filter = "list.txt"').server.content_filter
    assert in_file == tmp_path / "list.txt"
    function = load(tmp_path, '[server]\ncontent_filter = "policy:judge"').server.content_filter
    assert function == FunctionName("policy", "judge")


def test_a_user_without_a_home_is_told_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", no_home)
    assert refusal(tmp_path) == "This user has no home directory: set HOME, or XDG_CACHE_HOME."
    assert refusal(tmp_path, "", {"XDG_CACHE_HOME": "/x"}).endswith("set HOME, or XDG_DATA_HOME.")
    assert (
        load(
            tmp_path, "", {"XDG_CACHE_HOME": "/x", "AFTERWORD_DATABASE": "none", "AFTERWORD_MODELS_DIR": "m"}
        ).gateway.database
        is None
    )


def test_a_database_s_path_in_a_file_is_relative_to_it(tmp_path: Path) -> None:
    assert load(tmp_path, "[gateway]\ndatabase = 'a.db'").gateway.database == tmp_path / "a.db"


MODELS = """
[engine]
context = 1000
kv_type = "q8_0"
[[models]]
path = "a.gguf"
name = "first"
aliases = ["gpt-3.5-turbo-instruct"]
parallel = 4
infill_template = "<P>{prefix}<S>{suffix}<M>"
[[models]]
path = "echo"
context = 50
"""


def test_models_keep_their_order_and_fall_back_on_the_engine_s_settings(tmp_path: Path) -> None:
    template = parse_template("<P>{prefix}<S>{suffix}<M>")
    assert load(tmp_path, MODELS).models == (
        ModelConfig(
            name="first",
            path=str(tmp_path / "a.gguf"),
            aliases=("gpt-3.5-turbo-instruct", "default"),
            context=1000,
            parallel=4,
            kv_type="q8_0",
            infill_template=template,
        ),
        ModelConfig(name="echo", path="echo", context=50, parallel=16, kv_type="q8_0", engine="echo"),
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [("auto", "auto"), ("all", "all"), ("none", 0), ("0", 0), ("24", 24)],
)
def test_layers_on_accelerators_are_a_word_or_a_number(tmp_path: Path, written: str, expected: int | str) -> None:
    assert load(tmp_path, "", {"AFTERWORD_GPU_LAYERS": written}).models[0].gpu_layers == expected
    toml = f"[[models]]\npath = 'a'\ngpu_layers = {written if written.isdigit() else repr(written)}"
    assert load(tmp_path, toml, {"AFTERWORD_GPU_LAYERS": "7"}).models[0].gpu_layers == expected


def test_accelerators_are_named_in_a_list(tmp_path: Path) -> None:
    (model,) = load(tmp_path, devices="CUDA0, CUDA1", split_mode="row", main_gpu="1").models
    assert (model.devices, model.split_mode, model.main_gpu) == (("CUDA0", "CUDA1"), "row", 1)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("first", ["first"]),
        ("gpt-3.5-turbo-instruct", ["first"]),
        ("echo", ["echo"]),
        (NAME, [NAME]),
        ("own.gguf", ["own"]),
    ],
)
def test_one_model_can_be_picked_by_name_alias_or_path(tmp_path: Path, wanted: str, names: list[str]) -> None:
    (tmp_path / "own.gguf").touch()
    assert [model.name for model in load(tmp_path, MODELS, model=wanted).models] == names


@pytest.mark.parametrize(
    ("toml", "flags", "aliases"),
    [
        pytest.param("", {"model": "echo"}, [RETIRED_NAMES], id="one model"),
        pytest.param(
            "", {"model": "davinci-002.gguf"}, [(RETIRED_NAMES[0], RETIRED_NAMES[2])], id="a file of that name"
        ),
        pytest.param("", {"model": "echo", "strict": True}, [()], id="strict"),
        pytest.param("[server]\nretired_names = false", {"model": "echo"}, [()], id="turned off"),
        pytest.param(MODELS, {}, [(RETIRED_NAMES[0],), ()], id="models are configured"),
        pytest.param(MODELS, {"model": "echo"}, [()], id="one of those"),
        pytest.param(MODELS, {"model": "own.gguf"}, [()], id="models are configured, and a file is named"),
    ],
)
def test_retired_names_are_aliases_while_no_models_are_configured(
    tmp_path: Path, toml: str, flags: dict[str, Any], aliases: list[tuple[str, ...]]
) -> None:
    for name in ("own.gguf", "davinci-002.gguf"):
        (tmp_path / name).touch()
    models = load(tmp_path, toml, **flags).models
    assert [tuple(name for name in model.aliases if name != "default") for model in models] == aliases


def test_a_configured_model_wins_over_a_built_in_of_its_name(tmp_path: Path) -> None:
    assert load(tmp_path, MODELS, model="echo").models[0].context == 50


BUNDLED = f"[[models]]\npath = '{NAME}'\n"


@pytest.mark.parametrize(
    ("toml", "flags", "called"),
    [
        pytest.param("", {}, [NAME], id="no configuration"),
        pytest.param(BUNDLED, {}, [NAME], id="the bundled model"),
        pytest.param("[[models]]\npath = 'echo'\n" + BUNDLED, {}, ["echo"], id="another before the bundled one"),
        pytest.param(BUNDLED + "[[models]]\npath = 'echo'", {}, [NAME], id="another behind it"),
        pytest.param(BUNDLED + "aliases = ['a']", {}, [NAME], id="with aliases of its own"),
        pytest.param(
            BUNDLED + "[[models]]\npath = 'echo'\naliases = ['default']", {}, ["echo"], id="an alias that was given"
        ),
        pytest.param(BUNDLED + "[[models]]\npath = 'echo'\nname = 'default'", {}, ["default"], id="a name"),
        pytest.param(BUNDLED + "[[models]]\npath = 'echo'", {"model": "echo"}, ["echo"], id="the one picked"),
        pytest.param("[[models]]\npath = 'echo'\n" + BUNDLED, {"model": "default"}, ["echo"], id="picked by it"),
    ],
)
def test_cli_03_default_is_the_default_model(
    tmp_path: Path, toml: str, flags: dict[str, str], called: list[str]
) -> None:
    models = load(tmp_path, toml, {}, **flags).models
    assert [model.name for model in models if "default" in (model.name, *model.aliases)] == called


@pytest.mark.parametrize("value", ["tcp://10.96.12.7:8000", "udp://[fd00::1]:53", "sctp://service:1"])
def test_cli_08_the_address_of_a_service_is_not_taken_for_a_port(tmp_path: Path, value: str) -> None:
    environment = {"AFTERWORD_PORT": value}
    assert load(tmp_path, FILE, environment).server.port == 3
    assert load(tmp_path, FILE, environment, port="1").server.port == 1
    said = service_links.warning(environment)
    assert said is not None
    assert said.startswith(f"AFTERWORD_PORT is {value!r}, the address of a service called afterword")
    assert service_links.warning({"AFTERWORD_PORT": "8000"}) is None


@pytest.mark.parametrize("variable", ["AFTERWORD_PORT", "AFTERWORD_HOST", "AFTERWORD_PARALLEL"])
def test_cli_08_other_mistakes_are_still_refused(tmp_path: Path, variable: str) -> None:
    value = "http://a" if variable == "AFTERWORD_PORT" else " "
    assert refusal(tmp_path, "", {variable: value}).startswith(f"{variable} is {value!r}: it must be ")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_cli_10_a_variable_that_was_filled_from_a_file_may_end_in_a_line_s_end(tmp_path: Path, end: str) -> None:
    environment = {"AFTERWORD_API_KEY": f" key {end}", "AFTERWORD_PORT": f"2{end}", "AFTERWORD_DATABASE": f"/a.db{end}"}
    config = load(tmp_path, "", {**environment, "AFTERWORD_HOST": end})
    assert (config.server.api_key, config.server.port, config.server.host) == ("key", 2, "127.0.0.1")
    assert config.gateway.database == Path("/a.db")


def test_cli_10_a_key_in_the_file_may_end_in_a_line_s_end(tmp_path: Path) -> None:
    vendor = "[[vendors]]\nname = 'v'\nurl = 'http://v'\napi_key = 'k\\n'\nheaders = {x-a = 'b\\n'}\n".replace("'", '"')
    config = load(tmp_path, '[server]\napi_key = """\nkey\n"""\n' + vendor)
    assert config.server.api_key == "key"
    assert (config.vendors[0].api_key, config.vendors[0].headers) == ("k", {"x-a": "b"})


@pytest.mark.parametrize("key", ["a\nb", "a\x00b", "a\x7f"])
def test_cli_10_a_key_that_no_header_can_hold_is_refused_without_being_shown(tmp_path: Path, key: str) -> None:
    said = refusal(tmp_path, "", {"AFTERWORD_API_KEY": key})
    assert said.startswith("AFTERWORD_API_KEY is not usable: it must be a text without control characters")
    vendor = "[[vendors]]\nname = 'v'\nurl = 'http://v'\napi_key_env = 'KEY'"
    said = refusal(tmp_path, vendor, {"KEY": key})
    assert said.startswith("KEY, which api_key_env in [[vendors]] number 1 of ")
    assert said.endswith("names, is not usable: it must be a text of printable ASCII characters that is not blank.")


@pytest.mark.parametrize("name", ["afterword.toml", "other.toml"])
def test_cli_09_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILE, encoding="utf-8-sig")
    assert load(tmp_path, config=None if name == "afterword.toml" else name).server.port == 3


def test_cli_09_a_file_in_another_encoding_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "afterword.toml").write_text(FILE, encoding="utf-16")
    assert "cannot be read: 'utf-8' codec can't decode byte 0xff in position 0" in refusal(tmp_path)


def test_the_name_of_a_setting_is_its_option_and_its_variable_so_it_stands_in_one_table() -> None:
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS)


def test_a_secret_stays_out_of_what_is_shown_of_the_configuration(tmp_path: Path) -> None:
    flags = {"api_key": "secret", "database": "postgresql://u:secret@h/n", "redis": "redis://:secret@h"}
    assert "secret" not in repr(load_config(flags, {}, tmp_path))


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000, "0x" + "f" * 5000], ids=["decimal", "nested", "hexadecimal"])
def test_what_python_cannot_read_or_write_is_refused_in_a_sentence_too(tmp_path: Path, value: str) -> None:
    assert refusal(tmp_path, f"[server]\nport = {value}").endswith(".")


def test_a_configuration_crosses_to_other_processes(tmp_path: Path) -> None:
    vendor = "[[vendors]]\nname = 'there'\nurl = 'http://there'\nheaders = {a = 'b'}\n"
    config = load(tmp_path, MODELS + vendor, memory="8GB", content_filter="policy:judge")
    assert pickle.loads(pickle.dumps(config)) == config


def test_a_long_value_is_repeated_in_part(tmp_path: Path) -> None:
    assert len(refusal(tmp_path, port="9" * 5000)) < 300


def test_a_cluster_may_not_have_more_replicas_at_least_than_at_most(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="max_replicas is 2, less than min_replicas, which is 3"):
        load_config({"min_replicas": "3", "max_replicas": "2"}, {}, tmp_path)


def folder_of(tmp_path: Path, *names: str) -> Path:
    """A folder of models, in which nothing is read."""
    folder = tmp_path / "models"
    folder.mkdir()
    for name in names:
        (folder / name).write_text("")
    return folder


def test_models_of_the_folder_are_served_by_their_names_after_the_configured_ones(tmp_path: Path) -> None:
    folder = folder_of(
        tmp_path, "b.gguf", "a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "taken.gguf", "default.gguf"
    )
    toml = f"[engine]\nmodels_dir = '{folder}'\nmodel_keep_alive = '1m'\n[[models]]\npath = 'echo'\nname = 'taken'\n"
    models = load(tmp_path, toml).models
    assert [(model.name, model.keep_alive) for model in models] == [("taken", None), ("a", 60.0), ("b", 60.0)]
    assert models[1].path == str(folder / "a-00001-of-00002.gguf")


def test_a_model_of_the_folder_can_be_served_alone(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "a.gguf", "b.gguf")
    (model,) = load(tmp_path, models_dir=str(folder), model="b").models
    assert (model.name, model.keep_alive, model.aliases[0]) == ("b", None, "default")


def test_retired_names_are_those_of_the_default_model_beside_a_folder(tmp_path: Path) -> None:
    models = load(tmp_path, models_dir=str(folder_of(tmp_path, "a.gguf"))).models
    assert [set(RETIRED_NAMES) <= set(model.aliases) for model in models] == [True, False]


def test_a_model_of_a_hub_is_called_after_its_repository(tmp_path: Path) -> None:
    names = ["hf:o/Model-1B-GGUF:Q8_0", "hf:o/other", "hf:o/r:sub/x-00001-of-00002.gguf"]
    toml = "".join(f"[[models]]\npath = '{name}'\n" for name in names)
    models = load(tmp_path, toml).models
    assert [model.name for model in models] == ["Model-1B:Q8_0", "other", "x"]
    assert [model.path for model in models] == names
    assert "'hf:o' is no model of a hub" in refusal(tmp_path, "[[models]]\npath = 'hf:o'\n")


def test_how_long_a_model_stays(tmp_path: Path) -> None:
    toml = "[[models]]\npath = 'echo'\nkeep_alive = {}\n"
    assert load(tmp_path, toml.format("'5m'")).models[0].keep_alive == 300
    assert load(tmp_path, toml.format("-1")).models[0].keep_alive == math.inf
    said = refusal(tmp_path, toml.format("'soon'"))
    assert "it must be seconds such as 300, a time such as" in said
    vendor = "vendor = ['local', 'v']\n[[vendors]]\nname = 'v'\nurl = 'http://h'\n"
    assert "but not only llama.cpp runs the model" in refusal(tmp_path, toml.format("0") + vendor)

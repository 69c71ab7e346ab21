"""`[[vendors]]` and the models that name them."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from afterword.config.load import load_config
from afterword.config.tree import Config
from afterword.config.vendor import PRESETS, Supports, VendorConfig
from afterword.errors import ConfigurationError

VENDOR = "[[vendors]]\nname = 'there'\nurl = 'http://there:8000/v1/'\n"
MODEL = "[[models]]\nname = 'm'\nvendor = 'there'\n"


def load(tmp_path: Path, toml: str, environment: Mapping[str, str] | None = None) -> Config:
    (tmp_path / "afterword.toml").write_text(toml, encoding="utf-8")
    return load_config({}, {} if environment is None else environment, tmp_path)


def refusal(tmp_path: Path, toml: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, toml)
    return str(caught.value).replace(str(tmp_path), "")


def test_a_vendor_needs_a_name_and_an_address(tmp_path: Path) -> None:
    (vendor,) = load(tmp_path, VENDOR).vendors
    assert vendor == VendorConfig(name="there", url="http://there:8000/v1")
    assert (vendor.kind, vendor.api_key, vendor.headers, vendor.max_concurrent) == ("openai", None, {}, 64)
    assert (vendor.connect_timeout, vendor.first_event_timeout, vendor.idle_timeout, vendor.retries) == (5, 300, 60, 2)
    assert (vendor.failures, vendor.cooldown, vendor.health_interval, vendor.supports) == (3, 10, 10, Supports())


def test_every_setting_of_a_vendor_is_taken(tmp_path: Path) -> None:
    toml = (
        VENDOR
        + """
kind = "vllm"
api_key = "k"
headers = {x-team = "7"}
max_concurrent = 3
connect_timeout = 1
first_event_timeout = 2.5
idle_timeout = 3
retries = 0
failures = 4
cooldown = 5
health_interval = 6
supports = {n = false, max_logprobs = 7, extensions = ["top_k"]}
"""
    )
    (vendor,) = load(tmp_path, toml).vendors
    assert (vendor.kind, vendor.api_key, vendor.headers, vendor.max_concurrent) == ("vllm", "k", {"x-team": "7"}, 3)
    assert (vendor.connect_timeout, vendor.first_event_timeout, vendor.idle_timeout, vendor.retries) == (1, 2.5, 3, 0)
    assert (vendor.failures, vendor.cooldown, vendor.health_interval) == (4, 5, 6)
    assert (vendor.supports.n, vendor.supports.max_logprobs, vendor.supports.extensions) == (False, 7, ("top_k",))
    assert vendor.supports.include_stop is PRESETS["vllm"].include_stop is True


def test_a_key_may_be_in_the_environment(tmp_path: Path) -> None:
    toml = VENDOR + "api_key_env = 'THERE_KEY'"
    assert load(tmp_path, toml, {"THERE_KEY": " k "}).vendors[0].api_key == "k"


def test_a_key_is_not_shown() -> None:
    assert "secret" not in repr(VendorConfig(name="a", url="http://a", api_key="secret", headers={"x-key": "secret"}))


@pytest.mark.parametrize("kind", PRESETS)
def test_a_vendor_supports_what_its_kind_does(tmp_path: Path, kind: str) -> None:
    (vendor,) = load(tmp_path, VENDOR + f"kind = '{kind}'").vendors
    assert vendor.supports == PRESETS[kind]  # type: ignore[index]


def test_a_model_may_have_several_vendors(tmp_path: Path) -> None:
    toml = VENDOR + "[[models]]\npath = 'a.gguf'\nvendor = ['there', 'local']\nupstream_model = 'big'\n"
    (model,) = load(tmp_path, toml).models
    assert (model.name, model.vendors, model.upstream_model) == ("a", ("there", "local"), "big")
    assert model.path == str(tmp_path / "a.gguf")


def test_a_tokenizer_is_a_path_relative_to_the_file(tmp_path: Path) -> None:
    (model,) = load(tmp_path, VENDOR + MODEL + "tokenizer = 'v.gguf'").models
    assert (model.path, model.tokenizer) == (None, str(tmp_path / "v.gguf"))
    (model,) = load(tmp_path, VENDOR + MODEL + "tokenizer = 'echo'").models
    assert model.tokenizer == "echo"


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[[vendors]]\nurl = 'http://a'", "There is no name in [[vendors]] number 1 of /afterword.toml."),
        ("[[vendors]]\nname = 'a'", "There is no url in [[vendors]] number 1 of /afterword.toml."),
        (
            "[[vendors]]\nname = 'a'\nurl = 'there:80'",
            "url in [[vendors]] number 1 of /afterword.toml is 'there:80': it must be an address that starts with "
            "http:// or https://.",
        ),
        (
            "[[vendors]]\nname = 'a/b'\nurl = 'http://a'",
            "name in [[vendors]] number 1 of /afterword.toml is 'a/b': it must be a text that is not "
            "blank and has no slash.",
        ),
        (
            "[[vendors]]\nname = 'local'\nurl = 'http://a'",
            "A vendor in /afterword.toml is called 'local', but that is this server itself.",
        ),
        (VENDOR + VENDOR, "A vendor in /afterword.toml is called 'there', but names must differ."),
        (
            VENDOR + "kind = 'ollama'",
            "kind in [[vendors]] number 1 of /afterword.toml is 'ollama': it must be one of openai, llama-server, "
            "vllm, afterword.",
        ),
        (
            VENDOR + "idle_timeout = 0",
            "idle_timeout in [[vendors]] number 1 of /afterword.toml is 0: it must be a number of seconds above 0.",
        ),
        (
            VENDOR + "supports = {sed = true}",
            "There is no setting 'sed' in supports in [[vendors]] number 1 of /afterword.toml; did you mean 'seed'?",
        ),
        (
            VENDOR + "supports = {n = 1}",
            "n in supports in [[vendors]] number 1 of /afterword.toml is 1: it must be true or false.",
        ),
        (
            VENDOR + "api_key = 'k'\napi_key_env = 'K'",
            "There are both api_key and api_key_env in [[vendors]] number 1 of /afterword.toml: leave one out.",
        ),
        (
            VENDOR + "api_key_env = 'K'",
            "api_key_env in [[vendors]] number 1 of /afterword.toml is 'K', but that variable is not set.",
        ),
        (
            MODEL,
            "vendor of the model 'm' is 'there': it must be one of local; each of them but local is a table "
            "[[vendors]].",
        ),
        (
            VENDOR + "[[models]]\nvendor = 'there'",
            "There is no name in [[models]] number 1 of /afterword.toml: a model that only vendors run needs one.",
        ),
        (
            VENDOR + MODEL + "path = 'a.gguf'",
            "path in [[models]] number 1 of /afterword.toml is set, but 'local' is not among its vendors.",
        ),
        (
            VENDOR + "[[models]]\nname = 'm'\nvendor = []",
            "vendor in [[models]] number 1 of /afterword.toml is []: it must be a text, or a list of texts that is not "
            "empty.",
        ),
    ],
)
def test_a_refusal_names_the_setting_the_value_its_place_and_the_limit(tmp_path: Path, toml: str, message: str) -> None:
    assert refusal(tmp_path, toml) == message


def test_a_key_that_is_no_text_is_not_repeated(tmp_path: Path) -> None:
    assert "123" not in refusal(tmp_path, VENDOR + "api_key = 123")

"""`afterword complete`: text on stdout and nothing else, the same from a local model and from a server."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import KEY, Afterword

GREEDY = ("--temperature", "0", "--max-tokens", "8")


def test_only_the_text_goes_to_stdout(afterword: Afterword) -> None:
    result = afterword("complete", "hällo ", *GREEDY)
    assert result.stdout == "hällo h"
    assert result.stderr == "[length; 7 prompt tokens, 8 completion tokens]\n"
    assert result.exit_code == 0


def test_a_dash_reads_the_prompt_from_stdin_as_it_is(afterword: Afterword) -> None:
    assert afterword("complete", "-", *GREEDY, "--echo", stdin="ab\n").stdout == "ab\nab\nab\nab"


@pytest.mark.parametrize(
    ("stdin", "text"),
    [
        pytest.param("ab\n", "ab\n", id="a line"),
        pytest.param("ab\r\n", "ab\r\n", id="line ends of other systems"),
        pytest.param("\ufeffab", "ab", id="a byte order mark"),
    ],
)
def test_cli_09_stdin_is_the_prompt_to_the_byte(afterword: Afterword, stdin: str, text: str) -> None:
    assert afterword("complete", "-", "--echo", "--max-tokens", "0", stdin=stdin).stdout_bytes.decode() == text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param(["--stop", "c", "--stop", "d"], "ab", id="stop"),
        pytest.param(["--stop", "c", "--include-stop-str-in-output"], "abc", id="switch"),
        pytest.param(["--logit-bias", "120=100"], "xxxxxxxx", id="bias"),
        pytest.param(["--logit-bias", "97=-100", "--logit-bias", "98=100"], "bbbbbbbb", id="biases"),
        pytest.param(["--stop-token-ids", "99", "--stop-token-ids", "98"], "a", id="stop tokens"),
        pytest.param(["--max-tokens", "0", "--echo"], "abcd", id="nothing to generate"),
    ],
)
def test_parameters_of_the_api_are_options(afterword: Afterword, server: str, options: list[str], text: str) -> None:
    arguments = ["complete", "abcd", *GREEDY, *options]
    assert afterword(*arguments).stdout == text
    assert afterword(*arguments, "--url", server, "--api-key", KEY, "--model", "second").stdout == text


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        pytest.param(r"\n", "", id="line"),
        pytest.param("\n", "", id="a line's end itself"),
        pytest.param(r"\t", "\nb", id="tab"),
        pytest.param(r"b\t", "\n", id="within"),
        pytest.param(r"\\t", "\nb\tc", id="a backslash"),
        pytest.param(r"\d", "\nb\tc\\te", id="what is no escape stays as it is"),
        pytest.param("\\", "\nb\tc", id="a backslash at the end"),
    ],
)
def test_cli_04_escapes_in_a_stop_are_read(afterword: Afterword, server: str, stop: str, text: str) -> None:
    arguments = ("complete", "\nb\tc\\te\\dx", "--temperature", "0", "--max-tokens", "20", "--stop", stop)
    assert afterword(*arguments).stdout == text
    assert afterword(*arguments, "--url", server, "--api-key", KEY, "--model", "first").stdout == text


def test_cli_04_the_prompt_is_taken_as_it_is(afterword: Afterword) -> None:
    result = afterword("complete", r"\nabla", "--max-tokens", "0", "--echo", "--suffix", "")
    assert result.stdout == r"\nabla"


def test_several_choices_are_printed_in_order(afterword: Afterword) -> None:
    result = afterword("complete", "ab", *GREEDY, "--n", "2")
    assert result.stdout == "abababab\nabababab\n"
    assert result.stderr == "[choice 0: length]\n[choice 1: length]\n"


@pytest.mark.parametrize(
    "option", [("--json",), ("--logprobs", "1"), ("--return-token-ids",)], ids=["json", "logprobs", "ids"]
)
def test_the_whole_answer_is_the_body_of_the_api(afterword: Afterword, server: str, option: tuple[str, ...]) -> None:
    arguments = ("complete", "ab", *GREEDY, "--seed", "5", *option)
    local = json.loads(afterword(*arguments).stdout)
    remote = json.loads(afterword(*arguments, "--url", server, "--api-key", KEY, "--model", "first").stdout)
    assert local["object"] == "text_completion"
    assert local["choices"] == remote["choices"]
    assert local["usage"] == remote["usage"]


def test_a_base_url_may_end_in_v1(afterword: Afterword, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AFTERWORD_MODEL")
    assert afterword("complete", "ab", *GREEDY, "--url", f"{server}/v1/", "--api-key", KEY).stdout == "abababab"


def test_cli_11_an_address_needs_no_scheme(afterword: Afterword, server: str) -> None:
    place = server.removeprefix("http://")
    asked = ("complete", "ab", *GREEDY, "--api-key", KEY, "--model", "first")
    assert afterword(*asked, "--url", place).stdout == "abababab"


def test_the_key_may_come_from_the_environment(
    afterword: Afterword, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFTERWORD_API_KEY", KEY)
    assert afterword("complete", "ab", *GREEDY, "--url", server, "--model", "first").stdout == "abababab"


def test_cli_10_a_key_from_a_file_may_end_in_a_line_s_end(
    afterword: Afterword, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFTERWORD_API_KEY", f"{KEY}\n")
    asked = ("complete", "ab", *GREEDY, "--url", server, "--model", "first")
    assert afterword(*asked).stdout == "abababab"
    assert afterword(*asked, "--api-key", f" {KEY}\r\n").stdout == "abababab"
    refused = afterword(*asked, "--api-key", f"{KEY}\nx")
    assert refused.stderr.startswith("Error: --api-key is not usable: it must be a text without control characters")
    wrong = afterword(*asked, "--api-key", "k\u00e9y")
    assert wrong.stderr.startswith("Error: The server answered 401: ")


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        pytest.param(
            ["--temperature", "hot"], "Error: --temperature is 'hot': it must be a number.", 2, id="no number"
        ),
        pytest.param(["--top-p", "true"], "Error: --top-p is 'true': it must be a number.", 2, id="boolean"),
        pytest.param(["--stop-token-ids", "[" * 9999], "Error: --stop-token-ids is '[[[[", 2, id="nested"),
        pytest.param(["--top-p", "3"], "Error: 'top_p' must be at most 1", 1, id="range"),
        pytest.param(["--logit-bias", "5"], "Error: --logit-bias is '5': it must be a token's id", 2, id="half a bias"),
        pytest.param(["--logit-bias", "5=x"], "Error: --logit-bias is '5=x': it must be a token's id", 2, id="no bias"),
        pytest.param(["--url", "http://[x"], "Error: --url is 'http://[x': it must be an address", 2, id="address"),
        pytest.param(["--url", "ftp://x"], "Error: --url is 'ftp://x': it must be an address", 2, id="other scheme"),
        pytest.param(["--url", "x:99999"], "Error: --url is 'http://x:99999': it must be an address", 2, id="no port"),
        pytest.param(["--context", "9", "--max-tokens", "9"], "Error: This model's maximum context", 1, id="context"),
        pytest.param(["--model", "none.gguf"], "Error: model is 'none.gguf'", 2, id="model"),
        pytest.param(["--threads", "0"], "Error: --threads is '0'", 2, id="setting"),
        pytest.param(["--config", "none.toml"], "Error: --config names none.toml", 2, id="file"),
    ],
)
def test_cli_11_a_mistake_is_one_sentence_and_a_code(
    afterword: Afterword, options: list[str], message: str, code: int
) -> None:
    result = afterword("complete", "ab", *options)
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1
    assert (result.stdout, result.exit_code) == ("", code)


@pytest.mark.parametrize("output", [(), ("--json",)], ids=["stream", "body"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(("--model", "x", "--api-key", KEY), "Error: The server answered 404: ", id="model"),
        pytest.param(("--api-key", "wrong"), "Error: The server answered 401: ", id="key"),
        pytest.param(
            ("--api-key", KEY, "--model", "first", "--n", "0"), "Error: The server answered 400: 'n' ", id="n"
        ),
    ],
)
def test_a_server_s_refusal_is_passed_on(
    afterword: Afterword, server: str, output: tuple[str, ...], options: tuple[str, ...], message: str
) -> None:
    result = afterword("complete", "ab", "--url", server, *options, *output)
    assert result.stderr.startswith(message)
    assert (result.stdout, result.exit_code) == ("", 1)


@pytest.mark.parametrize("output", [(), ("--json",)], ids=["stream", "body"])
@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "127.0.0.1:1", "localhost:1"])
def test_an_unreachable_server_is_named(afterword: Afterword, url: str, output: tuple[str, ...]) -> None:
    result = afterword("complete", "ab", "--url", url, *output)
    root = url if "://" in url else f"http://{url}"
    assert result.stderr.startswith(f"Error: {root}/v1/completions cannot be reached: ")
    assert result.exit_code == 1


def test_settings_of_the_directory_hold(afterword: Afterword, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AFTERWORD_MODEL")
    (tmp_path / "afterword.toml").write_text("[[models]]\npath = 'echo'\nname = 'mine'")
    assert json.loads(afterword("complete", "ab", "--json").stdout)["model"] == "mine"


def test_a_model_with_a_keep_alive_is_loaded_for_the_command(
    afterword: Afterword, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AFTERWORD_MODEL")
    (tmp_path / "afterword.toml").write_text("[[models]]\npath = 'echo'\nkeep_alive = 0\n")
    assert afterword("complete", "ab", *GREEDY).stdout == "abababab"

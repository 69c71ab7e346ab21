"""SIGHUP: another configuration without a restart, and without failing a request."""

import asyncio
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from tests.cli.conftest import Afterword
from tests.cli.test_serve import COMMAND, address
from tests.cli.test_serve import serving as serving_echo
from tests.cli.test_stopping import until
from tests.engine.upstream.fakes import ends_when_told, fake_upstream
from tests.models.tiny import Tiny, write_tiny

from afterword.cli import reloading
from afterword.cli.reloading import Reloader
from afterword.config.load import load_config
from afterword.config.tree import Config
from afterword.engine.echo import EchoEngine
from afterword.engine.loaded_models import LoadedModels
from afterword.gateway.interfaces import Gateway
from afterword.gateway.opening import OPEN
from afterword.registry import Registry, ServedModel

ECHO = '[[models]]\nname = "{name}"\npath = "echo"\ncontext = 64\n'

BODY = {"prompt": "ab", "max_tokens": 4, "temperature": 0}


class Server:
    """A server in a process of its own, with a configuration to write."""

    def __init__(self, process: "subprocess.Popen[str]", file: Path, url: str) -> None:
        self.process = process
        self.file = file
        self.url = url

    def reload(self, text: str) -> None:
        """Write the configuration and send SIGHUP."""
        self.file.write_text(text, encoding="utf-8")
        self.process.send_signal(signal.SIGHUP)

    def said(self, words: str) -> str:
        """The next line of its log with these words; a wait in vain is ended by the suite's timeout."""
        assert self.process.stderr is not None
        return next(line for line in self.process.stderr if words in line)

    def models(self) -> list[str]:
        return [model["id"] for model in httpx.get(f"{self.url}/models").json()["data"]]

    def log(self) -> str:
        """All of it, after a stop in good order."""
        self.process.terminate()
        _, log = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return log


def serves(server: Server, names: list[str]) -> bool:
    return server.models() == names


@contextmanager
def serving(folder: Path, text: str) -> Iterator[Server]:
    file = folder / "afterword.toml"
    file.write_text(text, encoding="utf-8")
    command = [part for part in COMMAND if part not in ("--model", "echo")]
    options = ("--config", str(file), "--database", "none")
    with serving_echo(folder, *options, command=command) as (process, line):
        yield Server(process, file, address(line))


def test_no_request_fails_while_models_come_and_go(tmp_path: Path) -> None:
    first, second = ECHO.format(name="first"), ECHO.format(name="second")
    statuses: set[int] = set()
    enough = threading.Event()

    def ask() -> None:
        with httpx.Client(timeout=60) as client:
            while not enough.is_set():
                statuses.add(client.post(f"{server.url}/completions", json=BODY).status_code)

    with serving(tmp_path, first) as server:
        askers = [threading.Thread(target=ask) for _ in range(4)]
        for each in askers:
            each.start()
        for text, names in ((first + second, ["first", "second"]), (second, ["second"]), (first, ["first"])) * 2:
            server.reload(text)
            until(partial(serves, server, names))
        enough.set()
        for each in askers:
            each.join()
        gone = httpx.post(f"{server.url}/completions", json=BODY | {"model": "second"})
        metrics = httpx.get(server.url.removesuffix("/v1") + "/metrics").text
        log = server.log()
    assert statuses == {200}
    assert gone.status_code == 404
    assert 'afterword_engine_state{model="first",state="ready"} 1.0' in metrics
    assert 'model="second",state' not in metrics
    assert log.count("the configuration was reloaded") == 6
    assert "Traceback" not in log


def test_a_stream_goes_on_with_the_model_and_vendor_that_it_began_with(tmp_path: Path) -> None:
    go = threading.Event()
    with ExitStack() as stack:
        fake = stack.enter_context(fake_upstream(ends_when_told(go)))
        at_vendor = f'[[vendors]]\nname = "there"\nurl = "{fake.url}/v1"\n[[models]]\nname = "m"\nvendor = "there"\n'
        server = stack.enter_context(serving(tmp_path, at_vendor))
        client = stack.enter_context(httpx.Client(timeout=60))
        body = {"prompt": "hello", "max_tokens": 50, "stream": True}
        response = stack.enter_context(client.stream("POST", f"{server.url}/completions", json=body))
        lines = (line for line in response.iter_lines() if line)
        assert '"text":"a"' in next(lines)
        server.reload(ECHO.format(name="n"))
        until(lambda: server.models() == ["n"])
        go.set()
        events = list(lines)
        assert json.loads(events[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "stop"
        assert events[-1] == "data: [DONE]"
        server.log()


def test_a_wrong_configuration_leaves_the_old_one_and_a_sentence(tmp_path: Path) -> None:
    good = ECHO.format(name="first")
    said: list[str] = []
    broken = [
        "[server\n",
        "[server]\nno_such_setting = 1\n",
        '[[models]]\nname = "x"\npath = "no.gguf"\n',
        f'[server]\ncontent_filter = "no.txt"\n{good}',
    ]
    with serving(tmp_path, good) as server:
        for text in broken:
            server.reload(text)
            said.append(server.said("the configuration was not reloaded, and the old one stays"))
            assert server.models() == ["first"]
        server.reload(good + ECHO.format(name="second"))
        until(lambda: server.models() == ["first", "second"])
        log = server.log()
    assert "Traceback" not in log
    for line, reason in zip(said, ("cannot be read", "no_such_setting", "no.gguf", "no.txt"), strict=True):
        assert reason in line


def test_the_key_the_filter_and_limits_are_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("ba\n", encoding="utf-8")
    good = ECHO.format(name="first")
    with serving(tmp_path, good) as server:
        server.reload(
            f'[server]\napi_key = "k"\ncontent_filter = "words.txt"\nmax_logprobs = 2\nkeep_alive = 99\n{good}'
        )
        until(lambda: httpx.get(f"{server.url}/models").status_code == 401)
        client = httpx.Client(base_url=server.url, headers={"authorization": "Bearer k"})
        with client:
            words = {"prompt": "a ba ", "temperature": 0, "max_tokens": 9}
            choice = client.post("/completions", json=words).json()["choices"][0]
            refused = client.post("/completions", json=BODY | {"logprobs": 3})
        log = server.log()
    assert choice["finish_reason"] == "content_filter"
    assert refused.status_code == 400
    assert "settings that a server uses only when it starts have changed" in log
    assert "server.keep_alive" in log


def test_a_log_that_was_moved_away_is_opened_anew(tmp_path: Path) -> None:
    log, away = tmp_path / "a.log", tmp_path / "a.log.1"
    with serving(tmp_path, f'[server]\nlog_file = "{log}"\n{ECHO.format(name="first")}') as server:
        log.rename(away)
        server.process.send_signal(signal.SIGUSR1)
        until(log.exists)
        assert httpx.post(f"{server.url}/completions", json=BODY).status_code == 200
        assert server.log() == ""
    assert "loading" in away.read_text(encoding="utf-8")
    assert "path=/v1/completions" in log.read_text(encoding="utf-8")


def test_a_server_that_logs_to_stderr_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path, ECHO.format(name="first")) as server:
        server.process.send_signal(signal.SIGUSR1)
        assert "not opened anew" in server.said("the log is stderr")
        assert server.models() == ["first"]


def test_a_log_that_cannot_be_opened_is_refused(afterword: Afterword, tmp_path: Path) -> None:
    result = afterword("serve", "--log-file", str(tmp_path / "none" / "a.log"))
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "a.log cannot be opened: No such file or directory." in result.stderr


def test_models_that_are_put_into_the_folder_are_found_and_those_that_are_loaded_stay(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    for name in "ac":
        write_tiny(folder, Tiny()).rename(folder / f"{name}.gguf")
    text = f"[engine]\nmodels_dir = '{folder}'\nmemory = '2GB'\n" + ECHO.format(name="first")

    def states() -> dict[str, str]:
        return {model["id"]: model["state"] for model in httpx.get(f"{server.url}/models").json()["data"]}

    def complete(model: str) -> int:
        return httpx.post(f"{server.url}/completions", json={**BODY, "model": model}, timeout=100).status_code

    with serving(tmp_path, text) as server:
        assert states() == {"first": "ready", "a": "unloaded", "c": "unloaded"}
        assert complete("a") == 200
        write_tiny(folder, Tiny(seed=1)).rename(folder / "b.gguf")
        server.reload(text)
        server.said("the configuration was reloaded")
        assert states() == {"first": "ready", "a": "ready", "b": "unloaded", "c": "unloaded"}
        assert complete("b") == 200
        (folder / "a.gguf").unlink()
        server.reload(text)
        server.said("the configuration was reloaded")
        assert states() == {"first": "ready", "b": "ready", "c": "unloaded"}
        server.said("a model was unloaded")
        assert complete("a") == 404
        server.log()


async def test_no_request_comes_between_the_new_key_and_the_new_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    (tmp_path / "afterword.toml").write_text(ECHO.format(name="first"), encoding="utf-8")
    config = load_config({"database": "none"}, {}, tmp_path)
    registry = Registry([ServedModel("first", EchoEngine(), created=0)])
    current = SimpleNamespace(gateway=OPEN, registry=registry)

    def change_key(gateway: Gateway, _: Config) -> Gateway:
        seen.append("key")
        asyncio.get_running_loop().call_soon(seen.append, "a request")
        return gateway

    async def serve_with(*_: object) -> None:
        seen.append("models")

    monkeypatch.setattr(reloading, "change_key", change_key)
    shared = LoadedModels()
    reloader = Reloader(config, shared, lambda: config, lambda: current, serve_with)  # type: ignore[arg-type,return-value]
    await reloader.reload()
    await asyncio.sleep(0)
    assert seen == ["key", "models", "a request"]

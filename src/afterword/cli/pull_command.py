"""`afterword pull`: from a hub or an address to a model in `models_dir`."""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from afterword.cli.configuration import configuration
from afterword.cli.options import Option, argument, setting_options, with_options
from afterword.config.hub_name import HubModel
from afterword.errors import ConfigurationError
from afterword.gguf_header import read_header
from afterword.gguf_parts import SUFFIX, model_name, part_names
from afterword.pulling.download import Report, Wanted, fetch
from afterword.pulling.folder import check_free, link
from afterword.text.brief import brief

SHA256_OPTION = Option("sha256", ("--sha256",), str, "What a file from an address must be, in hex.", "HEX")


@with_options(
    [SHA256_OPTION, *setting_options(["models_dir"])],
    [argument("model", str, "organisation/repository[:quantisation or file], or an address of a GGUF file.")],
)
def pull(values: Mapping[str, Any]) -> None:
    """Fetch a model from a hub or an address, and put it into the folder of models.

    What was interrupted goes on where it was. Files of a hub lie in the cache that its other programs use: HF_HOME,
    HF_ENDPOINT and HF_TOKEN say which cache, which hub and who asks.

    \b
    Examples:
      afterword pull ggml-org/gemma-3-270m-it-GGUF:Q8_0
      afterword pull https://example.com/models/mistral-7b.Q4_K_M.gguf --sha256 9f86d0...
    """
    folder = configuration({"config": values["config"], "models_dir": values["models_dir"]}).engine.models_dir
    wanted, sha256 = values["model"], values["sha256"]
    if wanted.startswith(("http://", "https://")):
        name = _from_address(wanted, sha256, folder)
    elif sha256 is not None:
        raise ConfigurationError("--sha256 is for an address: a hub says itself what its files are.")
    else:
        name = _from_hub(HubModel.parsed(wanted), folder)
    typer.echo(f"{name} is in {folder}: afterword serve --model {name}")


def _from_hub(model: HubModel, folder: Path) -> str:
    """The name of the model in the folder."""
    # Here and not above: the library behind it takes a second to load.
    from afterword.pulling import hub

    paths = hub.listed(model)
    first = paths[0].rpartition("/")[2]
    check_free(folder, first, hub.blobs(model.repository))
    files = pull_all(model, paths)
    for file in files:
        read_header(file)
    link(folder, files)
    return model_name(first)


def pull_all(model: HubModel, paths: list[str]) -> list[Path]:
    """The files in the cache of the hub, fetched with a bar for each. Raises `PullFailed`."""
    from afterword.pulling import hub

    files = []
    for number, path in enumerate(paths, start=1):
        with _progress(path.rpartition("/")[2], number, len(paths)) as report:
            files.append(hub.pull(model, path, report))
    return files


def _from_address(url: str, sha256: str | None, folder: Path) -> str:
    """The name of the model in the folder. All parts of one that is split are fetched."""
    try:
        path = urlsplit(url).path
    except ValueError as error:
        raise ConfigurationError(f"{brief(url)!r} is no address: {error}.") from None
    written, file_name = path.rpartition("/")[2], unquote(path).rpartition("/")[2]
    names = part_names(file_name)
    if not file_name.lower().endswith(SUFFIX) or not file_name.isprintable():
        raise ConfigurationError(f"{url} must be the address of a GGUF file, whose name ends with {SUFFIX}.")
    if sha256 is not None and (len(names) > 1 or re.fullmatch("[0-9a-fA-F]{64}", sha256) is None):
        raise ConfigurationError(f"--sha256 is {sha256!r}: it must be 64 hex digits, of a model in one file.")
    check_free(folder, file_name, None)
    for number, (name, there) in enumerate(zip(names, part_names(written), strict=True), start=1):
        if not (folder / name).exists():
            hexadecimal = None if sha256 is None else sha256.lower()
            wanted = Wanted(url.replace(written, there), folder / name, {}, hexadecimal, hexadecimal)
            with _progress(name, number, len(names)) as report:
                fetch(wanted, report, read_header)
    return model_name(file_name)


@contextmanager
def _progress(name: str, number: int, count: int) -> Iterator[Report]:
    """A bar on a terminal."""
    of = "" if count == 1 else f" ({number} of {count})"
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=Console(stderr=True), disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task(f"{name}{of}", total=None)
        yield lambda at, total: bar.update(task, completed=at, total=total)

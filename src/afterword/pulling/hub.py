"""Models of a Hugging Face hub, in the cache that its library shares with other programs.

The library says what there is, who may have it and where it is kept (HF_HOME, HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE are
its own). The bytes come by `download.py`, because the library begins a file anew that was interrupted.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from huggingface_hub import HfApi, constants, get_hf_file_metadata, hf_hub_download, hf_hub_url
from huggingface_hub.errors import (
    EntryNotFoundError,
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils._headers import build_hf_headers
from huggingface_hub.utils.tqdm import disable_progress_bars

from afterword.config.hub_name import HubModel
from afterword.errors import ConfigurationError, PullFailed
from afterword.pulling.choice import chosen
from afterword.pulling.download import Report, Wanted, fetch

# Nobody is asked for what no command needs: the library would ask its hub for a list of programs.
constants.HF_HUB_DISABLE_TELEMETRY = True

TAG = re.compile(r"[0-9a-f]{40}|([0-9a-f]{64})")
"""What a hub calls the content of a file: its SHA-256 if it is kept in large file storage, else git's own hash."""


def listed(model: HubModel) -> list[str]:
    """The paths of the model's files in its repository, in order.

    Raises `PullFailed`, and `ConfigurationError` if there is no such model.
    """
    with _in_a_sentence(model):
        # Once, and not as the list of files is asked for page by page: that is repeated for half a minute.
        there = HfApi().model_info(model.repository).siblings or []
        return chosen(model, [file.rfilename for file in there])


def pull(model: HubModel, path: str, report: Report) -> Path:
    """A file of the repository in the cache, fetched if it is missing. Raises `PullFailed`."""
    with _in_a_sentence(model):
        url = hf_hub_url(model.repository, path)
        about = get_hf_file_metadata(url)
        tag = TAG.fullmatch(about.etag or "")
        if tag is None:
            raise PullFailed(f"{url} cannot be fetched: the hub does not say which content it has.")
        blob = blobs(model.repository) / tag[0]
        if not blob.exists():
            fetch(Wanted(url, blob, build_hf_headers(), tag[0], tag[1]), report)
        # It is there: the library gives it its name in the cache.
        disable_progress_bars()
        return Path(hf_hub_download(model.repository, path))


def cached(model: HubModel) -> Path | None:
    """The first file of a model that was pulled whole, without asking anybody; the newest if there are several."""
    snapshots = _folder(model.repository) / "snapshots"
    for snapshot in sorted(snapshots.glob("*"), key=lambda path: path.stat().st_mtime, reverse=True):
        paths = [str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if path.is_file()]
        try:
            return snapshot / chosen(model, paths)[0]
        except ConfigurationError:
            continue
    return None


def forget(file: Path) -> int:
    """Remove a file of the cache, under its names in every snapshot; how many bytes are free by that.

    Files that lie elsewhere are left alone.
    """
    blob = file.resolve()
    folder = blob.parent.parent
    if blob.parent.name != "blobs" or folder.parent != Path(constants.HF_HUB_CACHE).resolve():
        return 0
    n_bytes = blob.stat().st_size
    for name in (folder / "snapshots").rglob("*"):
        if name.is_symlink() and name.resolve() == blob:
            name.unlink()
    blob.unlink()
    return n_bytes


def blobs(repository: str) -> Path:
    """The folder of the cache where the files of a repository lie, named by their content."""
    return _folder(repository) / "blobs"


def _folder(repository: str) -> Path:
    return Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repository, repo_type="model")


@contextmanager
def _in_a_sentence(model: HubModel) -> Iterator[None]:
    hub = constants.ENDPOINT
    try:
        yield
    except OfflineModeIsEnabled:
        raise PullFailed(f"HF_HUB_OFFLINE is set, so {hub} is not asked: {model} is not fetched.") from None
    except GatedRepoError:
        raise PullFailed(
            f"{hub} gives {model.repository} only to those who have accepted its terms there: do so, and set HF_TOKEN."
        ) from None
    except RepositoryNotFoundError:
        raise ConfigurationError(
            f"{hub} has no {model.repository}, or not for you: a private one needs HF_TOKEN."
        ) from None
    except HFValidationError:
        raise ConfigurationError(f"{model.repository!r} is no name that a repository can have.") from None
    except HfHubHTTPError as error:
        raise PullFailed(f"{hub} answers {error.response.status_code} when asked for {model.repository}.") from error
    except (EntryNotFoundError, FileMetadataError) as error:
        raise PullFailed(f"{hub} does not give {model}: {str(error).splitlines()[0]}") from error
    except httpx2.HTTPError as error:
        raise PullFailed(f"{hub} cannot be reached ({error}): {model} is not fetched.") from error
    except OSError as error:
        raise PullFailed(f"{model} cannot be kept in {constants.HF_HUB_CACHE}: {error.strerror}.") from error

"""deploy/Containerfile: what it says is built into an image as far as that needs no base, and, if asked for, whole.

`make test-container` builds it on a base that debootstrap makes, and serves from it; that takes minutes.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.deploy.confined import confined

ROOT = Path(__file__).resolve().parents[2]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
WHEELS = Path.home() / ".cache" / "afterword" / "wheels"
AUTHORITIES = Path("/usr/local/share/ca-certificates")
"""Those that this machine trusts besides the usual ones."""
BASE, IMAGE = "localhost/base", "localhost/afterword"


def instructions() -> list[tuple[str, str]]:
    """Each instruction with its arguments, lines that go on joined."""
    text = re.sub(r"\\\n\s*", "", CONTAINERFILE.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def last_stage() -> list[tuple[str, str]]:
    """The instructions of the image itself."""
    found = instructions()
    starts = [number for number, (word, _) in enumerate(found) if word == "FROM"]
    assert len(starts) == 2
    return found[starts[-1] :]


class Buildah:
    """The program, with its storage in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._options = ["--storage-driver", "vfs", "--root", str(folder / "store"), "--runroot", str(folder / "run")]

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = ["buildah", *self._options, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def must(self, *arguments: str) -> str:
        """What it prints; fails the test if it fails."""
        done = self.run(*arguments)
        assert done.returncode == 0, (arguments, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout.strip()

    def configuration(self, image: str) -> dict[str, Any]:
        """How a container of the image begins."""
        found: dict[str, Any] = json.loads(json.loads(self.must("inspect", "--type", "image", image))["Config"])[
            "config"
        ]
        return found


@pytest.fixture
def buildah(tmp_path: Path) -> Buildah:
    if shutil.which("buildah") is None:
        pytest.skip("there is no buildah")
    made = Buildah(tmp_path / "buildah")
    tried = made.run("from", "scratch")
    if tried.returncode != 0:
        pytest.skip(f"buildah cannot make containers here: {tried.stderr.strip().splitlines()[-1]}")
    return made


def check(configuration: dict[str, Any]) -> None:
    """It begins as a user without privileges, and writes nowhere but to its volumes."""
    assert configuration["User"] == "65532:65532"
    assert configuration["Entrypoint"] == ["/opt/afterword/.venv/bin/afterword"]
    assert configuration["Cmd"] == ["serve", "--host", "0.0.0.0"]
    assert configuration["ExposedPorts"] == {"8000/tcp": {}}
    assert configuration["Volumes"].keys() == {"/var/lib/afterword", "/var/cache/afterword"}
    environment = dict(one.split("=", 1) for one in configuration["Env"])
    assert (environment["XDG_DATA_HOME"], environment["XDG_CACHE_HOME"]) == ("/var/lib", "/var/cache")


def test_nothing_in_it_comes_from_an_address() -> None:
    words = {word for word, _ in instructions()}
    assert words == {
        "ARG",
        "FROM",
        "RUN",
        "COPY",
        "ENV",
        "VOLUME",
        "WORKDIR",
        "EXPOSE",
        "USER",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
    }
    assert "://" not in "".join(rest for _, rest in instructions())
    assert all(
        "--no-install-recommends" in rest for word, rest in instructions() if word == "RUN" and "apt-get" in rest
    )
    # Who it is comes after all that needs to be root.
    words_after = [word for word, _ in last_stage()]
    assert max(number for number, word in enumerate(words_after) if word in ("RUN", "COPY")) < words_after.index("USER")


def test_it_begins_without_privileges(buildah: Buildah, tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    (context / "README.md").write_text("a file")
    # What is run needs a base; what is copied is there.
    kept = [f"{word} {rest}" for word, rest in instructions() if word != "RUN"]
    (context / "Containerfile").write_text("\n".join(kept) + "\n")
    buildah.must("build", "--isolation", "chroot", "--build-arg", "BASE=scratch", "--tag", IMAGE, str(context))
    check(buildah.configuration(IMAGE))


@pytest.mark.container
def test_the_whole_image_serves_from_a_root_that_cannot_be_written_to(buildah: Buildah, tmp_path: Path) -> None:
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        pytest.skip("debootstrap makes the base, as root")
    make_base(buildah, tmp_path / "base")
    build(buildah, copied_sources(tmp_path / "context"))
    configuration = buildah.configuration(IMAGE)
    check(configuration)
    container = buildah.must("from", IMAGE)
    root = Path(buildah.must("mount", container))
    environment = dict(one.split("=", 1) for one in configuration["Env"])
    given, folder = tmp_path / "given", tmp_path / "root"
    given.mkdir()
    folder.mkdir()
    command = [*configuration["Entrypoint"], "serve", "--port", "0"]
    with confined(command, folder, given, environment, root) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+/v1", process.stdout.readline())
        assert found is not None, process.communicate(timeout=60)[1][-2000:]
        answer = httpx.post(f"{found[0]}/completions", json={"prompt": "The capital of", "max_tokens": 4}, timeout=60)
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert answer.status_code == 200, answer.text
    assert process.returncode == 0, said[-2000:]


def make_base(buildah: Buildah, folder: Path) -> None:
    """A minimal Debian, with this machine's own way to its packages."""
    subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(folder)], check=True, capture_output=True)
    for file in (*Path("/etc/apt/apt.conf.d").glob("99*"), *AUTHORITIES.glob("*.crt")):
        there = folder / file.parent.relative_to("/")
        there.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, there)
    (folder / "etc" / "uv").mkdir()
    (folder / "etc" / "uv" / "uv.toml").write_text("system-certs = true\n")
    container = buildah.must("from", "scratch")
    buildah.must("add", "--quiet", container, str(folder), "/")
    buildah.must("commit", "--quiet", container, BASE)


def copied_sources(folder: Path) -> Path:
    """What git has of the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def build(buildah: Buildah, context: Path) -> None:
    """The image, with the wheel of llama.cpp that this machine has compiled, if it has."""
    WHEELS.mkdir(parents=True, exist_ok=True)
    # The home of the image's first stage, which builds as root.
    wheels = ("--volume", f"{WHEELS}:/root/.cache/afterword/wheels:rw")
    options = ("--isolation", "chroot", "--build-arg", f"BASE={BASE}", "--tag", IMAGE, *wheels)
    buildah.must("build", *options, "--file", str(CONTAINERFILE), str(context))

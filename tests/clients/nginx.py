"""nginx as its package configures it, with one site, as a process of the tests."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.clients.certificate import Certificate

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "operate.md"
PACKAGED = Path("/etc/nginx/nginx.conf")


@contextmanager
def listeners(n: int) -> Iterator[list[socket.socket]]:
    """So many sockets that listen on free ports of 127.0.0.1, for nginx to take over."""
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(n)]


def address(listener: socket.socket) -> str:
    """As nginx writes it."""
    host, port = listener.getsockname()
    return f"{host}:{port}"


def documented_site(listens: socket.socket, server: str, certificate: Certificate) -> str:
    """The site of docs/operate.md, below /afterword, with the address, the server and the certificate of a test."""
    site: str
    [site] = re.findall(r"```nginx\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    changes = {
        "listen 443 ": f"listen {address(listens)} ",
        "/etc/ssl/certs/llm.example.org.pem": str(certificate.public),
        "/etc/ssl/private/llm.example.org.key": str(certificate.private),
        "http://127.0.0.1:8000": server,
    }
    for ours, there in changes.items():
        assert site.count(ours) == 1
        site = site.replace(ours, there)
    return site


@contextmanager
def run_nginx(folder: Path, sites: str, taken: Sequence[socket.socket]) -> Iterator[None]:
    """Run nginx with the package's configuration, whose sites are `sites` instead, until the context is left.

    `taken`: what the sites listen on; a client that comes before nginx is ready waits. `folder` is nginx's own.
    """
    assert NGINX is not None
    (folder / "sites").write_text(sites)
    (folder / "nginx.conf").write_text(_configuration(folder))
    inherited = [one.fileno() for one in taken]
    with subprocess.Popen(
        [NGINX, "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "error.log", "-g", "daemon off;"],
        # How nginx is told of sockets that it need not open, by the one that it replaces.
        env={"NGINX": "".join(f"{number};" for number in inherited)},
        pass_fds=inherited,
    ) as process:
        try:
            yield
            assert process.poll() is None, (folder / "error.log").read_text()
        finally:
            process.terminate()


def _configuration(folder: Path) -> str:
    """The package's, with its paths below `folder` and no other sites or modules."""
    text = PACKAGED.read_text()
    changes = {
        r"^user .*;": "user root;" if os.geteuid() == 0 else "",
        r"^pid .*;": f"pid {folder}/pid;",
        r"^error_log .*;": f"error_log {folder}/error.log;",
        r"^\s*access_log .*;": f"access_log {folder}/access.log; {_temporary(folder)}",
        r"^\s*include /etc/nginx/sites-enabled/\*;": f"include {folder}/sites;",
        r"^\s*include /etc/nginx/(conf\.d|modules-enabled)/.*;": "",
    }
    for pattern, replacement in changes.items():
        text, n = re.subn(pattern, replacement, text, flags=re.MULTILINE)
        assert n > 0, f"{PACKAGED} has no line {pattern}"
    return text


def _temporary(folder: Path) -> str:
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)

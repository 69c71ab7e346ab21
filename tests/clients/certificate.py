"""A certificate for 127.0.0.1 that nobody knows but who is told."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.clients.languages.driver import Trust

STORE_PASSWORD = "changeit"


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files of a certificate that is signed by itself."""

    public: Path
    private: Path


def make_certificate(folder: Path) -> Certificate:
    """Write one. Needs openssl."""
    made = Certificate(folder / "public.pem", folder / "private.pem")
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    files = ["-keyout", str(made.private), "-out", str(made.public)]
    subprocess.run(["openssl", "req", "-x509", *kind, *names, *files], check=True, capture_output=True)
    return made


def trust_in(certificate: Certificate) -> Trust:
    """How each kind of client is told of it. Java's store is written beside it, where Java is installed."""
    public = str(certificate.public)
    store = str(certificate.public.with_suffix(".p12"))
    if shutil.which("keytool") is not None:
        kept = ["-keystore", store, "-storepass", STORE_PASSWORD]
        command = ["keytool", "-importcert", "-noprompt", "-alias", "localhost", "-file", public, *kept]
        subprocess.run(command, check=True, capture_output=True)
    java = "-Djavax.net.ssl.trustStore"
    return Trust(
        variables={"SSL_CERT_FILE": public, "CURL_CA_BUNDLE": public, "NODE_EXTRA_CA_CERTS": public},
        options={
            "java": (f"{java}={store}", f"{java}Password={STORE_PASSWORD}"),
            "php": ("-d", f"curl.cainfo={public}", "-d", f"openssl.cafile={public}"),
        },
    )

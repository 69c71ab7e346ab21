"""A server on a real port with models that repeat their prompt at three speeds, and its ledger."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.api.gateways import ListedRows, gateway_of
from tests.api.served import CREATED, wait_until
from tests.clients.languages.driver import KEY
from tests.live import run_server

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.echo import EchoEngine
from afterword.gateway.grant import Grant
from afterword.gateway.interfaces import UsageRow
from afterword.registry import Registry, ServedModel

SECONDS_OF_SILENCE = 70
"""Longer than the 60 that nginx waits by default for an answer to go on."""

DELAYS = {"echo": 0.0, "silent": float(SECONDS_OF_SILENCE), "still": 3600.0}
"""Seconds between two tokens of each model; the first comes at once."""


@dataclass(frozen=True, slots=True)
class Served:
    """A running server."""

    url: str
    still: EchoEngine
    ledger: ListedRows

    @property
    def completions(self) -> str:
        """Where completions are asked for."""
        return f"{self.url}/v1/completions"

    def row_of_who_left(self, n_before: int) -> UsageRow:
        """The next row behind the first `n_before`, once it is there."""
        wait_until(self.url, lambda: len(self.ledger.rows) > n_before)
        return self.ledger.rows[n_before]


@contextmanager
def serving() -> Iterator[Served]:
    """Serve the models of `DELAYS` to who has the key."""
    engines = {name: EchoEngine(token_delay=delay) for name, delay in DELAYS.items()}
    models = [ServedModel(name, engine, CREATED) for name, engine in engines.items()]
    ledger = ListedRows()
    gateway = gateway_of({KEY: Grant(None, None)}, ledger=ledger)
    with run_server(create_app(Registry(models), ServerConfig(), gateway)) as url:
        yield Served(url, engines["still"], ledger)

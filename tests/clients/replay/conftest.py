"""One live server for all replays: an echo model, and one that fills gaps by a template."""

from collections.abc import Iterator

import pytest
from tests.api.served import CREATED
from tests.clients.replay.wire import KEY, PAGE, Wire
from tests.live import run_server

from afterword.api.app import create_app
from afterword.config.tree import ServerConfig
from afterword.engine.echo import EchoEngine
from afterword.gateway.opening import single_key_gateway
from afterword.registry import Registry, ServedModel
from afterword.text.infill_template import parse_template


@pytest.fixture(scope="session")
def wire() -> Iterator[Wire]:
    """Models `echo`, `gap` (what it echoes is `[prefix|suffix]`) and `slow` (it never ends within a test)."""
    models = [
        ServedModel("echo", EchoEngine(), CREATED),
        ServedModel("gap", EchoEngine(), CREATED, infill_template=parse_template("[{prefix}|{suffix}]")),
        ServedModel("slow", EchoEngine(token_delay=0.02), CREATED),
    ]
    with run_server(create_app(Registry(models), ServerConfig(cors_origins=(PAGE,)), single_key_gateway(KEY))) as url:
        yield Wire(url)

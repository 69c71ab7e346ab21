"""How uvicorn is set up to serve the application: by the program, and by the tests that need a socket."""

from starlette.types import ASGIApp
from uvicorn import Config

from afterword.api.protocol import HttpProtocol
from afterword.config.tree import ServerConfig

SECONDS_TO_FINISH = 30
"""How long answers under way may go on once the server has been told to stop."""


def uvicorn_config(app: ASGIApp, server: ServerConfig, seconds_to_finish: int = SECONDS_TO_FINISH) -> Config:
    """uvicorn with our protocol and without words of its own."""
    return Config(
        app,
        loop="uvloop",
        http=HttpProtocol,
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=server.keep_alive,
        timeout_graceful_shutdown=seconds_to_finish,
    )

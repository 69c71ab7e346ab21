"""An ASGI application on a real port, for tests that need a socket."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

N_DESCRIPTORS = 1000
"""What a server under test may open."""


@contextmanager
def run_server(app: Any, **settings: Any) -> Iterator[str]:
    """Serve `app` in a thread on a free port of 127.0.0.1; yields its base URL, without a slash at the end.

    `settings`: fields of `ServerConfig` that are about connections.

    Raises `RuntimeError` if the application's lifespan fails. On leaving, answers in progress get five seconds.
    """
    import uvicorn

    from afterword.api.listening import uvicorn_config
    from afterword.config.tree import ServerConfig

    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn_config(app, ServerConfig(**settings), N_DESCRIPTORS, seconds_to_finish=5))

    def serve() -> None:
        # The socket already listens, so a request sent before the application is ready waits in its backlog;
        # closing it refuses those that wait for an application that failed to start.
        # The server leaves by SystemExit then; `started` tells.
        with listener, suppress(SystemExit):
            server.run(sockets=[listener])

    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    thread = threading.Thread(target=serve, name="test server")
    thread.start()
    try:
        yield url
    finally:
        server.should_exit = True
        thread.join()
        if not server.started:
            raise RuntimeError("the application did not start")

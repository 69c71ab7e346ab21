"""Calls to a deployment of `EngineReplica`s through Ray Serve, whose errors become ours here."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context
from typing import Any

from ray.exceptions import RayError
from ray.serve.exceptions import BackPressureError, RayServeException
from ray.serve.handle import DeploymentHandle
from typing_extensions import override

from afterword.cluster.cluster_engine import ReplicaAnswer, ReplicaLost, Replicas
from afterword.cluster.messages import Message, Report
from afterword.engine.request import GenerationRequest
from afterword.errors import Overloaded


class RayReplicas(Replicas):
    """Replicas behind a Serve handle."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle
        self._streaming = handle.options(method_name="generate", stream=True)

    @override
    def ask(self, request: GenerationRequest) -> "RayAnswer":
        # In a context of its own: else the calls of one HTTP request share its id, by which Serve's routers distinguish
        # calls.
        return RayAnswer(Context().run(self._streaming.remote, request))

    @override
    async def reports(self) -> tuple[Report, ...]:
        with _translated():
            return tuple(await self._handle.broadcast("report").results_async())


class RayAnswer(ReplicaAnswer):
    """An answer over the generator that a call returns."""

    def __init__(self, messages: Any) -> None:
        self._messages = messages

    @override
    async def __anext__(self) -> Message:
        with _translated():
            message: Message = await anext(self._messages)
            return message

    @override
    def cancel(self) -> None:
        self._messages.cancel()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except BackPressureError as error:
        raise Overloaded("Every replica of the model has as much as it can do.", retry_after=1) from error
    except (RayError, RayServeException) as error:
        raise ReplicaLost("The replica that worked on this request is gone.") from error

"""The policy as a request router of Ray Serve. One for each handle: each HTTP replica routes by what it has seen."""

from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from afterword.cluster.prefixes import PrefixIndex, block_chain
from afterword.cluster.routing_policy import rank
from afterword.engine.request import GenerationRequest


class PrefixRouter(RequestRouter):  # type: ignore[misc]
    """Routes `EngineReplica.generate` by its request's prompt; other calls go to the least busy replica."""

    def initialize_state(self, **_: Any) -> None:
        """Called by Ray Serve once the base class is ready."""
        self._index = PrefixIndex()
        self._ongoing: dict[str, int] = {}
        """Requests that this router has sent to each replica and that have not ended."""

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Every candidate, one a rank: the next one is tried when the better one is full."""
        if not candidate_replicas:
            return []
        by_id = {replica.replica_id.unique_id: replica for replica in candidate_replicas}
        chain = _chain(pending_request)
        ongoing = {name: self._under_way(replica.replica_id) for name, replica in by_id.items()}
        ranked = rank(chain, self._index.matches(chain), ongoing)
        # Before it is sent, so that requests which come meanwhile are routed after it.
        self._index.add(chain, ranked[0])
        return [[by_id[name]] for name in ranked]

    def _under_way(self, replica_id: ReplicaID) -> int:
        """What this router has sent there, or what the replica last said that all routers have, if that is more."""
        return max(self._ongoing.get(replica_id.unique_id, 0), self.replica_queue_len_cache.get(replica_id) or 0)

    def on_send_request(self, replica_id: ReplicaID) -> None:
        """Called for each request that is sent, also for one that the replica turns away."""
        super().on_send_request(replica_id)
        self._ongoing[replica_id.unique_id] = self._ongoing.get(replica_id.unique_id, 0) + 1

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:  # noqa: ARG002
        """Remember who computes the prompt."""
        self._index.add(_chain(pending_request), replica_id.unique_id)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:  # noqa: ARG002
        """One less under way; the replica may be gone, and what it had with it."""
        if self._ongoing.get(replica_id.unique_id, 0) > 0:
            self._ongoing[replica_id.unique_id] -= 1

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Forget replicas that are gone."""
        super().update_replicas(replicas)
        present = {replica.replica_id.unique_id for replica in replicas}
        self._index.keep_only(present)
        for gone in self._ongoing.keys() - present:
            del self._ongoing[gone]


def _chain(pending: PendingRequest | None) -> tuple[bytes, ...]:
    """The blocks of the prompt that is waiting for a replica; none if the call is not a generation."""
    requests = [
        argument
        for argument in (pending.args if pending is not None else ())
        if isinstance(argument, GenerationRequest)
    ]
    return block_chain(requests[0].prompt) if requests else ()

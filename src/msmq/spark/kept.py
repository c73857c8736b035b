"""Claims kept by the queue managers, for a query whose checkpoint is not on this computer.

The reader of a stream runs in a process that cannot reach Spark's file systems. But it may make queues in the queue
manager that has its messages: a claim (:mod:`msmq.spark.claims`) is a message in a private queue, ``spark-claims-...``,
one for each queue that is consumed.

Nor can the reader look into the checkpoint, but it need not: Spark asks for the next batch only when the last one is
committed, and then says where that ended. A claim is settled when all of its messages lie before such a position.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from msmq.client.queue import QueueIdentity
from msmq.errors import QueueNotFoundError
from msmq.spark.claims import as_begun, name_of, said_of, unpacked
from msmq.spark.doors import Claim, Door
from msmq.spark.offsets import FleetOffset, Offset
from msmq.spark.telling import PlainError

if TYPE_CHECKING:
    from msmq.spark.planner import MessagesPartition

_T = TypeVar("_T")
_IDS_AT_ONCE: Final = 200_000
"""In one message: each takes at most eight bytes."""


class NotKeptError(PlainError):
    """A server that must keep a claim does not answer."""


class Servers(Protocol):
    """The servers that keep claims."""

    def at(self, server: str, identity: QueueIdentity | None, question: Callable[[Door], _T]) -> _T | None:
        """Ask one server; None if it is not there now."""


class Queues(Protocol):
    """The queues that a query reads."""

    def each_queue(self, ask: Callable[[Door, str], None]) -> None:
        """Ask something about each of them, by its name."""


class KeptClaims:
    """The claims of the query with one checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        self._query = hashlib.sha256(checkpoint.rstrip("/").encode()).hexdigest()[:32]

    def begin(self, queues: Queues) -> None:
        """Forget claims from before the checkpoint was begun: they belong to an earlier run of the query that Spark
        knows nothing about. The starting position may lie after messages that were claimed then and never read."""
        queues.each_queue(self._forget)

    def _forget(self, door: Door, queue: str) -> None:
        door.forget(queue, [claim.lookup_id for claim in door.claims(queue) if self._is_own(claim)])

    def _is_own(self, claim: Claim) -> bool:
        return claim.label.startswith(self._query)

    def make(self, servers: Servers, end: FleetOffset, messages: Iterable[MessagesPartition]) -> None:
        """Record the messages of a batch before anybody reads them."""
        for part in messages:
            if servers.at(part.server, part.identity, self._making(end, part)) is None:
                raise NotKeptError(
                    f"A batch was planned with messages of {part.server}, which does not answer now."
                )

    def _label(self, end: FleetOffset) -> str:
        return f"{self._query} {name_of(end)}"

    def begun(
        self, servers: Servers, end: FleetOffset, messages: Iterable[MessagesPartition]
    ) -> list[MessagesPartition]:
        """Return the messages of a batch as they were when it was first planned."""
        label = self._label(end)

        def said(part: MessagesPartition) -> list[dict[str, Any]]:
            found = servers.at(part.server, part.identity, lambda door: door.claims(part.queue))
            return [json.loads(claim.body) for claim in found or () if claim.label == label]

        return [as_begun(part, said(part)) for part in messages]

    def _making(self, end: FleetOffset, part: MessagesPartition) -> Callable[[Door], bool]:
        label, ids = self._label(end), part.lookup_ids

        def make(door: Door) -> bool:
            before = [claim.lookup_id for claim in door.claims(part.queue) if claim.label == label]
            for place in range(0, len(ids), _IDS_AT_ONCE):
                piece = part.chosen(ids[place : place + _IDS_AT_ONCE])
                door.claim(part.queue, label, json.dumps(said_of(piece)).encode())
            door.forget(part.queue, before)  # only now: a repeated batch needs them
            return True

        return make

    def settle(self, servers: Servers, committed: FleetOffset | None = None) -> int:
        """Remove the messages of batches that end before a position, as far as the servers are there. Returns how many
        were removed."""
        parts = {} if committed is None else committed.parts
        return sum(
            servers.at(server, position.identity(queue), self._settling(queue, position)) or 0
            for server, position in parts.items()
            for queue in position.queues
        )

    def settle_end(self, servers: Servers, end: FleetOffset) -> int:
        """Remove the messages of a batch that is known to be committed, and of those before it."""
        return self.settle(servers, end)

    def _settling(self, queue: str, position: Offset) -> Callable[[Door], int]:
        def settle(door: Door) -> int:
            removed, done = 0, array("Q")
            for claim in door.claims(queue):
                if not self._is_own(claim):
                    continue
                said = json.loads(claim.body)
                identity = None if said["identity"] is None else QueueIdentity(**said["identity"])
                ids = unpacked(said["ids"])
                if not position.is_of(queue, identity) or not all(
                    position.covers(queue, each) for each in ids
                ):
                    continue
                try:
                    found = door.remove(queue, ids, identity)
                except QueueNotFoundError:  # it was deleted with everything in it
                    done.append(claim.lookup_id)
                    continue
                removed += found.removed
                if not found.held:  # also if it is another queue now: then there is nothing left to remove
                    done.append(claim.lookup_id)
            door.forget(queue, done)
            return removed

        return settle

    def belongs(self, end: FleetOffset) -> bool:
        """Return True: nothing here can contradict what Spark says."""
        return True

    def any(self) -> bool:
        """Return False: looking again at once would gain nothing."""
        return False

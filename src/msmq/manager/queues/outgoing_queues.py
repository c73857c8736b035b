"""Outgoing queues: created when somebody sends to another host, and sometimes removed again (MS-MQDMPR 3.1.7.1.5).

A queue that an application opened stays. One that this host created for its own purposes, to acknowledge or to forward
a stranger's message, is *incidental*: their number is limited, and empty ones may be removed. Otherwise whoever can
reach this host could fill its store with names. When the limit is reached, acknowledgments are lost, but never a
message that was taken. Each queue records whose messages caused it, and nobody may cause more than are left for all
others: a thousand names of dead hosts must not cost others their acknowledgments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Final

from msmq.errors import (
    InsufficientResourcesError,
    QueueNotFoundError,
    UnsupportedFormatnameOperationError,
)
from msmq.manager.core import Core
from msmq.manager.directory import (
    DirectoryEvents,
    DirectoryResult,
    Expression,
    ObjectClass,
    Relation,
    by_identifier,
)
from msmq.manager.model import OutgoingState, QueueType
from msmq.manager.queues.queue import OutgoingQueue, Queue
from msmq.manager.queues.resolution import Naming
from msmq.wire.guid import NULL_GUID
from msmq.wire.names import DirectName, FormatName, MulticastName, PrivateName, PublicName
from msmq.wire.names.direct import HTTP_DEFAULT_PORT

MOST_INCIDENTAL: Final = 1_000


class Purpose(Enum):
    """The purposes for which an outgoing queue is opened."""

    APPLICATION = "an application sends"
    COURTESY = "this host has something to say, unless there are too many such queues already"
    DUTY = "this host has something to say that it owes"


class OutgoingQueues:
    """Creates outgoing queues and limits the incidental ones."""

    def __init__(
        self,
        core: Core,
        naming: Naming,
        directory: DirectoryEvents,
        take_number: Callable[[], int],
        write: Callable[[Queue], None],
    ) -> None:
        self.core = core
        self.naming = naming
        self.directory = directory
        self._take_number = take_number
        self._write = write
        self.most_incidental = MOST_INCIDENTAL
        self.cause = ""
        """The sender because of whose messages incidental queues are created at the moment."""
        self.refused = 0
        """How often an incidental queue was refused because there were too many."""
        self.make_room: Callable[[], None] = lambda: None
        """Removes empty incidental queues; set by the server, which may be using them."""
        self.check_way: Callable[[FormatName], None] = lambda name: None
        """Raises for names that no protocol of this host can deliver to; set by the server."""

    @contextmanager
    def on_behalf_of(self, cause: str) -> Iterator[None]:
        """Attribute incidental queues that are created meanwhile to the sender ``cause``: an address or a queue
        manager."""
        before, self.cause = self.cause, cause
        try:
            yield
        finally:
            self.cause = before

    @property
    def incidental(self) -> list[OutgoingQueue]:
        return [queue for queue in self.core.outgoing.values() if queue.incidental]

    def for_name(self, name: FormatName, purpose: Purpose = Purpose.APPLICATION) -> OutgoingQueue:
        """Create a queue for messages to a queue of another host."""
        core = self.core
        if isinstance(name, DirectName) and self.naming.is_local(name):
            raise QueueNotFoundError(f"There is no queue {name} on this computer.")
        if isinstance(name, PrivateName) and name.computer in core.own_identifiers:
            raise QueueNotFoundError(f"There is no private queue {name.queue_id} on this computer.")
        self.check_way(name)
        base_priority, host = 0, NULL_GUID
        if isinstance(name, PublicName):
            base_priority, host = self.locate(name)
        elif isinstance(name, PrivateName):
            host = name.computer
        return self.make(name, host, purpose, base_priority)

    def locate(self, name: PublicName) -> tuple[int, bytes]:
        """BasePriority and host of a public queue."""
        result, item = self.directory.read(ObjectClass.QUEUE, by_identifier(name.queue))
        if result is not DirectoryResult.SUCCESS or item is None:
            raise UnsupportedFormatnameOperationError(f"The directory does not tell where {name} is.")
        computer: str = item.attributes["pathname"].partition("\\")[0]
        if computer.lower() == self.core.record.computer_name.lower():
            raise QueueNotFoundError(f"{name} should be on this computer and is not.")
        return item.attributes.get("base_priority", 0), self._host(computer)

    def _host(self, computer: str) -> bytes:
        """The queue manager of a computer, or the null GUID if the directory does not tell."""
        named = (Expression("computer_name", Relation.EQUALS, computer),)
        result, item = self.directory.read(ObjectClass.QUEUE_MANAGER, named, ("identifier",))
        return item.identifier if result is DirectoryResult.SUCCESS and item is not None else NULL_GUID

    def make(self, name: FormatName, host: bytes, purpose: Purpose, base_priority: int = 0) -> OutgoingQueue:
        """Create a queue whose host is known."""
        core = self.core
        if purpose is Purpose.COURTESY:
            self._check_room()
        queue = OutgoingQueue(self._take_number(), str(name), QueueType.SYSTEM)
        queue.label = queue.destination_format_name = str(name)
        queue.identifier = core.environment.random_bytes(16)
        queue.base_priority = base_priority
        queue.destination_queue_manager = host
        queue.incidental = purpose is not Purpose.APPLICATION
        queue.cause = self.cause if queue.incidental else ""
        queue.multicast = isinstance(name, MulticastName)
        if core.hardened_security and not is_http(name):
            queue.state = OutgoingState.LOCKED
        self._write(queue)
        core.register(queue)
        return queue

    def _check_room(self) -> None:
        if not self._has_room():
            self.make_room()
            if not self._has_room():
                self.refused += 1
                raise InsufficientResourcesError(
                    f"{len(self.incidental)} outgoing queues that no application asked for have messages that wait; "
                    f"no more are made for {self.cause or 'anybody'}."
                )

    def _has_room(self) -> bool:
        """Whether there is room for one more, and its cause has fewer than are left for others."""
        incidental = self.incidental
        left = self.most_incidental - len(incidental)
        return left > (sum(queue.cause == self.cause for queue in incidental) if self.cause else 0)

    def opened(self, queue: OutgoingQueue, name: FormatName, purpose: Purpose) -> None:
        """Note that an existing queue is opened again: an application makes it permanent, and the host of a public
        queue may be known by now."""
        if isinstance(name, PublicName) and queue.destination_queue_manager in self.core.own_identifiers:
            # Messages from others wait in it until the directory has told whether the queue is ours.
            raise UnsupportedFormatnameOperationError(f"The directory does not tell where {name} is.")
        changed = False
        if isinstance(name, PublicName) and queue.destination_queue_manager == NULL_GUID:
            _, queue.destination_queue_manager = self.locate(name)
            changed = queue.destination_queue_manager != NULL_GUID
        if queue.incidental and purpose is Purpose.APPLICATION:
            queue.incidental = False
            changed = True
        if changed:
            self._write(queue)

    def discard(self, queue: OutgoingQueue) -> bool:
        """Remove an incidental queue that nobody needs. Returns whether it was removed."""
        if not queue.incidental or queue.active or queue.state is OutgoingState.ON_HOLD:
            return False
        self.core.unregister(queue)
        self.core.ledger.drop_value(f"queue/{queue.number}")
        return True


def queue_manager_of(core: Core, queue: Queue) -> bytes:
    """QueueManagerAddress of messages for a queue; the null GUID for direct names, which do not need it.

    Raises:
        UnsupportedFormatnameOperationError: the queue is public, and its host is not known yet.
    """
    if not isinstance(queue, OutgoingQueue):
        return core.record.identifier
    host = queue.destination_queue_manager
    if host == NULL_GUID and queue.destination_format_name.upper().startswith("PUBLIC="):
        raise UnsupportedFormatnameOperationError(
            f"The directory does not tell where {queue.destination_format_name} is."
        )
    return host


def is_http(name: FormatName) -> bool:
    return isinstance(name, DirectName) and name.protocol in HTTP_DEFAULT_PORT

"""Messages for a public queue that is not here, while the directory cannot tell whether it should be.

Others create public queues in the directory, and this host creates them here when a message for one arrives. If the
directory cannot be asked at that moment, the message is neither delivered nor refused: it waits in the outgoing queue
of its name, which needs validation (MS-MQDMPR 3.1.1.3) and whose destination is this host itself. When the directory
answers, the messages are delivered or refused as if they had just arrived. A transactional message is not even kept:
its sender has it, and sends it again until somebody acknowledges its place in the sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msmq.errors import MessageStorageFailedError, MQError
from msmq.manager.mailbox.batch import Batch
from msmq.manager.mailbox.contents import Found
from msmq.manager.mailbox.positions import START
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.model import EnqueueStatus
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.outgoing_queues import Purpose
from msmq.manager.queues.queue import OutgoingQueue
from msmq.server.inbound.forwarding import NoRoomError
from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text
from msmq.wire.names import FormatName, PublicName, parse_format_name

_AT_ONCE: Final = 256
_AT_ONCE_BYTES: Final = 1 << 20

Deliver = Callable[[str, Found], int]
"""Delivers messages for a queue of this name or refuses them for good, and returns how many; there was no room for the
rest."""


class Unclaimed:
    """Keeps such messages until the directory answers."""

    def __init__(self, manager: QueueManager, deliver: Deliver) -> None:
        self._manager = manager
        self._core = manager.core
        self._deliver = deliver
        self.undecided: Callable[[bytes], bool] = lambda identifier: False
        """Returns whether the directory may have a queue of this identifier for us and could not be asked; set by the
        membership of a domain."""

    def concerns(self, name: FormatName | None) -> bool:
        """Whether messages for a missing queue have to wait. A queue that we send to ourselves is known to be on
        another host."""
        if not isinstance(name, PublicName) or not self.undecided(name.queue):
            return False
        outgoing = self._core.outgoing.get(str(name).lower())
        return outgoing is None or outgoing.destination_queue_manager in self._core.own_identifiers

    def keep(self, name: FormatName, messages: Sequence[StoredMessage]) -> int:
        """Keep messages until the directory answers. Returns how many there was room for.

        Raises:
            NoRoomError: too many queues wait already.
        """
        queue = self._core.outgoing.get(str(name).lower())
        if queue is None:
            try:
                own = self._core.record.identifier
                queue = self._manager.queues.outgoing.make(name, own, Purpose.COURTESY)
            except MQError as error:
                raise NoRoomError(str(error)) from error
        batch = Batch.of(messages, *self._core.own_identifiers)
        statuses = self._manager.mailbox.admit(queue, batch)
        if statuses is not None and EnqueueStatus.QUEUE_MANAGER_QUOTA in statuses:
            batch = batch.only(range(statuses.index(EnqueueStatus.QUEUE_MANAGER_QUOTA)))
        if len(batch):
            self._manager.mailbox.put(queue, batch)
        return len(batch)

    @property
    def identifiers(self) -> list[bytes]:
        """The identifiers of the queues that messages wait for."""
        return [name.queue for name in map(self._name, self._core.outgoing.values()) if name is not None]

    def _name(self, queue: OutgoingQueue) -> PublicName | None:
        if not len(queue.positions) or queue.destination_queue_manager not in self._core.own_identifiers:
            return None
        name = parse_format_name(queue.destination_format_name)
        return name if isinstance(name, PublicName) else None

    def settle(self, identifier: bytes) -> None:
        """Deliver or refuse the messages for a queue, after the directory has answered."""
        queue = self._core.outgoing.get(f"public={guid_text(identifier)}".lower())
        if queue is None or self._name(queue) is None:
            return
        mailbox = self._manager.mailbox
        while len(found := mailbox.look(queue, START, _AT_ONCE, _AT_ONCE_BYTES)):
            size, records = 4 * sum(map(len, found.packets)) + (len(found) << 13), 16 * (len(found) + 1)
            try:
                with self._core.event(size, records):
                    taken = self._deliver(queue.destination_format_name, found)
                    mailbox.remove(queue, found.ids[:taken], MessageClass.NORMAL)
            except MessageStorageFailedError:
                return  # there may be room the next time
            if taken < len(found):
                return

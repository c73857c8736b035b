"""Reads without a cursor that need not wait, the quick way: the message is there, and nothing special is about it.

`msmq.manager.reading` has the events of MS-MQDMPR with all that may come of them. These are what nearly every remote
read is: the first message, or the next one behind a place, shown or locked, and the end of such a read. Each does the
same as the event it stands for, or nothing at all and says so; then the event has to be asked.
"""

from __future__ import annotations

from typing import Final

from msmq.errors import MQError
from msmq.manager.model import QueueAccessType
from msmq.manager.placing import OWES_NOTHING, Placing
from msmq.manager.positions import START, PositionState
from msmq.manager.queue import OpenQueueDescriptor
from msmq.manager.stored import StoredMessage
from msmq.wire.classes import MessageClass

_RECEIVE: Final = QueueAccessType.RECEIVE
_PEEK: Final = QueueAccessType.PEEK
_LOCKED: Final = PositionState.LOCKED
_ACK_RECEIVE: Final = MessageClass.ACK_RECEIVE


class PromptReading:
    """Reads of those who have a queue open."""

    def __init__(self, placing: Placing) -> None:
        self.placing = placing

    def begin(self, descriptor: OpenQueueDescriptor) -> StoredMessage | None:
        """Dequeue Message Begin: lock the first message. None: ask the event, which may wait or refuse."""
        queue = descriptor.queue
        if queue is None or descriptor.access_type is not _RECEIVE:
            return None
        positions = queue.positions
        while (entry := positions.next_available(START)) is not None:
            lookup_id = entry.lookup_id
            if entry.address:
                message = self.placing.fetch(queue, entry)
                if message is None:
                    continue  # it was damaged, and has left the queue
            else:
                message = queue.express(lookup_id)
                message.owes_nothing = bool(entry.marks & OWES_NOTHING)
            positions.set_state(lookup_id, _LOCKED)
            descriptor.begun.add(lookup_id)
            return message
        return None

    def peek(self, descriptor: OpenQueueDescriptor, behind: int = START) -> StoredMessage | None:
        """Peek Message, or Read Message By Lookup Identifier for the next one ``behind`` a place. None: ask the
        event."""
        queue = descriptor.queue
        access = descriptor.access_type
        if queue is None or queue.peekable_when_locked or (access is not _RECEIVE and access is not _PEEK):
            return None
        while (entry := queue.positions.next_available(behind)) is not None:
            if not entry.address:
                return queue.express(entry.lookup_id)
            message = self.placing.fetch(queue, entry)
            if message is not None:
                return message
        return None

    def keep(
        self, descriptor: OpenQueueDescriptor, lookup_id: int, message: StoredMessage | None = None
    ) -> bool:
        """Dequeue Message End of a message that the reader keeps; False: ask the event. Who still has the ``message``
        saves reading it again. If the store refuses, nothing has happened."""
        queue = descriptor.queue
        entry = queue.positions.get(lookup_id) if queue is not None else None
        if queue is None or entry is None or entry.state is not _LOCKED or lookup_id not in descriptor.begun:
            return False
        descriptor.begun.remove(lookup_id)
        try:
            self.placing.delete(queue, lookup_id, _ACK_RECEIVE, message, entry=entry)
        except MQError:
            descriptor.begun.add(lookup_id)
            raise
        return True

"""DispatchCollection (MS-MQDMPR 3.1.1.18, 3.1.7.1.28, .29, .34, 3.1.7.3.9): what is sent next.

The specification sends one message of the whole host at a time. The collection keeps that order, highest
priority first, for protocols that ask it. The binary protocol of this project never does: it drains each outgoing
queue by its own session, or one slow host would hold up all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msmq.manager.mailbox.positions import PositionState
from msmq.manager.model import OutgoingState
from msmq.manager.queues.queue import MessagePosition, OutgoingQueue

Send = Callable[[MessagePosition, Any], None]


@dataclass(eq=False, slots=True)
class DispatchEntry:
    """A message that waits to be sent; ``protocol_data`` is whatever its protocol wants back."""

    position: MessagePosition
    protocol_data: Any
    priority: int
    send_in_progress: bool = False

    @property
    def ready(self) -> bool:
        """Whether it may be sent: its queue is active and not on hold, and the message is still there."""
        queue = self.position.queue
        on_hold = isinstance(queue, OutgoingQueue) and queue.state is OutgoingState.ON_HOLD
        return queue.active and not on_hold and self.position.state is not PositionState.DELETED


class Dispatch:
    """Chooses the next message to send and hands it to its protocol: entries with data to ``send_binary``
    (MS-MQQB 3.1.7.16), those without to ``send_srmp`` (MC-MQSRM 3.1.7.8). Where there is none, they wait."""

    def __init__(self, send_binary: Send | None = None, send_srmp: Send | None = None) -> None:
        self.send_binary = send_binary
        self.send_srmp = send_srmp
        self._lanes: dict[int, dict[MessagePosition, DispatchEntry]] = {}
        self._priorities: dict[MessagePosition, int] = {}
        self._sending: DispatchEntry | None = None
        self._dispatching = False

    def __len__(self) -> int:
        return len(self._priorities)

    def __iter__(self) -> Iterator[DispatchEntry]:
        """The entries, highest priority first, then in the order they came."""
        for priority in sorted(self._lanes, reverse=True):
            yield from self._lanes[priority].values()

    def add(self, position: MessagePosition, protocol_data: Any, message_priority: int) -> DispatchEntry:
        """Add Message To Dispatch Collection."""
        entry = DispatchEntry(position, protocol_data, position.queue.base_priority + message_priority)
        self._discard(position)
        self._priorities[position] = entry.priority
        self._lanes.setdefault(entry.priority, {})[position] = entry
        self.send_next()
        return entry

    def remove(self, position: MessagePosition) -> None:
        """Remove Message From Dispatch Collection: it was sent, or no longer needs to be."""
        self._discard(position)
        self.send_next()

    def remove_queue(self, queue: OutgoingQueue) -> None:
        """Remove Messages From Dispatch Collection By Queue; nothing is sent because of it."""
        for position in [position for position in self._priorities if position.queue is queue]:
            self._discard(position)

    def _discard(self, position: MessagePosition) -> None:
        priority = self._priorities.pop(position, None)
        if priority is None:
            return
        lane = self._lanes[priority]
        if lane.pop(position) is self._sending:
            self._sending = None
        if not lane:
            del self._lanes[priority]

    def send_next(self) -> None:
        """Dispatch Send Message. A loop, not a recursion: a protocol may remove what it is handed at once."""
        if self._dispatching:
            return
        self._dispatching = True
        try:
            while self._sending is None and (chosen := self._choose()) is not None:
                entry, send = chosen
                entry.send_in_progress = True
                self._sending = entry
                send(entry.position, entry.protocol_data)
        finally:
            self._dispatching = False

    def _choose(self) -> tuple[DispatchEntry, Send] | None:
        for entry in self:
            send = self.send_srmp if entry.protocol_data is None else self.send_binary
            if send is not None and entry.ready:
                return entry, send
        return None

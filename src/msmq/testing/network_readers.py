"""Applications that read from a host of the simulated network through its channel, as real applications do.

They fetch ahead, wait for messages, acknowledge in groups, reject, give up waiting, browse queues, read parts of them,
and disconnect without warning. The calls are the real ones of :mod:`msmq.api`, without a socket. What they hold and
what they have received is recorded in the book.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, cast

from msmq.api.desk import Outbox
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.packet_columns import PacketColumns
from msmq.api.receive import Receiver
from msmq.api.spans import SpanCalls
from msmq.errors import MQError
from msmq.manager.mailbox.positions import PositionState
from msmq.testing.manager_channel import CALLER, KeptAnswers, as_received
from msmq.testing.network_book import Broken, number_in
from msmq.wire.message import UserMessage

if TYPE_CHECKING:
    from msmq.testing.network_host import NetworkHost

MOST_READERS: Final = 3
_LAST: Final = (1 << 64) - 1


class Reader:
    """An application that holds messages of a queue until it acknowledges or rejects them. It ends with the queue
    manager."""

    def __init__(self, host: NetworkHost, name: str, retry_delay_ms: int = 0) -> None:
        """What it rejects comes back after ``retry_delay_ms``."""
        self.name = name
        self.held: dict[int, int] = {}
        """The numbers of the messages that it was given and has not settled, by lookup identifier."""
        self._host = host
        self._noted: set[int] = set()
        self._key = (host.address, name)
        self._answers = KeptAnswers()
        request = pb.OpenToReceive(
            queue=_name(name), mode=pb.HOLD, form=pb.PACKET, retry_delay_ms=retry_delay_ms
        )
        self._receiver = Receiver(host.desk, request, cast(Outbox, self._answers), CALLER)

    @property
    def open(self) -> bool:
        """True if the queue still exists and the call has not failed."""
        return self._receiver.descriptor.queue is not None and self._answers.error is None

    def fetch(self, most: int, *, wait: bool) -> None:
        """Ask for messages that are there, and with ``wait`` also for those that come later. Without it, a wait that
        was under way ends."""
        self._receiver.credit(pb.Credit(messages=most, timeout_ms=None if wait else 0))

    def note(self) -> None:
        """Record what is held for this application, even if it has not been given it yet: others may receive later
        messages first."""
        descriptor = self._receiver.descriptor
        if descriptor.queue is not None:
            for lookup_id in descriptor.begun - self._noted:
                packet = self._host.packet(descriptor.queue, lookup_id)
                if packet is not None:
                    self._host.book.log(self._key).held.add(number_in(packet))
            self._noted |= descriptor.begun

    def hear(self) -> None:
        """Take the replies that have come."""
        given, self._answers.packets = self._answers.packets, []
        for columns in given:
            for lookup_id, data in zip(columns.lookup_ids, columns.packets, strict=True):
                number = number_in(UserMessage.decode(data))
                others = [other for other in self._host.readers if other is not self]
                if any(lookup_id in other.held for other in others if other.name == self.name):
                    raise Broken(f"message {number} was given to two readers of {self._key}")
                self._host.book.given(self._key, number)
                self.held[lookup_id] = number

    def acknowledge(self, group: list[int]) -> None:
        """Acknowledge messages, which leave the queue together. Those that were purged meanwhile leave for that reason;
        on a full disk all of them stay held."""
        host, log = self._host, self._host.book.log(self._key)
        self._receiver.acknowledge(group)
        life, positions = host.book.lives[host.address], host.queue(self.name).positions
        for lookup_id in group:
            if positions.get(lookup_id) is None:
                number = self.held.pop(lookup_id)
                if number not in log.expiring:
                    host.book.kept(self._key, number)
                    host.daemon.commit.when_durable(partial(host.received, life, self._key, number))
            elif host.disk.capacity is None and host.daemon.failure is None:
                raise Broken(f"message {self.held[lookup_id]} was acknowledged and is still at {self._key}")

    def reject(self, group: list[int]) -> None:
        """Reject messages: they stay in the queue, for others or for this reader."""
        self._receiver.reject(group, "")
        for lookup_id in group:
            if lookup_id not in self._receiver.descriptor.begun:
                del self.held[lookup_id]

    def leave(self) -> bool:
        """Disconnect; what was held goes back. Returns False if the disk has no room even for that."""
        descriptor, manager = self._receiver.descriptor, self._host.daemon.manager
        self._receiver.close()
        if descriptor.queue is not None and descriptor.begun:
            manager.reading.close(descriptor)
        return descriptor.queue is None or not descriptor.begun


def look_through(host: NetworkHost, name: str) -> None:
    """Walk over a queue with a cursor and check that it shows what can be read, in order. Some messages can be peeked
    at while somebody holds them."""
    queue = host.queue(name)
    free = [
        entry.lookup_id
        for entry in queue.positions
        if entry.state is PositionState.AVAILABLE and entry.lookup_id not in host.damaged
    ]
    visible = {*free, *queue.peekable_when_locked, *host.damaged}
    answers = KeptAnswers()
    request = pb.OpenToReceive(queue=_name(name), mode=pb.PEEK, form=pb.PACKET)
    receiver = Receiver(host.desk, request, cast(Outbox, answers), CALLER)
    receiver.credit(pb.Credit(messages=len(visible) + 1, timeout_ms=0))
    receiver.close()

    def compare() -> None:
        shown = [lookup_id for given in answers.packets for lookup_id in given.lookup_ids]
        if shown != sorted(visible.intersection(shown)) or (free and (not shown or shown[0] > free[0])):
            raise Broken(f"a cursor on {name} of {host} shows {shown}, where {free} can be read")
        for given in answers.packets:
            _check(host, name, given)

    host.daemon.commit.when_durable(compare)


async def read_span(host: NetworkHost, name: str) -> None:
    """Read all of a queue as a span, which takes a while; messages may come and go meanwhile."""
    request = pb.ReadSpanRequest(queue=_name(name), span=pb.Span(after=0, upto=_LAST), form=pb.PACKET)
    place = 0
    try:
        async for reply in SpanCalls(host.desk).read_span(request, CALLER):
            given = as_received("ReadSpan", reply)
            for lookup_id in given.lookup_ids:
                if lookup_id <= place:
                    raise Broken(f"a span of {name} of {host} goes back to {lookup_id}")
                place = lookup_id
            _check(host, name, given)
    except MQError:
        pass  # the queue was deleted meanwhile, or the disk is gone


def _check(host: NetworkHost, name: str, given: PacketColumns) -> None:
    """Check that what is shown is a whole message that was sent to this queue."""
    for data in given.packets:
        number = number_in(UserMessage.decode(data))
        sent = host.book.sent.get(number)
        if sent is None or sent.target != (host.address, name):
            raise Broken(f"message {number} is shown in {name} of {host}, and was not sent there")


def _name(queue: str) -> str:
    return f"DIRECT=OS:.\\private$\\{queue}"

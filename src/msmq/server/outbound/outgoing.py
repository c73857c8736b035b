"""Everything that leaves: the drains of all outgoing queues, their links, their sequences (MS-MQQB 3.1.7.1).

When a message is ready in an outgoing queue, the link of the queue's destination is woken and sends it.
Acknowledgments of peers come back here, by token, by sequence or by identifier.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from msmq.errors import MessageStorageFailedError
from msmq.manager.core import Subscriber
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.model import ConnectionHistoryEntry, ConnectionStatus, OutgoingState
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.outgoing_queues import is_http
from msmq.manager.queues.queue import OutgoingQueue, Queue
from msmq.server.alarm import Alarm, now_ms
from msmq.server.complaints import Complaints
from msmq.server.group_commit import GroupCommit
from msmq.server.inbound.connection import Connection
from msmq.server.inbound.places import LAST_SEQUENCE, stored_places
from msmq.server.outbound.drain import Drain
from msmq.server.outbound.link import Link, Surroundings
from msmq.server.outbound.next_hop import Destination, destination_of
from msmq.server.outbound.runs import Awaited, Ending, Run
from msmq.server.outbound.settlement import Voice
from msmq.transfer.final_ack import Fate, FinalAcks
from msmq.transfer.order_sender import OrderSender, Sequences, first_sequence_id
from msmq.transfer.timers import TimerSettings, earliest
from msmq.wire.classes import MessageClass
from msmq.wire.message import UserMessage
from msmq.wire.names import DirectName, FormatName, Protocol, PublicName, parse_format_name
from msmq.wire.packets import FinalAckBody, OrderAckBody

_log = logging.getLogger(__name__)
_HISTORY = 32
_CLOCK_JUMP_MS = 1_000
_UNWATCHED_MS = 1_000
"""The time after which the expiry of messages that have not left is read: time limits are at least a second."""
_WATCH_PAUSE_MS = 5
_WATCHED_AT_ONCE = 1_024
_NO_WAY = {
    Protocol.IPX: ConnectionStatus.TCP_NOT_ENABLED,
    Protocol.SPX: ConnectionStatus.TCP_NOT_ENABLED,
}


class Outgoing(Subscriber):
    """The sending half of the daemon."""

    def __init__(
        self,
        manager: QueueManager,
        commit: GroupCommit,
        timers: TimerSettings,
        surroundings: Surroundings,
        values: Mapping[str, Any],
    ) -> None:
        """``values`` are those of the ledger, as recovery found them."""
        self.manager = manager
        self.core = manager.core
        self.mailbox = manager.mailbox
        self.sending = manager.sending
        self.acknowledging = manager.acknowledging
        self.commit = commit
        self.timers = timers
        self._surroundings = surroundings
        record = self.core.record
        self._last_written = values.get(LAST_SEQUENCE, first_sequence_id(record.create_time))
        self.sequences: Sequences[int] = Sequences(self._last_written)
        self.final_acks: FinalAcks[Awaited] = FinalAcks(*self.core.own_identifiers)
        self.drain_of: dict[OrderSender[int], Drain] = {}
        self.drains: dict[int, Drain] = {}
        self.links: dict[Destination, Link] = {}
        self.opening: dict[bytes, Link] = {}
        """The link that is opening a session to a queue manager, for all links that go through it."""
        # Sets that keep their order, so that runs can be reproduced.
        self._carried: dict[Connection, dict[Drain, None]] = {}
        self._starving: dict[Connection, dict[Link, None]] = {}
        self._woken: dict[Link, None] = {}
        self.stalled: dict[Drain, None] = {}
        """Drains that wait for something nobody announces, such as room on the disk."""
        self._followed_epoch_ms = self.epoch_ms
        self._alarm = Alarm(self._timer_expired)
        self._unwatched: dict[Drain, None] = {}
        """Drains with messages whose expiry has not been read yet."""
        self._watching = Alarm(self._watch_some)
        self._stored = stored_places(values)
        self._stopped = False
        self.may_seal: Callable[[UserMessage, Callable[[], None]], bool] = lambda packet, again: True
        """Returns whether a message can be encrypted now, and otherwise calls back when it can."""
        self._complaints = Complaints(_log, "an acknowledgment is not believed")
        self.attempts: Counter[ConnectionStatus] = Counter()
        """The number of attempts to open sessions, by result."""
        self.deletions = 0
        """Rises whenever a message leaves an outgoing queue other than through its drain."""

    def start(self) -> None:
        """Continue sending what was waiting at the last stop."""
        for queue in list(self.core.outgoing.values()):
            if len(queue.positions) and _is_ours(queue):
                drain = self._drain(queue)
                self._wake(drain)

    def stop(self) -> None:
        """End all links. What closing sessions still put into outgoing queues, such as an order acknowledgment that has
        to go another way, is sent after the next start."""
        self._stopped = True
        self._alarm.stop()
        self._watching.stop()
        for link in self.links.values():
            link.stop()

    # Calls of the queue manager

    only_outgoing = True

    def messages_available(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        if self._stopped:
            return
        drain = self.drains.get(queue.number)
        if drain is not None:
            drain.arrived(lookup_ids)
            if drain not in self._unwatched:
                self._unwatched[drain] = None
                self._watching.set(now_ms() + _UNWATCHED_MS)
        elif isinstance(queue, OutgoingQueue) and _is_ours(queue):
            drain = self._drain(queue)
        if drain is not None and drain.link is not None:
            self.wake(drain.link)

    def messages_deleted(self, queue: Queue, messages: Sequence[StoredMessage], reason: int) -> None:
        drain = self.drains.get(queue.number)
        if drain is not None:
            self.deletions += 1
            for message in messages:
                drain.gone(message.lookup_id, message)

    def messages_lost(self, queue: Queue, lookup_ids: Sequence[int]) -> None:
        drain = self.drains.get(queue.number)
        if drain is not None:
            self.deletions += 1
            for lookup_id in lookup_ids:
                drain.lost(lookup_id)
                self.final_acks.forget_token(Awaited(drain, lookup_id))

    def resume_queue(self, queue: OutgoingQueue) -> None:
        drain = self.drains.get(queue.number)
        if drain is not None:
            self._wake(drain)

    def connection_active(self, active: bool) -> None:
        for drain in self.drains.values():
            if active:
                self._wake(drain)

    # Drains and links

    def read(self, queue: OutgoingQueue, lookup_id: int) -> StoredMessage | None:
        """Read a message that waits in a queue. None if the disk has damaged it: then it leaves the queue, as soon as
        there is room to record that, and only it is lost."""
        try:
            return self.mailbox.fetch(queue, lookup_id)
        except MessageStorageFailedError:
            return None

    def _drain(self, queue: OutgoingQueue) -> Drain:
        drain = self.drains.get(queue.number)
        if drain is None:
            drain = self.drains[queue.number] = Drain(self, queue, now_ms())
            drain.restore(self._stored.pop(queue.number, []), now_ms())
            drain.link = self._link(drain)
            self.watch(drain)
        return drain

    def _link(self, drain: Drain) -> Link | None:
        """The link to the host of a queue; None, with an entry in the history, if there is none."""
        name = _destination(drain.queue)
        key = destination_of(name, drain.queue.destination_queue_manager)
        if key is None or key in self.core.own_identifiers:
            self.note(drain.queue, _status_without_way(name))
            drain.queue.state = OutgoingState.NEED_VALIDATION
            return None
        link = self.links.get(key)
        if link is None:
            link = self.links[key] = Link(self, self._surroundings, key)
        link.drains.append(drain)
        return link

    def discard(self, queue: OutgoingQueue) -> bool:
        """Remove an outgoing queue that nobody needs. Returns whether it was removed."""
        if not self.manager.queues.outgoing.discard(queue):
            return False
        drain = self.drains.pop(queue.number, None)
        if drain is not None:
            drain.close()
            self.stalled.pop(drain, None)
            self._unwatched.pop(drain, None)
            for carried in self._carried.values():
                carried.pop(drain, None)
            link = drain.link
            if link is not None:
                link.drains.remove(drain)
                if link.idle:
                    self.links = {key: other for key, other in self.links.items() if other is not link}
                    link.stop()
        return True

    @property
    def connections(self) -> list[Connection]:
        """The open connections that links of ours have opened."""
        found = (link.open_connection for link in self.links.values())
        return [connection for connection in found if connection is not None]

    def note(
        self, queue: OutgoingQueue, status: ConnectionStatus, error: int = 0, addresses: tuple[str, ...] = ()
    ) -> None:
        """Append to ConnectionHistory, dropping the oldest entry if it is full."""
        queue.connection_history.append(ConnectionHistoryEntry(status, self.core.now_s, error, addresses))
        del queue.connection_history[:-_HISTORY]

    def wake_drain(self, drain: Drain) -> None:
        if drain.link is not None:
            self.wake(drain.link)

    def wake_everything(self) -> None:
        """Wake all links, because what was missing may be there now."""
        for link in self.links.values():
            self.wake(link)

    def _wake(self, drain: Drain) -> None:
        if drain.link is not None:
            self.wake(drain.link)
        self.watch(drain)

    def wake(self, link: Link) -> None:
        """Wake a link, together with others, at the end of this turn of the loop."""
        if not self._woken:
            asyncio.get_running_loop().call_soon(self._wake_all)
        self._woken[link] = None

    def _wake_all(self) -> None:
        woken, self._woken = self._woken, {}
        for link in woken:
            link.wake()

    # Connections

    def carries(self, connection: Connection, drain: Drain) -> None:
        """Note that messages of a queue go over this connection from now on."""
        drain.connection = connection
        self._carried.setdefault(connection, {})[drain] = None

    def starves(self, connection: Connection, link: Link) -> None:
        """Note that a link found no room on a connection, which may be shared with others."""
        self._starving.setdefault(connection, {})[link] = None

    def _feed(self, connection: Connection) -> None:
        for link in self._starving.pop(connection, {}):
            self.wake(link)

    def established(self, connection: Connection) -> None:
        for link in self.links.values():
            if link.leads_to(connection):
                self.wake(link)

    def room_again(self, connection: Connection) -> None:
        for drain in self._carried.get(connection, ()):
            self._wake(drain)
        self._feed(connection)

    def acknowledged(self, connection: Connection, runs: list[Run | None]) -> None:
        """Process acknowledgments: the peer has received or stored these messages."""
        of: dict[Drain, list[Run]] = {}
        for run in runs:
            if run is not None:
                of.setdefault(run.drain, []).append(run)
        for drain, arrived in of.items():
            drain.acknowledged(arrived)
        self.commit.request_lazily()

    def closed(self, connection: Connection, returned: list[Run | None]) -> None:
        for run in returned:
            if run is not None and not run.number:
                for lookup_id in run.lookup_ids:
                    run.drain.returned(lookup_id)
        for drain in self._carried.pop(connection, {}):
            drain.session_lost()
            if drain.link is not None:
                drain.link.carrier_lost(drain, connection)
            self._wake(drain)
        self._feed(connection)
        self.commit.request()

    # Acknowledgments of transactional messages

    def order_ack(self, body: OrderAckBody, voice: Voice) -> None:
        owner = self.sequences.owner(body.tx_sequence_id)
        if owner is None or not self._believes(self.drain_of[owner], voice):
            return
        found = self.sequences.order_ack(body, now_ms())
        if found is not None:
            sender, released = found
            drain = self.drain_of[sender]
            drain.release(released)
            self._wake(drain)

    def final_acks_heard(self, heard: Iterable[tuple[FinalAckBody, int, Voice]]) -> None:
        """Process the FinalAcks of one read: what each says, its class, and where it comes from."""
        settled: dict[Drain, list[Ending]] = {}
        believes = cache(self._believes)
        for body, message_class, voice in heard:
            token = self.final_acks.find(body)
            if token is not None:
                drain, lookup_id = token
                if believes(drain, voice):
                    found = self.final_acks.receive(body, message_class)
                    assert found is not None
                    ending = Ending(lookup_id, found.fate, found.parked, message_class)
                    settled.setdefault(drain, []).append(ending)
            elif message_class != MessageClass.ACK_RECEIVE and body.source_guid in self.core.own_identifiers:
                # A host on the way refused a message that asked for no FinalAck: no OrderAck will ever come for it.
                refused = self.sequences.find(body.tx_sequence_id, body.tx_sequence_number)
                if refused is not None:
                    sender, lookup_id = refused
                    drain = self.drain_of[sender]
                    if believes(drain, voice):
                        ending = Ending(lookup_id, Fate.FORGET, False, message_class)
                        settled.setdefault(drain, []).append(ending)
        for drain, endings in settled.items():
            drain.settle(endings)

    def _believes(self, drain: Drain, voice: Voice) -> bool:
        """Whether an acknowledgment comes from where the messages of a drain went."""
        queue = drain.queue
        key = destination_of(_destination(queue), queue.destination_queue_manager)
        if drain.receivers.may_settle(voice, key, self._surroundings.addressing):
            return True
        self._complaints.hear(f"{voice} says what became of messages to {queue.destination_format_name}")
        return False

    def write_last_sequence(self) -> None:
        """Store the identifier of a sequence with its first message, so that it is never used again."""
        if self.sequences.last_id != self._last_written:
            self._last_written = self.sequences.last_id
            self.core.ledger.put_value(LAST_SEQUENCE, self._last_written)

    # Time

    @property
    def epoch_ms(self) -> int:
        """The time of day, since 1970, at which ``now_ms`` was zero. It changes when the clock is set."""
        return int(self.core.environment.now() * 1_000) - now_ms()

    def try_again(self) -> None:
        """Wake the drains that were waiting for room."""
        stalled, self.stalled = self.stalled, {}
        for drain in stalled:
            self._wake(drain)

    def follow_clock(self) -> None:
        """Set the alarm again after the time of day has jumped, because messages expire by it."""
        epoch_ms = self.epoch_ms
        if abs(epoch_ms - self._followed_epoch_ms) > _CLOCK_JUMP_MS:
            self._followed_epoch_ms = epoch_ms
            self._alarm.set(earliest(*map(self._deadline_ms, self.drains.values())))

    def _watch_some(self) -> None:
        """Read the expiry of messages that have not left at once; very many in several steps."""
        drains, self._unwatched = self._unwatched, {}
        for drain in drains:
            if drain.watch(_WATCHED_AT_ONCE):
                self._unwatched[drain] = None
            self.watch(drain)
        if self._unwatched:
            self._watching.set(now_ms() + _WATCH_PAUSE_MS)

    def watch(self, drain: Drain) -> None:
        """Set the alarm for a drain whose deadline may be earlier now."""
        deadline_ms = self._deadline_ms(drain)
        if deadline_ms is not None:
            self._alarm.set(deadline_ms)

    def _deadline_ms(self, drain: Drain) -> int | None:
        expiry_s = drain.next_expiry_s
        expiry_ms = None if expiry_s is None else (expiry_s + 1) * 1_000 - self.epoch_ms
        return earliest(drain.deadline_ms, expiry_ms)

    def _timer_expired(self) -> None:
        now = now_ms()
        try:
            for drain in list(self.drains.values()):
                drain.expire_late(self.core.now_s)
                if drain.handle_timer(now):
                    self._wake(drain)
        finally:
            self.commit.request()
            self._alarm.set(earliest(*map(self._deadline_ms, self.drains.values())))

    def refresh(self) -> None:
        """Show the progress of the streams to management."""
        for drain in self.drains.values():
            drain.refresh()


def _is_ours(queue: OutgoingQueue) -> bool:
    """Whether the binary protocol sends from a queue (3.1.7.12), and not multicast or HTTP."""
    return not queue.multicast and not is_http(_destination(queue))


def _destination(queue: OutgoingQueue) -> FormatName:
    """The name of a queue, which may be one that only packets can have."""
    text = queue.destination_format_name
    prefix, _, rest = text.partition("=")
    return DirectName.from_wire_text(rest) if prefix.upper() == "DIRECT" else parse_format_name(text)


def _status_without_way(name: FormatName) -> ConnectionStatus:
    if isinstance(name, DirectName):
        return _NO_WAY.get(name.protocol, ConnectionStatus.UNKNOWN_FAILURE)
    if isinstance(name, PublicName):
        return ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE
    return ConnectionStatus.UNKNOWN_FAILURE

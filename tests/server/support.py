"""Daemons on loopback addresses, each in this process, and messages for them to exchange."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from msmq.manager.mailbox.batch import Batch
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.messages.message import AcknowledgementsRequested, DeliveryGuarantee, Message
from msmq.manager.messages.serialize import serialize
from msmq.manager.messages.transactions import Transaction
from msmq.manager.model import EnqueueStatus, IncomingTransactionalTransferInfo, QueueAccessType
from msmq.manager.queues.management import queue_properties
from msmq.manager.queues.queue import OutgoingQueue, Queue, ReadResult
from msmq.manager.queues.queues import QueueRequest
from msmq.server.alarm import now_ms
from msmq.server.config import Config
from msmq.server.daemon import Daemon
from msmq.server.inbound.connection import Connection
from msmq.server.outbound.next_hop import Resolve, resolve
from msmq.testing.traffic import Draft, properties_of
from msmq.transfer.events import MessagesAcknowledged, MessagesReceived
from msmq.transfer.order_receiver import order_acknowledgment
from msmq.transfer.session import Session, SessionConfig
from msmq.transfer.states import Role, State
from msmq.transfer.timers import TimerSettings
from msmq.wire.headers import INFINITE, BaseHeader, MessagePropertiesHeader
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import MultiQueueFormatHeader
from msmq.wire.optional_headers import SecurityHeader, TransactionHeader
from msmq.wire.packets import FinalAckBody, OrderAckBody
from tests.ports import free_port as free_port
from tests.wire.builders import user_header

ALICE, BOB, CAROL, DORA = "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"

QUICK = TimerSettings(
    session_retry_connect_ms=100, order_ack_timeout_ms=50, ack_wait_timeout_ms=400, resend_timeouts_short_s=1
)
"""Times for tests: no wait is longer than a second."""

PATIENCE_S = 120
"""How long a test waits for what must come. Only a test that hangs waits so long; a slow machine is no failure."""


async def eventually(condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
    """Wait until something has become true. Most of what is waited for happens within a millisecond or two."""
    pause_s = 0.001
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.01)


def run(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test on a loop of its own. The limit only ends tests that hang; slow machines are no failure."""

    async def limited() -> None:
        async with asyncio.timeout(2 * PATIENCE_S):
            await test()

    asyncio.run(limited())


async def nobody_at_the_door() -> None:
    """Whoever is just being let in is inside. asyncio forgets the socket of a connection whose server closes in that
    moment, and a socket that nobody closes fails whichever test is running when it is found."""
    while any(getattr(task.get_coro(), "__name__", "") == _LETTING_IN for task in asyncio.all_tasks()):
        await asyncio.sleep(0)


_LETTING_IN = "_accept_connection2"


class Node:
    """A daemon and what an application on its host would do."""

    def __init__(self, config: Config, resolve: Resolve = resolve) -> None:
        self.config = config
        self.gone = True
        self._resolve = resolve

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def start(self) -> None:
        self.daemon = Daemon(self.config, resolve=self._resolve)
        await self.daemon.start()
        self.gone = False
        self.manager = self.daemon.manager
        self.core = self.manager.core

    async def stop(self) -> None:
        await nobody_at_the_door()
        self.gone = True
        await self.daemon.stop()
        await asyncio.sleep(0.02)

    async def crash(self) -> None:
        """Die like a process that is killed: what was not durable is gone, and nobody is told anything."""
        await nobody_at_the_door()
        self.gone = True
        daemon = self.daemon
        daemon._housekeeping.stop()
        daemon._to_clean.stop()
        daemon._shut_doors()
        daemon.arrivals.stop()
        daemon.outgoing._alarm.stop()
        daemon.outgoing._watching.stop()
        daemon.commit._broken = True
        if daemon.remote_read is not None:
            await daemon.remote_read.close()
        connections = set(daemon.listener.connections)
        for link in daemon.outgoing.links.values():
            link._stopped = True
            link._alarm.stop()
            if link._connecting is not None:
                link._connecting.cancel()
            if link._connection is not None:
                connections.add(link._connection)
        for connection in connections:
            connection._over = True
            connection._alarm.stop()
            if connection._transport is not None:
                connection._transport.abort()
        while daemon.commit._writing is not None:
            await asyncio.sleep(0.01)
        daemon.store._refuse(RuntimeError("killed"))
        daemon.store.close()
        await asyncio.sleep(0.02)

    def cut(self) -> None:
        """Break all connections of this host."""
        for connection in [*self.daemon.listener.connections, *self.own_connections]:
            if connection._transport is not None:
                connection._transport.abort()

    @property
    def own_connections(self) -> list[Connection]:
        """Those that this host has opened."""
        links = self.daemon.outgoing.links.values()
        return [link._connection for link in links if link._connection is not None]

    def queue(self, name: str = "orders", **attributes: Any) -> Queue:
        return self.manager.queues.create(QueueRequest(f".\\private$\\{name}", **attributes))

    def find(self, name: str = "orders") -> Queue:
        return self.core.by_path[f"{self.config.name}\\private$\\{name}".lower()]

    def outgoing(self, address: str, queue: str = "orders") -> OutgoingQueue:
        return self.core.outgoing[f"direct=tcp:{address}\\private$\\{queue}"]

    def bodies(self, queue: Queue | None) -> list[bytes]:
        assert queue is not None
        return [bytes(packet.body) for packet in self.packets(queue)]

    def reasons(self, queue: Queue | None) -> list[int]:
        """Why the dead letters of a queue are there."""
        assert queue is not None
        return [
            self.manager.mailbox.load(queue, entry.lookup_id).local.dead_letter_class
            for entry in queue.positions
        ]

    def packets(self, queue: Queue) -> list[UserMessage]:
        return [self.manager.mailbox.load(queue, entry.lookup_id).packet for entry in queue.positions]

    def send(
        self,
        name: str,
        body: bytes = b"",
        transaction: Transaction | None = None,
        *,
        recoverable: bool = False,
        admin: str = "",
        acknowledge: int = 0,
        ttrq_s: int = INFINITE,
        sent_time: int | None = None,
        deadletter: str = "",
        **attributes: Any,
    ) -> UserMessage:
        """Send one message to a queue anywhere, in a transaction or not. ``deadletter`` is the path name of the
        application's own dead-letter queue."""
        core = self.core
        message = Message(
            body=body,
            delivery_guarantee=DeliveryGuarantee(recoverable or transaction is not None),
            time_to_reach_queue_s=ttrq_s,
            destination_queue_format_name=name,
            administration_queue_format_name=admin,
            acknowledgements_requested=AcknowledgementsRequested(acknowledge),
            identifier=MessageIdentifier(core.record.identifier, core.next_message_ordinal()),
            sent_time=core.now_s if sent_time is None else sent_time,
            **attributes,
        )
        if transaction is not None:
            message.transaction_identifier = int.from_bytes(transaction.identifier[:2], "little")
        packet = serialize(message)
        descriptor = self.manager.queues.open(name, QueueAccessType.SEND)
        assert descriptor.queue is not None
        stored = StoredMessage(packet, LocalAttributes(application_deadletter_queue=deadletter))
        batch = Batch.of((stored,), core.record.identifier)
        statuses, _ = self.manager.sending.enqueue(descriptor.queue, batch, transaction)
        assert statuses == [EnqueueStatus.OK]
        self.manager.queues.close(descriptor)
        return packet

    def post(self, draft: Draft) -> None:
        """Send a message of any kind, as an application on this host does."""
        descriptor = self.manager.queues.open(draft.destination, QueueAccessType.SEND)
        self.manager.posting.send(descriptor, properties_of(draft), None)
        self.manager.queues.close(descriptor)

    def send_together(self, name: str, *bodies: bytes, **attributes: Any) -> None:
        """Send messages in one transaction."""
        transaction = self.manager.transactions.create()
        for body in bodies:
            self.send(name, body, transaction, **attributes)
        self.manager.transactions.commit(transaction.identifier)

    def receive(self, queue: Queue) -> bytes:
        """Take the first message out of a queue."""
        name = f"DIRECT=OS:{queue.pathname}"
        descriptor = self.manager.queues.open(name, QueueAccessType.RECEIVE)
        results: list[ReadResult] = []
        self.manager.reading.dequeue(descriptor, results.append, timeout_s=0)
        self.manager.queues.close(descriptor)
        (result,) = results
        assert result.message is not None, hex(result.status)
        return bytes(result.message.packet.body)

    def management(self, queue: Queue, propid: int) -> Any:
        return queue_properties(self.core, queue, [propid])[0].value


class Neighbourhood:
    """Several daemons with one port number."""

    def __init__(self, directory: Path, /, **options: Any) -> None:
        self.port = free_port()
        self.directory = directory
        self.options = options
        self.nodes: list[Node] = []

    async def node(self, address: str, resolve: Resolve = resolve, **options: Any) -> Node:
        names = {ALICE: "ALICE", BOB: "BOB", CAROL: "CAROL", DORA: "DORA"}
        values: dict[str, Any] = {
            "data": self.directory / names[address],
            "name": names[address],
            "listen": (address,),
            "port": self.port,
            "timers": QUICK,
            **self.options,
            **options,
        }
        node = Node(replace(Config(), **values), resolve)
        await node.start()
        self.nodes.append(node)
        return node


@asynccontextmanager
async def neighbourhood(directory: Path, /, **options: Any) -> AsyncIterator[Neighbourhood]:
    here = Neighbourhood(directory, **options)
    try:
        yield here
    finally:
        for node in here.nodes:
            if not node.gone:
                await node.stop()


def stream_from(queue: Queue, source: bytes) -> IncomingTransactionalTransferInfo:
    """The one stream of a queue manager into a queue."""
    (info,) = [info for (sender, _), info in queue.incoming.items() if sender == source]
    return info


def name_of(address: str, queue: str = "orders") -> str:
    return f"DIRECT=TCP:{address}\\private$\\{queue}"


class Peer:
    """Another queue manager, as far as a session goes: it sends what the test says and remembers what comes.

    What it receives is acknowledged as stored, unless ``storing`` is off.
    """

    GUID = bytes(range(0xA0, 0xB0))

    def __init__(self, guid: bytes = GUID, *, storing: bool = True) -> None:
        self.guid = guid
        self.storing = storing
        self.session: Session[Any] = Session(Role.INITIATOR, SessionConfig(guid), now_ms())
        self.messages: list[UserMessage] = []
        self.acknowledged: list[Any] = []
        self.closed = asyncio.Event()
        self._numbers = count(1)

    async def connect(
        self, address: str, port: int, source: str = CAROL, remote: bytes | None = None
    ) -> None:
        self._reader, self._writer = await asyncio.open_connection(address, port, local_addr=(source, 0))
        self.session.connected(now_ms(), remote)
        self._flush()
        self._task = asyncio.create_task(self._read())
        try:
            await eventually(lambda: self.session.state is State.OPEN or self.closed.is_set())
        except BaseException:  # nobody closes what was never opened
            self.drop()
            raise

    async def close(self) -> None:
        self.drop()
        await asyncio.sleep(0.02)

    def drop(self) -> None:
        """Close, if it was opened, and do not look after it."""
        if hasattr(self, "_task"):
            self._writer.close()
            self._task.cancel()

    def send(self, packet: UserMessage, token: Any = None) -> None:
        assert self.session.send(packet.data, token or packet.user.message_id, now_ms())
        self._flush()

    def message(
        self,
        body: bytes = b"",
        destination: Any = "OS:anything\\private$\\orders",
        *,
        recoverable: bool = False,
        transaction: TransactionHeader | None = None,
        admin: Any = None,
        acknowledge: int = 0,
        security: SecurityHeader | None = None,
        extension: bytes = b"",
        multi_queue: MultiQueueFormatHeader | None = None,
        **user_fields: Any,
    ) -> UserMessage:
        user = user_header(destination, admin=admin, recoverable=recoverable or transaction is not None)
        user.source_queue_manager = self.guid
        user.message_id = next(self._numbers)
        user.sent_time = int(time.time())
        for field_name, value in user_fields.items():
            setattr(user, field_name, value)
        return UserMessage.build(
            base=BaseHeader(),
            user=user,
            properties=MessagePropertiesHeader(flags=acknowledge),
            extension=extension,
            body=body,
            transaction=transaction,
            security=security,
            multi_queue=multi_queue,
        )

    @property
    def order_acks(self) -> list[OrderAckBody]:
        found = map(order_acknowledgment, self.messages)
        return [body for body in found if isinstance(body, OrderAckBody)]

    @property
    def final_acks(self) -> list[int]:
        """Classes of the FinalAcks that have come."""
        packets = [
            packet for packet in self.messages if isinstance(order_acknowledgment(packet), FinalAckBody)
        ]
        return [packet.properties.message_class for packet in packets]

    def _flush(self) -> None:
        self._writer.writelines(self.session.data_to_send())

    async def _read(self) -> None:
        while data := await self._reader.read(1 << 16):
            for event in self.session.receive_data(data, now_ms()):
                if isinstance(event, MessagesReceived):
                    self.messages += event.messages.messages
                    if self.storing:
                        self.session.stored(event.first_recoverable, event.recoverables, now_ms())
                elif isinstance(event, MessagesAcknowledged):
                    self.acknowledged += event.tokens
            self._flush()
        self.closed.set()

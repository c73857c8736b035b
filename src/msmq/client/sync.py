"""The client for programs without an event loop: the names and arguments of the asynchronous client, without ``await``.

A loop runs in a thread of its own, and each call waits for it. Threads may share a connection.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, Unpack

from msmq.client import connection as asynchronous
from msmq.client.cursor import Cursor as AsyncCursor
from msmq.client.cursor import HeldAtCursor, Wanted
from msmq.client.info import (
    AccessEntry,
    OutgoingInfo,
    PropertyValue,
    QueueInfo,
    QueuePlace,
    Security,
)
from msmq.client.loop import Loop, awaited, iterated
from msmq.client.message import Message, QueuedMessage, Receipt, ReceivedMessage, id_bytes
from msmq.client.problems import ConnectionLostError
from msmq.client.properties import MessageProperties, QueueSettings
from msmq.client.queue import Queue as AsyncQueue
from msmq.client.queue import Seek
from msmq.client.receiver import Held, Mode
from msmq.client.receiver import Receiver as AsyncReceiver
from msmq.client.target import Tls
from msmq.client.transaction import Transaction as AsyncTransaction
from msmq.client.watcher import Watching
from msmq.errors import MsmqError
from msmq.wire.bodies import Body


def connect_sync(
    server: str | None = None,
    *,
    token: str | None = None,
    tls: Tls | None = None,
    timeout: float = 30.0,
    window: int = 1024,
    remote: asynchronous.RemoteAccess | None = None,
    telemetry: Watching | None = None,
) -> SyncConnection:
    """Connect to a queue manager: ``with msmq.connect_sync() as mq:``. See :func:`msmq.connect`."""
    return SyncConnection(
        asynchronous.connect(
            server, token=token, tls=tls, timeout=timeout, window=window, remote=remote, telemetry=telemetry
        )
    )


class SyncMessage(QueuedMessage):
    """A message from a queue that can be acknowledged or rejected without await."""

    __slots__ = ("_loop", "message")

    def __init__(self, loop: Loop, message: ReceivedMessage) -> None:
        super().__init__(*message.parts)
        self._loop = loop
        self.message = message

    def acknowledge(self) -> None:
        """Report it as handled: the message leaves the queue."""
        self._loop.finish(self.message.acknowledge)

    def reject(self, subqueue: str = "") -> None:
        """Report it as not handled: the message goes back to its position, or to a subqueue."""
        self._loop.run(self.message.reject(subqueue))


class SyncTransaction:
    """A transaction: ``with mq.transaction() as tx:``."""

    def __init__(self, loop: Loop, transaction: AsyncTransaction) -> None:
        self._loop = loop
        self.inner = transaction

    def __enter__(self) -> Self:
        self._loop.run(self.inner.begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self.inner.__aexit__(kind, error, trace))

    def taking(self, call: Coroutine[Any, Any, ReceivedMessage]) -> ReceivedMessage:
        """Make a call that takes a message. If the message does not reach the program, the transaction cannot
        commit."""
        taken: ReceivedMessage = self._loop.take(call, lambda _: self.inner.doom())
        return taken

    def send(
        self, queue: SyncQueue | str, message: Message | Body, **properties: Unpack[MessageProperties]
    ) -> Receipt:
        return self._loop.run(self.inner.send(_inner(queue), message, **properties))

    def receive(self, queue: SyncQueue | str, timeout: float | None = None) -> SyncMessage:
        return _taken(self._loop, self.inner.receive(_inner(queue), timeout), self.inner.take_back)


def _taken(
    loop: Loop, call: Coroutine[Any, Any, ReceivedMessage], take_back: Callable[[ReceivedMessage], None]
) -> SyncMessage:
    """Return a message of a receiver. If it does not reach the program, the next call returns it again."""
    found: SyncMessage = loop.take(call, take_back, shown=lambda message: SyncMessage(loop, message))
    return found


def _held(loop: Loop, call: Coroutine[Any, Any, HeldAtCursor]) -> ReceivedMessage:
    """Return a message that a cursor holds; it leaves its queue once it has reached the program."""
    found: ReceivedMessage = loop.take(
        call, HeldAtCursor.give_back, HeldAtCursor.keep, lambda held: held.message
    )
    return found


def _inner(queue: SyncQueue | str) -> AsyncQueue | str:
    return queue if isinstance(queue, str) else queue.inner


def _inside(transaction: SyncTransaction | None) -> AsyncTransaction | None:
    return None if transaction is None else transaction.inner


class SyncReceiver:
    """Messages of one queue: ``with queue.receiver() as receiver: for message in receiver: ...``."""

    def __init__(self, loop: Loop, make: Callable[[], AsyncReceiver]) -> None:
        self._loop = loop
        self.inner = loop.call(make)

    def __enter__(self) -> Self:
        self._loop.run(self.inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop.is_here:
            self._loop.run(self.inner.close())

    def receive(self, timeout: float | None = None) -> SyncMessage:
        return _taken(self._loop, self.inner.receive(timeout), self.inner.take_back)

    def __iter__(self) -> Iterator[SyncMessage]:
        while True:
            yield self.receive()

    def acknowledge(self, *messages: SyncMessage) -> None:
        received = [member.message for member in messages]
        self._loop.finish(lambda: self.inner.acknowledge(*received))

    def reject(self, *messages: SyncMessage, subqueue: str = "") -> None:
        self._loop.run(self.inner.reject(*(member.message for member in messages), subqueue=subqueue))


class SyncCursor:
    """A position of one's own in a queue: ``with queue.cursor() as cursor: for message in cursor: ...``."""

    def __init__(self, loop: Loop, cursor: AsyncCursor) -> None:
        self.loop = loop
        self.inner = cursor

    def __enter__(self) -> Self:
        self.loop.run(self.inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.loop.run(self.inner.__aexit__(kind, error, trace))

    next = awaited(AsyncCursor.next)
    next_many = awaited(AsyncCursor.next_many)
    current = awaited(AsyncCursor.current)

    def take(self, transaction: SyncTransaction | None = None) -> ReceivedMessage:
        if transaction is not None:
            return transaction.taking(self.inner.take(transaction.inner))
        return _held(self.loop, self.inner.hold())

    restart = awaited(AsyncCursor.restart)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self.loop.iterate(aiter(self.inner))


class SyncQueue:
    """A queue by its path or format name, here or on another host."""

    def __init__(self, connection: SyncConnection, queue: AsyncQueue) -> None:
        self._connection = connection
        self.inner = queue
        self.name = queue.name

    @property
    def loop(self) -> Loop:
        return self._connection.loop

    def __repr__(self) -> str:
        return repr(self.inner)

    def send(
        self,
        message: Message | Body,
        *,
        transaction: SyncTransaction | None = None,
        **properties: Unpack[MessageProperties],
    ) -> Receipt:
        return self.loop.run(self.inner.send(message, transaction=_inside(transaction), **properties))

    def send_many(
        self,
        messages: Iterable[Message | Body],
        *,
        transaction: SyncTransaction | None = None,
        **properties: Unpack[MessageProperties],
    ) -> list[Receipt]:
        return self.loop.run(self.inner.send_many(messages, transaction=_inside(transaction), **properties))

    send_once = awaited(AsyncQueue.send_once)
    forget_row = awaited(AsyncQueue.forget_row)

    def receiver(
        self,
        *,
        mode: Mode = Mode.HOLD,
        prefetch: int = 256,
        exclusive: bool = False,
        retry_delay_ms: int | None = None,
        max_deliveries: int | None = None,
        poison_subqueue: str | None = None,
    ) -> SyncReceiver:
        return SyncReceiver(
            self.loop,
            lambda: self.inner.receiver(
                mode=mode,
                prefetch=prefetch,
                exclusive=exclusive,
                retry_delay_ms=retry_delay_ms,
                max_deliveries=max_deliveries,
                poison_subqueue=poison_subqueue,
            ),
        )

    def __iter__(self) -> Iterator[SyncMessage]:
        with self.receiver() as receiver:
            yield from receiver

    def receive(
        self, timeout: float | None = None, *, transaction: SyncTransaction | None = None
    ) -> SyncMessage:
        if transaction is not None:
            return transaction.receive(self, timeout)
        loop = self.loop

        def shown(held: Held) -> SyncMessage:
            return SyncMessage(loop, held.message)

        found: SyncMessage = loop.take(self.inner.hold(timeout), Held.give_back, Held.keep, shown)
        return found

    peek = awaited(AsyncQueue.peek)

    def cursor(self, *, receive: bool = False) -> SyncCursor:
        return SyncCursor(self.loop, self.inner.cursor(receive=receive))

    browse = iterated(AsyncQueue.browse)
    watch = iterated(AsyncQueue.watch)

    def lookup(
        self,
        lookup_id: int = 0,
        seek: Seek = Seek.CURRENT,
        *,
        receive: bool = False,
        transaction: SyncTransaction | None = None,
    ) -> ReceivedMessage:
        if not receive:
            return self.loop.run(self.inner.lookup(lookup_id, seek))
        if transaction is not None:
            taken = self.inner.lookup(lookup_id, seek, receive=True, transaction=transaction.inner)
            return transaction.taking(taken)
        return _held(self.loop, self.inner.hold_by_id(lookup_id, seek))

    def receive_by_id(
        self,
        message_id: bytes | str,
        timeout: float | None = 0,
        *,
        transaction: SyncTransaction | None = None,
    ) -> ReceivedMessage:
        return self._receive_wanted(Wanted(id_bytes(message_id)), timeout, transaction)

    def receive_by_correlation_id(
        self,
        correlation_id: bytes | str,
        timeout: float | None = 0,
        *,
        transaction: SyncTransaction | None = None,
    ) -> ReceivedMessage:
        return self._receive_wanted(Wanted(b"", id_bytes(correlation_id)), timeout, transaction)

    def _receive_wanted(
        self, wanted: Wanted, timeout: float | None, transaction: SyncTransaction | None
    ) -> ReceivedMessage:
        if transaction is not None:
            return transaction.taking(self.inner.receive_wanted(wanted, timeout, transaction.inner))
        return _held(self.loop, self.inner.hold_wanted(wanted, timeout))

    peek_by_id = awaited(AsyncQueue.peek_by_id)
    peek_by_correlation_id = awaited(AsyncQueue.peek_by_correlation_id)
    survey = awaited(AsyncQueue.survey)
    waiting = awaited(AsyncQueue.waiting)
    span = iterated(AsyncQueue.span)
    remove = awaited(AsyncQueue.remove)
    purge = awaited(AsyncQueue.purge)

    def move(
        self,
        messages: Iterable[ReceivedMessage | int],
        target: str,
        *,
        transaction: SyncTransaction | None = None,
    ) -> int:
        return self.loop.run(self.inner.move(messages, target, transaction=_inside(transaction)))

    exchange = awaited(AsyncQueue.exchange)

    def subqueue(self, name: str) -> SyncQueue:
        return SyncQueue(self._connection, self.inner.subqueue(name))

    @property
    def journal(self) -> SyncQueue:
        return SyncQueue(self._connection, self.inner.journal)


class SyncConnection:
    """A connection, which opens when it is first used. Use it with ``with``, or close it; the methods are described at
    :class:`~msmq.client.connection.Connection`.

    Threads may share it, and so may processes: a forked child connects for itself. Receivers, cursors, transactions and
    messages belong to the process that made them.
    """

    def __init__(self, connection: asynchronous.Connection) -> None:
        self.inner = connection
        self.address = connection.address
        self._loop: Loop | None = None
        self._closed = False
        self._opening = threading.Lock()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect now; raises ServerNotAvailableError when nobody answers in time."""
        self._closed = False
        assert self.loop

    @property
    def loop(self) -> Loop:
        """The event loop of this process."""
        loop = self._loop
        if loop is not None and loop.is_here:
            return loop
        if self._closed:
            raise ConnectionLostError("The connection was closed.")
        if loop is not None:  # its thread and its lock belong to the parent
            self._opening = threading.Lock()
        with self._opening:
            if self._loop is None or not self._loop.is_here:
                self._loop = self._opened()
            return self._loop

    def _opened(self) -> Loop:
        loop = Loop()
        try:
            loop.run(self.inner.open())
        except BaseException:
            loop.close()
            raise
        _OPEN.add(self)
        return loop

    def close(self) -> None:
        """Send what is still under way, then disconnect."""
        self._closed = True
        loop, self._loop = self._loop, None
        if loop is not None and loop.is_here:
            try:
                loop.run(self.inner.close())
            finally:
                loop.close()

    # --- queues and transactions --------------------------------------------------------------------------------

    def queue(self, name: str) -> SyncQueue:
        return SyncQueue(self, self.inner.queue(name))

    def transaction(self) -> SyncTransaction:
        return SyncTransaction(self.loop, self.inner.transaction())

    @property
    def dead_letters(self) -> SyncQueue:
        return SyncQueue(self, self.inner.dead_letters)

    @property
    def transactional_dead_letters(self) -> SyncQueue:
        return SyncQueue(self, self.inner.transactional_dead_letters)

    @property
    def journal(self) -> SyncQueue:
        return SyncQueue(self, self.inner.journal)

    # --- administration -----------------------------------------------------------------------------------------

    def create_queue(
        self,
        path: str,
        *,
        transactional: bool = False,
        sddl: str = "",
        if_missing: bool = False,
        **settings: Unpack[QueueSettings],
    ) -> SyncQueue:
        made = self.loop.run(
            self.inner.create_queue(
                path, transactional=transactional, sddl=sddl, if_missing=if_missing, **settings
            )
        )
        return SyncQueue(self, made)

    def delete_queue(self, queue: SyncQueue | str) -> None:
        self.loop.run(self.inner.delete_queue(_inner(queue)))

    queues = awaited(asynchronous.Connection.queues)

    def queue_info(self, queue: SyncQueue | str) -> QueueInfo:
        return self.loop.run(self.inner.queue_info(_inner(queue)))

    def queue_exists(self, queue: SyncQueue | str) -> bool:
        return self.loop.run(self.inner.queue_exists(_inner(queue)))

    def set_queue(self, queue: SyncQueue | str, **settings: Unpack[QueueSettings]) -> QueueInfo:
        return self.loop.run(self.inner.set_queue(_inner(queue), **settings))

    def locate(self, queue: SyncQueue | str) -> QueuePlace:
        return self.loop.run(self.inner.locate(_inner(queue)))

    check_directory = awaited(asynchronous.Connection.check_directory)

    def repair_queue(self, queue: SyncQueue | str, choice: str, *, discard_messages: bool = False) -> None:
        self.loop.run(self.inner.repair_queue(_inner(queue), choice, discard_messages=discard_messages))

    def properties(
        self, queue: SyncQueue | str | None = None, *, outgoing: bool = False
    ) -> list[PropertyValue]:
        inner = None if queue is None else _inner(queue)
        return self.loop.run(self.inner.properties(inner, outgoing=outgoing))

    def security(self, queue: SyncQueue | str | None = None) -> Security:
        return self.loop.run(self.inner.security(None if queue is None else _inner(queue)))

    def set_security(
        self,
        queue: SyncQueue | str | None = None,
        *,
        owner: str = "",
        entries: list[AccessEntry] | None = None,
        sddl: str = "",
    ) -> Security:
        inner = None if queue is None else _inner(queue)
        return self.loop.run(self.inner.set_security(inner, owner=owner, entries=entries, sddl=sddl))

    outgoing_queues = awaited(asynchronous.Connection.outgoing_queues)

    def pause_outgoing(self, queue: SyncQueue | str) -> OutgoingInfo:
        return self.loop.run(self.inner.pause_outgoing(_inner(queue)))

    def resume_outgoing(self, queue: SyncQueue | str) -> OutgoingInfo:
        return self.loop.run(self.inner.resume_outgoing(_inner(queue)))

    def purge_outgoing(self, queue: SyncQueue | str) -> int:
        return self.loop.run(self.inner.purge_outgoing(_inner(queue)))

    manager = awaited(asynchronous.Connection.manager)
    set_manager = awaited(asynchronous.Connection.set_manager)
    set_online = awaited(asynchronous.Connection.set_online)
    certificates = awaited(asynchronous.Connection.certificates)
    register_certificate = awaited(asynchronous.Connection.register_certificate)
    remove_certificate = awaited(asynchronous.Connection.remove_certificate)
    renew_internal_certificate = awaited(asynchronous.Connection.renew_internal_certificate)
    create_token = awaited(asynchronous.Connection.create_token)
    tokens = awaited(asynchronous.Connection.tokens)
    remove_token = awaited(asynchronous.Connection.remove_token)
    accounts = awaited(asynchronous.Connection.accounts)
    create_account = awaited(asynchronous.Connection.create_account)
    set_account_password = awaited(asynchronous.Connection.set_account_password)
    remove_account = awaited(asynchronous.Connection.remove_account)
    alarms = awaited(asynchronous.Connection.alarms)
    set_alarms = awaited(asynchronous.Connection.set_alarms)
    statistics = iterated(asynchronous.Connection.statistics)


_OPEN: weakref.WeakSet[SyncConnection] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """When a program ends without closing its connections, send what is still under way."""
    for connection in list(_OPEN):
        with suppress(MsmqError):
            connection.close()

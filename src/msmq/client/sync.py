"""The same client for programs without an event loop: same names, same arguments, no ``await``.

A loop runs in a thread of its own, and each call waits for it. One connection may be shared by threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from msmq.api.generated import msmq_pb2 as pb
from msmq.client import connection as asynchronous
from msmq.client.bodies import Body
from msmq.client.cursor import Cursor as AsyncCursor
from msmq.client.info import (
    AccessEntry,
    Certificate,
    ManagerInfo,
    OutgoingInfo,
    QueueInfo,
    Security,
    Statistics,
)
from msmq.client.message import Message, Receipt, ReceivedMessage
from msmq.client.queue import Queue as AsyncQueue
from msmq.client.queue import QueueIdentity, Removal, Seek, Survey
from msmq.client.receiver import Mode
from msmq.client.receiver import Receiver as AsyncReceiver
from msmq.client.transaction import Transaction as AsyncTransaction
from msmq.errors import MQError

_T = TypeVar("_T")


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="msmq", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def call(self, function: Callable[[], _T]) -> _T:
        """Call something that wants to be in the loop."""

        async def called() -> _T:
            return function()

        return self.run(called())

    def finish(self, function: Callable[[], asyncio.Future[_T]]) -> _T:
        """Call something that begins there, and wait for its end."""

        async def finished() -> _T:
            return await function()

        return self.run(finished())

    def iterate(self, iterator: AsyncIterator[_T]) -> Iterator[_T]:
        try:
            while True:
                try:
                    yield self.run(_next(iterator))
                except StopAsyncIteration:
                    return
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                self.run(close())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _next(iterator: AsyncIterator[_T]) -> _T:
    return await anext(iterator)


def connect_sync(
    server: str | None = None,
    *,
    token: str | None = None,
    tls: asynchronous.Tls | None = None,
    timeout: float = 30.0,
    window: int = 1024,
) -> SyncConnection:
    """Connect to a queue manager: ``with msmq.connect_sync() as mq:``. See :func:`msmq.connect`."""
    return SyncConnection(asynchronous.connect(server, token=token, tls=tls, timeout=timeout, window=window))


class SyncMessage:
    """A received message; everything of :class:`~msmq.client.message.ReceivedMessage`, and settling without await."""

    def __init__(self, loop: _Loop, message: ReceivedMessage) -> None:
        self._loop = loop
        self.message = message

    def __getattr__(self, name: str) -> Any:
        return getattr(self.message, name)

    def __repr__(self) -> str:
        return repr(self.message)

    def acknowledge(self) -> None:
        """It is done: the message leaves the queue."""
        self._loop.finish(self.message.acknowledge)

    def reject(self, subqueue: str = "") -> None:
        """It is not done: the message goes back to its place, or to a subqueue."""
        self._loop.run(self.message.reject(subqueue))


class SyncTransaction:
    """A transaction: ``with mq.transaction() as tx:``."""

    def __init__(self, loop: _Loop, transaction: AsyncTransaction) -> None:
        self._loop = loop
        self.inner = transaction

    def __enter__(self) -> Self:
        self._loop.run(self.inner.begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self.inner.__aexit__(kind, error, trace))

    def send(self, queue: SyncQueue | str, message: Message | Body, **properties: Any) -> Receipt:
        return self._loop.run(self.inner.send(_inner(queue), message, **properties))

    def receive(self, queue: SyncQueue | str, timeout: float | None = None) -> SyncMessage:
        return SyncMessage(self._loop, self._loop.run(self.inner.receive(_inner(queue), timeout)))


def _inner(queue: SyncQueue | str) -> AsyncQueue | str:
    return queue if isinstance(queue, str) else queue.inner


def _inside(transaction: SyncTransaction | None) -> AsyncTransaction | None:
    return None if transaction is None else transaction.inner


class SyncReceiver:
    """Messages of one queue: ``with queue.receiver() as receiver: for message in receiver: ...``."""

    def __init__(self, loop: _Loop, make: Callable[[], AsyncReceiver]) -> None:
        self._loop = loop
        self.inner = loop.call(make)

    def __enter__(self) -> Self:
        self._loop.run(self.inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self.inner.close())

    def receive(self, timeout: float | None = None) -> SyncMessage:
        return SyncMessage(self._loop, self._loop.run(self.inner.receive(timeout)))

    def __iter__(self) -> Iterator[SyncMessage]:
        while True:
            yield self.receive()

    def acknowledge(self, *messages: SyncMessage) -> None:
        received = [member.message for member in messages]
        self._loop.finish(lambda: self.inner.acknowledge(*received))

    def reject(self, *messages: SyncMessage, subqueue: str = "") -> None:
        self._loop.run(self.inner.reject(*(member.message for member in messages), subqueue=subqueue))


class SyncCursor:
    """A place of one's own in a queue: ``with queue.cursor() as cursor: for message in cursor: ...``."""

    def __init__(self, loop: _Loop, cursor: AsyncCursor) -> None:
        self._loop = loop
        self.inner = cursor

    def __enter__(self) -> Self:
        self._loop.run(self.inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self.inner.__aexit__(kind, error, trace))

    def next(self, timeout: float | None = 0) -> ReceivedMessage:
        return self._loop.run(self.inner.next(timeout))

    def next_many(self, count: int, timeout: float | None = 0) -> list[ReceivedMessage]:
        return self._loop.run(self.inner.next_many(count, timeout))

    def current(self, timeout: float | None = 0) -> ReceivedMessage:
        return self._loop.run(self.inner.current(timeout))

    def take(self, transaction: SyncTransaction | None = None) -> ReceivedMessage:
        return self._loop.run(self.inner.take(_inside(transaction)))

    def restart(self) -> None:
        self._loop.run(self.inner.restart())

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self._loop.iterate(aiter(self.inner))


class SyncQueue:
    """A queue by its path or format name, here or on another host."""

    def __init__(self, loop: _Loop, queue: AsyncQueue) -> None:
        self._loop = loop
        self.inner = queue
        self.name = queue.name

    def __repr__(self) -> str:
        return repr(self.inner)

    def send(
        self, message: Message | Body, *, transaction: SyncTransaction | None = None, **properties: Any
    ) -> Receipt:
        return self._loop.run(self.inner.send(message, transaction=_inside(transaction), **properties))

    def send_many(
        self,
        messages: Iterable[Message | Body],
        *,
        transaction: SyncTransaction | None = None,
        **properties: Any,
    ) -> list[Receipt]:
        return self._loop.run(self.inner.send_many(messages, transaction=_inside(transaction), **properties))

    def send_alike(
        self, alike: bytes, count: int, *, transaction: SyncTransaction | None = None
    ) -> list[tuple[int, MQError]]:
        return self._loop.run(self.inner.send_alike(alike, count, transaction=_inside(transaction)))

    def receiver(
        self, *, mode: Mode = Mode.HOLD, prefetch: int = 256, exclusive: bool = False
    ) -> SyncReceiver:
        return SyncReceiver(
            self._loop, lambda: self.inner.receiver(mode=mode, prefetch=prefetch, exclusive=exclusive)
        )

    def __iter__(self) -> Iterator[SyncMessage]:
        with self.receiver() as receiver:
            yield from receiver

    def receive(
        self, timeout: float | None = None, *, transaction: SyncTransaction | None = None
    ) -> SyncMessage:
        found = self._loop.run(self.inner.receive(timeout, transaction=_inside(transaction)))
        return SyncMessage(self._loop, found)

    def peek(self, timeout: float | None = 0) -> ReceivedMessage:
        return self._loop.run(self.inner.peek(timeout))

    def cursor(self, *, receive: bool = False) -> SyncCursor:
        return SyncCursor(self._loop, self.inner.cursor(receive=receive))

    def browse(self) -> Iterator[ReceivedMessage]:
        return self._loop.iterate(self.inner.browse())

    def watch(self) -> Iterator[ReceivedMessage]:
        return self._loop.iterate(self.inner.watch())

    def lookup(
        self,
        lookup_id: int = 0,
        seek: Seek = Seek.CURRENT,
        *,
        receive: bool = False,
        transaction: SyncTransaction | None = None,
    ) -> ReceivedMessage:
        return self._loop.run(
            self.inner.lookup(lookup_id, seek, receive=receive, transaction=_inside(transaction))
        )

    def survey(
        self, spans: Iterable[tuple[int, int]], *, most_messages: int = 0, most_bytes: int = 0
    ) -> Survey:
        return self._loop.run(self.inner.survey(spans, most_messages=most_messages, most_bytes=most_bytes))

    def span(self, after: int, upto: int) -> Iterator[list[ReceivedMessage]]:
        return self._loop.iterate(self.inner.span(after, upto))

    def span_replies(self, after: int, upto: int) -> Iterator[pb.Deliveries]:
        return self._loop.iterate(self.inner.span_replies(after, upto))

    def remove(self, lookup_ids: Iterable[int], identity: QueueIdentity | None = None) -> Removal:
        return self._loop.run(self.inner.remove(lookup_ids, identity))

    def purge(self) -> int:
        return self._loop.run(self.inner.purge())

    def move(
        self,
        messages: Iterable[ReceivedMessage | int],
        target: str,
        *,
        transaction: SyncTransaction | None = None,
    ) -> int:
        return self._loop.run(self.inner.move(messages, target, transaction=_inside(transaction)))

    def exchange(self, message: ReceivedMessage | int, target: str, other: Message) -> Receipt:
        return self._loop.run(self.inner.exchange(message, target, other))

    def subqueue(self, name: str) -> SyncQueue:
        return SyncQueue(self._loop, self.inner.subqueue(name))

    @property
    def journal(self) -> SyncQueue:
        return SyncQueue(self._loop, self.inner.journal)


class SyncConnection:
    """A connection. Use it with ``with``; see :class:`~msmq.client.connection.Connection` for what methods do."""

    def __init__(self, connection: asynchronous.Connection) -> None:
        self.inner = connection
        self.address = connection.address
        self._loop: _Loop

    def __enter__(self) -> Self:
        self._loop = _Loop()
        try:
            self._loop.run(self.inner.open())
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._loop.run(self.inner.close())
        finally:
            self._loop.close()

    # --- queues and transactions --------------------------------------------------------------------------------

    def queue(self, name: str) -> SyncQueue:
        return SyncQueue(self._loop, self.inner.queue(name))

    def transaction(self) -> SyncTransaction:
        return SyncTransaction(self._loop, self.inner.transaction())

    @property
    def dead_letters(self) -> SyncQueue:
        return SyncQueue(self._loop, self.inner.dead_letters)

    @property
    def transactional_dead_letters(self) -> SyncQueue:
        return SyncQueue(self._loop, self.inner.transactional_dead_letters)

    @property
    def journal(self) -> SyncQueue:
        return SyncQueue(self._loop, self.inner.journal)

    # --- administration -----------------------------------------------------------------------------------------

    def create_queue(
        self, path: str, *, transactional: bool = False, sddl: str = "", **settings: Any
    ) -> SyncQueue:
        made = self._loop.run(
            self.inner.create_queue(path, transactional=transactional, sddl=sddl, **settings)
        )
        return SyncQueue(self._loop, made)

    def delete_queue(self, queue: SyncQueue | str) -> None:
        self._loop.run(self.inner.delete_queue(_inner(queue)))

    def queues(
        self, *, system: bool = False, journals: bool = False, subqueues: bool = False
    ) -> list[QueueInfo]:
        return self._loop.run(self.inner.queues(system=system, journals=journals, subqueues=subqueues))

    def queue_info(self, queue: SyncQueue | str) -> QueueInfo:
        return self._loop.run(self.inner.queue_info(_inner(queue)))

    def queue_exists(self, queue: SyncQueue | str) -> bool:
        return self._loop.run(self.inner.queue_exists(_inner(queue)))

    def set_queue(self, queue: SyncQueue | str, **settings: Any) -> QueueInfo:
        return self._loop.run(self.inner.set_queue(_inner(queue), **settings))

    def security(self, queue: SyncQueue | str | None = None) -> Security:
        return self._loop.run(self.inner.security(None if queue is None else _inner(queue)))

    def set_security(
        self,
        queue: SyncQueue | str | None = None,
        *,
        owner: str = "",
        entries: list[AccessEntry] | None = None,
        sddl: str = "",
    ) -> Security:
        inner = None if queue is None else _inner(queue)
        return self._loop.run(self.inner.set_security(inner, owner=owner, entries=entries, sddl=sddl))

    def outgoing_queues(self) -> list[OutgoingInfo]:
        return self._loop.run(self.inner.outgoing_queues())

    def pause_outgoing(self, queue: SyncQueue | str) -> OutgoingInfo:
        return self._loop.run(self.inner.pause_outgoing(_inner(queue)))

    def resume_outgoing(self, queue: SyncQueue | str) -> OutgoingInfo:
        return self._loop.run(self.inner.resume_outgoing(_inner(queue)))

    def purge_outgoing(self, queue: SyncQueue | str) -> int:
        return self._loop.run(self.inner.purge_outgoing(_inner(queue)))

    def manager(self) -> ManagerInfo:
        return self._loop.run(self.inner.manager())

    def set_manager(self, *, quota_kb: int | None = None, journal_quota_kb: int | None = None) -> ManagerInfo:
        return self._loop.run(self.inner.set_manager(quota_kb=quota_kb, journal_quota_kb=journal_quota_kb))

    def set_online(self, online: bool) -> ManagerInfo:
        return self._loop.run(self.inner.set_online(online))

    def certificates(self, sid: str = "") -> list[Certificate]:
        return self._loop.run(self.inner.certificates(sid))

    def register_certificate(self, certificate: bytes) -> Certificate:
        return self._loop.run(self.inner.register_certificate(certificate))

    def remove_certificate(self, digest: bytes) -> None:
        self._loop.run(self.inner.remove_certificate(digest))

    def renew_internal_certificate(self) -> tuple[Certificate, bytes]:
        return self._loop.run(self.inner.renew_internal_certificate())

    def statistics(self, interval: float = 1.0, count: int = 0) -> Iterator[Statistics]:
        return self._loop.iterate(self.inner.statistics(interval, count))

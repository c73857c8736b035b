"""How the source talks to a queue manager: the requests it makes, and the ways to make them.

A door is opened in each process that needs one and never passed between processes. Every request may be made twice: it
is repeated when the connection breaks, until the time-out of the connection has passed.
"""

from __future__ import annotations

import hashlib
import re
import time
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from msmq.api.packet_columns import PacketColumns
from msmq.client.columns import read_columns
from msmq.client.info import QueueKind
from msmq.client.message import Delivery
from msmq.client.problems import ConnectionLostError
from msmq.client.queue import QueueIdentity, Removal, Survey, Waiting
from msmq.client.sync import SyncConnection, SyncReceiver, connect_sync
from msmq.client.target import Tls
from msmq.errors import (
    IoTimeoutError,
    MQError,
    MsmqError,
    QueueExistsError,
    QueueNotFoundError,
    SharingViolationError,
)
from msmq.spark.ahead import ahead
from msmq.spark.options import Access
from msmq.spark.packets import Stack
from msmq.spark.schema import Messages
from msmq.spark.telling import PlainError

_T = TypeVar("_T")
_COMPUTER_QUEUES: Final = {
    ".\\system$;deadletter": ".\\deadletter$",
    ".\\system$;deadxact": ".\\xactdeadletter$",
    ".\\system$;journal": ".\\journal$",
}
"""The queues that every computer has: by the queue manager's name and by the name that people use."""
_MEANT: Final = re.compile("journal|letter", re.IGNORECASE)
_FETCHED_AHEAD: Final = 8
"""Replies of the queue manager; each has at most a megabyte or one message."""
_LEASE_PATIENCE_S: Final = 10.0
_LEASE_PAUSE_S: Final = 0.2
_LONGEST_LABEL: Final = 120
OWN_QUEUES: Final = "\\private$\\spark-"
"""Part of the paths of queues that the sink makes for itself."""


class Door(Protocol):
    """What the source asks of a queue manager. Spans are pairs: after one lookup identifier, up to and including
    another."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def host(self) -> Host:
        """The queue manager behind the door."""

    def queues(self, pattern: str) -> list[str]:
        """Return the queues whose path matches a regular expression as a whole, in order and as :meth:`spelt`."""

    def spelt(self, queue: str) -> str:
        """Return the name of a queue as rows and positions have it, however it was given."""

    def survey(
        self,
        queue: str,
        spans: Sequence[tuple[int, int]],
        most_messages: int = 0,
        most_bytes: int = 0,
        *,
        known: QueueIdentity | None = None,
        seen: int = 0,
    ) -> Survey:
        """List what stands in spans of a queue, and identify the queue; a limit of 0 means none. Given what was
        ``known`` of the queue when ``seen`` was its highest number, it tells whether that still holds."""

    def waiting(self, queue: str, spans: Sequence[tuple[int, int]]) -> Waiting:
        """Count what stands in spans of a queue."""

    def hold(self, queue: str, holder: str) -> None:
        """Make sure that no other stream consumes a queue while this door is open.

        Raises:
            ConsumedError: another one does.
        """

    def claim(self, queue: str, label: str, body: bytes) -> None:
        """Keep a claim on messages of a queue until it is forgotten."""

    def claims(self, queue: str) -> list[Claim]:
        """Return the claims on messages of a queue."""

    def forget(self, queue: str, lookup_ids: Sequence[int]) -> None:
        """Forget some claims."""

    def read(self, queue: str, after: int, upto: int) -> Iterator[Messages]:
        """Yield the messages of a span, in order and in batches."""

    def remove(self, queue: str, lookup_ids: Iterable[int], identity: QueueIdentity | None = None) -> Removal:
        """Take messages out of a queue; those that are gone already do no harm. With an ``identity``, only out of that
        very queue."""


class Host(NamedTuple):
    """A queue manager, by name and by GUID; by its address if it tells neither."""

    name: str
    queue_manager: str


class Claim(NamedTuple):
    """A note of a consuming stream, by its lookup identifier among the claims."""

    lookup_id: int
    label: str
    body: bytes


class ConsumedError(PlainError):
    """The queue is consumed by another stream."""


def open_door(access: Access) -> Door:
    """Open the door to the queue manager of the options."""
    if access.by_remote_read:
        from msmq.spark.remote_door import RemoteDoor

        return RemoteDoor(access)
    return ChannelDoor(access)


def connect(access: Access) -> SyncConnection:
    """Connect the client to that queue manager."""
    tls = Tls(authorities=access.authorities) if access.authorities else None
    return connect_sync(access.server, token=access.token, tls=tls, timeout=access.timeout_s)


def _lease_of(queue: str) -> str:
    """Return the path of the queue that the consumer of another queue holds open."""
    return f".{OWN_QUEUES}consumer-{hashlib.sha256(queue.lower().encode()).hexdigest()[:16]}"


def _claims_of(queue: str) -> str:
    """Return the path of the queue with the claims on messages of another one."""
    return f".{OWN_QUEUES}claims-{hashlib.sha256(queue.lower().encode()).hexdigest()[:16]}"


def _closable(batches: Iterator[_T]) -> Generator[_T, None, None]:
    """Make an iterator closable, together with the one that it is made of."""
    yield from batches


def _columns(queue: str, given: PacketColumns) -> Messages:
    """Take over the columns of a reply of the channel."""
    authenticated, dead = np.zeros((2, len(given)), np.int64)
    for remark in given.remarks:
        authenticated[remark.index] = remark.authenticated
        dead[remark.index] = remark.dead_letter_class
    ids, times, sizes = (
        np.array(column, np.int64) for column in (given.lookup_ids, given.arrived_times, given.sizes)
    )
    return Messages(queue, ids, times, Stack(given.data, sizes), authenticated, dead)


class ChannelDoor:
    """The door through the channel of applications."""

    def __init__(self, access: Access) -> None:
        self._mq = connect(access)
        self._patience_s = min(access.timeout_s, _LEASE_PATIENCE_S)
        self._host: Host | None = None
        self._spelt: dict[str, str] = {}
        self._leases: dict[str, SyncReceiver] = {}

    def __enter__(self) -> Self:
        self._mq.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lease in self._leases.values():
            with suppress(MsmqError):
                lease.__exit__(kind, error, trace)
        self._leases.clear()
        self._mq.__exit__(kind, error, trace)

    @property
    def host(self) -> Host:
        if self._host is None:
            found = self._mq.manager()
            self._host = Host(found.computer_name, found.identifier)
        return self._host

    def queues(self, pattern: str) -> list[str]:
        matching = re.compile(pattern, re.IGNORECASE)
        found = self._mq.queues(journals=True, subqueues=True)
        # Journals and dead letters are read only if they are named, and the sink's own queues never.
        names = [info.path for info in found if info.kind is not QueueKind.JOURNAL]
        if "journal" in pattern.lower():
            names += [info.path for info in found if info.kind is QueueKind.JOURNAL]
        if _MEANT.search(pattern):
            names += _COMPUTER_QUEUES.values()
        pairs = [(name, self._short(name)) for name in names if OWN_QUEUES not in name.lower()]
        return sorted(short for name, short in pairs if matching.fullmatch(name) or matching.fullmatch(short))

    def spelt(self, queue: str) -> str:
        if queue not in self._spelt:
            try:
                self._spelt[queue] = self._short(self._again(lambda: self._mq.queue_info(queue)).path)
            except MQError:  # it does not exist now, or it is one of the computer's own
                return self._short(queue)
        return self._spelt[queue]

    def _short(self, path: str) -> str:
        """Return a path with a dot for this computer."""
        computer, backslash, rest = path.partition("\\")
        own = backslash and "=" not in computer and computer.lower() == self.host.name.lower()
        short = f".\\{rest}" if own else path
        return _COMPUTER_QUEUES.get(short.lower(), short)

    def survey(
        self,
        queue: str,
        spans: Sequence[tuple[int, int]],
        most_messages: int = 0,
        most_bytes: int = 0,
        *,
        known: QueueIdentity | None = None,
        seen: int = 0,
    ) -> Survey:
        return self._again(
            lambda: self._mq.queue(queue).survey(
                spans, most_messages=most_messages, most_bytes=most_bytes, known=known, seen=seen
            )
        )

    def waiting(self, queue: str, spans: Sequence[tuple[int, int]]) -> Waiting:
        return self._again(lambda: self._mq.queue(queue).waiting(spans))

    def hold(self, queue: str, holder: str) -> None:
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                self._again(lambda: self._hold(queue, holder))
                return
            except SharingViolationError:
                self._leases.pop(queue, None)
                if time.monotonic() > deadline:
                    who = self._mq.queue_info(_lease_of(queue)).label
                    raise ConsumedError(
                        f"{queue} of {self.host.name} is consumed already, by {who}. Two that consume one queue would "
                        "both have its messages: end one of them, or let this one read by mode=browse."
                    ) from None
                time.sleep(_LEASE_PAUSE_S)  # the connection of a killed reader may not be gone yet

    def _hold(self, queue: str, holder: str) -> None:
        """Open a queue exclusively, and check that it is still ours."""
        if queue not in self._leases:
            lease = _lease_of(queue)
            with suppress(QueueExistsError):
                self._mq.create_queue(lease, transactional=False)
            receiver = self._mq.queue(lease).receiver(exclusive=True, prefetch=1)
            receiver.__enter__()
            self._leases[queue] = receiver
            self._mq.set_queue(lease, label=holder[-_LONGEST_LABEL:])
        with suppress(IoTimeoutError):  # no message ever comes to it
            self._leases[queue].receive(timeout=0)

    def claim(self, queue: str, label: str, body: bytes) -> None:
        kept = _claims_of(queue)

        def send() -> None:
            with suppress(QueueExistsError):
                self._mq.create_queue(kept, transactional=False)
            self._mq.queue(kept).send(body, label=label, delivery=Delivery.RECOVERABLE)

        self._again(send)

    def claims(self, queue: str) -> list[Claim]:
        def browse() -> list[Claim]:
            found = self._mq.queue(_claims_of(queue)).browse()
            return [Claim(message.lookup_id, message.label, message.body) for message in found]

        try:
            return self._again(browse)
        except QueueNotFoundError:
            return []

    def forget(self, queue: str, lookup_ids: Sequence[int]) -> None:
        if lookup_ids:
            self._again(lambda: self._mq.queue(_claims_of(queue)).remove(array("Q", lookup_ids)))

    def read(self, queue: str, after: int, upto: int) -> Iterator[Messages]:
        while True:
            try:
                replies = self._mq.loop.iterate(read_columns(self._mq.inner, queue, after, upto))
                for reply in ahead(_closable(replies), _FETCHED_AHEAD):
                    messages = _columns(queue, reply)
                    yield messages
                    after = messages.lookup_ids[-1]
            except ConnectionLostError:
                self._mq.manager()  # waits for the connection as long as the time-out allows
                continue
            return

    def remove(self, queue: str, lookup_ids: Iterable[int], identity: QueueIdentity | None = None) -> Removal:
        ids = array("Q", lookup_ids)
        return self._again(lambda: self._mq.queue(queue).remove(ids, identity))

    def _again(self, ask: Callable[[], _T]) -> _T:
        while True:
            try:
                return ask()
            except ConnectionLostError:
                self._mq.manager()

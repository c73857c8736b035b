"""How the source comes to a queue manager: what it asks of one, and the ways to ask.

A door is opened in each process that needs one and never travels between processes. Everything asked through it may be
asked again: when the connection breaks it is, until the time-out of the connection has passed.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.columns import read_columns
from msmq.client.connection import Tls
from msmq.client.info import QueueKind
from msmq.client.problems import ConnectionLostError
from msmq.client.queue import QueueIdentity, Removal, Survey
from msmq.client.sync import SyncConnection, connect_sync
from msmq.spark.ahead import ahead
from msmq.spark.options import Access
from msmq.spark.schema import Messages

_T = TypeVar("_T")
_COMPUTER_QUEUES: Final = (".\\deadletter$", ".\\xactdeadletter$", ".\\journal$")
_MEANT: Final = re.compile("journal|letter", re.IGNORECASE)
_FETCHED_AHEAD: Final = 8
"""Replies of the queue manager, each of at most a megabyte or one message."""
OWN_QUEUES: Final = "\\private$\\spark-"
"""In the paths of queues that the sink makes for itself."""


class Door(Protocol):
    """What the source asks of a queue manager. Spans are pairs: behind one lookup identifier, up to another."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def queues(self, pattern: str) -> list[str]:
        """The queues whose path a regular expression matches as a whole, in order."""

    def survey(
        self, queue: str, spans: Sequence[tuple[int, int]], most_messages: int = 0, most_bytes: int = 0
    ) -> Survey:
        """What stands in spans of a queue, and which queue that is; 0 is no limit."""

    def read(self, queue: str, after: int, upto: int) -> Iterator[Messages]:
        """The messages of a span, in order and in batches."""

    def remove(self, queue: str, lookup_ids: Iterable[int], identity: QueueIdentity | None = None) -> Removal:
        """Take messages out; those that are gone already do no harm. With an ``identity``, only of that very queue."""


def open_door(access: Access) -> Door:
    """The door to the queue manager of the options."""
    if access.by_remote_read:
        from msmq.spark.remote_door import RemoteDoor

        return RemoteDoor(access)
    return ChannelDoor(access)


def connect(access: Access) -> SyncConnection:
    """A connection of the client to that queue manager."""
    tls = Tls(authorities=access.authorities) if access.authorities else None
    return connect_sync(access.server, token=access.token, tls=tls, timeout=access.timeout_s)


def _closable(batches: Iterator[_T]) -> Generator[_T, None, None]:
    """An iterator that can be closed, with what it is made of."""
    yield from batches


def _columns(queue: str, reply: pb.Deliveries) -> Messages:
    """What came over the channel."""
    given = reply.packets
    authenticated, dead = [0] * len(given.lookup_ids), [0] * len(given.lookup_ids)
    for remark in given.remarks:
        authenticated[remark.index] = int(remark.authenticated)
        dead[remark.index] = remark.dead_letter_class
    columns = list(given.lookup_ids), list(given.arrived_times), list(given.packets)
    return Messages(queue, *columns, authenticated, dead)


class ChannelDoor:
    """By the channel of applications."""

    def __init__(self, access: Access) -> None:
        self._mq = connect(access)

    def __enter__(self) -> Self:
        self._mq.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._mq.__exit__(kind, error, trace)

    def queues(self, pattern: str) -> list[str]:
        matching = re.compile(pattern, re.IGNORECASE)
        found = self._mq.queues(journals=True, subqueues=True)
        # Journals and dead letters are read only by those who mean them, and the sink's own queues by nobody.
        names = [info.path for info in found if info.kind is not QueueKind.JOURNAL]
        if "journal" in pattern.lower():
            names += [info.path for info in found if info.kind is QueueKind.JOURNAL]
        if _MEANT.search(pattern):
            names += _COMPUTER_QUEUES
        return sorted(name for name in names if matching.fullmatch(name) and OWN_QUEUES not in name.lower())

    def survey(
        self, queue: str, spans: Sequence[tuple[int, int]], most_messages: int = 0, most_bytes: int = 0
    ) -> Survey:
        return self._again(
            lambda: self._mq.queue(queue).survey(spans, most_messages=most_messages, most_bytes=most_bytes)
        )

    def read(self, queue: str, after: int, upto: int) -> Iterator[Messages]:
        while True:
            try:
                replies = self._mq.loop.iterate(read_columns(self._mq.inner, queue, after, upto))
                for reply in ahead(_closable(replies), _FETCHED_AHEAD):
                    messages = _columns(queue, reply)
                    yield messages
                    after = messages.lookup_ids[-1]
            except ConnectionLostError:
                self._mq.manager()  # waits for the connection, as long as it may take
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

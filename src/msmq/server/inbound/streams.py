"""Storing and showing incoming transactional streams: IncomingTransactionalTransferInfo (MS-MQDMPR 3.1.1.5).

A stream is one value of the ledger, written with the messages that advance it, and before an OrderAck for messages
that do not. A sender that has two names for a queue sends two sequences with separate numbers; so the name is part of
a stream's identity, in any case of letters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msmq.errors import MessageStorageFailedError
from msmq.manager.core import Core
from msmq.manager.model import IncomingTransactionalTransferInfo
from msmq.manager.queues.queue import Queue
from msmq.transfer.order_receiver import Progress, Stream

_PREFIX: Final = "transfer/incoming"
_VALUE_BYTES: Final = 256
_CHARACTER_BYTES: Final = 12
"""The largest size of a value: the fixed part, and for each character of the name, which is in it twice."""


def stream_of(source: bytes, queue: Queue, name: str) -> Stream:
    """The stream of a queue manager into a queue by this name."""
    return source, (queue.number, name.lower())


def _parts(stream: Stream) -> tuple[bytes, int, str]:
    """Source, queue number and name of a stream, the inverse of :func:`stream_of`."""
    source, queue = stream
    assert isinstance(queue, tuple)
    number, name = queue
    return source, number, name


def _key(source: bytes, number: int, name: str) -> str:
    return f"{_PREFIX}/{number}/{source.hex()}/{name.lower()}"


class RememberedStreams:
    """The progress of each stream, kept across restarts."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def restore(self, values: Mapping[str, Any]) -> dict[Stream, Progress]:
        """Restore the streams of an earlier run; those of queues that are gone are dropped."""
        stored: dict[Stream, Progress] = {}
        for key, value in values.items():
            if not key.startswith(_PREFIX + "/"):
                continue
            number, text, _ = key[len(_PREFIX) + 1 :].split("/", 2)
            queue = self._core.queues.get(int(number))
            if queue is None:
                self._core.ledger.drop_value(key)
                continue
            *progress, name = value
            source = bytes.fromhex(text)
            reached = stored[stream_of(source, queue, name)] = Progress(*progress)
            self.show(source, queue, name, reached)
        return stored

    def write(self, source: bytes, queue: Queue, name: str, reached: Progress) -> None:
        """Store the progress of a stream, inside the event that puts the messages into their queue."""
        self._core.ledger.put_value(_key(source, queue.number, name), [*reached, name])

    def write_rejected(self, stream: Stream, reached: Progress) -> None:
        """Store how many messages were not accepted, in an event of its own. Skipped on a full disk."""
        source, number, name = _parts(stream)
        queue = self._core.queues.get(number)
        info = None if queue is None else queue.incoming.get((source, name))
        if queue is None or info is None:
            return
        try:
            with self._core.event(_VALUE_BYTES + _CHARACTER_BYTES * len(name), 1):
                self.write(source, queue, info.format_name, reached)
        except MessageStorageFailedError:
            pass

    def drop_if_gone(self, stream: Stream) -> bool:
        """Forget a stream if its queue is gone. Returns whether it is."""
        source, number, name = _parts(stream)
        if number in self._core.queues:
            return False
        self._core.ledger.drop_value(_key(source, number, name))
        return True

    def show(self, source: bytes, queue: Queue, name: str, progress: Progress) -> None:
        """Show the progress of a stream to management."""
        key = source, name.lower()
        info = queue.incoming.get(key)
        if info is None:
            info = queue.incoming[key] = IncomingTransactionalTransferInfo(name, source)
        info.sequence_identifier, info.sequence_number = progress[:2]
        info.reject_count, info.last_access_time = progress[2:]

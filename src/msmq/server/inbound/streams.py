"""Incoming transactional streams, made durable and shown: IncomingTransactionalTransferInfo (MS-MQDMPR 3.1.1.5).

A stream is one value of the ledger, written with the messages that brought it further. A sender that has two names for
a queue sends two sequences, each with numbers of its own; so a stream is known by the name too, in whatever letters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msmq.manager.core import Core
from msmq.manager.model import IncomingTransactionalTransferInfo
from msmq.manager.queues.queue import Queue
from msmq.transfer.order_receiver import Progress, Stream

_PREFIX: Final = "transfer/incoming"


def stream_of(source: bytes, queue: Queue, name: str) -> Stream:
    """The stream of a queue manager into a queue, for which it has this name."""
    return source, (queue.number, name.lower())


class RememberedStreams:
    """How far each stream has come, over restarts."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def restore(self, values: Mapping[str, Any]) -> dict[Stream, Progress]:
        """The streams of an earlier run; those of queues that are no more are dropped."""
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
        """Part of the event that put the messages into their queue, and of its reservation."""
        key = f"{_PREFIX}/{queue.number}/{source.hex()}/{name.lower()}"
        self._core.ledger.put_value(key, [*reached, name])

    def show(self, source: bytes, queue: Queue, name: str, progress: Progress) -> None:
        """What management sees."""
        key = source, name.lower()
        info = queue.incoming.get(key)
        if info is None:
            info = queue.incoming[key] = IncomingTransactionalTransferInfo(name, source)
        info.sequence_identifier, info.sequence_number = progress[:2]
        info.reject_count, info.last_access_time = progress[2:]

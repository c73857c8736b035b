"""Single reads of the manager's simulator that wait for a message: in a transaction, in two phases, or to look at it.

They wait for some time or for ever. A message that comes is theirs within the event that brings it; otherwise they end
when the time is up, with their transaction, or when somebody cancels them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import Final

from msmq.errors import (
    IoTimeoutError,
    OperationCancelledError,
    QueueNotAvailableError,
    TransactionSequenceError,
)
from msmq.manager.messages.readers import INFINITE
from msmq.manager.model import OperationType
from msmq.manager.queues.queue import OpenQueueDescriptor, ReadResult
from msmq.store import StoreFullError
from msmq.testing.manager_book import Held
from msmq.testing.manager_model import Operation, Work
from msmq.testing.manager_readers import Readers

MOST_WAITS: Final = 6


@dataclass(eq=False, slots=True)
class Wait:
    """A read that waits for a message, or has got its answer."""

    path: str
    descriptor: OpenQueueDescriptor
    tag: int
    deadline: float
    work: Work | None = None
    peeks: bool = False
    results: list[ReadResult] = field(default_factory=list)


class Waits(Readers):
    """A queue manager with reads that wait."""

    def __init__(self, rng: Random) -> None:
        self.waits: list[Wait] = []
        self._tags = count(1)
        super().__init__(rng)

    def _start(self) -> None:
        self.waits.clear()
        super()._start()

    def wait_to_hold(self) -> None:
        """Wait for a message to read it in two phases."""
        self._begin(self.manager.reading.dequeue_begin)

    def wait_in_transaction(self) -> None:
        """Wait for a message to receive it in a transaction."""
        work = self._any_work()
        if work is not None:
            transaction = self.manager.transactions.find(work.identifier)
            self._begin(partial(self.manager.reading.dequeue, transaction=transaction), work)

    def wait_to_look(self) -> None:
        """Wait for a message to look at it."""
        self._begin(self.manager.reading.peek, peeks=True)

    def _begin(self, read: Callable[..., None], work: Work | None = None, *, peeks: bool = False) -> None:
        """Wait in a queue, or in a journal or subqueue, where there is no message now."""
        drawn = (self._any_place(transactional=True if work else None) for _ in range(8))
        empty = [path for path in drawn if path is not None and not self._readable(path, peek=peeks)]
        if not empty or len(self.waits) >= MOST_WAITS:
            return
        path, timeout_s = empty[0], self.rng.choice((5.5, 50.5, INFINITE))
        wait = Wait(path, self._descriptor(path), next(self._tags), self.now + timeout_s, work, peeks)
        self.waits.append(wait)
        read(wait.descriptor, wait.results.append, timeout_s=timeout_s, tag=wait.tag)
        assert not wait.results, "there was nothing"

    def cancel_wait(self) -> None:
        if self.waits:
            wait = self.rng.choice(self.waits)
            self.manager.reading.cancel(wait.descriptor, wait.tag)
            assert [result.status for result in wait.results] == [OperationCancelledError.code]
            self.waits.remove(wait)

    # --- what comes of it -----------------------------------------------------------------------------------

    def _any_work(self, *, promised: bool = False) -> Work | None:
        self._notice_what_came()
        return super()._any_work(promised=promised)

    def _notice_what_came(self) -> list[int]:
        unknown = super()._notice_what_came()
        for wait in [wait for wait in self.waits if wait.results]:
            (result,) = wait.results
            if result.position is None:
                continue
            lookup_id = result.position.lookup_id
            item = (self.current.messages | self.express).get(lookup_id)
            if item is None or item.place != wait.path or (lookup_id in self.held and not wait.peeks):
                unknown.append(lookup_id)
                continue
            assert result.message is not None
            assert bytes(result.message.packet.body) == item.text, "another message's body"
            self.waits.remove(wait)
            if wait.work is not None:
                wait.work.operations.append(Operation(OperationType.DEQUEUE, lookup_id, item))
                self.held[lookup_id] = Held()
            elif not wait.peeks:
                self.held[lookup_id] = Held(descriptor=wait.descriptor)
        return unknown

    def check(self) -> None:
        super().check()
        for wait in self.waits.copy():
            if wait.results:
                (result,) = wait.results
                self._check_end(wait, result.status)
                self.waits.remove(wait)
            else:
                assert wait.deadline > self.now, "its time is up"
                assert wait.work is None or not self._has_ended(wait.work), "its transaction has ended"
                assert not self._readable(wait.path), "one waits although there is a message"

    def _check_end(self, wait: Wait, status: int) -> None:
        """Check that a wait without a message has ended for a reason."""
        if status == IoTimeoutError.code:
            assert wait.deadline <= self.now, "it had more time"
        elif status == TransactionSequenceError.code:
            assert wait.work is not None
            assert self._has_ended(wait.work), "its transaction goes on"
        elif status == QueueNotAvailableError.code:
            assert wait.descriptor.queue is None, "the queue is still there"
        else:
            assert status == StoreFullError.code, hex(status)
            assert self.disk.capacity is not None, "there was space"

    def _has_ended(self, work: Work) -> bool:
        return work.promised or self.works.get(work.identifier) is not work

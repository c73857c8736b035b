"""Policies for messages that a reader rejects, or whose transaction is aborted: a pause before each retry, and a last
one.

A rejected message goes back to its place. A policy, the reader's own or that of the queue, may hide it there for a
while, so that others are read meanwhile, and may move it away after some failures: to a subqueue, or to the
dead-letter queue. The failure, the move and everything else that ends the read are one event.

Failures are counted from the message's arrival in its queue, or from the start of the queue manager: like AbortCount
of MSMQ they are not kept, and a restart ends all pauses. A policy of the queue is kept with it. A reader that leaves
has not rejected its messages: most of them it had only fetched in advance.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msmq.errors import IllegalPropertyValueError, MessageStorageFailedError
from msmq.manager.mailbox.positions import PositionState
from msmq.wire.classes import MessageClass

if TYPE_CHECKING:
    from msmq.manager.mailbox.mailbox import Mailbox
    from msmq.manager.queues.queue import Queue

_RECORDS_EACH = 2


class Retry(NamedTuple):
    """A policy; the default returns messages at once and for ever."""

    delay_ms: int = 0
    """How long a rejected message is hidden."""
    max_deliveries: int = 0
    """The number of failures after which a message is poison; 0 for never."""
    poison_subqueue: str = ""
    """The subqueue for poison; empty for the dead-letter queue of this computer."""

    def check(self) -> Retry:
        """Return the policy itself. Raises if the name of its subqueue is invalid."""
        name = self.poison_subqueue
        if name.lower() == "journal" or len(name) > 31 or any(letter in name for letter in ';\\/",+'):
            raise IllegalPropertyValueError(f"{name!r} is no name of a subqueue.")
        return self


NO_RETRY = Retry()


class Retries:
    """Rejections and pauses of all queues."""

    def __init__(self, mailbox: Mailbox, purge_reason: Callable[[Queue], MessageClass]) -> None:
        self._mailbox = mailbox
        self._purge_reason = purge_reason

    def reject(self, queue: Queue, ids: Sequence[int], policy: Retry | None) -> None:
        """Reject messages that a reader has locked. If the store refuses, nothing has changed."""
        policy = queue.retry if policy is None else policy
        core, mailbox = self._mailbox.core, self._mailbox
        failed = {one: queue.failures.get(one, 0) + 1 for one in ids} if policy.max_deliveries else {}
        poison = [one for one, count in failed.items() if count >= policy.max_deliveries]
        aborts = {one: queue.aborts.get(one, 0) + 1 for one in ids}
        before = {one: queue.aborts[one] for one in ids if one in queue.aborts}
        letters = mailbox.poison_bytes(queue, poison) if poison and not policy.poison_subqueue else 0
        queue.aborts.update(aborts)
        try:
            with core.event(letters, 2 + _RECORDS_EACH * len(ids), freeing=True):
                gone = self._take_away(queue, poison, policy)
                rest = [one for one in ids if one not in gone]
                queue.failures.update((one, failed[one]) for one in rest if one in failed)
                if policy.delay_ms:
                    self._pause(queue, rest, policy.delay_ms)
                elif rest:
                    mailbox.release(queue, rest)
        except MessageStorageFailedError:
            for one in ids:
                queue.aborts.pop(one, None)
            queue.aborts.update(before)
            raise

    def _take_away(self, queue: Queue, poison: Sequence[int], policy: Retry) -> set[int]:
        """Move poison out of its queue. Returns what was moved; messages without a place to go stay, and are tried
        again next time."""
        if not poison:
            return set()
        mailbox = self._mailbox
        if not policy.poison_subqueue:
            gone = mailbox.bury(queue, poison, MessageClass.NACK_RECEIVE_REJECTED)
        else:
            target = queue.root.subqueue_collection.get(policy.poison_subqueue.lower())
            gone = set(poison) if target is not None and target is not queue else set()
            if target is not None and gone:
                mailbox.move(queue, poison, target)
        queue.poisoned_total += len(gone)
        return gone

    def _pause(self, queue: Queue, ids: Sequence[int], delay_ms: int) -> None:
        core = self._mailbox.core
        queue.paused.update(ids)
        deadline = core.environment.now() + delay_ms / 1_000
        core.timers.start(deadline, partial(self._go_on, queue, array("Q", sorted(ids))))

    def _go_on(self, queue: Queue, ids: Sequence[int]) -> None:
        """End a pause: messages that are still there can be read again, unless they were purged meanwhile."""
        mailbox = self._mailbox
        positions = queue.positions.find([one for one in ids if one in queue.paused])
        pairs = list(zip(positions.ids, positions.states, strict=True))
        purged = [one for one, state in pairs if state == PositionState.PURGE_PENDING]
        free = [one for one, state in pairs if state != PositionState.PURGE_PENDING]
        letters = mailbox.letters_bytes(positions.sizes, positions.marks)
        with mailbox.core.event(letters, 1 + _RECORDS_EACH * len(pairs), freeing=True):
            mailbox.remove(queue, purged, self._purge_reason(queue))
            queue.paused.difference_update(ids)
            mailbox.release(queue, free)

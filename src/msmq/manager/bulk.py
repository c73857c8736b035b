"""Many plain messages at once: what posting.place does for each, for messages of one template in one event.

Nothing can come of such messages but that they stand in their queue: they are recoverable and for a queue of this host,
ask for no acknowledgment and no journal, never expire, and no reader waits for them. In a transaction they stand there
locked, and readers are none of its business before the commit. What is the same for all is asked once. Whoever finds
that a batch is not of this kind sends its messages one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from msmq.manager.core import Core
from msmq.manager.model import UNLIMITED
from msmq.manager.placing import NUMBERS_BYTES, RECOVERABLE, is_destination, marks_of
from msmq.manager.positions import PositionState
from msmq.manager.queue import Queue
from msmq.manager.sending import Sending
from msmq.manager.stored import ENVELOPE_SIZE, NO_ATTRIBUTES, envelope_at
from msmq.manager.template import Template
from msmq.manager.transactions import Transaction
from msmq.wire.delivery import late_for_queue
from msmq.wire.headers import INFINITE, USER_TH
from msmq.wire.properties.queue import within_quota

_ADMIN_QUEUE: Final = 7 << 13
_POSITIVE_JOURNALING: Final = 1 << 9
_OUT_OF_THE_ORDINARY: Final = USER_TH | _ADMIN_QUEUE | _POSITIVE_JOURNALING
"""Flags of a UserHeader after which more happens than that a message arrives; the first is that of a transaction."""


class Bulk:
    """Places messages of a template."""

    def __init__(self, core: Core, sending: Sending) -> None:
        self._core = core
        self._sending = sending

    def takes(self, queue: Queue, template: Template, transaction: Transaction | None = None) -> bool:
        """Whether messages of a template may come to a queue this way now. Those that ask for an acknowledgment, which
        a template does not say, must not."""
        core, sample = self._core, template.sample
        packet = sample.packet
        flags = packet.user.flags
        return bool(
            flags & RECOVERABLE
            and flags & _OUT_OF_THE_ORDINARY == (0 if transaction is None else USER_TH)
            and packet.user.time_to_be_received_s == INFINITE
            and template.local is NO_ATTRIBUTES
            and is_destination(queue)
            and (transaction is not None or self._nobody_listens(queue))
            and not late_for_queue(packet, core.now_s)
            and self._sending.judge(queue, sample) is None
        )

    def _nobody_listens(self, queue: Queue) -> bool:
        core = self._core
        return not (queue.waiting or core.told_of(queue) or core.told_arrived_unasked)

    def place(
        self,
        queue: Queue,
        template: Template,
        packets: Sequence[bytes],
        transaction: Transaction | None = None,
    ) -> list[int] | None:
        """Put packets of a template into a queue that :meth:`takes` them; gives their lookup identifiers. None, and
        nothing has happened, when there is no room for all of them. Their sender's access was checked before."""
        core, positions = self._core, queue.positions
        size = sum(map(len, packets))
        machine_kb, queue_kb = core.record.queue_manager_quota_kb, queue.quota_kb
        if (
            core.throttled
            or (machine_kb != UNLIMITED and not within_quota(machine_kb, core.total_bytes, size))
            or (queue_kb != UNLIMITED and not within_quota(queue_kb, positions.total_bytes, size))
        ):
            return None
        core.reserve(size + len(packets) * (ENVELOPE_SIZE + NUMBERS_BYTES), 2 * len(packets))
        priority = 0 if queue.transactional else (7 - (template.sample.packet.base.flags & 7)) << 56
        lookup_ids = [number | priority for number in core.next_sequential_ids(len(packets))]
        now_s, sizes = core.now_s, list(map(len, packets))
        put = core.ledger.put_packets
        if transaction is None:
            marks = marks_of(template.sample.packet.user.flags)
            addresses = put(queue.number, lookup_ids, now_s, envelope_at(now_s), packets, marks)
            positions.add_run(lookup_ids, addresses, sizes, marks)
        else:
            name = transaction.identifier
            addresses = put(queue.number, lookup_ids, now_s, envelope_at(now_s), packets, 0, name)
            positions.add_run(lookup_ids, addresses, sizes, 0)
            positions.set_states(array("Q", lookup_ids), PositionState.LOCKED)
            self._sending.transactions.record_enqueues(transaction, queue, lookup_ids, addresses, sizes)
        core.total_bytes += size
        return lookup_ids

"""Tests on format names that other rooms make before they act on one."""

from __future__ import annotations

from enum import Enum

from msmq.wire.names.common import QueueKind, SuffixType
from msmq.wire.names.direct import DirectName
from msmq.wire.names.format_name import (
    ConnectorName,
    DistributionListName,
    FormatName,
    MachineName,
    MulticastName,
    MultipleElementName,
)


class QueueTarget(Enum):
    """The queue that a name opens, by its kind and suffix (MS-MQMQ 2.2.11)."""

    QUEUE = "the queue itself"
    QUEUE_JOURNAL = "the journal of the queue"
    SUBQUEUE = "a subqueue"
    MACHINE = "a computer, but none of its queues"
    MACHINE_JOURNAL = "the journal of the computer"
    DEAD_LETTER = "the dead-letter queue of the computer"
    TRANSACTIONAL_DEAD_LETTER = "the transactional dead-letter queue of the computer"
    CONNECTOR = "a connector queue"
    TRANSACTIONAL_CONNECTOR = "the transactional connector queue"
    MANY = "several queues: a list, a distribution list or a multicast group"


_READ_ONLY = frozenset(
    {
        QueueTarget.QUEUE_JOURNAL,
        QueueTarget.MACHINE_JOURNAL,
        QueueTarget.DEAD_LETTER,
        QueueTarget.TRANSACTIONAL_DEAD_LETTER,
    }
)

_MACHINE_TARGETS = {
    SuffixType.NONE: QueueTarget.MACHINE,
    SuffixType.JOURNAL: QueueTarget.MACHINE_JOURNAL,
    SuffixType.DEADLETTER: QueueTarget.DEAD_LETTER,
    SuffixType.DEADXACT: QueueTarget.TRANSACTIONAL_DEAD_LETTER,
}


def target_of(name: FormatName) -> QueueTarget:
    """Return which queue ``name`` opens."""
    match name:
        case MultipleElementName() | DistributionListName() | MulticastName():
            return QueueTarget.MANY
        case DirectName(kind=QueueKind.SYSTEM) | MachineName():
            return _MACHINE_TARGETS[name.suffix]
        case ConnectorName():
            transactional = name.suffix is SuffixType.XACTONLY
            return QueueTarget.TRANSACTIONAL_CONNECTOR if transactional else QueueTarget.CONNECTOR
    if name.suffix is SuffixType.JOURNAL:
        return QueueTarget.QUEUE_JOURNAL
    if isinstance(name, DirectName) and name.subqueue is not None:
        return QueueTarget.SUBQUEUE
    return QueueTarget.QUEUE


def is_read_only(name: FormatName) -> bool:
    """True for queues to which nothing can be sent: journals and dead-letter queues."""
    return target_of(name) in _READ_ONLY

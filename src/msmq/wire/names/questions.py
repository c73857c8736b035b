"""What other rooms ask about a format name before they act on it."""

from __future__ import annotations

from enum import Enum

from msmq.errors import NoDsError
from msmq.wire.names.common import QueueKind, SuffixType
from msmq.wire.names.direct import DirectName
from msmq.wire.names.format_name import (
    ConnectorName,
    DistributionListName,
    FormatName,
    MachineName,
    MulticastName,
    MultipleElementName,
    SingleName,
)


class QueueTarget(Enum):
    """Which queue a name opens, by its kind and suffix (MS-MQMQ 2.2.11)."""

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
    """Which queue ``name`` opens."""
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
    """Whether nothing can be sent there: journals and dead-letter queues."""
    return target_of(name) in _READ_ONLY


def needs_directory(name: FormatName) -> bool:
    """Whether only the directory can say where ``name`` leads.

    Direct and multicast names carry their own address; every other kind carries a GUID. A caller that knows
    the GUID as its own answers by itself before it asks this. A list needs it when an element does.
    """
    if isinstance(name, MultipleElementName):
        return any(map(_needs_directory, name.elements))
    return _needs_directory(name)


def _needs_directory(name: SingleName) -> bool:
    return not isinstance(name, DirectName | MulticastName)


def check_without_directory(name: FormatName) -> None:
    """In workgroup mode: refuse a name that needs the directory with MQ_ERROR_NO_DS."""
    if needs_directory(name):
        raise NoDsError("Without a directory only direct and multicast names can be reached")

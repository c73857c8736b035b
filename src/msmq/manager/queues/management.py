"""The management properties of the queue manager and its queues (MS-MQMQ 2.3.11, 2.3.12).

Nothing is stored for them: each property is read from the live state on demand. A property that an object has no value
for, such as the connection of a local queue, reads as EMPTY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Final

from msmq.manager.core import Core
from msmq.manager.model import ConnectionStatus as Status
from msmq.manager.model import OutgoingState, QueueType
from msmq.manager.queues.queue import OutgoingQueue, Queue
from msmq.wire.guid import guid_from_text
from msmq.wire.management_text import NextHop, ds_server_text, history_address_text
from msmq.wire.names import (
    MachineName,
    MultipleElementName,
    PrivateName,
    PublicName,
    SuffixType,
    parse_format_name,
)
from msmq.wire.properties import ObjectType, check_array_sizes, lookup
from msmq.wire.properties.management import (
    Connected,
    ConnectionEvent,
    ConnectionStatus,
    EodSource,
    QueueState,
    connection_history,
    eod_source_info,
    known,
    next_hops,
    queue_location,
    queue_state,
    queue_type,
)
from msmq.wire.variant import VT, Value, Variant

MSMQ_TYPE: Final = "OpenMSMQ, behaving like MSMQ 6.0"

_STATES: Final = {
    OutgoingState.CONNECTED: QueueState.MGMT_QUEUE_STATE_CONNECTED,
    OutgoingState.DISCONNECTED: QueueState.MGMT_QUEUE_STATE_DISCONNECTED,
    OutgoingState.DISCONNECTING: QueueState.MGMT_QUEUE_STATE_DISCONNECTING,
    OutgoingState.INACTIVE: QueueState.MGMT_QUEUE_STATE_NONACTIVE,
    OutgoingState.NEED_VALIDATION: QueueState.MGMT_QUEUE_STATE_NEED_VALIDATE,
    OutgoingState.WAITING: QueueState.MGMT_QUEUE_STATE_WAITING,
    OutgoingState.ON_HOLD: QueueState.MGMT_QUEUE_STATE_ONHOLD,
    # There is no state for it: like a paused queue, it sends nothing until the operator acts.
    OutgoingState.LOCKED: QueueState.MGMT_QUEUE_STATE_ONHOLD,
}
_STATUSES: Final = dict(zip(Status, ConnectionStatus, strict=True))
"""Both enumerations have the same seventeen members in the same order, with different names."""


def machine_properties(core: Core, propids: Sequence[int]) -> tuple[Variant, ...]:
    """Management properties of the queue manager, in the order asked for."""
    check_array_sizes(ObjectType.MANAGEMENT_MACHINE, propids, propids)
    rows = [lookup(ObjectType.MANAGEMENT_MACHINE, propid) for propid in propids]
    return tuple(_variant(row.vt, _MACHINE[row.id](core)) for row in rows)


def queue_properties(core: Core, queue: Queue, propids: Sequence[int]) -> tuple[Variant, ...]:
    """Management properties of one queue, in the order asked for."""
    check_array_sizes(ObjectType.MANAGEMENT_QUEUE, propids, propids)
    rows = [lookup(ObjectType.MANAGEMENT_QUEUE, propid) for propid in propids]
    return tuple(_variant(row.vt, _queue_value(core, queue, row.id)) for row in rows)


def _variant(vt: int, value: Value | Variant) -> Variant:
    if isinstance(value, Variant):
        return value
    return Variant(VT.EMPTY) if value is None else Variant(vt, value)


def _queue_value(core: Core, queue: Queue, propid: int) -> Value | Variant:
    if propid in _ANY_QUEUE:
        return _ANY_QUEUE[propid](core, queue)
    if isinstance(queue, OutgoingQueue):
        read = _OUTGOING.get(propid)
        return None if read is None else read(queue)
    read_local = _LOCAL.get(propid)
    return None if read_local is None else read_local(queue)


# --- names --------------------------------------------------------------------------------------------------


def format_name(core: Core, queue: Queue) -> str:
    """The format name under which a queue can be opened."""
    if isinstance(queue, OutgoingQueue):
        return queue.destination_format_name
    host = core.record.identifier
    for suffix, system in (
        (SuffixType.DEADLETTER, core.dead_letter_queue),
        (SuffixType.DEADXACT, core.transactional_dead_letter_queue),
        (SuffixType.JOURNAL, core.journal_queue),
    ):
        if queue is system:
            return str(MachineName(host, suffix))
    root = queue.root
    suffix = SuffixType.JOURNAL if queue is root.journal else SuffixType.NONE
    if queue is root or suffix is SuffixType.JOURNAL:
        if root.private_queue_number:
            return str(PrivateName(host, root.private_queue_number, suffix))
        if root.queue_type is QueueType.PUBLIC:
            return str(PublicName(root.identifier, suffix))
        if root.queue_type is QueueType.CONNECTOR:
            return root.pathname
    return f"DIRECT=OS:{queue.pathname}"


def _type(core: Core, queue: Queue) -> str:
    name = parse_format_name(format_name(core, queue))
    assert not isinstance(name, MultipleElementName)
    return queue_type(name)


# --- the queue manager --------------------------------------------------------------------------------------


def _active_queues(core: Core) -> tuple[str, ...]:
    return tuple(format_name(core, queue) for queue in core.queues.values() if queue.active)


def _private_queues(core: Core) -> tuple[str, ...]:
    return tuple(queue.pathname for queue in core.by_path.values() if queue.queue_type is QueueType.PRIVATE)


def _directory_server(core: Core) -> str | None:
    return ds_server_text(core.directory_server_list[0]) if core.directory_server_list else None


_MACHINE: Final[Mapping[int, Callable[[Core], Value]]] = {
    1: _active_queues,
    2: _private_queues,
    3: _directory_server,
    4: lambda core: Connected.MSMQ_CONNECTED if core.connection_active else Connected.MSMQ_DISCONNECTED,
    5: lambda core: MSMQ_TYPE,
    6: lambda core: core.total_bytes,
}

# --- queues -------------------------------------------------------------------------------------------------


def _bytes(size: int) -> int:
    """Limit a size to the 32 bits that the properties have."""
    return min(size, 0xFFFFFFFF)


def _connection(queue: Queue) -> str:
    if not isinstance(queue, OutgoingQueue):
        return queue_state(QueueState.MGMT_QUEUE_STATE_LOCAL, local=True, on_hold=False)
    state = _STATES[queue.state]
    return queue_state(state, local=False, on_hold=state is QueueState.MGMT_QUEUE_STATE_ONHOLD)


_ANY_QUEUE: Final[Mapping[int, Callable[[Core, Queue], Value | Variant]]] = {
    1: lambda core, queue: None if isinstance(queue, OutgoingQueue) else queue.pathname,
    2: format_name,
    3: _type,
    4: lambda core, queue: queue_location(not isinstance(queue, OutgoingQueue)),
    5: lambda core, queue: known(None if isinstance(queue, OutgoingQueue) else queue.transactional),
    6: lambda core, queue: known(None if isinstance(queue, OutgoingQueue) else core.record.foreign_system),
    7: lambda core, queue: len(queue.positions),
    8: lambda core, queue: _bytes(queue.total_bytes),
    9: lambda core, queue: len(queue.journal.positions) if queue.journal else 0,
    10: lambda core, queue: _bytes(queue.journal.total_bytes) if queue.journal else 0,
    11: lambda core, queue: _connection(queue),
}


def _sources(queue: Queue) -> Variant:
    return eod_source_info(
        [
            EodSource(
                source.format_name,
                source.sender_identifier,
                source.sequence_identifier,
                source.sequence_number,
                source.last_access_time,
                source.reject_count,
            )
            for source in queue.incoming.values()
        ]
    )


def _subqueue_names(queue: Queue) -> tuple[str, ...]:
    return tuple(sub.pathname.rpartition(";")[2] for sub in queue.subqueue_collection.values())


_LOCAL: Final[Mapping[int, Callable[[Queue], Value | Variant]]] = {
    24: _sources,
    26: lambda queue: len(queue.subqueue_collection),
    27: _subqueue_names,
}


def _hop(text: str) -> NextHop:
    """A next hop from its text in routing: an IP address, or the GUID of a foreign site."""
    try:
        return ip_address(text)
    except ValueError:
        return guid_from_text(text)


def _next_hops(queue: OutgoingQueue) -> Variant:
    """The next hops; while connected, only the address of the connection."""
    hops = [_hop(text) for text in queue.next_hops or ()]
    connected = None
    if queue.state is OutgoingState.CONNECTED and queue.connection_history:
        addresses = queue.connection_history[-1].address_list
        connected = _hop(addresses[0]) if addresses else None
    return next_hops(hops, connected)


def _history(queue: OutgoingQueue) -> Variant:
    return connection_history(
        [
            ConnectionEvent(
                _STATUSES[entry.status],
                entry.connection_history_time,
                entry.error - (1 << 32) if entry.error >= 1 << 31 else entry.error,
                tuple(map(history_address_text, entry.address_list)),
            )
            for entry in queue.connection_history
        ]
    )


_OUTGOING: Final[Mapping[int, Callable[[OutgoingQueue], Value | Variant]]] = {
    12: _next_hops,
    13: lambda queue: queue.transfer_info.eod_last_ack.encode(),
    14: lambda queue: queue.transfer_info.eod_last_ack_time,
    15: lambda queue: queue.transfer_info.eod_last_ack_count,
    16: lambda queue: queue.transfer_info.eod_first_non_ack.encode(),
    17: lambda queue: queue.transfer_info.eod_last_non_ack.encode(),
    18: lambda queue: queue.transfer_info.eod_next_seq.encode(),
    19: lambda queue: queue.transfer_info.eod_no_read_count,
    20: lambda queue: queue.transfer_info.eod_no_ack_count,
    21: lambda queue: queue.transfer_info.eod_resend_time,
    22: lambda queue: queue.transfer_info.eod_resend_interval_s,
    23: lambda queue: queue.transfer_info.eod_resend_count,
    25: _history,
}

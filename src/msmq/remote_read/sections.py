"""A stored message as remote read sends it (MS-MQRR 2.2.5, 3.1.4.7): the packet and its trailers, cut into sections."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msmq.manager.mailbox.positions import PositionState
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.transactions import TransactionalOperation, Transactions
from msmq.manager.queues.queue import Queue
from msmq.wire.sections import Section, SectionType, split_sections
from msmq.wire.trailers import (
    HOST_ADDRESS_SIZE,
    DeadLetterHeader,
    ExtendedAddressHeader,
    ExtensionHeader,
    SubqueueHeader,
    remotely_read,
)

_FULL_PACKET: Final = int(SectionType.FULL_PACKET)
_NAME_CHARACTERS: Final = 31
"""What fits into the header; a longer name of a subqueue is cut there, but nowhere else."""


def sections_of(
    queue: Queue, message: StoredMessage, transactions: Transactions, max_body: int, max_compound: int
) -> list[Section]:
    """The sections of a message for a reader that takes at most ``max_body`` bytes of its body."""
    packet = packet_of(queue, message, transactions)
    if max_body >= len(packet) <= max_compound:  # no section of it can be larger
        return [Section(_FULL_PACKET, len(packet), packet)]
    return split_sections(packet, max_body, max_compound)


def packet_of(queue: Queue, message: StoredMessage, transactions: Transactions) -> bytes:
    """The Message Packet (2.2.5). The stored message is not changed."""
    trailers = _trailers(queue, message, transactions)
    return remotely_read(message.packet, message.source) + trailers


def _trailers(queue: Queue, message: StoredMessage, transactions: Transactions) -> bytes:
    lookup_id, local = message.lookup_id, message.local
    aborts = queue.aborts.get(lookup_id, 0)
    moves, moved = queue.moves.get(lookup_id, (0, 0))
    operation = _operation(queue, lookup_id, transactions)
    target = ""
    acknowledgement_class = message.packet.message_class
    if operation is not None:
        target = subqueue_name(operation.target_queue) if operation.target_queue is not None else ""
        acknowledgement_class = operation.reasons.get(lookup_id, acknowledgement_class)
    return _encoded(
        aborts,
        moves,
        moved,
        subqueue_name(queue),
        target,
        acknowledgement_class,
        local.application_deadletter_queue,
        message.source,
    )


def subqueue_name(queue: Queue) -> str:
    """The name of a subqueue, or "" for any other queue."""
    parent = queue.parent
    if parent is None or queue is parent.journal:
        return ""
    return queue.pathname.rpartition(";")[2]


def _operation(queue: Queue, lookup_id: int, transactions: Transactions) -> TransactionalOperation | None:
    """The transactional operation that holds a message which may be peeked at nevertheless, or None."""
    if lookup_id not in queue.peekable_when_locked:
        return None
    if queue.position(lookup_id).state is PositionState.AVAILABLE:
        return None
    return operation_on(queue, lookup_id, transactions)


def operation_on(queue: Queue, lookup_id: int, transactions: Transactions) -> TransactionalOperation | None:
    """The operation of an open transaction on a message, or None."""
    for transaction in transactions.collection.values():
        for operation in transaction.operations:
            if operation.queue is queue and lookup_id in operation.ids:
                return operation
    return None


@lru_cache(maxsize=256)
def _encoded(
    aborts: int,
    moves: int,
    moved: int,
    subqueue: str,
    target: str,
    acknowledgement_class: int,
    dead_letter_queue: str,
    source: bytes,
) -> bytes:
    """Encode all trailers. Cached, because nearly all messages of one sender have the same."""
    header = SubqueueHeader(abort_counter=aborts, move_counter=moves, last_move_time=moved)
    header.subqueue = subqueue[:_NAME_CHARACTERS]
    header.target_subqueue = target[:_NAME_CHARACTERS]
    header.acknowledgement_class = acknowledgement_class
    dead_letter = DeadLetterHeader(dead_letter_queue).write() if dead_letter_queue else b""
    extension = ExtensionHeader()
    extension.has_subqueue_header = extension.has_extended_address_header = 1
    extension.has_dead_letter_header = int(bool(dead_letter))
    address = ExtendedAddressHeader().encode()
    if source:
        address = address[:-HOST_ADDRESS_SIZE] + source
    behind = header.encode() + dead_letter + address
    extension.remaining_headers_size = len(behind)
    return extension.encode() + behind

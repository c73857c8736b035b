"""What a packet says about its own fate: which acknowledgments its sender asked for.

These are decisions on bytes alone; the queue manager and the transfer protocol ask for them at the moments that MS-MQQB
gives, and act on the answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text
from msmq.wire.headers import (
    MAX_PACKET_SIZE,
    USER_MQ,
    USER_RECOVERABLE,
    BaseHeader,
    QueueName,
    QueueReference,
    UserHeader,
)
from msmq.wire.layout import USER, asks_of, user_end, user_flags
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import DistributionListName, MQFElement

INSECURE_NACKS: Final = frozenset(
    {
        MessageClass.NACK_BAD_DST_Q,
        MessageClass.NACK_BAD_ENCRYPTION,
        MessageClass.NACK_BAD_SIGNATURE,
        MessageClass.NACK_ACCESS_DENIED,
        MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER,
    }
)
"""Refusals that tell a stranger something about this host; they are sent only if the operator allows it."""

_INTERNAL_QUEUES: Final = (
    "\\private$\\admin_queue$",
    "\\private$\\notify_queue$",
    "\\private$\\order_queue$",
    "\\00000004",  # the order queue by its number
)
"""How the names of queues end that queue managers keep for themselves (MS-MQQB note 62)."""

MOST_TOLD: Final = 16
_MOST_TOLD_BYTES: Final = 2 * MAX_PACKET_SIZE
"""The most administration queues of a list that are told what became of a message, and the most bytes they get
together. A list may have thousands of queues, and a negative acknowledgment returns the body to each: without a
limit one packet from a stranger would make gigabytes here."""

_PA, _PR, _NA, _NR = 0x01, 0x02, 0x04, 0x08
_NEGATIVE: Final = _NA | _NR
_ADMIN: Final = UserHeader.mask("admin_reference")
_FLAGS: Final = USER["flags"]
_HOSTS: Final = slice(BaseHeader.SIZE, USER["time_to_be_received_s"])
"""SourceQueueManager and QueueManagerAddress."""
_SOURCE: Final = slice(BaseHeader.SIZE, BaseHeader.SIZE + 16)
_MESSAGE_ID: Final = slice(USER["message_id"], USER["message_id"] + 4)


class Acknowledgment(NamedTuple):
    """An administration acknowledgment to be sent, as far as the original packet decides about it.

    Queues are format names as text: a packet may carry a direct name that our parser rejects.
    """

    message_class: int
    destinations: tuple[str, ...]
    """The administration queue, or those that are told if a multiple-element name lists several; empty if the packet
    does not say on which host it is."""
    response: str | None
    correlation_id: bytes
    recoverable: bool
    body: bytes
    untold: int = 0
    """The number of administration queues that are not told, because the list is too long."""


@lru_cache(maxsize=256)
def _bit_for(fate: int) -> int:
    """Return the bit of MessagePropertiesHeader.Flags that asks to be told of a fate; 0 if it is not the fate of a
    message."""
    if fate == MessageClass.ACK_REACH_QUEUE:
        return _PA
    if fate == MessageClass.ACK_RECEIVE:
        return _PR
    return {0x8000: _NA, 0xC000: _NR}.get(fate & 0xC000, 0)


def wants(message: UserMessage, fate: int) -> bool:
    """True if the sender asked to be told of this fate (MessagePropertiesHeader.Flags)."""
    return bool(message.asks & _bit_for(fate))


def acknowledgments(
    messages: Iterable[UserMessage], fate: int, *, send_insecure_nacks: bool = False
) -> list[Acknowledgment]:
    """Make the acknowledgments for messages that meet ``fate``, as far as their senders are owed any.

    An acknowledgment answers a packet that asks for it and names an admin queue (MS-MQQB 3.1.7.15). Acknowledgments are
    never acknowledged themselves, nor are messages to the internal queues of queue managers. A negative one returns the
    body, unless that travelled encrypted or should have.
    """
    due: list[Acknowledgment] = []
    if fate in INSECURE_NACKS and not send_insecure_nacks:
        return due
    bit, message_class = _bit_for(fate), int(fate)
    for message in messages:
        data = message.data
        (flags,) = user_flags(data)
        if not flags & _ADMIN:
            continue
        end = user_end(data, flags)
        if not asks_of(data, end) & bit:
            continue
        names = _names(data[_HOSTS], data[_FLAGS:end])
        if names.internal:
            continue
        admin, body, untold = names.admin, b"", 0
        if bit & _NEGATIVE:
            secret = message.properties.privacy_level or (
                message.security is not None and message.security.body_encrypted
            )
            body = b"" if secret else message.body
        if flags & USER_MQ and (lists := message.multi_queue) is not None and lists.administration.elements:
            listed = tuple(dict.fromkeys(map(element_name, lists.administration.elements)))
            admin = listed[: min(MOST_TOLD, _MOST_TOLD_BYTES // (end + len(body)))]
            untold = len(listed) - len(admin)
        original, recoverable = data[_SOURCE] + data[_MESSAGE_ID], bool(flags & USER_RECOVERABLE)
        due.append(
            Acknowledgment(message_class, admin, names.destination, original, recoverable, body, untold)
        )
    return due


def largest_answers(packet_size: int) -> int:
    """Return the most bytes that the names and bodies in all acknowledgments of a message to a list of queues may
    take.
    """
    return min(MOST_TOLD * packet_size, _MOST_TOLD_BYTES)


class _Names(NamedTuple):
    """The queues that a UserHeader names, as format names."""

    destination: str | None
    internal: bool
    """True if the destination is an internal queue of a queue manager."""
    admin: tuple[str, ...]


@lru_cache(maxsize=1024)
def _names(hosts: bytes, references: bytes) -> _Names:
    """Read the names of a UserHeader with these GUIDs, flags and the bytes that follow the flags. They are cached,
    because nearly all messages of a sender have the same."""
    times_and_number = bytes(USER["flags"] - USER["time_to_be_received_s"])
    user, _ = UserHeader.read(hosts + times_and_number + references)
    destination = format_name(user, user.destination_reference, user.destination_queue)
    internal = destination is not None and destination.lower().endswith(_INTERNAL_QUEUES)
    admin = format_name(user, user.admin_reference, user.admin_queue)
    return _Names(destination, internal, () if admin is None else (admin,))


def element_name(element: MQFElement) -> str:
    """Return the format name of one element of a multi-queue list."""
    if isinstance(element, str):
        return f"DIRECT={element}"
    if isinstance(element, bytes):
        return f"PUBLIC={guid_text(element)}"
    if isinstance(element, DistributionListName):
        return f"DL={guid_text(element.identifier)}"
    return f"PRIVATE={guid_text(element.source_queue_manager)}\\{element.private_queue_identifier:08X}"


def format_name(user: UserHeader, reference: int, name: QueueName) -> str | None:
    """Return the format name that a UserHeader means by one of its references; None if it names no queue."""
    if reference == QueueReference.SAME_AS_ADMIN:
        return format_name(user, user.admin_reference, user.admin_queue)
    if isinstance(name, str):
        return f"DIRECT={name}"
    if isinstance(name, bytes):
        return f"PUBLIC={guid_text(name)}"
    host = user.host_of(reference, name)
    if host is None or name is None:
        return None  # the packet does not say on which host the number is
    number = name if isinstance(name, int) else name.private_queue_identifier
    return f"PRIVATE={guid_text(host)}\\{number:08X}"

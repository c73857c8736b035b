"""What a packet says about its own fate: which acknowledgments its sender asked for.

These are decisions on bytes; the queue manager and the transfer protocol take them at the moments that
specification MS-MQQB gives and act on the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text
from msmq.wire.headers import QueueName, QueueReference, UserHeader
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
"""Refusals that tell a stranger about this host; they are sent only where the operator allows it."""

_INTERNAL_QUEUES: Final = (
    "\\private$\\admin_queue$",
    "\\private$\\notify_queue$",
    "\\private$\\order_queue$",
    "\\00000004",  # the order queue by its number
)
"""How the names of queues end that queue managers keep for themselves (MS-MQQB note 62)."""

_PA, _PR, _NA, _NR = 0x01, 0x02, 0x04, 0x08


@dataclass(frozen=True, slots=True)
class Acknowledgment:
    """An administration acknowledgment to be sent: everything the original packet decides about it.

    Names are format names as text: a packet may carry a direct name that no parser of ours accepts.
    """

    message_class: int
    destinations: tuple[str, ...]
    """The administration queue, or all of them when a multiple-element name lists several; none if the packet does not
    say on which host it is."""
    response: str | None
    correlation_id: bytes
    recoverable: bool
    body: bytes


def wants(message: UserMessage, fate: int) -> bool:
    """Whether the sender asked to be told of this fate (MessagePropertiesHeader.Flags)."""
    if fate == MessageClass.ACK_REACH_QUEUE:
        bit = _PA
    elif fate == MessageClass.ACK_RECEIVE:
        bit = _PR
    elif fate & 0xC000 == 0x8000:
        bit = _NA
    elif fate & 0xC000 == 0xC000:
        bit = _NR
    else:
        return False  # not the fate of a message
    return bool(message.properties.flags & bit)


def acknowledgment(
    message: UserMessage, fate: int, *, send_insecure_nacks: bool = False
) -> Acknowledgment | None:
    """What to send to the administration queue when ``fate`` befalls a message, or None when nothing is due.

    Acknowledgments answer a packet that asked for them and names an admin queue (MS-MQQB 3.1.7.15); they are never
    answered themselves, and neither is a message to a queue that is none of an application's. A negative one brings
    the body back unless it travelled encrypted, or was to.
    """
    user = message.user
    if not user.admin_reference or not wants(message, fate):
        return None
    destination = format_name(user, user.destination_reference, user.destination_queue)
    if destination is not None and destination.lower().endswith(_INTERNAL_QUEUES):
        return None
    if fate in INSECURE_NACKS and not send_insecure_nacks:
        return None
    positive = fate in (MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE)
    secret = message.properties.privacy_level or (
        message.security is not None and message.security.body_encrypted
    )
    return Acknowledgment(
        fate,
        _admin_queues(message),
        destination,
        message.identifier.encode(),
        message.recoverable,
        b"" if positive or secret else message.body,
    )


def _admin_queues(message: UserMessage) -> tuple[str, ...]:
    user = message.user
    lists = message.multi_queue
    if lists is not None and lists.administration.elements:
        return tuple(element_name(element) for element in lists.administration.elements)
    name = format_name(user, user.admin_reference, user.admin_queue)
    return () if name is None else (name,)


def element_name(element: MQFElement) -> str:
    """The format name of one element of a multi-queue list."""
    if isinstance(element, str):
        return f"DIRECT={element}"
    if isinstance(element, bytes):
        return f"PUBLIC={guid_text(element)}"
    if isinstance(element, DistributionListName):
        return f"DL={guid_text(element.identifier)}"
    return f"PRIVATE={guid_text(element.source_queue_manager)}\\{element.private_queue_identifier:08X}"


def format_name(user: UserHeader, reference: int, name: QueueName) -> str | None:
    """The format name a UserHeader means by one of its references, or None when it names no queue."""
    if reference == QueueReference.SAME_AS_ADMIN:
        return format_name(user, user.admin_reference, user.admin_queue)
    if isinstance(name, str):
        return f"DIRECT={name}"
    if isinstance(name, bytes):
        return f"PUBLIC={guid_text(name)}"
    host = user.host_of(reference, name)
    if host is None or name is None:
        return None  # a number on a host that the packet does not tell
    number = name if isinstance(name, int) else name.private_queue_identifier
    return f"PRIVATE={guid_text(host)}\\{number:08X}"

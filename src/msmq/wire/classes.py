"""Message class identifiers (MS-MQMQ 2.2.18.1.6) and what they say about a message's fate."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class MessageClass(IntEnum):
    """The class of a message: an application's message, a trace report, or an acknowledgment with its reason."""

    NORMAL = 0x0000
    REPORT = 0x0001
    ACK_REACH_QUEUE = 0x0002
    ORDER_ACK = 0x00FF
    ACK_RECEIVE = 0x4000
    NACK_BAD_DST_Q = 0x8000
    NACK_DELETED = 0x8001
    NACK_REACH_QUEUE_TIMEOUT = 0x8002
    NACK_Q_EXCEED_QUOTA = 0x8003
    NACK_ACCESS_DENIED = 0x8004
    NACK_HOP_COUNT_EXCEEDED = 0x8005
    NACK_BAD_SIGNATURE = 0x8006
    NACK_BAD_ENCRYPTION = 0x8007
    NACK_NOT_TRANSACTIONAL_Q = 0x8009
    NACK_NOT_TRANSACTIONAL_MSG = 0x800A
    NACK_UNSUPPORTED_CRYPTO_PROVIDER = 0x800B
    NACK_Q_DELETED = 0xC000
    NACK_Q_PURGED = 0xC001
    NACK_RECEIVE_TIMEOUT = 0xC002
    NACK_RECEIVE_REJECTED = 0xC004


APPLICATION_CLASS_MASK = 0xE1FF
"""The bits that a class of an application's own may use."""


def is_application_class(number: int) -> bool:
    """True if an application may send messages of this class."""
    return 0 <= number <= 0xFFFF and not number & ~APPLICATION_CLASS_MASK


def class_name(number: int) -> str | None:
    """Return the specification's name, or None for a number that it does not assign."""
    try:
        return "MQMSG_CLASS_" + MessageClass(number).name
    except ValueError:
        return None


_REASONS: Final = {
    MessageClass.NORMAL: "an ordinary message",
    MessageClass.REPORT: "a report on the way of another message",
    MessageClass.ACK_REACH_QUEUE: "the message has reached its queue",
    MessageClass.ORDER_ACK: "an acknowledgment between queue managers",
    MessageClass.ACK_RECEIVE: "the message was received",
    MessageClass.NACK_BAD_DST_Q: "the destination queue does not exist",
    MessageClass.NACK_DELETED: "the message was deleted by an administrator on its way",
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: "the message did not reach its queue in time",
    MessageClass.NACK_Q_EXCEED_QUOTA: "the destination queue is full",
    MessageClass.NACK_ACCESS_DENIED: "the sender may not send to this queue",
    MessageClass.NACK_HOP_COUNT_EXCEEDED: "the message passed through too many queue managers",
    MessageClass.NACK_BAD_SIGNATURE: "the signature is missing or wrong",
    MessageClass.NACK_BAD_ENCRYPTION: "the message could not be decrypted, or had to be encrypted",
    MessageClass.NACK_NOT_TRANSACTIONAL_Q: "a transactional message was sent to a queue that is not",
    MessageClass.NACK_NOT_TRANSACTIONAL_MSG: "a message without transaction was sent to a transactional queue",
    MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER: "the receiver does not have the cryptography it asks for",
    MessageClass.NACK_Q_DELETED: "the queue was deleted before the message was received",
    MessageClass.NACK_Q_PURGED: "the queue was purged before the message was received",
    MessageClass.NACK_RECEIVE_TIMEOUT: "the message was not received in time",
    MessageClass.NACK_RECEIVE_REJECTED: "the receiving application rejected the message",
}

_SENDER_REASONS: Final = {
    0x8008: "the sender's computer could not encrypt the message",
    0x800C: "the sender's computer has another identifier since",
    0xC003: "the message was not received in time, and never left the sender's computer",
}
"""Reasons on the sender's own computer, which the section does not list."""


def reason(number: int) -> str:
    """Say in words what a class tells about a message: the reason of a dead letter, or the content of an
    acknowledgment."""
    try:
        return _REASONS[MessageClass(number)]
    except (KeyError, ValueError):
        return _SENDER_REASONS.get(number, f"class {number:#06x}")

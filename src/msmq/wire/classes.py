"""Message class identifiers (MS-MQMQ 2.2.18.1.6) and what they say about a message's fate."""

from __future__ import annotations

from enum import IntEnum


class MessageClass(IntEnum):
    """Why a message exists: an application's, a trace report, or an acknowledgment and its reason."""

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
"""An application's own class may use only these bits."""


def is_application_class(number: int) -> bool:
    """Whether an application may put ``number`` on a message it sends."""
    return 0 <= number <= 0xFFFF and not number & ~APPLICATION_CLASS_MASK


def class_name(number: int) -> str | None:
    """The specification's name, or None for a number it does not assign."""
    try:
        return "MQMSG_CLASS_" + MessageClass(number).name
    except ValueError:
        return None

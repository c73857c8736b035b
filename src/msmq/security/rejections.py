"""Reasons to reject a message for its security, each with its negative acknowledgment.

These are not statuses of a call: nobody waits for them. The receiving session catches them, answers with
``message_class`` where the rules of MS-MQQB 3.1.5.8.3 demand it, and drops the message.
"""

from __future__ import annotations

from typing import ClassVar

from msmq.errors import MsmqError
from msmq.wire.classes import MessageClass


class MessageRejectedError(MsmqError):
    """A message failed a security check."""

    message_class: ClassVar[MessageClass]


class AuthenticationError(MessageRejectedError):
    """The signature, its algorithm or its certificate is not acceptable."""

    message_class = MessageClass.NACK_BAD_SIGNATURE


class UnsupportedProviderError(MessageRejectedError):
    """The signature comes from an unknown cryptographic provider."""

    message_class = MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER


class DecryptionError(MessageRejectedError):
    """The body cannot be decrypted.

    It has no reason on purpose: a sender who could tell a wrong key from wrong padding could use the difference to
    read other people's messages.
    """

    message_class = MessageClass.NACK_BAD_ENCRYPTION

    def __init__(self) -> None:
        super().__init__("the message body cannot be decrypted")


class CipherRefusedError(DecryptionError):
    """The policy of this host forbids decrypting the body. That follows from the headers alone, without using a key."""

    def __init__(self, reason: str) -> None:
        MessageRejectedError.__init__(self, reason)

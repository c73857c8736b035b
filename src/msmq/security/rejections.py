"""Why a message is turned away for its security: each reason has its negative acknowledgment.

These are not statuses of a call: nobody waits for them. The receiving session catches them, answers with
``message_class`` where the rules of MS-MQQB 3.1.5.8.3 ask for it, and drops the message.
"""

from __future__ import annotations

from typing import ClassVar

from msmq.errors import MsmqError
from msmq.wire.classes import MessageClass


class MessageRejectedError(MsmqError):
    """A message failed a security check."""

    message_class: ClassVar[MessageClass]


class AuthenticationError(MessageRejectedError):
    """The signature, its algorithm or its certificate is not good."""

    message_class = MessageClass.NACK_BAD_SIGNATURE


class UnsupportedProviderError(MessageRejectedError):
    """The signature comes from a cryptographic provider that is not known here."""

    message_class = MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER


class DecryptionError(MessageRejectedError):
    """The body cannot be decrypted.

    It takes no reason on purpose: a sender who could tell a wrong key from wrong padding could use the
    difference to read other people's messages.
    """

    message_class = MessageClass.NACK_BAD_ENCRYPTION

    def __init__(self) -> None:
        super().__init__("the message body cannot be decrypted")


class CipherRefusedError(DecryptionError):
    """The policy of this host does not let the body be decrypted; its headers alone say so, and no key was used."""

    def __init__(self, reason: str) -> None:
        MessageRejectedError.__init__(self, reason)

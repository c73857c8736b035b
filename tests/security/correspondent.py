"""Another queue manager as far as security goes: it signs and encrypts messages, well or badly, as a test asks."""

from __future__ import annotations

import os
from itertools import count
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from msmq.manager.access.certificates import register_certificate
from msmq.manager.messages.message import (
    AuthenticationLevel,
    DeliveryGuarantee,
    Message,
    SenderIdentifierType,
)
from msmq.manager.messages.serialize import serialize
from msmq.manager.model import User
from msmq.security.outbound import Sealer
from msmq.security.policy import CryptoPolicy
from msmq.security.sid import Sid
from msmq.security.signatures import HashPolicy, sign
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.message import UserMessage
from msmq.wire.signature import SignatureType, signature_input
from tests.security.samples import USER as USER_SID
from tests.security.samples import certificate, private_key

ALL_HASHES = frozenset(HashAlgorithm)
ALL_CIPHERS = frozenset(EncryptionAlgorithm)
PEER = bytes(range(0xA0, 0xB0))
SID = USER_SID.encode()
_numbers = count(1)  # shared: nobody gives a number twice
BITS = 1024
"""Enough for a SHA-512 signature, and quick to make."""

KINDS = {
    AuthenticationLevel.SIG10: SignatureType.MSMQ_1_0,
    AuthenticationLevel.SIG20: SignatureType.MSMQ_2_0,
    AuthenticationLevel.SIG30: SignatureType.MSMQ_3_0,
}


def lenient(**more: Any) -> CryptoPolicy:
    """A policy that takes everything old."""
    return CryptoPolicy(hashes=HashPolicy(accepted=ALL_HASHES), ciphers=ALL_CIPHERS, **more)


def user(sid: bytes = SID, *certificates: bytes, identifier: bytes = b"u" * 16) -> User:
    """A user of the directory with registered certificates."""
    made = User(identifier, sid)
    for number, one in enumerate(certificates or (certificate(BITS),)):
        register_certificate(made, one, number.to_bytes(16, "big"))
    return made


def sid_of(number: int) -> bytes:
    return Sid.parse(f"S-1-5-21-1-2-3-{number}").encode()


class Correspondent:
    """Makes packets from ``guid``; ``policy`` says with which algorithms it encrypts."""

    def __init__(self, guid: bytes = PEER, policy: CryptoPolicy | None = None) -> None:
        self.guid = guid
        self.sealer = Sealer(policy or lenient(), os.urandom)
        self._numbers = _numbers

    def message(
        self,
        destination: str,
        body: bytes = b"secret",
        *,
        sender: bytes = SID,
        sender_type: SenderIdentifierType = SenderIdentifierType.SID,
        level: AuthenticationLevel = AuthenticationLevel.NONE,
        key: RSAPrivateKey | None = None,
        certificate_: bytes | None = None,
        hash_algorithm: HashAlgorithm = HashAlgorithm.SHA512,
        privacy: PrivacyLevel = PrivacyLevel.NONE,
        public_keys: bytes = b"",
        now_ms: int = 0,
        **attributes: Any,
    ) -> UserMessage:
        """A complete packet: signed as ``level`` says, then encrypted for the owner of ``public_keys``."""
        if attributes.get("transaction_identifier") is not None:
            attributes["delivery_guarantee"] = DeliveryGuarantee.RECOVERABLE
        message = Message(
            body=body,
            destination_queue_format_name=destination,
            identifier=MessageIdentifier(self.guid, next(self._numbers)),
            sender_identifier=sender,
            sender_identifier_type=sender_type,
            authentication_level=level,
            hash_algorithm=hash_algorithm,
            privacy_level=privacy,
            **{"sent_time": 1_700_000_000, **attributes},
        )
        if level is not AuthenticationLevel.NONE:
            message.sender_certificate = certificate(BITS) if certificate_ is None else certificate_
            if level is AuthenticationLevel.SIG30 and not message.destination_multi_queue_format_name:
                message.destination_multi_queue_format_name = (destination,)
            made = sign(
                signature_input(serialize(message), KINDS[level]), key or private_key(BITS), hash_algorithm
            )
            if level is AuthenticationLevel.SIG30:
                message.multiple_destination_signature = made
            else:
                message.signature = made
        packet = serialize(message)
        if privacy is not PrivacyLevel.NONE:
            packet = self.sealer.seal(packet, lambda guid: public_keys, now_ms)
        return packet

"""Signatures, encryption and senders, with the directory behind them (MS-MQQB 3.1.5.8.3, 3.1.7.1.4, 3.1.7.1.5).

This brings :mod:`msmq.security`, which has no I/O, together with the keys of this queue manager, its directory, its
clock and its timers. Messages from a session and messages of local applications go through the same examination.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from msmq.errors import CertificateNotProvidedError, IllegalPropertyValueError
from msmq.manager.access.certificates import make_certificate
from msmq.manager.access.keys import KeyRing
from msmq.manager.core import Core, Timer
from msmq.manager.directory import (
    DirectoryEvents,
    DirectoryResult,
    Expression,
    Filter,
    ObjectClass,
    Relation,
    by_identifier,
)
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.message import AuthenticationLevel, Message, SenderIdentifierType, sender_sid
from msmq.manager.messages.serialize import serialize
from msmq.security.access import Token
from msmq.security.caches import AgingCache
from msmq.security.encryption import require_privacy_level
from msmq.security.inbound import Examiner
from msmq.security.outbound import Sealer, Signer
from msmq.security.policy import CryptoPolicy
from msmq.security.providers import ENHANCED_RSA_AES
from msmq.security.rejections import MessageRejectedError
from msmq.security.sid import EVERYONE
from msmq.wire.algorithms import PrivacyLevel
from msmq.wire.certificates import UserSignCerts
from msmq.wire.classes import MessageClass
from msmq.wire.headers import USER_MQ
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SecurityHeader, SenderIdType
from msmq.wire.signature import SignatureType

_SIGNATURES: Final = {
    AuthenticationLevel.SIG10: SignatureType.MSMQ_1_0,
    AuthenticationLevel.SIG20: SignatureType.MSMQ_2_0,
    AuthenticationLevel.SIG30: SignatureType.MSMQ_3_0,
}


_STRANGER: Final = Token.anonymous()
_EB: Final = 0x20  # SecurityHeader.Flags.EB: a plain test, for every message with a sender comes here


Reading = tuple[ObjectClass, Filter, tuple[str, ...]]
"""What to read from the directory: class, filter and attributes."""


def _certificates_of(security_id: bytes) -> Reading:
    wanted = (Expression("security_identifier", Relation.EQUALS, security_id),)
    return ObjectClass.USER, wanted, ("certificates",)


def _signing_keys_of(queue_manager: bytes) -> Reading:
    return ObjectClass.QUEUE_MANAGER, by_identifier(queue_manager), ("public_signing_key_list",)


def _encryption_keys_of(queue_manager: bytes) -> Reading:
    return ObjectClass.QUEUE_MANAGER, by_identifier(queue_manager), ("public_encryption_key_list",)


class Credentials:
    """Examines what arrives and protects what leaves."""

    def __init__(self, core: Core, directory: DirectoryEvents, policy: CryptoPolicy) -> None:
        self.core = core
        self.directory = directory
        self.policy = policy
        self.refused: Counter[MessageClass] = Counter()
        """How many messages were rejected, by the class that their senders may be told."""
        self.tell: Callable[[str], None] = lambda reason: None
        """Called with the reason of each rejection, for the log."""
        self._timer: Timer | None = None
        self._own: Signer | None = None
        self.use(KeyRing())

    def use(self, keys: KeyRing) -> None:
        """Take the keys of this queue manager, and empty all caches."""
        self._keys = keys
        self._own = None
        self.examiner = Examiner(self.policy, keys.decryption_keys())
        self.sealer = Sealer(self.policy, self.core.environment.random_bytes)

    # --- arriving -------------------------------------------------------------------------------------------

    def examine(self, message: StoredMessage) -> Token:
        """Decrypt and verify a message. Returns the token of its sender for an access check.

        The message is changed to the form that its queue keeps: with a clear body, and with the results of the
        examination. Raises `MessageRejectedError`, with the class its sender may be told.
        """
        packet = message.packet
        security = packet.security
        proof = security is not None and (
            security.signature_size or security.flags & _EB or packet.user.flags & USER_MQ
        )
        try:
            if security is None or not proof:
                require_privacy_level(packet.properties.privacy_level, False)
                # There is only a name, and nothing to prove it.
                return _STRANGER if security is None else self._token(security, False)
            found = self.examiner.examine(packet, self, self._now_ms)
        except MessageRejectedError as error:
            self.refused[error.message_class] += 1
            self.tell(f"{error.message_class.name}: {error}")
            raise
        self._watch()
        message.packet = found.packet
        if found.signature_type is not None or found.encrypted:
            # A local message has attributes already that must stay.
            message.local = message.local.changed(
                authentication_level=int(found.signature_type or 0),
                private=found.encrypted or message.local.private,
            )
        return self._token(security, found.proven)

    def _token(self, security: SecurityHeader, proven: bool) -> Token:
        """The token of a sender, who is anonymous until proven. The groups of a user are not known here."""
        kind = security.sender_id_type
        if not kind or not (proven or self.policy.believe_unsigned_senders):
            return _STRANGER
        sid = sender_sid(kind, security.security_id)
        return Token(EVERYONE, frozenset({EVERYONE})) if sid == EVERYONE else Token.authenticated(sid)

    def needed_for(self, packet: UserMessage) -> Reading | None:
        """What :meth:`examine` will read from the directory, or None."""
        security = packet.security
        if security is None or not (security.signature_size or packet.user.flags & USER_MQ):
            return None
        sender, certificate = security.security_id, security.sender_cert
        if not certificate or self.examiner.user_certs.get((certificate, sender)) is not None:
            return None
        if security.sender_id_type == SenderIdType.SID:
            return _certificates_of(sender)
        if security.sender_id_type == SenderIdType.QUEUE_MANAGER:
            return _signing_keys_of(sender)
        return None

    def needed_to_seal(self, packet: UserMessage) -> Reading | None:
        """What :meth:`seal` will read from the directory, or None."""
        destination = packet.user.queue_manager_address
        known = self.sealer.public_keys.get(destination) is not None
        return None if known else _encryption_keys_of(destination)

    def user_certificates(self, security_id: bytes) -> bytes | None:
        published = self._read(*_certificates_of(security_id))
        return self._users_here(security_id) if published is None else published

    def _users_here(self, security_id: bytes) -> bytes | None:
        """The certificates of a user whom the directory does not know, from the internal certificate that this host
        has made for them. So messages sent and received on this host can be signed without a directory."""
        internal = self.core.internal_certificates.get(security_id)
        if internal is None:
            return None
        registered = internal.user.certificates
        certificates = UserSignCerts.decode(registered) if registered else UserSignCerts()
        return certificates.register(internal.certificate, internal.user.identifier).encode()

    def signing_keys(self, queue_manager: bytes) -> bytes | None:
        return self._read(*_signing_keys_of(queue_manager))

    def encryption_keys(self, queue_manager: bytes) -> bytes | None:
        return self._read(*_encryption_keys_of(queue_manager))

    def _read(
        self, object_class: ObjectClass, conditions: Filter, attributes: tuple[str, ...]
    ) -> bytes | None:
        result, found = self.directory.read(object_class, conditions, attributes)
        if result is not DirectoryResult.SUCCESS or found is None:
            return None
        value: bytes = found.attributes[attributes[0]]
        return value

    # --- leaving --------------------------------------------------------------------------------------------

    def sign(self, message: Message, signer: Signer | None, *, as_manager: bool) -> Message:
        """Sign a message as its AuthenticationLevel asks (MS-MQQB 3.1.7.1.4).

        A message with a signature of its application's own is left as it is. With ``as_manager`` the queue manager
        signs what has no other signer, and is its sender.
        """
        level = message.authentication_level
        if level is AuthenticationLevel.NONE or message.signature or message.multiple_destination_signature:
            return message
        if level not in _SIGNATURES:
            raise IllegalPropertyValueError("XML signatures belong to messages sent over HTTP.")
        changes: dict[str, object] = {}
        if signer is None and as_manager:
            signer = self._own_signer()
            changes["sender_identifier"] = self.core.record.identifier
            changes["sender_identifier_type"] = SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER
        if signer is None:
            raise CertificateNotProvidedError("A signed message needs a certificate and its private key.")
        changes["sender_certificate"] = signer.certificate
        changes["hash_algorithm"] = signer.hash_algorithm
        if level is AuthenticationLevel.SIG30 and not message.destination_multi_queue_format_name:
            # The place of this signature is in the list of destinations, so there must be one.
            changes["destination_multi_queue_format_name"] = (message.destination_queue_format_name,)
        complete = replace(message, **changes)  # type: ignore[arg-type]  # names and types as in Message
        several = bool(complete.destination_multi_queue_format_name)
        kind = SignatureType.MSMQ_3_0 if several else _SIGNATURES[level]
        signature = signer.sign(serialize(complete), kind)
        if several:
            complete.multiple_destination_signature = signature
        else:
            complete.signature = signature
        return complete

    def _own_signer(self) -> Signer | None:
        """The signer for the queue manager itself, whose published keys the receiver compares with the certificate."""
        key = self._keys.sign.get(ENHANCED_RSA_AES)
        if self._own is None and key is not None:
            self._own = Signer(make_certificate(self.core, self.core.record.computer_name, key), key)
        return self._own

    def check_privacy(self, message: Message) -> None:
        """Refuse a message that could never be encrypted with the algorithms of this host."""
        self.policy.algorithm_for(PrivacyLevel(message.privacy_level), len(message.body))

    def seal(self, packet: UserMessage) -> bytes:
        """Encrypt the body of a message for its destination, and return its bytes. Raises MQError if that is
        impossible."""
        sealed = self.sealer.seal(packet, self.encryption_keys, self._now_ms)
        self._watch()
        return sealed.data

    # --- time -----------------------------------------------------------------------------------------------

    @property
    def _now_ms(self) -> int:
        return int(self.core.environment.now() * 1_000)

    @property
    def next_cleanup_ms(self) -> int | None:
        """The time of the next cleanup of a cache, or None."""
        running = (cache.deadline_ms for cache in self._caches if cache.deadline_ms is not None)
        return min(running, default=None)

    @property
    def _caches(self) -> tuple[AgingCache[Any, Any], ...]:
        examiner, sealer = self.examiner, self.sealer
        return (examiner.user_certs, examiner.symmetric_keys, sealer.symmetric_keys, sealer.public_keys)

    def _watch(self) -> None:
        deadline_ms = self.next_cleanup_ms
        if deadline_ms is not None and self._timer is None:
            self._timer = self.core.timers.start(deadline_ms / 1_000, self._clean)

    def _clean(self) -> None:
        self._timer = None
        for cache in self._caches:
            cache.handle_timer(self._now_ms)
        self._watch()

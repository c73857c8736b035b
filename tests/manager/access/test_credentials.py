"""Keys, certificates and their caches on a simulated clock: MS-MQQB 3.1.1.3, 3.1.2.10 to .13, 3.1.6.10 to .13."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from msmq.errors import CertificateNotProvidedError, UnsupportedFormatnameOperationError
from msmq.manager.access.keys import KEY_BITS, KeyRing
from msmq.manager.initialization import Settings
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.messages.message import AuthenticationLevel, Message
from msmq.manager.messages.serialize import serialize
from msmq.manager.model import QueueAccessType, QueueManagerRecord
from msmq.security.access import Token
from msmq.security.caches import AgingCache
from msmq.security.outbound import Signer
from msmq.security.providers import BASE
from msmq.security.rejections import MessageRejectedError
from msmq.wire.algorithms import HashAlgorithm, PrivacyLevel
from msmq.wire.guid import guid_text
from tests.manager.domain import SITE, DomainHost
from tests.manager.support import Host
from tests.security.correspondent import BITS, PEER, SID, Correspondent, lenient, sid_of, user
from tests.security.samples import certificate, private_key

SIG20 = AuthenticationLevel.SIG20
BASE_LEVEL, ADVANCED = PrivacyLevel.BASE, PrivacyLevel.ADVANCED
MINUTE = 60


class Receiver(DomainHost):
    """A host with a queue, to which a correspondent writes."""

    def __init__(self, **policy: Any) -> None:
        super().__init__(
            settings=Settings(directory_integrated=True, site_identifier=SITE, crypto=lenient(**policy))
        )
        self.directory.put(user())
        self.correspondent = Correspondent()
        self.orders = self.queue()
        self.examiner = self.manager.credentials.examiner
        self.sealer = self.manager.credentials.sealer
        self.name = (
            f"PRIVATE={guid_text(self.core.record.identifier)}\\{self.orders.private_queue_number:08X}"
        )

    def arrive(self, **attributes: Any) -> Token:
        """Examine a message; the body must come out as it was written."""
        packet = self.correspondent.message(
            self.name, public_keys=self.manager.keys.public_encryption_key_list(), **attributes
        )
        stored = StoredMessage(packet, LocalAttributes())
        token = self.manager.credentials.examine(stored)
        assert stored.packet.body == b"secret"
        return token

    def leave(self, destination: bytes = PEER, level: PrivacyLevel = ADVANCED) -> bytes:
        """Encrypt a message; gives the EncryptionKey it carries."""
        message = Message(
            body=b"secret",
            privacy_level=level,
            destination_queue_format_name=f"PRIVATE={guid_text(destination)}\\00000001",
        )
        self.manager.credentials.seal(serialize(message))
        return next(
            entry.encrypted_symmetric_key
            for entry in reversed(list(self.sealer.symmetric_keys))
            if entry.remote_qm_guid == destination and entry.symmetric_key.level is level
        )

    def publish(self, destination: bytes = PEER) -> None:
        self.directory.put(
            QueueManagerRecord(destination, destination.hex(), public_encryption_key_list=_peer_keys())
        )

    def user_reads(self) -> int:
        return [object_class.value for object_class in self.directory.asked("read") if object_class].count(
            "User"
        )


@cache
def _peer_keys() -> bytes:
    return KeyRing({name: private_key(bits) for name, bits in KEY_BITS.items()}).public_encryption_key_list()


@pytest.mark.spec("MQQB-3.1.3.1-c", "MQQB-3.1.3.1-d", "MQQB-3.1.3.1-e", "MQQB-3.1.1.3-f")
def test_after_start_the_caches_are_empty_and_have_their_sizes() -> None:
    host = DomainHost()
    credentials = host.manager.credentials
    examiner, sealer = credentials.examiner, credentials.sealer
    caches: list[tuple[AgingCache[Any, Any], int, int]] = [
        (examiner.user_certs, 53, 1_200_000),
        (examiner.symmetric_keys, 127, 600_000),
        (sealer.symmetric_keys, 53, 600_000),
    ]
    for kept, size, lifetime_ms in caches:
        assert (len(kept), kept.size, kept.lifetime_ms, kept.deadline_ms) == (0, size, lifetime_ms, None)
    assert credentials.next_cleanup_ms is None


@pytest.mark.spec("MQQB-3.1.5.8.3-k")
def test_the_54th_certificate_drops_the_26_oldest() -> None:
    host = Receiver()
    for number in range(54):
        host.directory.put(user(sid_of(number)))
        host.arrive(level=SIG20, sender=sid_of(number))
        host.now += 1
        assert len(host.examiner.user_certs) == (number + 1 if number < 53 else 28)
    kept = [entry.security_id for entry in host.examiner.user_certs]
    assert kept == [sid_of(number) for number in range(26, 54)]
    assert host.examiner.user_certs.deadline_ms == (int(host.now) - 54 + 20 * MINUTE) * 1_000


@pytest.mark.spec("MQQB-3.1.2.13-a", "MQQB-3.1.6.13-a", "MQQB-3.1.5.8.3-i")
def test_a_certificate_is_looked_up_again_after_twenty_minutes() -> None:
    host = Receiver()
    assert host.examiner.user_certs.deadline_ms is None
    for _ in range(3):
        assert host.arrive(level=SIG20).user.encode() == SID
    assert host.user_reads() == 1
    host.advance(20 * MINUTE)
    host.arrive(level=SIG20)
    assert host.user_reads() == 1
    host.directory.put(user(sid_of(5)))
    host.arrive(level=SIG20, sender=sid_of(5))
    assert host.user_reads() == 2
    host.advance(MINUTE + 1)
    assert len(host.examiner.user_certs) == 1, "the younger one is left"
    assert host.examiner.user_certs.deadline_ms is not None
    host.arrive(level=SIG20)
    assert host.user_reads() == 3
    host.advance(50 * MINUTE)
    host.advance(50 * MINUTE)
    assert len(host.examiner.user_certs) == 0
    assert host.manager.credentials.next_cleanup_ms is None


def test_a_certificate_that_was_taken_back_counts_until_it_is_forgotten() -> None:
    host = Receiver()
    host.arrive(level=SIG20)
    found = next(item for item in host.directory.objects if "certificates" in item.attributes)
    host.directory.objects.remove(found)
    host.arrive(level=SIG20)
    host.advance(20 * MINUTE)
    host.advance(MINUTE + 1)
    with pytest.raises(MessageRejectedError):
        host.arrive(level=SIG20)


@pytest.mark.spec("MQQB-3.1.5.8.3-s", "MQQB-3.1.1.3-c")
@pytest.mark.parametrize("level", [ADVANCED, BASE_LEVEL], ids=["advanced", "base"])
def test_the_128th_key_that_comes_drops_the_63_oldest(level: PrivacyLevel) -> None:
    """Keys of the base provider are kept with the others and bounded with them."""
    host = Receiver()
    for number in range(128):
        host.correspondent = Correspondent()  # a new session key each
        host.arrive(privacy=level)
        host.now += 1
        assert len(host.examiner.symmetric_keys) == (number + 1 if number < 127 else 65)
    assert host.examiner.symmetric_keys.deadline_ms == (int(host.now) - 128 + 10 * MINUTE) * 1_000


@pytest.mark.spec("MQQB-3.1.2.10-a", "MQQB-3.1.6.10-a")
@pytest.mark.parametrize("level", [ADVANCED, BASE_LEVEL], ids=["advanced", "base"])
def test_received_keys_are_forgotten_after_ten_minutes(level: PrivacyLevel) -> None:
    host = Receiver()
    assert host.examiner.symmetric_keys.deadline_ms is None
    host.arrive(privacy=level)
    start_ms = int(host.now) * 1_000
    assert host.examiner.symmetric_keys.deadline_ms == start_ms + 600_000
    host.advance(5 * MINUTE)
    host.correspondent = Correspondent()
    host.arrive(privacy=level)
    host.advance(5 * MINUTE)
    assert len(host.examiner.symmetric_keys) == 2
    assert host.examiner.symmetric_keys.deadline_ms == start_ms + 660_000
    host.advance(MINUTE)
    assert len(host.examiner.symmetric_keys) == 1
    assert host.examiner.symmetric_keys.deadline_ms == start_ms + 300_000 + 660_000
    host.advance(5 * MINUTE)
    assert (len(host.examiner.symmetric_keys), host.examiner.symmetric_keys.deadline_ms) == (0, None)


@pytest.mark.spec("MQQB-3.1.7.1.5-k", "MQQB-3.1.1.3-e")
@pytest.mark.parametrize("level", [ADVANCED, BASE_LEVEL], ids=["advanced", "base"])
def test_the_54th_key_for_sending_drops_the_26_oldest(level: PrivacyLevel) -> None:
    host = Receiver()
    for number in range(54):
        destination = bytes([number + 1]) * 16
        host.publish(destination)
        host.leave(destination, level)
        host.now += 1
        assert len(host.sealer.symmetric_keys) == (number + 1 if number < 53 else 28)
    assert host.sealer.symmetric_keys.deadline_ms == (int(host.now) - 54 + 10 * MINUTE) * 1_000
    assert {entry.crypto_service_provider for entry in host.sealer.symmetric_keys} == (
        {BASE} if level is BASE_LEVEL else {"Microsoft Enhanced RSA and AES Cryptographic Provider"}
    )


@pytest.mark.spec("MQQB-3.1.2.11-a", "MQQB-3.1.2.12-a", "MQQB-3.1.6.11-a", "MQQB-3.1.6.12-a")
@pytest.mark.parametrize("level", [ADVANCED, BASE_LEVEL], ids=["advanced", "base"])
def test_a_key_for_sending_is_used_for_ten_minutes(level: PrivacyLevel) -> None:
    host = Receiver()
    host.publish()
    assert host.sealer.symmetric_keys.deadline_ms is None
    blob = host.leave(level=level)
    start_ms = int(host.now) * 1_000
    assert host.sealer.symmetric_keys.deadline_ms == start_ms + 600_000
    host.advance(10 * MINUTE)
    assert host.leave(level=level) == blob
    assert host.sealer.symmetric_keys.deadline_ms == start_ms + 660_000
    host.advance(MINUTE)
    assert (len(host.sealer.symmetric_keys), host.sealer.symmetric_keys.deadline_ms) == (0, None)
    reads = len(host.directory.asked("read"))
    assert host.leave(level=level) != blob
    assert len(host.directory.asked("read")) == reads + 1, "the keys of the destination may be others by now"


def test_refusals_are_counted_and_told() -> None:
    host = Receiver()
    reasons: list[str] = []
    host.manager.credentials.tell = reasons.append
    with pytest.raises(MessageRejectedError):
        host.arrive(level=SIG20, certificate_=b"none")
    assert host.manager.credentials.refused.total() == 1
    assert len(reasons) == 1
    assert reasons[0].startswith("NACK_BAD_SIGNATURE: ")


def test_a_bare_sender_costs_nothing_and_is_nobody() -> None:
    host = Receiver()
    reads = len(host.directory.calls)
    assert host.arrive() == Token.anonymous()
    assert len(host.directory.calls) == reads


def test_only_the_signature_of_a_list_makes_one() -> None:
    """It has its place there; the others are in the SecurityHeader."""
    credentials = Host().manager.credentials
    signer = Signer(certificate(BITS), private_key(BITS), HashAlgorithm.SHA256)
    for level in (AuthenticationLevel.SIG10, SIG20, AuthenticationLevel.SIG30):
        message = Message(destination_queue_format_name="DIRECT=OS:host\\q", authentication_level=level)
        signed = credentials.sign(message, signer, as_manager=False)
        listed = level is AuthenticationLevel.SIG30
        assert bool(signed.multiple_destination_signature) == listed
        assert bool(signed.signature) == (not listed)
        assert signed.destination_multi_queue_format_name == (("DIRECT=OS:host\\q",) if listed else ())


@pytest.mark.spec("MQQB-3.1.7.1.4-c")
def test_the_queue_manager_signs_what_is_its_own_and_nothing_else() -> None:
    host = Receiver()
    message = Message(destination_queue_format_name=host.name, authentication_level=SIG20)
    with pytest.raises(CertificateNotProvidedError):
        host.manager.credentials.sign(message, None, as_manager=False)
    signed = host.manager.credentials.sign(message, None, as_manager=True)
    assert signed.sender_identifier == host.core.record.identifier
    signer = Signer(certificate(BITS), private_key(BITS), HashAlgorithm.SHA256)
    for as_manager in (False, True):
        given = host.manager.credentials.sign(message, signer, as_manager=as_manager)
        assert given.sender_certificate == signer.certificate
        assert given.sender_identifier != host.core.record.identifier
    descriptor = host.manager.queues.open(host.name, QueueAccessType.SEND)
    with pytest.raises(CertificateNotProvidedError):
        host.manager.posting.send(descriptor, message, caller=Token.anonymous())
    (sent,) = host.manager.posting.send(descriptor, message)
    assert sent.packet.security is not None
    assert sent.packet.security.signature
    kept = host.manager.mailbox.load(host.orders, sent.lookup_id)
    assert kept.local.authentication_level == SIG20, "what is signed here and stays here is examined as well"


def test_a_body_is_not_encrypted_for_somebody_unknown() -> None:
    host = Receiver()
    descriptor = host.manager.queues.open("DIRECT=OS:elsewhere\\private$\\orders", QueueAccessType.SEND)
    with pytest.raises(UnsupportedFormatnameOperationError):
        host.manager.posting.send(descriptor, Message(body=b"secret", privacy_level=ADVANCED))

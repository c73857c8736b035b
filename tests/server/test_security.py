"""Signatures and encryption over real sockets: MS-MQQB 3.1.5.8.3 as a hand-made peer sees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msmq.manager.access.keys import KeyRing
from msmq.manager.directory import Expression, ObjectClass, Relation
from msmq.manager.messages.message import AuthenticationLevel, SenderIdentifierType
from msmq.manager.messages.serialize import received
from msmq.manager.model import QueueManagerRecord, QueuePrivacyLevel
from msmq.manager.queues.queue import Queue
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.providers import ENHANCED_RSA_AES
from msmq.security.sid import ADMINISTRATORS, EVERYONE, Sid
from msmq.wire.access_masks import QueueAccessMask
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text
from msmq.wire.message import UserMessage
from tests.security.correspondent import BITS, PEER, SID, Correspondent, lenient, sid_of, user
from tests.security.samples import certificate, private_key
from tests.server.domain import domain
from tests.server.scene import PRIVACY_LEVEL, Scene, damaged_key, patched, scene
from tests.server.support import eventually

NONE, SIG10, SIG20, SIG30 = (
    AuthenticationLevel.NONE,
    AuthenticationLevel.SIG10,
    AuthenticationLevel.SIG20,
    AuthenticationLevel.SIG30,
)
BAD_SIGNATURE, BAD_ENCRYPTION = MessageClass.NACK_BAD_SIGNATURE, MessageClass.NACK_BAD_ENCRYPTION


# --- signatures ---------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "MQQB-3.1.5.8.3-b",
    "MQQB-3.1.5.8.3-c",
    "MQQB-3.1.5.8.3-d",
    "DMPR-3.1.7.1.31-h",
    "MQQB-3.1.1.3-a",
    "MQQB-3.1.1.3.4-a",
    "MQQB-3.1.5.8.3-i",
    "MQQB-3.1.5.8.3-j",
)
@pytest.mark.parametrize("level", [SIG10, SIG20, SIG30])
async def test_a_good_signature_is_believed_and_its_sender_looked_up_once(
    tmp_path: Path, level: AuthenticationLevel
) -> None:
    async with scene(tmp_path) as one:
        for body in (b"first", b"second"):
            packet = one.message(body=body, level=level)
            assert packet.security is not None
            assert packet.security.authentication_signature_type == packet.security.authenticated == 0
            await one.send(packet)
        assert one.told() == []
        first, second = one.alice.stored(one.orders)
        assert [received(first).authentication_level, received(second).authentication_level] == [level, level]
        assert [bytes(first.packet.body), bytes(second.packet.body)] == [b"first", b"second"]
        wanted = (Expression("security_identifier", Relation.EQUALS, SID),)
        users = [entry for entry in one.here.shared.filters if entry[0] is ObjectClass.USER]
        assert [conditions for _, conditions, _ in users] == [wanted]
        (kept,) = one.alice.manager.credentials.examiner.user_certs
        assert (kept.security_id, kept.user_cert.certificate) == (SID, certificate(BITS))
        assert kept.cached_time_ms <= one.alice.core.environment.now() * 1_000


@pytest.mark.spec("DMPR-6-d")
@pytest.mark.parametrize("algorithm", HashAlgorithm, ids=lambda algorithm: algorithm.name)
async def test_every_hash_is_verified_where_the_policy_names_it(
    tmp_path: Path, algorithm: HashAlgorithm
) -> None:
    async with scene(tmp_path) as one:
        one.correspondent = Correspondent(
            policy=lenient(
                preferred={
                    PrivacyLevel.BASE: EncryptionAlgorithm.RC2,
                }
            )
        )
        await one.send(one.message(level=SIG20, hash_algorithm=algorithm, privacy=PrivacyLevel.BASE))
        (stored,) = one.alice.stored(one.orders)
        assert stored.local.authentication_level == SIG20
        assert bytes(stored.packet.body) == b"secret"


@pytest.mark.parametrize("algorithm", sorted(set(HashAlgorithm) - {HashAlgorithm.SHA512}))
async def test_by_default_only_sha512_is_believed(tmp_path: Path, algorithm: HashAlgorithm) -> None:
    async with scene(tmp_path, accepted_hashes=("sha512",)) as one:
        await one.send(one.message(level=SIG20, hash_algorithm=algorithm))
        assert one.told() == [BAD_SIGNATURE]
        await one.send(one.message(level=SIG20))
        assert len(one.orders.positions) == 1


def _tampered(packet: UserMessage) -> UserMessage:
    data = bytearray(packet.data)
    data[packet.body_offset] ^= 1
    return UserMessage.route(bytes(data))


def _unknown_hash(packet: UserMessage) -> UserMessage:
    data = bytearray(packet.data)
    offset = packet.properties_offset + 44
    data[offset : offset + 4] = (0x9999).to_bytes(4, "little")
    return UserMessage.route(bytes(data))


def _wrong_signatures(one: Scene, how: str, **attributes: Any) -> UserMessage:
    if how in ("tampered", "unknown hash"):
        packet = one.message(level=SIG20, **attributes)
        return (_tampered if how == "tampered" else _unknown_hash)(packet)
    changes: dict[str, dict[str, Any]] = {
        "wrong key": {"key": private_key(2048)},
        "no certificate": {"certificate_": b""},
        "no X.509": {"certificate_": b"certificate"},
        "unknown certificate": {"key": private_key(2048), "certificate_": certificate(2048)},
        "unknown user": {"sender": sid_of(7)},
    }
    return one.message(level=SIG20, **changes[how], **attributes)


WRONG = ["tampered", "unknown hash", "wrong key", "no certificate", "no X.509", "unknown certificate"]
WRONG += ["unknown user"]


@pytest.mark.spec("MQQB-3.1.5.8.3-e", "MQQB-3.1.5.8.3-f", "MQQB-3.1.5.8.3-l")
@pytest.mark.parametrize("how", WRONG)
async def test_whatever_is_wrong_with_a_signature_is_a_bad_signature(tmp_path: Path, how: str) -> None:
    async with scene(tmp_path) as one:
        await one.send(_wrong_signatures(one, how))
        assert one.told() == [0x8006]
        one.peer.send(_wrong_signatures(one, how, transactional=True))
        await eventually(lambda: one.peer.final_acks == [0x8006])
        assert one.told() == [0x8006, 0x8006]
        assert len(one.orders.positions) == len(one.ordered.positions) == 0
        assert one.alice.manager.credentials.refused == {BAD_SIGNATURE: 2}


@pytest.mark.spec("MQQB-3.1.5.8.3-l")
async def test_a_directory_that_cannot_be_asked_proves_nobody(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        one.here.shared.connected = False
        await one.send(one.message(level=SIG20))
        assert one.told() == [0x8006]


async def test_refusals_are_not_told_to_strangers_by_default(tmp_path: Path) -> None:
    async with scene(tmp_path, send_insecure_nacks=False) as one:
        one.peer.send(_tampered(one.message(level=SIG20)))
        await one.send(one.message(level=SIG20, body=b"good"))
        assert one.told() == []
        assert one.alice.bodies(one.orders) == [b"good"]


async def test_a_message_sent_twice_is_taken_once(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        packet = one.message(level=SIG20, privacy=PrivacyLevel.ADVANCED)
        await one.send(packet)
        one.peer.send(packet)
        await one.send(one.message(level=SIG20, body=b"another"))
        assert one.alice.bodies(one.orders) == [b"secret", b"another"]


async def test_a_signature_without_a_sender_is_good_and_proves_nobody(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        await one.send(one.message(level=SIG20, sender=b""))
        (stored,) = one.alice.stored(one.orders)
        assert stored.local.authentication_level == SIG20
        assert one.here.shared.user_reads() == 0
        only(one.orders, Sid.decode(SID))
        await one.send(one.message(level=SIG20, sender=b""))
        assert one.told() == [MessageClass.NACK_ACCESS_DENIED]


async def test_an_unknown_provider_is_told_as_such(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        await one.send(one.message(level=SIG20, authentication_provider_name="Home-made Provider"))
        assert one.told() == [MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER]


def _refused_for_good(one: Scene, message_class: int) -> None:
    """Send a transactional message that is refused with a class, or that a class befalls in its queue."""
    attributes: dict[str, Any] = {"transactional": True}
    spoil: Callable[[UserMessage], UserMessage] = lambda packet: packet  # noqa: E731
    queues = one.alice.manager.queues
    if message_class == 0x8000:
        queues.delete(one.ordered)
    elif message_class == 0x8003:
        one.ordered.quota_kb = 0
    elif message_class == 0x8004:
        only(one.ordered, ADMINISTRATORS)
    elif message_class == 0x8006:
        attributes["level"], spoil = SIG20, _tampered
    elif message_class == 0x8007:
        attributes["privacy"], spoil = PrivacyLevel.ADVANCED, damaged_key
    elif message_class == 0x8009:
        one.ordered.transactional = False
    elif message_class == 0x800B:
        attributes |= {"level": SIG20, "authentication_provider_name": "Home-made Provider"}
    elif message_class == 0xC002:
        attributes["time_to_be_received_s"] = 1
    one.peer.send(spoil(one.message(final_ack_required=True, **attributes)))


@pytest.mark.spec("MQQB-2.2.5-h")
@pytest.mark.parametrize(
    "message_class",
    [0x8009, 0x8000, 0x8004, 0x8007, 0x800B, 0x8006, 0x8003, 0xC000, 0xC001, 0xC002],
    ids=hex,
)
async def test_each_way_to_fail_has_its_final_acknowledgment(tmp_path: Path, message_class: int) -> None:
    async with scene(tmp_path) as one:
        _refused_for_good(one, message_class)
        if message_class in (0xC000, 0xC001):
            await eventually(lambda: len(one.ordered.positions))
            queues = one.alice.manager.queues
            (queues.delete if message_class == 0xC000 else queues.purge)(one.ordered)
        await eventually(lambda: one.peer.final_acks)
        assert one.peer.final_acks == [message_class]


def only(queue: Queue, *sids: Sid, mask: int = QueueAccessMask.WRITE_MESSAGE) -> None:
    """Let only these write to a queue."""
    allowed = (Ace(AceType.ACCESS_ALLOWED, mask, sid) for sid in sids)
    queue.security = SecurityDescriptor(ADMINISTRATORS, ADMINISTRATORS, Acl.of(*allowed)).encode()


# --- what queues ask for, and who may send ------------------------------------------------------------------


async def test_queues_insist_on_signatures_and_encryption(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        one.orders.authentication = True
        await one.send(one.message())
        await one.send(one.message(level=SIG20))
        one.orders.privacy_level = QueuePrivacyLevel.BODY
        await one.send(one.message(level=SIG20))
        await one.send(one.message(level=SIG20, privacy=PrivacyLevel.ADVANCED))
        one.orders.privacy_level = QueuePrivacyLevel.NONE
        await one.send(one.message(level=SIG20, privacy=PrivacyLevel.ADVANCED))
        assert one.told() == [BAD_SIGNATURE, BAD_ENCRYPTION, BAD_ENCRYPTION]
        assert len(one.orders.positions) == 2


async def test_a_claim_of_encryption_is_not_encryption(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        one.orders.privacy_level = QueuePrivacyLevel.BODY
        await one.send(patched(one.message(), PRIVACY_LEVEL, PrivacyLevel.ADVANCED))
        assert one.told() == [BAD_ENCRYPTION]


@pytest.mark.parametrize("believing", [False, True])
async def test_a_sender_counts_when_a_signature_proves_them(tmp_path: Path, believing: bool) -> None:
    async with scene(tmp_path, believe_unsigned_senders=believing) as one:
        only(one.orders, Sid.decode(SID))
        await one.send(one.message(level=SIG20))
        assert one.told() == []
        await one.send(one.message())
        assert one.told() == ([] if believing else [MessageClass.NACK_ACCESS_DENIED])
        one.here.shared.put(user(sid_of(7)))
        await one.send(one.message(level=SIG20, sender=sid_of(7)))
        assert one.told()[-1] == MessageClass.NACK_ACCESS_DENIED, "proven to be somebody else"


@pytest.mark.spec("MQQB-3.1.5.8.3-m", "MQQB-3.1.5.8.3-z")
async def test_a_queue_manager_signs_with_a_key_it_has_published(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        key = private_key(1024)
        ring = KeyRing(sign={ENHANCED_RSA_AES: key})
        record = QueueManagerRecord(PEER, "PEER", public_signing_key_list=ring.public_signing_key_list())
        one.here.shared.put(record)
        mine: dict[str, Any] = {
            "sender": PEER,
            "sender_type": SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER,
            "level": SIG20,
        }
        only(one.orders, EVERYONE)
        await one.send(one.message(**mine))
        (stored,) = one.alice.stored(one.orders)
        assert stored.local.authentication_level == SIG20
        other = {"key": private_key(2048), "certificate_": certificate(2048)}
        await one.send(one.message(**mine | other))
        await one.send(one.message(**mine | {"sender": one.alice.guid}))  # not the one it comes from
        assert one.told() == [BAD_SIGNATURE, BAD_SIGNATURE]
        only(one.orders, Sid.decode(SID))
        await one.send(one.message(**mine))
        assert one.told()[-1] == MessageClass.NACK_ACCESS_DENIED, "queue managers are Everyone"


@pytest.mark.spec("MQQB-3.1.5.8.3-aa", "MQQB-3.1.5.8.3-ab")
async def test_a_sender_who_is_denied_is_refused(tmp_path: Path) -> None:
    """Everybody may send, but not this one; and who may do anything but send may not either."""
    async with scene(tmp_path) as one:
        denied, allowed = Sid.decode(SID), sid_of(7)
        one.here.shared.put(user(allowed))
        write, everything = QueueAccessMask.WRITE_MESSAGE, ~int(QueueAccessMask.WRITE_MESSAGE) & 0xF003F
        for queue in (one.orders, one.ordered):
            acl = Acl.of(
                Ace(AceType.ACCESS_DENIED, write, denied), Ace(AceType.ACCESS_ALLOWED, write, EVERYONE)
            )
            queue.security = SecurityDescriptor(ADMINISTRATORS, ADMINISTRATORS, acl).encode()
        await one.send(one.message(level=SIG20))
        assert one.told() == [0x8004]
        await one.send(one.message(level=SIG20, sender=allowed))
        assert len(one.orders.positions) == 1
        await one.send(one.message(level=SIG20, transactional=True))
        await eventually(lambda: one.peer.final_acks == [0x8004])
        assert not len(one.ordered.positions)
        only(one.orders, Sid.decode(allowed), mask=everything)
        await one.send(one.message(level=SIG20, sender=allowed))
        assert one.told()[-1] == 0x8004


@pytest.mark.spec("MQQB-3.1.1.3-j", "MQQB-3.1.1.3-k", "MQQB-3.1.3.1-f", "MQQB-3.1.3.1-g", "MQQB-3.1.3.1-h")
async def test_the_values_after_a_start(tmp_path: Path) -> None:
    async with domain(tmp_path) as here:
        alice = await here.member()
        policy, timers = alice.manager.credentials.policy, alice.config.timers
        assert not policy.send_enhanced_rc2_using_40_bit_keys
        assert not policy.reject_enhanced_rc2_using_40_bit_keys
        assert policy.symmetric_key_short_lifetime_ms == timers.symmetric_key_short_lifetime_ms == 600_000
        assert timers.symmetric_key_long_lifetime_ms == 43_200_000
        examiner, sealer = alice.manager.credentials.examiner, alice.manager.credentials.sealer
        caches = (examiner.symmetric_keys, sealer.symmetric_keys, sealer.public_keys)
        assert [cache.lifetime_ms for cache in caches] == [600_000] * 3
        assert policy.preferred == {
            PrivacyLevel.ADVANCED: 0x6610,
            PrivacyLevel.ENHANCED: 0x6801,
            PrivacyLevel.BASE: 0x6801,
        }


@pytest.mark.spec("MQQB-3.1.5.8.3-a")
async def test_what_is_not_for_this_host_is_not_examined(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        elsewhere = f"PRIVATE={guid_text(bytes(range(16)))}\\00000001"
        packet = one.correspondent.message(
            elsewhere, level=SIG20, privacy=PrivacyLevel.ADVANCED, public_keys=one.alice.public_keys
        )
        one.peer.send(_tampered(packet))
        await one.send(one.message(sender=b""))  # one without a SecurityHeader
        (stored,) = one.alice.stored(one.orders)
        assert stored.packet.security is None
        credentials = one.alice.manager.credentials
        assert not credentials.refused
        assert not len(credentials.examiner.symmetric_keys)
        assert one.here.shared.user_reads() == 0
        only(one.orders, ADMINISTRATORS)
        await one.send(one.message(sender=b""))
        assert one.told() == [MessageClass.NACK_ACCESS_DENIED], "a sender without a name is anonymous"

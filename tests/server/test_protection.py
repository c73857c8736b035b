"""What leaves a host signed and encrypted: MS-MQQB 3.1.7.1.4 and 3.1.7.1.5 on the wire, and between two daemons."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from msmq.errors import (
    CertificateNotProvidedError,
    ComputerDoesNotSupportEncryptionError,
    EncryptionProviderNotSupportedError,
    IllegalPropertyValueError,
    MessageNotAuthenticatedError,
    PublicKeyNotFoundError,
    UnsupportedFormatnameOperationError,
)
from msmq.manager.access.keys import KEY_BITS, KeyRing
from msmq.manager.mailbox.batch import Batch
from msmq.manager.messages.message import AuthenticationLevel, SenderIdentifierType
from msmq.manager.messages.serialize import received, serialize
from msmq.manager.model import ConnectionStatus, QueueManagerRecord, QueuePrivacyLevel
from msmq.manager.queues.queue import OutgoingQueue, Queue
from msmq.security.access import Token
from msmq.security.encryption import SessionKey, decrypt_body, unwrap_session_key
from msmq.security.keys import certificate_public_key, import_public_key
from msmq.security.outbound import Signer
from msmq.security.providers import BASE, ENHANCED, ENHANCED_RSA_AES, PRIVACY_PROVIDERS
from msmq.security.sid import Sid
from msmq.security.signatures import verify
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_text
from msmq.wire.keys import DSPublicKeys, SimpleBlob
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import ProviderInfo
from msmq.wire.signature import SignatureType, signature_input
from tests.security.correspondent import BITS, KINDS, PEER, SID
from tests.security.samples import certificate, private_key
from tests.server.domain import ALL_ALGORITHMS, Domain, DomainNode, domain, introduce
from tests.server.support import ALICE, BOB, Peer, eventually

NONE, SIG10, SIG20, SIG30 = (
    AuthenticationLevel.NONE,
    AuthenticationLevel.SIG10,
    AuthenticationLevel.SIG20,
    AuthenticationLevel.SIG30,
)
USER = Token.authenticated(Sid.decode(SID))
ELSEWHERE = f"PRIVATE={guid_text(PEER)}\\00000001"
BODY = b"nobody else is to read this " * 20


def signer() -> Signer:
    return Signer(certificate(BITS), private_key(BITS))


def peer_keys(*providers: str) -> dict[str, RSAPrivateKey]:
    """Keys of a peer; 512 bits for the base provider, as the specification has it."""
    return {provider: private_key(KEY_BITS[provider]) for provider in providers or KEY_BITS}


class Scene:
    """A daemon whose messages to one peer are seen as they come over the wire."""

    def __init__(self, here: Domain, alice: DomainNode) -> None:
        self.here = here
        self.alice = alice
        self.peer = Peer(PEER)

    def publish(self, *providers: str) -> KeyRing:
        ring = KeyRing(peer_keys(*providers))
        self.here.shared.put(
            QueueManagerRecord(PEER, "PEER", public_encryption_key_list=ring.public_encryption_key_list())
        )
        return ring

    async def sent(self, name: str = ELSEWHERE, **attributes: Any) -> UserMessage:
        """Send, and give what comes over the wire."""
        before = len(self.peer.messages)
        self.alice.post(name, **{"body": BODY, **attributes})
        await eventually(lambda: len(self.peer.messages) > before)
        return UserMessage.decode(self.peer.messages[before].with_session(None).data)

    @property
    def outgoing(self) -> OutgoingQueue:
        return self.alice.core.outgoing[ELSEWHERE.lower()]


@asynccontextmanager
async def scene(path: Path, **options: Any) -> AsyncIterator[Scene]:
    async with domain(path, **{**ALL_ALGORITHMS, **options}) as here:
        one = Scene(here, await here.member())
        await one.peer.connect(ALICE, here.port)
        yield one
        await one.peer.close()


def opened(packet: UserMessage, ring: KeyRing) -> tuple[SessionKey, bytes]:
    """Decrypt a packet, as its receiver does."""
    assert packet.security is not None
    properties = packet.properties
    key = unwrap_session_key(
        packet.security.encryption_key,
        properties.privacy_level,
        properties.encryption_algorithm,
        ring.decryption_keys(),
    )
    return key, decrypt_body(packet.body, key)


# --- signatures ---------------------------------------------------------------------------------------------


@pytest.mark.spec("MQQB-3.1.7.1.4-b", "DMPR-3.1.1.12-k", "DMPR-3.1.1.12-an")
@pytest.mark.parametrize("level", [SIG10, SIG20, SIG30])
async def test_a_message_carries_the_signature_that_was_asked_for(
    tmp_path: Path, level: AuthenticationLevel
) -> None:
    async with scene(tmp_path) as one:
        plain = await one.sent(caller=USER)
        assert plain.security is not None
        assert (plain.security.signature, plain.security.sender_cert, plain.multi_queue) == (b"", b"", None)
        packet = await one.sent(authentication_level=level, signer=signer(), caller=USER, label="signed")
        security = packet.security
        assert security is not None
        assert (security.security_id, security.sender_id_type) == (SID, SenderIdentifierType.SID)
        assert security.authenticated == security.authentication_signature_type == 0
        assert packet.properties.hash_algorithm == HashAlgorithm.SHA512
        key = certificate_public_key(security.sender_cert)
        assert key == private_key(BITS).public_key()
        lists = packet.multi_queue
        signature = lists.signature.signature if lists else security.signature
        assert bool(security.signature) == (level is not SIG30)
        good = [
            kind
            for kind in SignatureType
            if verify(signature_input(packet, kind), signature, key, HashAlgorithm.SHA512)
        ]
        assert good == [KINDS[level]]


@pytest.mark.spec("MQQB-3.1.7.1.4-a")
@pytest.mark.parametrize("level", [SIG10, SIG20, SIG30])
async def test_a_message_for_several_queues_is_signed_for_all_of_them(
    tmp_path: Path, level: AuthenticationLevel
) -> None:
    async with scene(tmp_path) as one:
        other = f"PRIVATE={guid_text(PEER)}\\00000002"
        one.alice.post(f"{ELSEWHERE},{other}", authentication_level=level, signer=signer(), caller=USER)
        await eventually(lambda: len(one.peer.messages) == 2)
        for message in one.peer.messages:
            packet = UserMessage.decode(message.with_session(None).data)
            assert packet.multi_queue is not None
            assert packet.security is not None
            assert packet.security.signature == b""
            assert len(packet.multi_queue.destination.elements) == 2
            text = signature_input(packet, SignatureType.MSMQ_3_0)
            signature = packet.multi_queue.signature.signature
            assert verify(text, signature, private_key(BITS).public_key(), HashAlgorithm.SHA512)


@pytest.mark.spec("MQMQ-2.2.20.6-u", "MQMQ-2.2.19.3-x")
async def test_the_queue_manager_signs_for_itself_with_a_published_key(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        packet = await one.sent(authentication_level=SIG20)
        security = packet.security
        assert security is not None
        assert security.sender_id_type == 2
        assert packet.properties.hash_algorithm == 0x0000800E
        assert security.security_id == one.alice.guid
        key = certificate_public_key(security.sender_cert)
        assert key == one.alice.manager.keys.sign[ENHANCED_RSA_AES].public_key()
        text = signature_input(packet, SignatureType.MSMQ_2_0)
        assert verify(text, security.signature, key, HashAlgorithm.SHA512)


@pytest.mark.spec("MQMQ-2.4-l")
async def test_what_cannot_be_signed_or_is_not_has_its_status(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        with pytest.raises(CertificateNotProvidedError) as no_certificate:
            one.alice.post(ELSEWHERE, authentication_level=SIG20, caller=USER)
        assert no_certificate.value.code == 0xC00E006D
        queue = one.alice.queue("orders")
        queue.authentication = True
        with pytest.raises(MessageNotAuthenticatedError) as unsigned:
            one.alice.post(one.alice.private_name(queue), caller=USER)
        assert unsigned.value.code == 0xC00E009B
        with pytest.raises(IllegalPropertyValueError):
            one.alice.post(
                ELSEWHERE, authentication_level=AuthenticationLevel.XML_SIG, signer=signer(), caller=USER
            )
        assert not one.peer.messages


# --- encryption ---------------------------------------------------------------------------------------------

RC2, RC4 = EncryptionAlgorithm.RC2, EncryptionAlgorithm.RC4
AES128, AES192, AES256 = EncryptionAlgorithm.AES128, EncryptionAlgorithm.AES192, EncryptionAlgorithm.AES256
BASE_LEVEL, ENHANCED_LEVEL, ADVANCED_LEVEL = (
    PrivacyLevel.BASE,
    PrivacyLevel.ENHANCED,
    PrivacyLevel.ADVANCED,
)
DEFAULTS = {BASE_LEVEL: RC4, ENHANCED_LEVEL: RC4, ADVANCED_LEVEL: AES256}
KEY_BYTES = {RC2: 16, RC4: 16, AES128: 16, AES192: 24, AES256: 32}


@pytest.mark.spec(
    "DMPR-3.1.1.12-j",
    "MQQB-3.1.1.3-g",
    "MQQB-3.1.1.3-h",
    "MQQB-3.1.1.3-i",
    "MQQB-3.1.7.1.5-e",
    "MQQB-3.1.7.1.5-f",
    "MQQB-3.1.7.1.5-g",
    "MQQB-3.1.7.1.5-h",
    "MQQB-3.1.7.1.5-j",
    "MQQB-3.1.7.1.5-l",
    "MQQB-3.1.7.1.5-m",
    "MQQB-3.1.7.1.5-n",
    "MQQB-5.1-b",
)
@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
async def test_bodies_of_every_level_are_encrypted_on_the_wire(tmp_path: Path, signed: bool) -> None:
    async with scene(tmp_path) as one:
        ring = one.publish()
        how: dict[str, Any] = {"authentication_level": SIG20, "signer": signer()} if signed else {}
        clear = await one.sent(caller=USER, **how)
        assert clear.security is not None
        assert (clear.body, clear.security.body_encrypted) == (BODY, 0)
        for level, algorithm in DEFAULTS.items():
            packet = await one.sent(privacy_level=level, caller=USER if signed else None, **how)
            security, properties = packet.security, packet.properties
            assert security is not None
            assert b"nobody else" not in packet.data
            assert (security.body_encrypted, properties.privacy_level) == (1, level)
            assert properties.encryption_algorithm == algorithm
            assert properties.message_size == properties.allocation_body_size == len(packet.body)
            provider = ProviderInfo.decode(security.provider_info)
            assert provider.provider_name == PRIVACY_PROVIDERS[level]
            assert security.encryption_key_size == len(security.encryption_key)
            assert SimpleBlob.decode(security.encryption_key).session_key_algorithm == algorithm
            key, body = opened(packet, ring)
            assert body == BODY
            assert len(key.key) == (5 if level is BASE_LEVEL else KEY_BYTES[algorithm])


@pytest.mark.spec("MQQB-3.1.1.3-g", "MQQB-3.1.7.1.5-e", "MQQB-3.1.7.1.5-f", "MQQB-3.1.7.1.5-j")
async def test_the_operator_chooses_the_algorithms(tmp_path: Path) -> None:
    chosen = {
        "preferred_base_algorithm": "rc2",
        "preferred_enhanced_algorithm": "rc2",
        "preferred_advanced_algorithm": "aes128",
        "send_enhanced_rc2_using_40_bit_keys": True,
    }
    async with scene(tmp_path, **chosen) as one:
        ring = one.publish()
        for level, algorithm in ((BASE_LEVEL, RC2), (ENHANCED_LEVEL, RC2), (ADVANCED_LEVEL, AES128)):
            packet = await one.sent(privacy_level=level)
            assert packet.properties.encryption_algorithm == algorithm
            key, body = opened(packet, ring)
            assert body == BODY
            if level is ENHANCED_LEVEL:
                assert (len(key.key), key.key[5:], any(key.key[:5])) == (16, bytes(11), True)


@pytest.mark.spec(
    "MQQB-3.1.1.3-d",
    "MQQB-3.1.1.3.1-d",
    "MQQB-3.1.3.2-j",
    "MQQB-3.1.7.1.5-b",
    "MQQB-3.1.7.1.5-i",
)
async def test_keys_are_read_once_and_a_session_key_serves_many_messages(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        one.publish()
        assert one.here.shared.key_reads() == 0
        await one.sent()
        assert one.here.shared.key_reads() == 0, "not before they are needed"
        first = await one.sent(privacy_level=ADVANCED_LEVEL)
        second = await one.sent(privacy_level=ADVANCED_LEVEL)
        third = await one.sent(privacy_level=ENHANCED_LEVEL)
        blobs = [packet.security.encryption_key for packet in (first, second, third) if packet.security]
        assert blobs[0] == blobs[1] != blobs[2]
        assert one.here.shared.key_reads() == 1
        (wanted,) = [
            entry for entry in one.here.shared.filters if entry[2] == ("public_encryption_key_list",)
        ]
        assert wanted[1] is not None
        assert [tuple(expression) for expression in wanted[1]] == [
            ("identifier", type(wanted[1][0].relation).EQUALS, PEER)
        ]


def _not_to_encrypt(one: Scene, how: str) -> dict[str, Any]:
    if how == "no keys for the level":
        one.publish(BASE, ENHANCED)
    elif how == "no keys at all":
        one.here.shared.put(QueueManagerRecord(PEER, "PEER"))
    elif how == "damaged keys":
        one.here.shared.put(QueueManagerRecord(PEER, "PEER", public_encryption_key_list=b"keys"))
    elif how == "directory away":
        one.publish()
        one.here.shared.connected = False
    return {"privacy_level": ADVANCED_LEVEL}


@pytest.mark.spec("MQQB-3.1.7.1.5.1-a", "MQQB-3.1.7.1.5-b", "MQQB-3.1.7.1.5-e")
@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("no host", PublicKeyNotFoundError.code),
        ("no keys at all", PublicKeyNotFoundError.code),
        ("no keys for the level", ComputerDoesNotSupportEncryptionError.code),
        ("damaged keys", ComputerDoesNotSupportEncryptionError.code),
        ("directory away", PublicKeyNotFoundError.code),
    ],
)
async def test_what_cannot_be_encrypted_is_not_sent(
    tmp_path: Path, how: str, code: int, transactional: bool
) -> None:
    async with scene(tmp_path) as one:
        attributes = _not_to_encrypt(one, how)
        alice, core = one.alice, one.alice.core
        admin = alice.queue("admin")
        alice.post(ELSEWHERE, b"dropped", in_transaction=transactional, **attributes)
        alice.post(
            ELSEWHERE,
            b"kept",
            negative_journaling_requested=True,
            administration_queue_format_name=alice.private_name(admin),
            acknowledge=0x04,
            in_transaction=transactional,
            **attributes,
        )
        alice.post(ELSEWHERE, b"clear", in_transaction=transactional)
        await eventually(lambda: one.peer.messages)
        assert [bytes(packet.body) for packet in one.peer.messages] == [b"clear"]
        dead, other = core.dead_letter_queue, core.transactional_dead_letter_queue
        if transactional:
            dead, other = other, dead
        assert (alice.bodies(dead), alice.bodies(other)) == ([b"kept"], [])
        history = one.outgoing.connection_history
        failures = [
            entry for entry in history if entry.status is ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE
        ]
        assert [entry.error for entry in failures] == [code, code]
        (nack,) = alice.packets(admin)
        assert (nack.properties.message_class, nack.body) == (0x8008, b"")


@pytest.mark.spec("MQQB-3.1.7.1.5-a", "MQQB-5.1-a")
async def test_nothing_is_encrypted_for_a_direct_name(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        one.publish()
        direct = "DIRECT=TCP:127.0.0.4\\private$\\orders"
        with pytest.raises(UnsupportedFormatnameOperationError, match="direct name"):
            one.alice.post(direct, privacy_level=ADVANCED_LEVEL)
        # One that got into the outgoing queue nevertheless.
        one.alice.post(direct, BODY, negative_journaling_requested=True)
        queue = one.alice.core.outgoing[direct.lower()]
        (entry,) = queue.positions
        secret = one.alice.manager.mailbox.load(queue, entry.lookup_id)
        secret.local = secret.local.changed(private=True)
        one.alice.manager.mailbox.remove(queue, (entry.lookup_id,), MessageClass.NORMAL)
        one.alice.manager.mailbox.put(queue, Batch.of((secret,), one.alice.core.record.identifier))
        await eventually(lambda: one.alice.bodies(one.alice.core.dead_letter_queue) == [BODY])
        assert one.alice.reasons(one.alice.core.dead_letter_queue) == [0x8008]
        failure = queue.connection_history[-1]
        assert failure.status is ConnectionStatus.CERTIFICATE_VALIDATION_FAILURE
        assert failure.error == UnsupportedFormatnameOperationError.code
        assert not one.peer.messages


async def test_weak_levels_are_refused_at_once_by_default(tmp_path: Path) -> None:
    async with scene(tmp_path, accepted_ciphers=("aes256",)) as one:
        one.publish()
        for level in (BASE_LEVEL, ENHANCED_LEVEL):
            with pytest.raises(EncryptionProviderNotSupportedError, match="RC4"):
                one.alice.post(ELSEWHERE, privacy_level=level)
        packet = await one.sent(privacy_level=ADVANCED_LEVEL)
        assert packet.properties.encryption_algorithm == AES256


# --- two daemons --------------------------------------------------------------------------------------------


async def _together(here: Domain) -> tuple[DomainNode, DomainNode, Queue]:
    """Two members of a domain, and a queue on the second that the first can send to."""
    alice = await here.member(ALICE)
    bob = await here.member(BOB)
    introduce(bob, ALICE)
    return alice, bob, bob.queue("orders")


@pytest.mark.spec("DMPR-5.1-a")
@pytest.mark.parametrize("level", PrivacyLevel, ids=lambda level: level.name)
@pytest.mark.parametrize("authentication", [NONE, SIG10, SIG20, SIG30], ids=lambda level: level.name)
async def test_messages_are_read_at_the_other_end_as_they_were_written(
    tmp_path: Path, level: PrivacyLevel, authentication: AuthenticationLevel
) -> None:
    async with domain(tmp_path, **ALL_ALGORITHMS) as here:
        alice, bob, orders = await _together(here)
        alice.post(
            bob.private_name(orders),
            BODY,
            signer=signer(),
            caller=USER,
            privacy_level=level,
            authentication_level=authentication,
            label="to bob",
            extension=b"extension",
        )
        await eventually(lambda: len(orders.positions))
        (stored,) = bob.stored(orders)
        message = received(stored)
        assert (message.body, message.label, message.extension) == (BODY, "to bob", b"extension")
        assert message.authentication_level is authentication
        assert message.privacy_level == level
        assert (stored.local.private, message.sender_identifier) == (level is not PrivacyLevel.NONE, SID)
        if authentication is not NONE:
            assert message.hash_algorithm == HashAlgorithm.SHA512
        if level is ADVANCED_LEVEL:
            assert message.encryption_algorithm == AES256


async def test_a_restart_keeps_keys_and_what_was_found_out(tmp_path: Path) -> None:
    async with domain(tmp_path) as here:
        alice, bob, _ = await _together(here)
        keys = bob.public_keys
        how: dict[str, Any] = {
            "signer": signer(),
            "caller": USER,
            "privacy_level": ADVANCED_LEVEL,
            "authentication_level": SIG20,
            "in_transaction": True,
        }
        ordered = bob.queue("ordered", transactional=True)
        name = bob.private_name(ordered)
        alice.post(name, b"one", **how)
        await eventually(lambda: len(ordered.positions))
        before = [received(stored) for stored in bob.stored(ordered)]
        await bob.daemon.commit.drain()  # or it would come again, in another place
        await bob.crash()
        alice.post(name, b"two", **how)  # waits in the clear, and is encrypted when there is a session again
        await bob.start()
        introduce(bob, ALICE)
        ordered = bob.find("ordered")
        await eventually(lambda: len(ordered.positions) == 2)
        after = [received(stored) for stored in bob.stored(ordered)]
        assert after[0] == before[0]
        assert [message.body for message in after] == [b"one", b"two"]
        assert {message.authentication_level for message in after} == {SIG20}
        assert all(stored.local.private for stored in bob.stored(ordered))
        assert bob.public_keys == keys
        await alice.restart()
        introduce(bob, ALICE)
        alice.post(name, b"three", **how)
        await eventually(lambda: len(ordered.positions) == 3)


@pytest.mark.spec("MQQB-3.1.5.8.3-m")
async def test_a_queue_manager_believes_another(tmp_path: Path) -> None:
    async with domain(tmp_path) as here:
        alice, bob, orders = await _together(here)
        orders.authentication = True
        alice.post(bob.private_name(orders), b"from alice herself", authentication_level=SIG20)
        await eventually(lambda: len(orders.positions))
        (stored,) = bob.stored(orders)
        message = received(stored)
        assert message.sender_identifier_type is SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER
        assert (message.sender_identifier, message.authentication_level) == (alice.guid, SIG20)


# --- one daemon ---------------------------------------------------------------------------------------------


async def test_local_messages_obey_the_same_rules(tmp_path: Path) -> None:
    async with domain(tmp_path) as here:
        alice = await here.member()
        orders = alice.queue("orders")
        orders.authentication = True
        name = alice.private_name(orders)
        alice.post(name, b"1", authentication_level=SIG20, signer=signer(), caller=USER)
        with pytest.raises(MessageNotAuthenticatedError):
            alice.post(name, b"2", caller=USER)
        stranger = Signer(certificate(2048), private_key(2048))
        with pytest.raises(MessageNotAuthenticatedError):
            alice.post(name, b"3", authentication_level=SIG20, signer=stranger, caller=USER)
        orders.authentication = False
        orders.privacy_level = QueuePrivacyLevel.BODY
        with pytest.raises(Exception, match="NACK_BAD_ENCRYPTION"):
            alice.post(name, b"4", caller=USER)
        alice.post(name, b"5", privacy_level=ADVANCED_LEVEL, caller=USER)
        assert alice.bodies(orders) == [b"1", b"5"]
        first, fifth = map(received, alice.stored(orders))
        assert (first.authentication_level, first.privacy_level) == (SIG20, PrivacyLevel.NONE)
        assert (fifth.authentication_level, fifth.privacy_level) == (NONE, ADVANCED_LEVEL)


@pytest.mark.spec("MQQB-3.1.7.1.5-d", "MQQB-3.1.7.1.5.2-a")
async def test_the_published_keys(tmp_path: Path) -> None:
    """Three of them, and each becomes the very key it was made from."""
    async with domain(tmp_path) as here:
        alice = await here.member(ALICE)
        published = DSPublicKeys.decode(alice.public_keys).keys
        assert len(published) == 3
        ring = alice.manager.keys.exchange
        for entry in published:
            made = import_public_key(entry.key)
            own = ring[entry.provider_name].public_key()
            assert made.public_numbers() == own.public_numbers()


async def test_a_host_makes_its_keys_once_and_publishes_them(tmp_path: Path) -> None:
    async with domain(tmp_path) as here:
        for node in (await here.member(ALICE), await here.outsider(BOB)):
            made = node.public_keys
            guid = node.guid
            assert set(node.manager.keys.exchange) == set(node.manager.keys.sign) == set(KEY_BITS)
            await node.crash()
            await node.start()
            assert (node.public_keys, node.guid) == (made, guid)
            assert node.core.record.public_encryption_key_list == made
        alice = here.nodes[0]
        assert isinstance(alice, DomainNode)
        assert alice.manager.credentials.encryption_keys(alice.guid) == alice.public_keys
        assert alice.manager.credentials.signing_keys(alice.guid)


async def test_an_application_may_sign_by_itself(tmp_path: Path) -> None:
    async with domain(tmp_path) as here:
        alice = await here.member()
        orders = alice.queue("orders")
        name = alice.private_name(orders)
        (first,) = alice.post(name, b"body", authentication_level=SIG20, signer=signer(), caller=USER)
        signed = received(first)
        assert serialize(signed).security is not None
        alice.post(
            name,
            b"body",
            authentication_level=SIG20,
            caller=USER,
            signature=signed.signature,
            sender_certificate=signed.sender_certificate,
            hash_algorithm=signed.hash_algorithm,
        )
        assert [stored.local.authentication_level for stored in alice.stored(orders)] == [SIG20, SIG20]

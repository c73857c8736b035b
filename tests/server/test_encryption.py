"""Encrypted messages that arrive at a queue manager."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msmq.manager.access.keys import KeyRing
from msmq.manager.messages.message import AuthenticationLevel
from msmq.security.providers import ENHANCED_RSA_AES
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.classes import MessageClass
from msmq.wire.message import UserMessage
from tests.security.correspondent import PEER, Correspondent, lenient
from tests.security.samples import private_key
from tests.server.scene import ENCRYPTION_ALGORITHM, PRIVACY_LEVEL, Scene, damaged_key, patched, scene
from tests.server.support import eventually

NONE, SIG10, SIG20, SIG30 = (
    AuthenticationLevel.NONE,
    AuthenticationLevel.SIG10,
    AuthenticationLevel.SIG20,
    AuthenticationLevel.SIG30,
)
BAD_SIGNATURE, BAD_ENCRYPTION = MessageClass.NACK_BAD_SIGNATURE, MessageClass.NACK_BAD_ENCRYPTION


# --- encryption ---------------------------------------------------------------------------------------------

BODY = bytes(range(256)) * 5
LEVELS = [
    (PrivacyLevel.BASE, EncryptionAlgorithm.RC2),
    (PrivacyLevel.BASE, EncryptionAlgorithm.RC4),
    (PrivacyLevel.ENHANCED, EncryptionAlgorithm.RC2),
    (PrivacyLevel.ENHANCED, EncryptionAlgorithm.RC4),
    (PrivacyLevel.ADVANCED, EncryptionAlgorithm.AES128),
    (PrivacyLevel.ADVANCED, EncryptionAlgorithm.AES192),
    (PrivacyLevel.ADVANCED, EncryptionAlgorithm.AES256),
]
CASES = pytest.mark.parametrize(
    ("privacy", "algorithm"), LEVELS, ids=[f"{level.name}-{cipher.name}" for level, cipher in LEVELS]
)


def with_cipher(level: PrivacyLevel, algorithm: EncryptionAlgorithm, **more: Any) -> Correspondent:
    return Correspondent(policy=lenient(preferred={level: algorithm}, **more))


@pytest.mark.spec(
    "MQQB-3.1.5.8.3-g",
    "MQQB-3.1.5.8.3-n",
    "MQQB-3.1.5.8.3-r",
    "MQQB-3.1.5.8.3-v",
    "MQQB-3.1.1.3.3-a",
)
@CASES
async def test_a_body_is_decrypted_and_its_signature_verified(
    tmp_path: Path, privacy: PrivacyLevel, algorithm: EncryptionAlgorithm
) -> None:
    async with scene(tmp_path) as one:
        one.correspondent = with_cipher(privacy, algorithm)
        packet = one.message(body=BODY, privacy=privacy, level=SIG20, label="a label", extension=b"more")
        assert BODY[:64] not in packet.data
        await one.send(packet)
        (stored,) = one.alice.stored(one.orders)
        kept = stored.packet
        assert (kept.body, kept.label, kept.extension) == (BODY, "a label", b"more")
        assert (stored.local.authentication_level, stored.local.private) == (SIG20, True)
        assert kept.security is not None
        assert not kept.security.body_encrypted
        assert kept.properties.privacy_level == privacy
        (sent,) = one.correspondent.sealer.symmetric_keys
        (received,) = one.alice.manager.credentials.examiner.symmetric_keys
        assert received.symmetric_key == sent.symmetric_key
        assert received.remote_qm_guid == PEER
        assert received.crypto_service_provider == sent.crypto_service_provider
        assert (received.crypto_algorithm, received.encrypted_symmetric_key) == (
            algorithm,
            packet.security.encryption_key if packet.security else b"",
        )
        assert received.cached_time_ms <= one.alice.core.environment.now() * 1_000


class CountingKeys(dict[PrivacyLevel, Any]):
    """The private keys of a host; it counts how often one was used."""

    used = 0

    def get(self, level: PrivacyLevel, default: Any = None) -> Any:
        self.used += 1
        return super().get(level, default)


@pytest.mark.spec("MQQB-3.1.1.3-b", "MQQB-3.1.5.8.3-q")
async def test_a_key_that_came_before_is_not_unwrapped_again(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        examiner = one.alice.manager.credentials.examiner
        examiner._private_keys = keys = CountingKeys(examiner._private_keys)
        for number in range(3):
            await one.send(one.message(body=b"%d" % number, privacy=PrivacyLevel.ADVANCED))
        assert one.alice.bodies(one.orders) == [b"0", b"1", b"2"]
        assert keys.used == 1
        one.correspondent = Correspondent()
        await one.send(one.message(body=b"3", privacy=PrivacyLevel.ADVANCED))
        assert keys.used == 2, "another key"


def _wrongly_encrypted(one: Scene, how: str, **attributes: Any) -> UserMessage:
    attributes |= {"privacy": PrivacyLevel.ADVANCED}
    if how == "wrong key":
        attributes["public_keys"] = KeyRing(
            {ENHANCED_RSA_AES: private_key(1024)}
        ).public_encryption_key_list()
    packet = one.message(**attributes)
    if how == "unknown level":
        return patched(packet, PRIVACY_LEVEL, 2)
    if how == "unknown algorithm":
        return patched(packet, ENCRYPTION_ALGORITHM, 0x6603)
    if how == "other algorithm":
        return patched(packet, ENCRYPTION_ALGORITHM, 0x660E)
    if how == "damaged key":
        return damaged_key(packet)
    if how == "damaged body":
        data = bytearray(packet.data)
        data[packet.body_offset + 15] ^= 0x10
        return UserMessage.route(bytes(data))
    return packet


@pytest.mark.spec("MQQB-3.1.5.8.3-o", "MQQB-3.1.5.8.3-w", "MQQB-3.1.5.8.3-x")
@pytest.mark.parametrize(
    "how",
    ["unknown level", "unknown algorithm", "other algorithm", "damaged key", "damaged body", "wrong key"],
)
async def test_whatever_is_wrong_with_an_encryption_is_a_bad_encryption(tmp_path: Path, how: str) -> None:
    async with scene(tmp_path) as one:
        await one.send(_wrongly_encrypted(one, how))
        assert one.told() == [0x8007]
        (nack,) = one.alice.packets(one.admin)
        assert nack.body == b"", "the body of a secret message is not told around"
        one.peer.send(_wrongly_encrypted(one, how, transactional=True))
        await eventually(lambda: one.peer.final_acks == [0x8007])
        assert len(one.orders.positions) == len(one.ordered.positions) == 0


@pytest.mark.spec("MQQB-1.5-a")
async def test_a_host_without_keys_refuses_what_is_encrypted_and_goes_on(tmp_path: Path) -> None:
    async with scene(tmp_path) as one:
        packet = one.message(privacy=PrivacyLevel.ADVANCED)
        one.alice.manager.credentials.use(KeyRing())
        await one.send(packet)
        assert one.told() == [0x8007]
        await one.send(one.message(body=b"clear"))
        assert one.alice.bodies(one.orders) == [b"clear"]


@pytest.mark.spec("MQQB-3.1.5.8.3-u")
@pytest.mark.parametrize("reject", [False, True])
async def test_keys_that_are_shorter_than_they_look_can_be_refused(tmp_path: Path, reject: bool) -> None:
    async with scene(tmp_path, reject_enhanced_rc2_using_40_bit_keys=reject) as one:
        enhanced = (PrivacyLevel.ENHANCED, EncryptionAlgorithm.RC2)
        one.correspondent = with_cipher(*enhanced, send_enhanced_rc2_using_40_bit_keys=True)
        for _ in range(2):  # the second time from the cache
            await one.send(one.message(privacy=PrivacyLevel.ENHANCED))
        assert one.told() == ([0x8007, 0x8007] if reject else [])
        assert one.alice.bodies(one.orders) == ([] if reject else [b"secret", b"secret"])
        if reject:
            one.peer.send(one.message(privacy=PrivacyLevel.ENHANCED, transactional=True))
            await eventually(lambda: one.peer.final_acks == [0x8007])
        one.correspondent = with_cipher(*enhanced)
        await one.send(one.message(privacy=PrivacyLevel.ENHANCED, body=b"strong"))
        assert one.alice.bodies(one.orders)[-1] == b"strong"


async def test_by_default_only_aes_is_decrypted(tmp_path: Path) -> None:
    async with scene(tmp_path, accepted_ciphers=("aes128", "aes192", "aes256")) as one:
        await one.send(one.message(privacy=PrivacyLevel.BASE))
        await one.send(one.message(privacy=PrivacyLevel.ENHANCED))
        assert one.told() == [0x8007, 0x8007]
        await one.send(one.message(privacy=PrivacyLevel.ADVANCED))
        assert one.alice.bodies(one.orders) == [b"secret"]


async def test_slow_algorithms_get_small_messages_only(tmp_path: Path) -> None:
    async with scene(tmp_path, slow_algorithm_limit_bytes=2_000) as one:
        one.correspondent = with_cipher(PrivacyLevel.BASE, EncryptionAlgorithm.RC2)
        await one.send(one.message(body=bytes(500), privacy=PrivacyLevel.BASE))
        await one.send(one.message(body=bytes(5_000), privacy=PrivacyLevel.BASE))
        await one.send(one.message(body=bytes(5_000), level=SIG20, hash_algorithm=HashAlgorithm.MD2))
        assert one.told() == [0x8007, 0x8006]
        assert one.alice.bodies(one.orders) == [bytes(500)]

from __future__ import annotations

import contextlib
import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import EncodeError
from msmq.security.encryption import (
    DEFAULT_ALGORITHMS,
    SessionKey,
    decrypt_body,
    encrypt_body,
    new_session_key,
    privacy_levels,
    require_privacy_level,
    session_key_size,
    unwrap_session_key,
    wrap_session_key,
)
from msmq.security.keys import import_public_key
from msmq.security.legacy import RC2
from msmq.security.rejections import AuthenticationError, DecryptionError
from msmq.wire.algorithms import ALLOWED_ALGORITHMS, EncryptionAlgorithm, PrivacyLevel
from msmq.wire.keys import PublicKeyBlob, SimpleBlob
from msmq.wire.names.common import MsmqVersion
from tests.security.samples import private_key

PAIRS = [(level, algorithm) for level, allowed in ALLOWED_ALGORITHMS.items() for algorithm in sorted(allowed)]
PRIVATE_KEYS = {level: private_key(1024) for level in PrivacyLevel if level}
BASE, ENHANCED, ADVANCED = PrivacyLevel.BASE, PrivacyLevel.ENHANCED, PrivacyLevel.ADVANCED


def counting(size: int) -> bytes:
    return bytes(range(1, size + 1))


def session_key(level: PrivacyLevel, algorithm: EncryptionAlgorithm) -> SessionKey:
    return new_session_key(level, algorithm, counting)


def test_privacy_level_numbers() -> None:
    assert {level.name: int(level) for level in PrivacyLevel} == {
        "NONE": 0x00000000,
        "BASE": 0x00000001,
        "ENHANCED": 0x00000003,
        "ADVANCED": 0x00000005,
    }
    for level in PrivacyLevel:
        assert require_privacy_level(int(level), False) is level
    for number in (2, 4, 6, 0x100, 0x80000001, 0xFFFFFFFF):
        with pytest.raises(AuthenticationError) as refused:
            require_privacy_level(number, False)
        assert refused.value.message_class == 0x8006
        # With an encrypted body MS-MQQB 3.1.5.8.3 names the failure more exactly.
        with pytest.raises(DecryptionError):
            require_privacy_level(number, True)


@pytest.mark.spec("MQMQ-2.2.20.6-g")
def test_an_encrypted_body_must_be_decrypted_with_a_level() -> None:
    key = session_key(ADVANCED, EncryptionAlgorithm.AES256)
    blob = wrap_session_key(key, PRIVATE_KEYS[ADVANCED].public_key())
    body = encrypt_body(b"secret", key)
    assert body != b"secret"
    opened = unwrap_session_key(blob, 5, 0x6610, PRIVATE_KEYS)
    assert decrypt_body(body, opened) == b"secret"
    with pytest.raises(DecryptionError):
        unwrap_session_key(blob, 0, 0x6610, PRIVATE_KEYS)


@pytest.mark.spec("MQMQ-6-e")
@pytest.mark.parametrize(
    ("version", "levels"),
    [
        (MsmqVersion.V1, {0}),
        (MsmqVersion.V2, {0, 1, 3}),
        (MsmqVersion.V3, {0, 1, 3}),
        (MsmqVersion.V4, {0, 1, 3, 5}),
        (MsmqVersion.V5, {0, 1, 3, 5}),
        (MsmqVersion.V6, {0, 1, 3, 5}),
    ],
)
def test_levels_by_version(version: MsmqVersion, levels: set[int]) -> None:
    assert privacy_levels(version) == levels
    for level, algorithm in PAIRS:
        key = session_key(level, algorithm)
        blob = wrap_session_key(key, PRIVATE_KEYS[level].public_key())
        if level in levels:
            assert unwrap_session_key(blob, level, algorithm, PRIVATE_KEYS, version=version) == key
        else:
            with pytest.raises(DecryptionError):
                unwrap_session_key(blob, level, algorithm, PRIVATE_KEYS, version=version)


@pytest.mark.spec("MQMQ-2.2.19.3-aa")
def test_each_level_allows_its_algorithms() -> None:
    allowed = {(1, 0x6602), (1, 0x6801), (3, 0x6602), (3, 0x6801), (5, 0x660E), (5, 0x660F), (5, 0x6610)}
    for level in PRIVATE_KEYS:
        for algorithm in EncryptionAlgorithm:
            encrypted = (
                PRIVATE_KEYS[level]
                .public_key()
                .encrypt(bytes(session_key_size(level, algorithm)), PKCS1v15())
            )
            blob = SimpleBlob(algorithm, encrypted[::-1]).encode()
            if (level, algorithm) in allowed:
                assert unwrap_session_key(blob, level, algorithm, PRIVATE_KEYS).algorithm is algorithm
                continue
            with pytest.raises(DecryptionError) as refused:
                unwrap_session_key(blob, level, algorithm, PRIVATE_KEYS)
            assert refused.value.message_class == 0x8007
            with pytest.raises(EncodeError):
                new_session_key(level, algorithm, counting)


@pytest.mark.spec("MQMQ-2.2.19.3-z")
@pytest.mark.parametrize("number", [0, 0x6601, 0x6603, 0x6611, 0x6800, 0x16610, 0xFFFFFFFF])
@pytest.mark.parametrize("level", [1, 3, 5])
def test_an_unknown_algorithm_is_a_failed_decryption(number: int, level: int) -> None:
    encrypted = private_key(1024).public_key().encrypt(bytes(32), PKCS1v15())[::-1]
    blobs = [
        bytes.fromhex("01020000") + number.to_bytes(4, "little") + bytes.fromhex("00a40000") + encrypted,
        SimpleBlob(EncryptionAlgorithm.AES256, encrypted).encode(),
    ]
    for blob in blobs:
        with pytest.raises(DecryptionError) as refused:
            unwrap_session_key(blob, level, number, PRIVATE_KEYS)
        assert refused.value.message_class == 0x8007


@pytest.mark.spec("MQQB-2.4.2-b")
def test_the_blob_names_its_algorithm() -> None:
    numbers = {
        EncryptionAlgorithm.AES128: 0x660E,
        EncryptionAlgorithm.AES192: 0x660F,
        EncryptionAlgorithm.AES256: 0x6610,
        EncryptionAlgorithm.RC2: 0x6602,
        EncryptionAlgorithm.RC4: 0x6801,
    }
    for level, algorithm in PAIRS:
        blob = wrap_session_key(session_key(level, algorithm), PRIVATE_KEYS[level].public_key())
        assert blob[4:8] == numbers[algorithm].to_bytes(4, "little")
        for number in (0, 0x6601, 0x6603, 0x6611, 0xFFFFFFFF):
            with pytest.raises(DecryptionError) as refused:
                unwrap_session_key(
                    blob[:4] + number.to_bytes(4, "little") + blob[8:], level, algorithm, PRIVATE_KEYS
                )
            assert refused.value.message_class == 0x8007


@pytest.mark.spec("MQQB-2.4.2-c")
def test_the_session_key_is_pkcs1_with_its_bytes_reversed() -> None:
    key = session_key(ADVANCED, EncryptionAlgorithm.AES128)
    receiver = private_key(2048)
    blob = wrap_session_key(key, receiver.public_key())
    assert blob[:12].hex() == "010200000e66000000a40000"
    assert receiver.decrypt(blob[12:][::-1], PKCS1v15()) == counting(16)
    assert unwrap_session_key(blob, 5, 0x660E, {ADVANCED: receiver}) == key


@pytest.mark.spec("MQQB-2.4.2-d")
@pytest.mark.parametrize("bits", [512, 1024, 2048])
def test_blobs_of_every_key_length(bits: int) -> None:
    receiver = private_key(bits)
    for level, algorithm in PAIRS:
        key = session_key(level, algorithm)
        blob = wrap_session_key(key, receiver.public_key())
        assert len(blob) == 12 + bits // 8
        assert len(SimpleBlob.decode(blob).encrypted_key) == bits // 8
        assert unwrap_session_key(blob, level, algorithm, {level: receiver}) == key


@pytest.mark.spec("MQMQ-2.2.19.3-ab")
@pytest.mark.parametrize(
    ("algorithm", "key", "cipher"),
    [
        # SP 800-38A F.1: the first block of the AES examples in ECB mode, which is CBC with a zero vector.
        (EncryptionAlgorithm.AES128, "2b7e151628aed2a6abf7158809cf4f3c", "3ad77bb40d7a3660a89ecaf32466ef97"),
        (
            EncryptionAlgorithm.AES192,
            "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
            "bd334f1d6e45f25ff712a214571fa5cc",
        ),
        (
            EncryptionAlgorithm.AES256,
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            "f3eed1bdb5d2a03c064b5a7e3db181f8",
        ),
    ],
)
def test_aes_with_a_zero_vector_and_pkcs5(algorithm: EncryptionAlgorithm, key: str, cipher: str) -> None:
    plain = bytes.fromhex("6bc1bee22e409f96e93d7e117393172a")
    session = SessionKey(ADVANCED, algorithm, bytes.fromhex(key))
    body = encrypt_body(plain, session)
    assert body[:16].hex() == cipher
    assert len(body) == 32  # a whole block of padding
    assert decrypt_body(body, session) == plain
    with pytest.raises(DecryptionError):
        decrypt_body(body[:16], session)  # decrypts to plain text that ends in no padding


@pytest.mark.spec("MQMQ-2.2.19.3-ab")
def test_rc2_with_a_zero_vector_and_pkcs5() -> None:
    # RFC 2268: a key of 128 effective bits and a block of zeros.
    session = SessionKey(ENHANCED, EncryptionAlgorithm.RC2, bytes.fromhex("88bca90e90875a7f0f79c384627bafb2"))
    body = encrypt_body(bytes(8), session)
    assert body[:8].hex() == "2269552ab0f85ca6"
    assert len(body) == 16
    assert decrypt_body(body, session) == bytes(8)
    with pytest.raises(DecryptionError):
        decrypt_body(body[:8], session)
    weak = SessionKey(BASE, EncryptionAlgorithm.RC2, b"12345")
    assert encrypt_body(b"1234567", weak) == RC2(b"12345", 40).encrypt(b"1234567\x01")


def test_rc4() -> None:
    # RFC 6229: the first bytes of the key streams of 40 and 128 bits.
    for level, key, stream in (
        (BASE, "0102030405", "b2396305f03dc027ccc3524a0a1118a8"),
        (ENHANCED, "0102030405060708090a0b0c0d0e0f10", "9ac7cc9a609d1ef7b2932899cde41b97"),
    ):
        session = SessionKey(level, EncryptionAlgorithm.RC4, bytes.fromhex(key))
        assert encrypt_body(bytes(16), session).hex() == stream
        assert decrypt_body(bytes.fromhex(stream), session) == bytes(16)


@pytest.mark.parametrize(
    ("level", "algorithm"), [pair for pair in PAIRS if pair[1] is not EncryptionAlgorithm.RC4]
)
def test_every_bad_body_is_the_same_error(level: PrivacyLevel, algorithm: EncryptionAlgorithm) -> None:
    key = session_key(level, algorithm)
    block = 8 if algorithm is EncryptionAlgorithm.RC2 else 16
    body = encrypt_body(b"secret", key)
    for damaged in (b"", body[:-1], body + b"\0", body + bytes(block)):
        with pytest.raises(DecryptionError) as refused:
            decrypt_body(damaged, key)
        assert refused.value.args == DecryptionError().args
        assert refused.value.__cause__ is None


def test_every_bad_key_is_the_same_error() -> None:
    key = session_key(ADVANCED, EncryptionAlgorithm.AES256)
    receiver = PRIVATE_KEYS[ADVANCED].public_key()
    blob = wrap_session_key(key, receiver)
    short = SimpleBlob(EncryptionAlgorithm.AES256, receiver.encrypt(bytes(31), PKCS1v15())[::-1]).encode()
    attempts: list[tuple[bytes, int, int, object]] = [
        (b"", 5, 0x6610, PRIVATE_KEYS),
        (blob[:12], 5, 0x6610, PRIVATE_KEYS),
        (blob[:-1], 5, 0x6610, PRIVATE_KEYS),
        (blob + b"\0", 5, 0x6610, PRIVATE_KEYS),
        (b"\x06" + blob[1:], 5, 0x6610, PRIVATE_KEYS),
        (short, 5, 0x6610, PRIVATE_KEYS),
        (blob, 5, 0x660E, PRIVATE_KEYS),
        (blob, 2, 0x6610, PRIVATE_KEYS),
        (blob, 5, 0x6610, {}),
        (blob, 5, 0x6610, {ADVANCED: private_key(2048)}),
    ]
    for data, level, algorithm, keys in attempts:
        with pytest.raises(DecryptionError) as refused:
            unwrap_session_key(data, level, algorithm, keys)  # type: ignore[arg-type]
        assert refused.value.args == DecryptionError().args


def test_a_forty_bit_key_in_disguise() -> None:
    key = new_session_key(ENHANCED, EncryptionAlgorithm.RC2, counting, weakened=True)
    assert key.key == b"\x01\x02\x03\x04\x05" + bytes(11)
    assert key.is_weakened
    blob = wrap_session_key(key, PRIVATE_KEYS[ENHANCED].public_key())
    assert unwrap_session_key(blob, 3, 0x6602, PRIVATE_KEYS) == key
    with pytest.raises(DecryptionError):
        unwrap_session_key(blob, 3, 0x6602, PRIVATE_KEYS, reject_weakened=True)
    strong = session_key(ENHANCED, EncryptionAlgorithm.RC2)
    assert not strong.is_weakened
    blob = wrap_session_key(strong, PRIVATE_KEYS[ENHANCED].public_key())
    assert unwrap_session_key(blob, 3, 0x6602, PRIVATE_KEYS, reject_weakened=True) == strong
    assert not new_session_key(BASE, EncryptionAlgorithm.RC2, counting, weakened=True).is_weakened


def test_defaults_and_lengths() -> None:
    assert DEFAULT_ALGORITHMS[ADVANCED] is EncryptionAlgorithm.AES256
    assert all(algorithm in ALLOWED_ALGORITHMS[level] for level, algorithm in DEFAULT_ALGORITHMS.items())
    sizes = {pair: session_key_size(*pair) for pair in PAIRS}
    assert sizes == {
        (BASE, EncryptionAlgorithm.RC2): 5,
        (BASE, EncryptionAlgorithm.RC4): 5,
        (ENHANCED, EncryptionAlgorithm.RC2): 16,
        (ENHANCED, EncryptionAlgorithm.RC4): 16,
        (ADVANCED, EncryptionAlgorithm.AES128): 16,
        (ADVANCED, EncryptionAlgorithm.AES192): 24,
        (ADVANCED, EncryptionAlgorithm.AES256): 32,
    }
    with pytest.raises(EncodeError):
        SessionKey(ADVANCED, EncryptionAlgorithm.AES256, bytes(16))
    with pytest.raises(EncodeError):
        SessionKey(PrivacyLevel.NONE, EncryptionAlgorithm.AES256, bytes(32))


def test_an_rsa_key_too_short_for_the_session_key() -> None:
    short = import_public_key(PublicKeyBlob(65537, (1 << 255) + 95))
    with pytest.raises(EncodeError):
        wrap_session_key(session_key(ADVANCED, EncryptionAlgorithm.AES256), short)


def test_a_session_key_does_not_print_itself() -> None:
    key = new_session_key(
        ADVANCED, EncryptionAlgorithm.AES256, lambda size: hashlib.sha256(b"x").digest()[:size]
    )
    assert "key=" not in repr(key)


@given(st.sampled_from(PAIRS), st.binary(max_size=100))
def test_round_trip(pair: tuple[PrivacyLevel, EncryptionAlgorithm], body: bytes) -> None:
    key = session_key(*pair)
    assert decrypt_body(encrypt_body(body, key), key) == body


@given(st.sampled_from(PAIRS), st.binary(max_size=100))
def test_hostile_bodies(pair: tuple[PrivacyLevel, EncryptionAlgorithm], body: bytes) -> None:
    with contextlib.suppress(DecryptionError):
        decrypt_body(body, session_key(*pair))


@given(st.binary(max_size=160), st.integers(0, 6), st.sampled_from([*EncryptionAlgorithm, 0x6603]))
def test_hostile_blobs(data: bytes, level: int, algorithm: int) -> None:
    for blob in (data, bytes.fromhex("010200001066000000a40000") + data):
        with contextlib.suppress(DecryptionError):
            unwrap_session_key(blob, level, algorithm, PRIVATE_KEYS)

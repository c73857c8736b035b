from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import CannotSignDataExError
from msmq.security.rejections import AuthenticationError
from msmq.security.signatures import (
    HashPolicy,
    authenticate,
    digest,
    sign,
    verify,
)
from msmq.wire.algorithms import HashAlgorithm
from msmq.wire.message import UserMessage
from msmq.wire.signature import SignatureType, signature_input
from tests.security.samples import certificate, private_key
from tests.wire.builders import FRAME_7

KEY = private_key(1024)
EVERY_HASH = HashPolicy(frozenset(HashAlgorithm))
MESSAGE = UserMessage.decode(FRAME_7)
INPUTS = {
    kind: signature_input(MESSAGE, kind)
    for kind in (SignatureType.MSMQ_2_0, SignatureType.MSMQ_1_0, SignatureType.MSMQ_3_0)
}


def judge(signature: bytes, number: int, policy: HashPolicy = EVERY_HASH) -> SignatureType | None:
    return authenticate(signature, INPUTS, certificate(1024), number, policy)


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (HashAlgorithm.MD2, "da853b0d3f88d99b30283a69e6ded6bb"),
        (HashAlgorithm.MD4, "a448017aaf21d8525fc10ae87aa6729d"),
        (HashAlgorithm.MD5, "900150983cd24fb0d6963f7d28e17f72"),
        (HashAlgorithm.SHA1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (HashAlgorithm.SHA256, hashlib.sha256(b"abc").hexdigest()),
        (HashAlgorithm.SHA512, hashlib.sha512(b"abc").hexdigest()),
    ],
)
def test_digests(algorithm: HashAlgorithm, expected: str) -> None:
    assert digest(b"abc", algorithm).hex() == expected


@pytest.mark.parametrize(
    ("algorithm", "primitive"),
    [
        (HashAlgorithm.MD5, hashes.MD5()),
        (HashAlgorithm.SHA1, hashes.SHA1()),
        (HashAlgorithm.SHA256, hashes.SHA256()),
        (HashAlgorithm.SHA512, hashes.SHA512()),
    ],
)
def test_a_signature_is_pkcs1_with_its_bytes_reversed(
    algorithm: HashAlgorithm, primitive: hashes.HashAlgorithm
) -> None:
    signature = sign(b"data", KEY, algorithm)
    assert signature == KEY.sign(b"data", PKCS1v15(), primitive)[::-1]
    assert len(signature) == 128


@pytest.mark.spec("MQQB-1.3.2.2-a")
@pytest.mark.parametrize("algorithm", HashAlgorithm)
@pytest.mark.parametrize("kind", INPUTS)
def test_every_hash_is_accepted_where_policy_allows_it(algorithm: HashAlgorithm, kind: SignatureType) -> None:
    signature = sign(INPUTS[kind], KEY, algorithm)
    assert judge(signature, int(algorithm)) is kind
    with pytest.raises(AuthenticationError):
        judge(signature, int(algorithm), HashPolicy(frozenset(HashAlgorithm) - {algorithm}))


@pytest.mark.spec("MQQB-1.3.2.2-b")
def test_the_default_policy_believes_sha512_only() -> None:
    for algorithm in HashAlgorithm:
        signature = sign(INPUTS[SignatureType.MSMQ_2_0], KEY, algorithm)
        if algorithm is HashAlgorithm.SHA512:
            assert judge(signature, algorithm, HashPolicy()) is SignatureType.MSMQ_2_0
            continue
        with pytest.raises(AuthenticationError) as refused:
            judge(signature, algorithm, HashPolicy())
        assert refused.value.message_class == 0x8006
        opted_in = HashPolicy(frozenset({HashAlgorithm.SHA512, algorithm}))
        assert judge(signature, algorithm, opted_in) is SignatureType.MSMQ_2_0


@pytest.mark.spec("MQMQ-2.2.19.3-w")
@pytest.mark.parametrize("number", [0, 1, 0x8005, 0x800D, 0x9999, 0x18004, 0xFFFFFFFF])
def test_an_unknown_hash_fails_a_signed_message_and_no_other(number: int) -> None:
    with pytest.raises(AuthenticationError) as refused:
        judge(sign(INPUTS[SignatureType.MSMQ_2_0], KEY), number)
    assert refused.value.message_class == 0x8006
    assert judge(b"", number) is None


def test_new_signatures_use_sha512() -> None:
    assert verify(b"data", sign(b"data", KEY), KEY.public_key(), HashAlgorithm.SHA512)


@pytest.mark.spec("MQMQ-2.2.20.6-x")
@pytest.mark.parametrize("algorithm", HashAlgorithm)
def test_another_hash_number_breaks_verification(algorithm: HashAlgorithm) -> None:
    signature = sign(INPUTS[SignatureType.MSMQ_2_0], KEY, algorithm)
    assert judge(signature, algorithm) is SignatureType.MSMQ_2_0
    for other in set(HashAlgorithm) - {algorithm}:
        with pytest.raises(AuthenticationError):
            judge(signature, other)


@pytest.mark.spec("MQMQ-2.2.20.6-y")
def test_the_key_comes_from_the_certificate() -> None:
    signature = sign(INPUTS[SignatureType.MSMQ_1_0], KEY)
    assert judge(signature, HashAlgorithm.SHA512) is SignatureType.MSMQ_1_0
    for wrong in (certificate(2048), b"", b"no certificate", certificate(1024)[:100]):
        with pytest.raises(AuthenticationError):
            authenticate(signature, INPUTS, wrong, HashAlgorithm.SHA512, EVERY_HASH)


@pytest.mark.spec("MQMQ-6-f")
@pytest.mark.parametrize("algorithm", HashAlgorithm)
def test_we_sign_as_the_current_version_does_and_can_verify_what_the_others_sign(
    algorithm: HashAlgorithm,
) -> None:
    assert judge(sign(INPUTS[SignatureType.MSMQ_1_0], KEY), HashAlgorithm.SHA512) is SignatureType.MSMQ_1_0
    signature = sign(INPUTS[SignatureType.MSMQ_1_0], KEY, algorithm)
    assert judge(signature, algorithm) is SignatureType.MSMQ_1_0


def test_a_key_too_short_for_its_hash() -> None:
    short = private_key(512)
    assert verify(b"data", sign(b"data", short, HashAlgorithm.SHA1), short.public_key(), HashAlgorithm.SHA1)
    with pytest.raises(CannotSignDataExError):
        sign(b"data", short, HashAlgorithm.SHA512)


@given(st.integers(0, 1023), st.sampled_from(HashAlgorithm))
def test_one_flipped_bit_breaks_a_signature(bit: int, algorithm: HashAlgorithm) -> None:
    number = int.from_bytes(sign(b"data", KEY, algorithm), "little") ^ 1 << bit
    assert not verify(b"data", number.to_bytes(128, "little"), KEY.public_key(), algorithm)


@given(st.binary(max_size=200))
def test_hostile_signatures(signature: bytes) -> None:
    assert not verify(b"data", signature, KEY.public_key(), HashAlgorithm.SHA512)


def test_a_padded_digest_in_another_place_is_no_signature() -> None:
    # Bytes after the digest, or a shorter padding, must not verify (the forgery of small exponents).
    signature = sign(b"data", KEY)
    assert not verify(b"data", signature + b"\0", KEY.public_key(), HashAlgorithm.SHA512)
    assert not verify(b"data", signature[:-1], KEY.public_key(), HashAlgorithm.SHA512)
    assert not verify(b"data", signature[::-1], KEY.public_key(), HashAlgorithm.SHA512)

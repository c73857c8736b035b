from __future__ import annotations

import pytest

from msmq.wire.algorithms import ALLOWED_ALGORITHMS, EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.message import UserMessage
from tests.wire.builders import FRAME_7


@pytest.mark.spec("MQMQ-2.2.19.3-v")
def test_hash_algorithm_numbers() -> None:
    assert {algorithm.name: int(algorithm) for algorithm in HashAlgorithm} == {
        "MD2": 0x00008001,
        "MD4": 0x00008002,
        "MD5": 0x00008003,
        "SHA1": 0x00008004,
        "SHA256": 0x0000800C,
        "SHA512": 0x0000800E,
    }
    assert UserMessage.decode(FRAME_7).properties.hash_algorithm == HashAlgorithm.SHA1


@pytest.mark.spec("MQMQ-2.2.19.3-y")
def test_encryption_algorithm_numbers() -> None:
    assert {algorithm.name: int(algorithm) for algorithm in EncryptionAlgorithm} == {
        "RC2": 0x00006602,
        "AES128": 0x0000660E,
        "AES192": 0x0000660F,
        "AES256": 0x00006610,
        "RC4": 0x00006801,
    }
    assert UserMessage.decode(FRAME_7).properties.encryption_algorithm == EncryptionAlgorithm.RC4


def test_every_level_has_its_algorithms() -> None:
    assert ALLOWED_ALGORITHMS.keys() == set(PrivacyLevel)
    assert set().union(*ALLOWED_ALGORITHMS.values()) == set(EncryptionAlgorithm)

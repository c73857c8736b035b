from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.security.legacy import RC2, md2, md4

ALPHABET = b"abcdefghijklmnopqrstuvwxyz"
ALPHANUMERIC = ALPHABET.upper() + ALPHABET + b"0123456789"
DIGITS = b"1234567890" * 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", "8350e5a3e24c153df2275c9f80692773"),
        (b"a", "32ec01ec4a6dac72c0ab96fb34c0b5d1"),
        (b"abc", "da853b0d3f88d99b30283a69e6ded6bb"),
        (b"message digest", "ab4f496bfb2a530b219ff33031fe06b0"),
        (ALPHABET, "4e8ddff3650292ab5a4108c3aa47940b"),
        (ALPHANUMERIC, "da33def2a42df13975352846c30338cd"),
        (DIGITS, "d5976f79d83d3a0dc9806c3c66f3efd8"),
    ],
)
def test_md2_of_rfc_1319(text: bytes, expected: str) -> None:
    assert md2(text).hex() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", "31d6cfe0d16ae931b73c59d7e0c089c0"),
        (b"a", "bde52cb31de33e46245e05fbdbd6fb24"),
        (b"abc", "a448017aaf21d8525fc10ae87aa6729d"),
        (b"message digest", "d9130a8164549fe818874806e1c7014b"),
        (ALPHABET, "d79e1c308aa5bbcdeea8ed63df412da9"),
        (ALPHANUMERIC, "043f8582f241db351ce627e153e7f0e4"),
        (DIGITS, "e33b4ddc9c38f2199c3e7b164fcc0536"),
    ],
)
def test_md4_of_rfc_1320(text: bytes, expected: str) -> None:
    assert md4(text).hex() == expected


@pytest.mark.parametrize(
    ("key", "effective_bits", "plain", "cipher"),
    [
        ("0000000000000000", 63, "0000000000000000", "ebb773f993278eff"),
        ("ffffffffffffffff", 64, "ffffffffffffffff", "278b27e42e2f0d49"),
        ("3000000000000000", 64, "1000000000000001", "30649edf9be7d2c2"),
        ("88", 64, "0000000000000000", "61a8a244adacccf0"),
        ("88bca90e90875a", 64, "0000000000000000", "6ccf4308974c267f"),
        ("88bca90e90875a7f0f79c384627bafb2", 64, "0000000000000000", "1a807d272bbe5db1"),
        ("88bca90e90875a7f0f79c384627bafb2", 128, "0000000000000000", "2269552ab0f85ca6"),
        (
            "88bca90e90875a7f0f79c384627bafb216f80a6f85920584c42fceb0be255daf1e",
            129,
            "0000000000000000",
            "5b78d3a43dfff1f1",
        ),
    ],
)
def test_rc2_of_rfc_2268(key: str, effective_bits: int, plain: str, cipher: str) -> None:
    rc2 = RC2(bytes.fromhex(key), effective_bits)
    # One block with a zero vector is the same in every mode.
    assert rc2.encrypt(bytes.fromhex(plain)).hex() == cipher
    assert rc2.decrypt(bytes.fromhex(cipher)).hex() == plain


def test_rc2_chains_its_blocks() -> None:
    rc2 = RC2(b"12345", 40)
    first = rc2.encrypt(bytes(8))
    second = rc2.encrypt(first)
    # The second block of plain zeros is mixed with the first block of the cipher text.
    assert rc2.encrypt(bytes(16)) == first + second


@given(st.binary(min_size=1, max_size=128), st.integers(1, 1024), st.integers(0, 5), st.data())
def test_rc2_round_trip(key: bytes, effective_bits: int, blocks: int, data: st.DataObject) -> None:
    plain = data.draw(st.binary(min_size=8 * blocks, max_size=8 * blocks))
    rc2 = RC2(key, effective_bits)
    assert rc2.decrypt(rc2.encrypt(plain)) == plain


@pytest.mark.parametrize(
    ("key", "effective_bits"), [(b"", 40), (bytes(129), 40), (b"key", 0), (b"key", 1025)]
)
def test_rc2_refuses_impossible_keys(key: bytes, effective_bits: int) -> None:
    with pytest.raises(ValueError, match="RC2 takes"):
        RC2(key, effective_bits)


def test_rc2_refuses_half_blocks() -> None:
    with pytest.raises(ValueError, match="whole blocks"):
        RC2(b"12345", 40).decrypt(bytes(7))

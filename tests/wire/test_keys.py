from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.algorithms import EncryptionAlgorithm
from msmq.wire.keys import DSPublicKey, DSPublicKeys, KeyType, ProviderType, PublicKeyBlob, SimpleBlob

BASE = "Microsoft Base Cryptographic Provider v1.0"

# 80 bits: small enough to be read, long enough to show the order of its bytes.
MODULUS = 0xC1020304050607080901
BLOB = PublicKeyBlob(65537, MODULUS)
BLOB_BYTES = (
    b"\x06\x02\x00\x00"  # type PUBLICKEYBLOB, version, reserved
    b"\x00\xa4\x00\x00"  # CALG_RSA_KEYX
    b"\x52\x53\x41\x31"  # RSA1
    b"\x50\x00\x00\x00"  # bitLen
    b"\x01\x00\x01\x00"  # pubExp
    b"\x01\x09\x08\x07\x06\x05\x04\x03\x02\xc1"  # modulus
)
KEY = DSPublicKey(ProviderType.RSA_FULL, "AB", BLOB_BYTES)
KEY_BYTES = (
    b"\x1e\x00\x00\x00"  # ulKeyLen
    b"\x06\x00\x00\x00"  # ulProviderLen
    b"\x01\x00\x00\x00"  # ulProviderType
    b"A\0B\0\0\0" + BLOB_BYTES  # sProviderName  # aBuf
)

moduli = st.integers(1, 1 << 600)
blobs = st.builds(PublicKeyBlob, st.integers(1, 0xFFFFFFFF), moduli, st.sampled_from(KeyType))
names = st.text(st.characters(exclude_characters="\0", codec="utf-16-le"), max_size=20)
keys = st.builds(DSPublicKey, st.sampled_from(ProviderType), names, blobs.map(PublicKeyBlob.encode))


@pytest.mark.spec("MQQB-2.4.1-a", "MQQB-2.4.1-c", "MQMQ-2.2.20.6-z")
def test_public_key_blob_byte_by_byte() -> None:
    assert BLOB.encode() == BLOB_BYTES
    assert PublicKeyBlob.decode(BLOB_BYTES) == BLOB
    signing = PublicKeyBlob(65537, MODULUS, KeyType.SIGN)
    assert signing.encode() == BLOB_BYTES[:4] + b"\x00\x24\x00\x00" + BLOB_BYTES[8:]
    assert PublicKeyBlob.decode(signing.encode()) == signing


@pytest.mark.spec("MQQB-2.4.1-b", "MQMQ-2.2.20.6-aa")
@pytest.mark.parametrize(
    ("bits", "stated"),
    [
        (1024, b"\x00\x04\x00\x00"),
        (1023, b"\x00\x04\x00\x00"),
        (1017, b"\x00\x04\x00\x00"),
        (512, b"\x00\x02\x00\x00"),
    ],
)
def test_the_length_is_in_bits_and_whole_bytes(bits: int, stated: bytes) -> None:
    blob = PublicKeyBlob(3, (1 << bits - 1) + 1)
    encoded = blob.encode()
    assert encoded[12:16] == stated
    assert blob.bit_length == 8 * (len(encoded) - 20) == 8 * blob.modulus_size
    # The padding bits stand above the modulus and are zero.
    assert encoded[-1] == 1 << (bits - 1) % 8
    assert PublicKeyBlob.decode(encoded) == blob


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (0, b"\x07"),
        (1, b"\x01"),
        (2, b"\x01"),
        (4, b"\x00\x66"),
        (8, b"RSA2"),
        (12, b"\x51\x00"),
        (12, b"\x58\x00"),
        (12, b"\x00\x00"),
        (12, b"\xf8\xff\xff\xff"),
        (12, b"\xff\xff\xff\xff"),
        (16, b"\x00\x00\x00\x00"),
        (29, b"\x00"),
    ],
)
def test_a_damaged_public_key_blob_is_refused(offset: int, value: bytes) -> None:
    damaged = BLOB_BYTES[:offset] + value + BLOB_BYTES[offset + len(value) :]
    with pytest.raises(DecodeError):
        PublicKeyBlob.decode(damaged)
    with pytest.raises(DecodeError):
        DSPublicKey.decode(KEY_BYTES[:18] + damaged)


@pytest.mark.parametrize(
    "blob",
    [PublicKeyBlob(1 << 32, MODULUS), PublicKeyBlob(0, MODULUS), PublicKeyBlob(3, 0), PublicKeyBlob(3, -5)],
)
def test_numbers_that_are_no_key_are_not_written(blob: PublicKeyBlob) -> None:
    with pytest.raises(EncodeError):
        blob.encode()


@pytest.mark.spec("MQMQ-2.2.1-a", "MQMQ-2.2.1-b", "MQMQ-2.2.1-f")
def test_directory_key_byte_by_byte() -> None:
    assert KEY.encode() == KEY_BYTES
    assert KEY.size == len(KEY_BYTES)
    decoded = DSPublicKey.decode(KEY_BYTES + b"after")
    assert decoded == KEY
    assert decoded.key == BLOB
    assert decoded.key_blob.startswith(bytes.fromhex("06020000 00A40000 52534131"))

    base = DSPublicKey(ProviderType.RSA_FULL, BASE, BLOB_BYTES)
    encoded = base.encode()
    assert struct.unpack_from("<III", encoded) == (30, 2 * (len(BASE) + 1), 1)
    assert encoded[12 : 12 + 86] == BASE.encode("utf-16-le") + b"\0\0"
    assert encoded[12 + 86 :] == BLOB_BYTES
    assert len(encoded) == 12 + 86 + 30
    assert DSPublicKey.decode(encoded) == base


@pytest.mark.spec("MQMQ-2.2.1-c")
@pytest.mark.parametrize("name", ["", "A", BASE, "\N{GRINNING FACE}"])
def test_the_provider_length_counts_the_null(name: str) -> None:
    encoded = DSPublicKey(ProviderType.RSA_FULL, name, BLOB_BYTES).encode()
    characters = len(name.encode("utf-16-le")) // 2
    assert struct.unpack_from("<I", encoded, 4) == (2 * (characters + 1),)


@pytest.mark.spec("MQMQ-2.2.1-d")
def test_provider_types() -> None:
    assert {int(kind) for kind in ProviderType} == {0x00000001, 0x00000018}
    for number in (1, 0x18):
        data = KEY_BYTES[:8] + struct.pack("<I", number) + KEY_BYTES[12:]
        assert DSPublicKey.decode(data).provider_type == number
    for number in (0, 2, 3, 12, 0x17, 0x19, 0x01000001, 0xFFFFFFFF):
        with pytest.raises(DecodeError):
            DSPublicKey.decode(KEY_BYTES[:8] + struct.pack("<I", number) + KEY_BYTES[12:])


@pytest.mark.spec("MQMQ-2.2.1-e")
@pytest.mark.parametrize("name", [b"A\0B\0C\0", b"A\0\0\0\0\0", b"A\0B\0\0\1", b"\x00\xd8\x41\x00\0\0"])
def test_a_name_must_end_with_its_one_null(name: bytes) -> None:
    with pytest.raises(DecodeError):
        DSPublicKey.decode(KEY_BYTES[:12] + name + KEY_BYTES[18:])


@pytest.mark.spec("MQMQ-2.2.1-e")
@pytest.mark.parametrize("name", ["", "A", "AB", "ABC", "☃"])
def test_a_name_of_any_length(name: str) -> None:
    key = DSPublicKey(ProviderType.RSA_AES, name, BLOB_BYTES)
    assert key.encode()[4:8] == struct.pack("<I", 2 * len(name) + 2)
    assert key.encode()[12:].startswith(name.encode("utf-16-le") + bytes(2))
    assert DSPublicKey.decode(key.encode()) == key


@pytest.mark.spec("MQMQ-2.2.1-g")
@pytest.mark.parametrize("field", [0, 4])
@pytest.mark.parametrize("value", [0xFFFFFFFF, 0xFFFFFFFE, 0x80000000, 37, 31, 5, 1, 0])
def test_hostile_lengths_of_a_directory_key(field: int, value: int) -> None:
    data = KEY_BYTES[:field] + struct.pack("<I", value) + KEY_BYTES[field + 4 :]
    with pytest.raises(DecodeError):
        DSPublicKey.decode(data)
    with pytest.raises(DecodeError):
        DSPublicKeys.decode(struct.pack("<II", 8 + len(data), 1) + data)


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_an_unwritable_provider_name(name: str) -> None:
    with pytest.raises(EncodeError):
        DSPublicKey(ProviderType.RSA_AES, name, BLOB_BYTES).encode()


@pytest.mark.spec("MQMQ-2.2.2-a", "MQMQ-2.2.2-b")
def test_list_byte_by_byte() -> None:
    other = DSPublicKey(ProviderType.RSA_AES, BASE, BLOB_BYTES)
    both = DSPublicKeys((KEY, other))
    encoded = both.encode()
    assert encoded == (
        b"\xb8\x00\x00\x00"  # ulLen
        b"\x02\x00\x00\x00" + KEY_BYTES + other.encode()  # cNumofKeys
    )
    assert len(encoded) == 8 + KEY.size + other.size == 0xB8
    assert DSPublicKeys.decode(encoded) == both
    assert both.find(BASE) is both.keys[1]
    assert both.find("none such") is None
    assert DSPublicKeys().encode() == bytes.fromhex("0800000000000000")
    assert DSPublicKeys.decode(DSPublicKeys().encode()) == DSPublicKeys()
    for length in (0, 7, 8, len(encoded) - 1, len(encoded) + 1, 0xFFFFFFFF):
        with pytest.raises(DecodeError):
            DSPublicKeys.decode(struct.pack("<I", length) + encoded[4:])


@pytest.mark.spec("MQMQ-2.2.2-c", "MQMQ-2.2.2-d")
def test_the_keys_end_exactly_at_the_end() -> None:
    encoded = DSPublicKeys((KEY,)).encode()
    for count in (0, 2, 0x10000, 0xFFFFFFFF):
        with pytest.raises(DecodeError):
            DSPublicKeys.decode(encoded[:4] + struct.pack("<I", count) + encoded[8:])
    with pytest.raises(DecodeError, match="cNumofKeys"):
        DSPublicKeys.decode(struct.pack("<II", 20, 0xFFFFFFFF) + bytes(12))
    with pytest.raises(DecodeError):
        DSPublicKeys.decode(struct.pack("<I", len(encoded) + 1) + encoded[4:] + b"\0")


@pytest.mark.spec("MQQB-2.4.2-a")
def test_simple_blob_byte_by_byte() -> None:
    blob = SimpleBlob(EncryptionAlgorithm.AES256, b"wrapped")
    expected = (
        b"\x01\x02\x00\x00"  # type SIMPLEBLOB, version, reserved
        b"\x10\x66\x00\x00"  # sessionKeyAlgorithm
        b"\x00\xa4\x00\x00"  # CALG_RSA_KEYX
        b"wrapped"  # encryptedKey
    )
    assert blob.encode() == expected
    assert SimpleBlob.decode(expected) == blob
    with pytest.raises(DecodeError, match="before its encrypted key"):
        SimpleBlob.decode(expected[:12])
    with pytest.raises(EncodeError):
        SimpleBlob(EncryptionAlgorithm.AES256, b"").encode()


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 8, 9, 10, 11])
def test_a_damaged_simple_blob_is_refused(offset: int) -> None:
    encoded = bytearray(SimpleBlob(EncryptionAlgorithm.RC4, b"wrapped").encode())
    encoded[offset] ^= 0x40
    with pytest.raises(DecodeError):
        SimpleBlob.decode(bytes(encoded))


@given(blobs)
def test_public_key_blob_round_trip(blob: PublicKeyBlob) -> None:
    encoded = blob.encode()
    assert PublicKeyBlob.decode(encoded) == blob
    for end in range(len(encoded)):
        with pytest.raises(DecodeError):
            PublicKeyBlob.decode(encoded[:end])


@given(st.lists(keys, max_size=3))
def test_list_round_trip(several: list[DSPublicKey]) -> None:
    both = DSPublicKeys(tuple(several))
    assert DSPublicKeys.decode(both.encode()) == both


@given(st.sampled_from(EncryptionAlgorithm), st.binary(min_size=1, max_size=300))
def test_simple_blob_round_trip(algorithm: EncryptionAlgorithm, key: bytes) -> None:
    blob = SimpleBlob(algorithm, key)
    assert SimpleBlob.decode(blob.encode()) == blob


LIST_BYTES = DSPublicKeys((KEY, KEY)).encode()


@given(st.binary(max_size=80) | st.integers(0, len(LIST_BYTES)).map(lambda end: LIST_BYTES[:end]))
def test_hostile_bytes(data: bytes) -> None:
    for decode in (PublicKeyBlob.decode, SimpleBlob.decode, DSPublicKey.decode, DSPublicKeys.decode):
        with contextlib.suppress(DecodeError):
            decode(data)


@given(st.integers(0, len(LIST_BYTES) - 1), st.integers(0, 255))
def test_one_changed_byte(offset: int, value: int) -> None:
    damaged = LIST_BYTES[:offset] + bytes([value]) + LIST_BYTES[offset + 1 :]
    try:
        decoded = DSPublicKeys.decode(damaged)
    except DecodeError:
        return
    assert decoded.encode() == damaged

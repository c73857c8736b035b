"""TA_ADDRESS (MS-MQMQ 2.2.4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.addresses import ADDRESS_LENGTH, AddressType, TAAddress, decode_addresses
from msmq.wire.guid import guid_from_text

IP = TAAddress(AddressType.IP, bytes([10, 1, 2, 3]))
RAS = TAAddress(AddressType.IP_RAS, bytes([10, 1, 2, 4]))
IPX = TAAddress(AddressType.IPX, bytes.fromhex("00001234 112233445566"))
FOREIGN = TAAddress(AddressType.FOREIGN, guid_from_text("01020304-0506-0708-090A-0B0C0D0E0F10"))

addresses = st.sampled_from(AddressType).flatmap(
    lambda kind: st.builds(
        TAAddress, st.just(kind), st.binary(min_size=ADDRESS_LENGTH[kind], max_size=ADDRESS_LENGTH[kind])
    )
)


def packed_of(given_addresses: list[TAAddress]) -> bytes:
    """The array of PROPID_QM_ADDRESS: no count, no padding."""
    return b"".join(address.encode() for address in given_addresses)


@pytest.mark.spec("MQMQ-2.2.4-a")
def test_layout() -> None:
    assert IP.encode() == bytes.fromhex(
        "0400"  # AddressLength
        "0100"  # AddressType
        "0a010203"  # Address
    )
    assert [len(address.encode()) for address in (IP, IPX, FOREIGN)] == [8, 14, 20]
    packed = IP.encode() + IPX.encode() + FOREIGN.encode()
    assert decode_addresses(packed) == [IP, IPX, FOREIGN]


@pytest.mark.spec("MQMQ-2.2.4-b")
@pytest.mark.parametrize("kind", AddressType)
def test_the_length_follows_the_type(kind: AddressType) -> None:
    right = {AddressType.IP: 4, AddressType.IP_RAS: 4, AddressType.IPX: 10, AddressType.FOREIGN: 16}[kind]
    for length in range(20):
        data = length.to_bytes(2, "little") + kind.to_bytes(2, "little") + bytes(20)
        if length == right:
            assert TAAddress.decode(data) == TAAddress(kind, bytes(right))
            continue
        with pytest.raises(DecodeError, match="cannot be"):
            TAAddress.decode(data)
        with pytest.raises(EncodeError):
            TAAddress(kind, bytes(length)).encode()


@pytest.mark.spec("MQMQ-2.2.4-c")
def test_types() -> None:
    assert {kind.name: kind.value for kind in AddressType} == {"IP": 1, "IP_RAS": 2, "IPX": 3, "FOREIGN": 5}
    for number in (0, 4, 6, 7, 0xFFFF):
        for length in (4, 10, 16):
            with pytest.raises(DecodeError, match="unknown type"):
                TAAddress.decode(length.to_bytes(2, "little") + number.to_bytes(2, "little") + bytes(16))


@pytest.mark.spec("MQMQ-2.2.4-d")
def test_a_foreign_address_is_a_guid() -> None:
    encoded = FOREIGN.encode()
    assert encoded == bytes.fromhex(
        "1000"  # AddressLength
        "0500"  # AddressType
        "04030201 0605 0807 090a 0b0c0d0e0f10"  # Address
    )
    assert TAAddress.decode(encoded) == FOREIGN
    assert str(FOREIGN) == "01020304-0506-0708-090A-0B0C0D0E0F10"


@pytest.mark.spec("MQMQ-2.2.4-e")
def test_a_ras_address_is_an_ip_address_of_its_own_type() -> None:
    decoded = TAAddress.decode(RAS.encode())
    assert decoded.type is AddressType.IP_RAS
    assert str(decoded) == "10.1.2.4"
    assert RAS.encode()[4:] == TAAddress(AddressType.IP, RAS.address).encode()[4:]


@pytest.mark.spec("MQMQ-2.2.4-f")
def test_no_step_leaves_the_blob() -> None:
    blob = packed_of([IP, IPX, FOREIGN])
    whole = {0, 8, 22, 42}
    for size in range(len(blob)):
        if size in whole:
            assert packed_of(decode_addresses(blob[:size])) == blob[:size]
            continue
        with pytest.raises(DecodeError):
            decode_addresses(blob[:size])
    with pytest.raises(DecodeError):
        decode_addresses(b"\xff\xff\x01\x00" + bytes(0xFFFF))


@pytest.mark.spec("MQMQ-2.2.4.1-a")
def test_ipv4_stands_in_dotted_order() -> None:
    assert IP.encode()[4:] == bytes([10, 1, 2, 3])
    assert str(TAAddress.decode(IP.encode())) == "10.1.2.3"


@pytest.mark.spec("MQMQ-2.2.4.2-a")
def test_ipx_splits_into_network_and_node() -> None:
    decoded = TAAddress.decode(IPX.encode())
    assert str(decoded) == "00001234:112233445566"
    assert decoded == IPX


@given(st.lists(addresses, max_size=5))
def test_round_trip(given_addresses: list[TAAddress]) -> None:
    assert decode_addresses(packed_of(given_addresses)) == given_addresses


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    try:
        decoded = decode_addresses(data)
    except DecodeError:
        return
    assert packed_of(decoded) == data

from __future__ import annotations

import contextlib
import struct
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError, IllegalSecurityDescriptorError
from msmq.security.descriptor import (
    NT4_ACE_TYPES,
    OBJECT_ACE_TYPES,
    SECURITY_PROPERTIES,
    Ace,
    AceFlags,
    AceType,
    Acl,
    Control,
    SecurityDescriptor,
    decode_security_property,
)
from msmq.security.sid import ADMINISTRATORS, EVERYONE, WELL_KNOWN
from msmq.wire.access_masks import AccessMask, SecurityInformation
from tests.security.samples import OWNER, USER, allow, deny, descriptors

INHERIT = AceFlags.CONTAINER_INHERIT | AceFlags.OBJECT_INHERIT

# The example of MS-DTYP 2.5.1.4.
EXAMPLE = SecurityDescriptor(
    owner=ADMINISTRATORS,
    group=ADMINISTRATORS,
    dacl=Acl.of(
        allow(
            AccessMask.GENERIC_READ | AccessMask.GENERIC_EXECUTE, WELL_KNOWN["BUILTIN_USERS"], flags=INHERIT
        ),
        allow(AccessMask.GENERIC_ALL, ADMINISTRATORS, flags=INHERIT),
        allow(AccessMask.GENERIC_ALL, WELL_KNOWN["LOCAL_SYSTEM"], flags=INHERIT),
        allow(AccessMask.GENERIC_ALL, WELL_KNOWN["CREATOR_OWNER"], flags=INHERIT),
    ),
    sacl=Acl.of(
        Ace(AceType.SYSTEM_AUDIT, AccessMask.GENERIC_READ, EVERYONE, AceFlags.FAILED_ACCESS),
    ),
    control=Control.DACL_PROTECTED | Control.SACL_PROTECTED,
)
EXAMPLE_BYTES = (
    b"\x01"  # Revision
    b"\x00"  # Sbz1
    b"\x14\xb0"  # Control
    b"\x90\x00\x00\x00"  # OffsetOwner
    b"\xa0\x00\x00\x00"  # OffsetGroup
    b"\x14\x00\x00\x00"  # OffsetSacl
    b"\x30\x00\x00\x00"  # OffsetDacl
    b"\x02\x00\x1c\x00\x01\x00\x00\x00"  # Sacl: revision, size, count
    b"\x02\x80\x14\x00"  # audit, failed access, size
    b"\x00\x00\x00\x80"  # generic read
    b"\x01\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"  # everyone
    b"\x02\x00\x60\x00\x04\x00\x00\x00"  # Dacl: revision, size, count
    b"\x00\x03\x18\x00"  # allow, inherited by both, size
    b"\x00\x00\x00\xa0"  # generic read and execute
    b"\x01\x02\x00\x00\x00\x00\x00\x05\x20\x00\x00\x00\x21\x02\x00\x00"  # users
    b"\x00\x03\x18\x00"
    b"\x00\x00\x00\x10"  # generic all
    b"\x01\x02\x00\x00\x00\x00\x00\x05\x20\x00\x00\x00\x20\x02\x00\x00"  # administrators
    b"\x00\x03\x14\x00"
    b"\x00\x00\x00\x10"
    b"\x01\x01\x00\x00\x00\x00\x00\x05\x12\x00\x00\x00"  # local system
    b"\x00\x03\x14\x00"
    b"\x00\x00\x00\x10"
    b"\x01\x01\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00"  # creator owner
    b"\x01\x02\x00\x00\x00\x00\x00\x05\x20\x00\x00\x00\x20\x02\x00\x00"  # OwnerSid
    b"\x01\x02\x00\x00\x00\x00\x00\x05\x20\x00\x00\x00\x20\x02\x00\x00"  # GroupSid
)

OBJECT_GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def test_the_published_example() -> None:
    assert len(EXAMPLE_BYTES) == 0xB0
    assert EXAMPLE.encode() == EXAMPLE_BYTES
    assert SecurityDescriptor.decode(EXAMPLE_BYTES) == EXAMPLE


def test_object_entry_byte_by_byte() -> None:
    ace = Ace(AceType.ACCESS_DENIED_OBJECT, 0x10, EVERYONE, inherited_object_type=OBJECT_GUID)
    expected = (
        b"\x06\x00"  # AceType, AceFlags
        b"\x2c\x00"  # AceSize, with four bytes of data
        b"\x10\x00\x00\x00"  # Mask
        b"\x02\x00\x00\x00"  # Flags: InheritedObjectType present
        b"\x33\x22\x11\x00\x55\x44\x77\x66\x88\x99\xaa\xbb\xcc\xdd\xee\xff"  # InheritedObjectType
        b"\x01\x01\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"  # Sid
        b"data"
    )
    ace = replace(ace, application_data=b"data")
    assert ace.encode() == expected
    assert Ace.decode(expected) == ace
    both = replace(ace, object_type=UUID(int=0))
    assert Ace.decode(both.encode()) == both
    assert both.encode()[8] == 3


def test_parts_may_come_in_any_order_and_share_bytes() -> None:
    sid = EVERYONE.encode()
    acl = Acl.of(allow(1)).encode()
    data = struct.pack("<BBHIIII", 1, 0, 0x8004, 24, 24, 0, 36) + b"gap!" + sid + acl + b"tail"
    descriptor = SecurityDescriptor.decode(data)
    assert descriptor == SecurityDescriptor(EVERYONE, EVERYONE, Acl.of(allow(1)))


def test_absent_null_and_empty_lists_are_told_apart() -> None:
    absent = SecurityDescriptor()
    null = SecurityDescriptor(control=Control.DACL_PRESENT)
    empty = SecurityDescriptor(dacl=Acl())
    assert len({absent.encode(), null.encode(), empty.encode()}) == 3
    for descriptor in (absent, null, empty):
        assert SecurityDescriptor.decode(descriptor.encode()) == descriptor
    assert absent.encode() == bytes.fromhex("01000080") + bytes(16)
    assert null.encode() == bytes.fromhex("01000480") + bytes(16)


def put(offset: int, value: bytes) -> bytes:
    return EXAMPLE_BYTES[:offset] + value + EXAMPLE_BYTES[offset + len(value) :]


@pytest.mark.parametrize(
    "data",
    [
        put(0, b"\x02"),  # revision
        put(2, b"\x14\x30"),  # not self-relative
        put(2, b"\x10\xb0"),  # a DACL that is said to be absent
        put(2, b"\x04\xb0"),  # a SACL that is said to be absent
        *(
            put(field, struct.pack("<I", offset))
            for field in (4, 8, 12, 16)
            for offset in (1, 19, 0xB0, 0xFFFFFFFF)
        ),
        put(0x30, b"\x03"),  # revision of the DACL
        put(0x32, b"\x07\x00"),  # AclSize
        put(0x32, b"\xff\xff"),
        put(0x34, b"\x05\x00"),  # AceCount
        put(0x34, b"\xff\xff"),
        put(0x38, b"\x03"),  # SYSTEM_ALARM_ACE_TYPE
        put(0x38, b"\x05"),  # an object entry in a list of revision 2
        put(0x38, b"\x14"),
        put(0x38, b"\xff"),
        put(0x3A, b"\x00\x00"),  # AceSize
        put(0x3A, b"\x17\x00"),
        put(0x3A, b"\x0c\x00"),
        put(0x3A, b"\x14\x00"),  # the SID does not fit any more
        put(0x3A, b"\xfc\xff"),
        put(0x41, b"\x0f"),  # SubAuthorityCount
    ],
)
def test_damaged_bytes(data: bytes) -> None:
    with pytest.raises(DecodeError):
        SecurityDescriptor.decode(data)


def test_every_bit_of_the_flags_of_an_entry() -> None:
    entry = allow(0xFFFFFFFF, flags=0xFF)
    assert (entry.encode()[1], entry.encode()[4:8]) == (0xFF, b"\xff" * 4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: allow(-1),
        lambda: allow(1 << 32),
        lambda: allow(1, flags=0x100),
        lambda: allow(1, object_type=OBJECT_GUID),
        lambda: allow(1, application_data=b"odd"),
        lambda: Acl((), 3),
        lambda: Acl((Ace(AceType.ACCESS_ALLOWED_OBJECT, 1, USER),), 2),
        lambda: allow(1, application_data=bytes(0x10000)).encode(),
        lambda: Acl((allow(1, application_data=bytes(0x8000)),) * 2).encode(),
        lambda: SecurityDescriptor(resource_manager_control=256),
        lambda: SecurityDescriptor(control=Control(0x10000)),
    ],
)
def test_values_that_cannot_be_written(make: object) -> None:
    with pytest.raises(EncodeError):
        make()  # type: ignore[operator]


@pytest.mark.spec("MQMQ-2.2.3-b")
@pytest.mark.parametrize("number", range(16))
def test_select_returns_only_the_parts_asked_for(number: int) -> None:
    information = SecurityInformation(number)
    selected = SecurityDescriptor.decode(EXAMPLE.select(information).encode())
    assert selected.owner == (EXAMPLE.owner if number & 1 else None)
    assert selected.group == (EXAMPLE.group if number & 2 else None)
    assert selected.dacl == (EXAMPLE.dacl if number & 4 else None)
    assert selected.sacl == (EXAMPLE.sacl if number & 8 else None)
    assert bool(selected.control & (Control.DACL_PRESENT | Control.DACL_PROTECTED)) == bool(number & 4)
    assert bool(selected.control & (Control.SACL_PRESENT | Control.SACL_PROTECTED)) == bool(number & 8)


@pytest.mark.parametrize("number", range(16))
def test_update_changes_only_the_parts_named(number: int) -> None:
    information = SecurityInformation(number)
    old = SecurityDescriptor(OWNER, USER, Acl.of(deny(1)), Acl(), Control.DACL_AUTO_INHERITED)
    new = old.update(information, EXAMPLE)
    assert new.select(information) == EXAMPLE.select(information)
    rest = SecurityInformation.ALL & ~information
    assert new.select(rest) == old.select(rest)
    assert old.update(SecurityInformation.DACL, SecurityDescriptor()).dacl is None


@pytest.mark.spec("MQMQ-6-s")
def test_the_security_properties_refuse_entries_that_nt4_does_not_know() -> None:
    assert {1101, 1201, 1301, 1501, 1601, 5407} == SECURITY_PROPERTIES
    plain = SecurityDescriptor(OWNER, None, Acl.of(allow(1), deny(2)), EXAMPLE.sacl)
    for property_id in SECURITY_PROPERTIES:
        assert decode_security_property(property_id, plain.encode()) == plain
        for kind in set(AceType) - NT4_ACE_TYPES:
            acl = Acl.of(allow(1), Ace(kind, 1, USER))
            for descriptor in (SecurityDescriptor(dacl=acl), SecurityDescriptor(sacl=acl)):
                with pytest.raises(IllegalSecurityDescriptorError):
                    decode_security_property(property_id, descriptor.encode())
    assert not OBJECT_ACE_TYPES & NT4_ACE_TYPES
    directory = SecurityDescriptor(dacl=Acl.of(Ace(AceType.ACCESS_ALLOWED_OBJECT, 1, USER)))
    assert decode_security_property(0, directory.encode()) == directory


def test_a_property_with_a_damaged_descriptor_is_an_illegal_one() -> None:
    with pytest.raises(IllegalSecurityDescriptorError):
        decode_security_property(1101, EXAMPLE_BYTES[:-1])


@given(descriptors)
def test_round_trip(descriptor: SecurityDescriptor) -> None:
    encoded = descriptor.encode()
    assert SecurityDescriptor.decode(encoded) == descriptor
    assert SecurityDescriptor.decode(encoded).encode() == encoded


@given(st.integers(0, len(EXAMPLE_BYTES) - 1), st.binary(min_size=1, max_size=4), st.integers(0, 0xB4))
def test_hostile_changes(offset: int, value: bytes, end: int) -> None:
    with contextlib.suppress(DecodeError):
        SecurityDescriptor.decode(put(offset, value)[:end])


@given(st.binary(max_size=100))
def test_hostile_bytes(data: bytes) -> None:
    for decode in (SecurityDescriptor.decode, Acl.decode, Ace.decode):
        with contextlib.suppress(DecodeError):
            decode(data)
    head = struct.pack("<BBHIIII", 1, 0, 0x8014, 20, 20, 20, 20)
    with contextlib.suppress(DecodeError):
        SecurityDescriptor.decode(head + data)


def test_truncated_at_every_length() -> None:
    for end in range(len(EXAMPLE_BYTES)):
        with pytest.raises(DecodeError):
            SecurityDescriptor.decode(EXAMPLE_BYTES[:end])

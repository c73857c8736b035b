from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.security.sid import ADMINISTRATORS, DOMAIN_IDENTIFIERS, EVERYONE, WELL_KNOWN, Sid, well_known_name
from tests.security.samples import sids
from tests.wire.builders import FRAME_7


@pytest.mark.spec("DMPR-2-a")
def test_byte_by_byte() -> None:
    # The sender of the published frame 7.
    sid = Sid.parse("S-1-5-21-3181267629-1039849782-3663111779-1000")
    expected = (
        b"\x01"  # Revision
        b"\x05"  # SubAuthorityCount
        b"\x00\x00\x00\x00\x00\x05"  # IdentifierAuthority
        b"\x15\x00\x00\x00"  # 21
        b"\xad\x4a\x9e\xbd"  # 3181267629
        b"\x36\xd9\xfa\x3d"  # 1039849782
        b"\x63\xa6\x56\xda"  # 3663111779
        b"\xe8\x03\x00\x00"  # 1000
    )
    assert sid.encode() == expected == FRAME_7[108:136]
    assert sid.size == len(expected) == 28
    assert Sid.decode(expected) == sid
    assert Sid.decode(b"before" + expected + b"after", 6) == sid


@pytest.mark.parametrize(
    ("text", "authority", "numbers"),
    [
        ("S-1-1-0", 1, (0,)),
        ("S-1-5", 5, ()),
        ("S-1-4294967295-4294967295", 0xFFFFFFFF, (0xFFFFFFFF,)),
        ("S-1-0x000100000000-7", 0x100000000, (7,)),
        ("S-1-0xFFFFFFFFFFFF", 0xFFFFFFFFFFFF, ()),
        ("S-1-5" + "-1" * 15, 5, (1,) * 15),
    ],
)
def test_text(text: str, authority: int, numbers: tuple[int, ...]) -> None:
    sid = Sid(authority, numbers)
    assert str(sid) == text
    assert Sid.parse(text) == sid


@pytest.mark.parametrize(
    "text",
    [
        "",
        "S-1",
        "S-1-",
        "S-2-5-1",
        "s-1-5-1",
        "S-1-5-",
        "S-1-5--1",
        "S-1-5-1-",
        "S-1-5-4294967296",
        "S-1-5-99999999999",
        "S-1-0x5-1",
        "S-1-0x0000000000005-1",
        "S-1-5-0x1",
        "S-1-5-+1",
        " S-1-5-1",
        "S-1-5-1\n",
        "S-1-5-\N{ARABIC-INDIC DIGIT ONE}",
        "S-1-5" + "-1" * 16,
    ],
)
def test_bad_text(text: str) -> None:
    with pytest.raises(DecodeError):
        Sid.parse(text)


@pytest.mark.parametrize(
    "data",
    [
        bytes.fromhex("0001000000000001 00000000"),
        bytes.fromhex("0201000000000001 00000000"),
        bytes.fromhex("0101000000000001 000000"),
        bytes.fromhex("0102000000000001 00000000"),
        bytes.fromhex("0110000000000001") + bytes(64),
        bytes.fromhex("01ff000000000001") + bytes(20),
    ],
)
def test_damaged_bytes(data: bytes) -> None:
    with pytest.raises(DecodeError):
        Sid.decode(data)


@pytest.mark.parametrize(
    ("authority", "numbers"), [(-1, ()), (1 << 48, ()), (5, (-1,)), (5, (1 << 32,)), (5, (0,) * 16)]
)
def test_numbers_that_are_no_sid(authority: int, numbers: tuple[int, ...]) -> None:
    with pytest.raises(EncodeError):
        Sid(authority, numbers)


def test_names() -> None:
    assert str(EVERYONE) == "S-1-1-0"
    assert str(ADMINISTRATORS) == "S-1-5-32-544"
    assert well_known_name(Sid.parse("S-1-5-7")) == "ANONYMOUS"
    assert well_known_name(Sid.parse("S-1-5-21-1-2-3-513")) is None
    assert len(set(WELL_KNOWN.values())) == len(WELL_KNOWN)
    domain = Sid.parse("S-1-5-21-1-2-3")
    assert str(domain.child(DOMAIN_IDENTIFIERS["DOMAIN_USERS"])) == "S-1-5-21-1-2-3-513"


@given(sids)
def test_round_trip(sid: Sid) -> None:
    assert Sid.decode(sid.encode()) == sid
    assert Sid.parse(str(sid)) == sid
    for end in range(sid.size):
        with pytest.raises(DecodeError):
            Sid.decode(sid.encode()[:end])


@given(st.binary(max_size=80), st.text(max_size=40))
def test_hostile_input(data: bytes, text: str) -> None:
    with contextlib.suppress(DecodeError):
        Sid.decode(data)
    with contextlib.suppress(DecodeError):
        Sid.parse(text)

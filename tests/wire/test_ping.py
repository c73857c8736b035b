"""Ping (MS-MQQB 2.2.7): the question, its answer, and what is ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.packets import Ping, session_quota_reached

OURS = bytes(range(16))
THEIRS = bytes(range(16, 32))

u16s = st.integers(0, 0xFFFF)
u32s = st.integers(0, 0xFFFFFFFF)
guids = st.binary(min_size=16, max_size=16)


@pytest.mark.spec("MQQB-2.2.7-a")
def test_layout() -> None:
    assert Ping(0x0003, 0x5548, 0x01020304, OURS).encode() == bytes.fromhex("0300 4855 04030201") + OURS
    assert [(field.spec_name, field.offset, field.size) for field in Ping.FIELDS] == [
        ("Flags", 0, 2),
        ("Signature", 2, 2),
        ("Cookie", 4, 4),
        ("QMGuid", 8, 16),
    ]


@given(u16s, u32s, guids)
def test_round_trip(flags: int, cookie: int, guid: bytes) -> None:
    ping = Ping(flags, cookie=cookie, qm_guid=guid)
    assert Ping.parse(ping.encode()) == ping


@pytest.mark.spec("MQQB-2.2.7-b")
@pytest.mark.parametrize("client", [False, True])
def test_a_request_says_whether_it_comes_from_a_client(client: bool) -> None:
    request = Ping.request(1, OURS, server_class=not client)
    assert request.client == client
    assert Ping.parse(request.encode()).answer(THEIRS).client == client


@pytest.mark.spec("MQQB-2.2.7-c")
@pytest.mark.parametrize(("open_sessions", "refused"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_a_response_says_whether_a_session_would_be_refused_now(open_sessions: int, refused: int) -> None:
    request = Ping.request(1, OURS)
    assert request.refused == 0
    response = request.answer(THEIRS, refuse=session_quota_reached(open_sessions, max_in_sessions=2))
    assert response.refused == refused
    assert response.flags & 0b10 == refused << 1


def test_sessions_are_unlimited_unless_a_quota_is_set() -> None:
    assert not session_quota_reached(1_000_000)


@pytest.mark.spec("MQQB-2.2.7-d")
@pytest.mark.parametrize(("flags", "client"), [(0x7D01, 1), (0xB295, 1), (0xFFFC, 0)])
def test_unused_bits_are_ignored(flags: int, client: int) -> None:
    ping = Ping.parse(Ping(flags, cookie=9, qm_guid=OURS).encode())
    assert (ping.client, ping.refused) == (client, 0)
    assert ping.answer(THEIRS).flags == client


@pytest.mark.spec("MQQB-2.2.7-e")
@pytest.mark.parametrize("signature", [0, 0x4855, 0x5547, 0x5549, 0xFFFF])
def test_another_signature_is_no_ping(signature: int) -> None:
    """What cannot be parsed has no answer."""
    with pytest.raises(DecodeError):
        Ping.parse(Ping(signature=signature, cookie=1, qm_guid=OURS).encode())


@pytest.mark.spec("MQQB-2.2.7-f")
@given(u32s, u32s)
def test_a_response_belongs_to_the_request_with_its_cookie(cookie: int, other: int) -> None:
    latest = Ping.request(cookie, OURS)
    response = Ping.parse(latest.answer(THEIRS).encode())
    assert response.cookie == cookie
    assert response.answers(latest)
    stale = Ping.request(other, OURS).answer(THEIRS)
    assert stale.answers(latest) == (other == cookie)


@pytest.mark.spec("MQQB-2.2.7-g")
def test_each_side_gives_its_own_guid() -> None:
    request = Ping.request(1, OURS)
    assert request.qm_guid == OURS
    assert request.answer(THEIRS).qm_guid == THEIRS


@pytest.mark.spec("MQQB-2.2.7-h")
@given(st.binary(max_size=64).filter(lambda datagram: len(datagram) != 24))
def test_a_datagram_of_another_length_is_no_ping(datagram: bytes) -> None:
    with pytest.raises(DecodeError):
        Ping.parse(datagram)


@given(st.binary(min_size=24, max_size=24))
def test_any_24_bytes_are_a_ping_or_refused(datagram: bytes) -> None:
    try:
        assert Ping.parse(datagram).encode() == datagram
    except DecodeError:
        assert datagram[2:4] != b"\x48\x55"


@pytest.mark.parametrize("cookie", [-1, 1 << 32])
def test_a_cookie_is_32_bits(cookie: int) -> None:
    with pytest.raises(EncodeError):
        Ping.request(cookie, OURS).encode()

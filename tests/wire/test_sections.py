"""Sections of a remotely read packet (MS-MQRR 2.2.6, 2.2.7): cut, and joined again."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.wire.headers import MAX_PACKET_SIZE
from msmq.wire.message import UserMessage
from msmq.wire.sections import (
    Section,
    SectionType,
    join_sections,
    split_sections,
)
from msmq.wire.trailers import MessagePacket
from tests.wire import builders, messages

NO_LIMIT = 0xFFFFFFFF
BODY = bytes(range(100))
FIRST_TYPES = (SectionType.BINARY_FIRST_SECTION, SectionType.SRMP_FIRST_SECTION)


def packet_of(message: UserMessage) -> bytes:
    return MessagePacket.of(message, source=IPv4Address("10.0.0.5")).encode()


BINARY = packet_of(messages.message(label="", extension=b"", body=BODY))
HTTP = packet_of(messages.message(**messages.srmp_headers()))


def body_start(packet: bytes) -> int:
    return UserMessage.decode(packet, trailing=True).body_offset


@pytest.mark.spec("MQRR-2.2.7-a")
def test_section_types() -> None:
    assert {member.name: member.value for member in SectionType} == {
        "FULL_PACKET": 0,
        "BINARY_FIRST_SECTION": 1,
        "BINARY_SECOND_SECTION": 2,
        "SRMP_FIRST_SECTION": 3,
        "SRMP_SECOND_SECTION": 4,
    }
    for unknown in (5, 0xFFFF):
        with pytest.raises(DecodeError):
            join_sections([Section(unknown, len(BINARY), BINARY)])


@pytest.mark.spec("MQRR-2.2.6-b")
@pytest.mark.parametrize(("limit", "sections"), [(0, 2), (99, 2), (100, 1), (101, 1), (NO_LIMIT, 1)])
def test_a_packet_is_cut_in_two_only_when_part_of_its_body_is_withheld(limit: int, sections: int) -> None:
    assert len(split_sections(BINARY, limit, 0)) == sections
    without_trailers = messages.message(body=BODY).data
    assert len(split_sections(without_trailers, limit, 0)) == 1


@pytest.mark.spec("MQRR-2.2.7-c")
@pytest.mark.parametrize("packet", [BINARY, HTTP], ids=["binary", "http"])
def test_a_full_packet_is_one_section(packet: bytes) -> None:
    (section,) = split_sections(packet, NO_LIMIT, NO_LIMIT)
    assert section == Section(SectionType.FULL_PACKET, len(packet), packet)
    assert MessagePacket.decode(section.data).encode() == packet
    assert join_sections([section]) == packet
    if packet is BINARY:  # a reader that wants exactly the whole body gets it in one
        assert split_sections(packet, len(BODY), 0) == [section]
        assert len(split_sections(packet, len(BODY) - 1, 0)) == 2


@pytest.mark.spec("MQRR-2.2.6-c", "MQRR-2.2.6-d")
def test_the_first_section_ends_with_as_much_of_the_body_as_was_asked_for() -> None:
    first, _ = split_sections(BINARY, 10, NO_LIMIT)
    start = body_start(BINARY)
    assert first.data == BINARY[: start + 10]
    assert first.data.endswith(BODY[:10])
    assert first.size_alloc == start + 100
    assert first.size_alloc - first.size == 90


@pytest.mark.spec("MQRR-2.2.7-d")
@pytest.mark.parametrize("name", ["debug", "soap", "multi_queue", None])
def test_a_binary_packet_is_cut_behind_its_message_properties(name: str | None) -> None:
    """Padding behind the five bytes belongs to the header; the next header begins the second section."""
    headers = {} if name is None else {name: builders.optional_headers()[name]}
    message = messages.message(label="", extension=b"", body=b"12345", **headers)
    packet = packet_of(message)
    first, second = split_sections(packet, 2, 0)
    assert (first.type, second.type) == (SectionType.BINARY_FIRST_SECTION, SectionType.BINARY_SECOND_SECTION)
    assert first.data == packet[: message.body_offset] + b"12"
    assert first.size_alloc == message.body_offset + 8
    following = headers[name].write() if name else bytes.fromhex("0c000000 b0000000 12")
    assert second.data.startswith(following)
    assert second.data == packet[first.size_alloc :]


@pytest.mark.spec("MQRR-2.2.7-e")
@pytest.mark.parametrize("optional", [(), ("debug",), ("debug", "soap", "multi_queue", "session")])
def test_a_packet_that_came_over_http_is_cut_behind_its_compound_message(optional: tuple[str, ...]) -> None:
    headers = {name: builders.optional_headers()[name] for name in optional} | messages.srmp_headers()
    packet = packet_of(messages.message(**headers))
    size = 16 + len(messages.POST)
    assert len(split_sections(packet, 0, size)) == 1
    first, second = split_sections(packet, 0, size - 1)
    assert (first.type, second.type) == (SectionType.SRMP_FIRST_SECTION, SectionType.SRMP_SECOND_SECTION)
    end = packet.index(messages.POST) + len(messages.POST)
    assert first.data == packet[: end - 1]
    assert first.size_alloc == (end + 3) & ~3
    following = headers["soap"].write() if "soap" in headers else bytes.fromhex("0c000000 b0000000 12")
    assert second.data.startswith(following)
    compound_start = packet.index(messages.POST) - 16
    assert split_sections(packet, 0, 0)[0].data == packet[:compound_start]


@pytest.mark.spec("MQRR-2.2.6-e")
@given(builders.message_parts(http=True), st.integers(0, 60), st.integers(0, 60))
def test_every_packet_cut_anywhere_is_joined_with_its_headers_in_place(
    parts: dict[str, object], max_body_size: int, max_compound_message_size: int
) -> None:
    packet = packet_of(builders.build(**parts))
    sections = split_sections(packet, max_body_size, max_compound_message_size)
    assert 1 <= len(sections) <= 2
    for section in sections:
        if section.type in FIRST_TYPES:
            assert section.size_alloc >= section.size
        else:
            assert section.size_alloc == section.size
    joined = join_sections(sections)
    assert len(joined) == len(packet)
    gap = slice(sections[0].size, sections[0].size_alloc)
    assert joined[: gap.start] == packet[: gap.start]
    assert joined[gap] == bytes(gap.stop - gap.start)
    assert joined[gap.stop :] == packet[gap.stop :]


@pytest.mark.spec("MQRR-2.2.6-h")
def test_joined_sections_keep_every_header_at_its_offset() -> None:
    headers = {"debug": builders.optional_headers()["debug"]}
    packet = packet_of(messages.message(body=b"12345", **headers))
    joined = join_sections(split_sections(packet, 2, 0))
    assert len(joined) == len(packet)
    read = MessagePacket.decode(joined)
    whole = MessagePacket.decode(packet)
    assert read.message.debug == headers["debug"]
    assert read.message.body == b"12\0\0\0"
    assert (read.extension, read.subqueue, read.extended_address) == (
        whole.extension,
        whole.subqueue,
        whole.extended_address,
    )


FIRST, SECOND = split_sections(BINARY, 10, 0)
FULL = Section(SectionType.FULL_PACKET, len(BINARY), BINARY)


@pytest.mark.spec("MQRR-2.2.6-e")
@pytest.mark.parametrize(
    "sections",
    [[FULL._replace(size_alloc=len(BINARY) + 1)], [FIRST, SECOND._replace(size_alloc=SECOND.size - 1)]],
    ids=["full", "second"],
)
def test_a_whole_section_of_another_size_is_refused(sections: Sequence[Section]) -> None:
    with pytest.raises(DecodeError):
        join_sections(sections)


@pytest.mark.parametrize("kind", FIRST_TYPES)
def test_a_first_section_larger_than_its_part_is_refused(kind: SectionType) -> None:
    with pytest.raises(DecodeError):
        join_sections([FIRST._replace(type=kind, size_alloc=FIRST.size - 1)])


@pytest.mark.parametrize(
    "sections",
    [
        [],
        [FIRST, SECOND, SECOND],
        [FULL, SECOND],
        [SECOND],
        [SECOND, FIRST],
        [FIRST, FIRST],
        [FIRST, SECOND._replace(type=SectionType.SRMP_SECOND_SECTION)],
        [FIRST._replace(type=SectionType.SRMP_FIRST_SECTION), SECOND],
        [FIRST._replace(size_alloc=MAX_PACKET_SIZE + 1), SECOND],
        [FIRST._replace(size_alloc=0xFFFFFFFF)],
    ],
)
def test_sections_that_make_no_packet_are_refused(sections: Sequence[Section]) -> None:
    with pytest.raises(DecodeError):
        join_sections(sections)


def test_a_packet_that_is_none_is_not_cut() -> None:
    with pytest.raises(DecodeError):
        split_sections(BINARY[:-200], 0, 0)

"""The headers of a message that came over HTTP (MS-MQRR 2.2.5.1.2)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, EncodeError
from msmq.wire.message import UserMessage
from msmq.wire.srmp import CompoundMessageHeader, SRMPEnvelopeHeader
from tests.wire import builders, messages
from tests.wire.builders import patched_u32

OPTIONAL = ("transaction", "security", "debug", "soap", "multi_queue", "session")


@pytest.mark.spec("MQRR-2.2.5.1.2.1-a")
@given(builders.texts(), builders.u16s, st.sampled_from([0, 0xFFFF]))
def test_the_envelope_round_trips(text: str, header_id: int, reserved: int) -> None:
    header = SRMPEnvelopeHeader(text, header_id, reserved)
    data = header.write()
    assert data[:4] == header_id.to_bytes(2, "little") + reserved.to_bytes(2, "little")
    assert SRMPEnvelopeHeader.read(data) == (header, len(data))
    assert len(data) % 4 == 0


@pytest.mark.spec("MQRR-2.2.5.1.2.1-a", "MQRR-2.2.5.1.1-a")
@pytest.mark.parametrize("name", [None, *OPTIONAL])
def test_a_binary_message_has_neither_header(name: str | None) -> None:
    """Behind its properties (and debug header) come soap, multiple queues, session or the end."""
    headers = {} if name is None else {name: builders.optional_headers()[name]}
    received = UserMessage.decode(messages.message(**headers).data)
    assert received.user.sent_by_http == 0
    assert received.envelope is None
    assert received.compound is None
    assert received.debug == headers.get("debug")
    end = received.properties.end(received.data, received.properties_offset, received.base.packet_size)
    following = "" if name in ("transaction", "security") else name
    assert received.data[end:] == (headers[following].write() if following else b"")


@pytest.mark.spec("MQRR-2.2.5.1.2.1-b")
@pytest.mark.parametrize("length", [0, 1, 2, 3, 40])
def test_the_envelope_is_counted_in_characters_with_its_terminator(length: int) -> None:
    text = "é" * length
    data = SRMPEnvelopeHeader(text).write()
    assert int.from_bytes(data[4:8], "little") == length + 1
    assert SRMPEnvelopeHeader.read(data)[0].data == text


@pytest.mark.spec("MQRR-2.2.5.1.2.1-c")
def test_the_envelope_is_terminated_utf_16() -> None:
    envelope = '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/"></se:Envelope>'
    data = SRMPEnvelopeHeader(envelope).write()
    end = 8 + 2 * (len(envelope) + 1)
    assert data[8 : end - 2].decode("utf-16-le") == envelope
    assert data[end - 2 : end] == b"\0\0"
    broken = bytearray(data)
    broken[end - 2] = 0x41
    with pytest.raises(DecodeError):
        SRMPEnvelopeHeader.read(bytes(broken))


@pytest.mark.parametrize("length", [40, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_an_envelope_longer_than_the_packet_is_refused(length: int) -> None:
    """Twice a length near 2^31 does not wrap into something that fits."""
    data = patched_u32(SRMPEnvelopeHeader("text").write(), 4, length)
    with pytest.raises(DecodeError):
        SRMPEnvelopeHeader.read(data)


@pytest.mark.spec("MQRR-2.2.5.1.2.2-a", "MQRR-2.2.5.1.2.2-b", "MQRR-2.2.5.1.2.2-c")
@given(builders.compound_headers())
def test_the_compound_message_round_trips(header: CompoundMessageHeader) -> None:
    data = header.write()
    size = len(header.data)
    assert data[:16] == header.encode()
    assert int.from_bytes(data[4:8], "little") == header.http_body_size == size
    assert data[16 : 16 + size] == header.data
    received, end = CompoundMessageHeader.read(data)
    assert received == header
    assert end == len(data)
    assert received.body == header.data[header.msg_body_offset :][: header.msg_body_size]


@pytest.mark.spec("MQRR-2.2.5.1.2.2-a")
def test_layout_of_the_compound_message_header() -> None:
    assert [(field.spec_name, field.offset, field.size) for field in CompoundMessageHeader.FIELDS] == [
        ("HeaderId", 0, 2),
        ("Reserved", 2, 2),
        ("HTTPBodySize", 4, 4),
        ("MsgBodySize", 8, 4),
        ("MsgBodyOffset", 12, 4),
    ]
    header = messages.srmp_headers()["compound"]
    header.reserved = 0xFFFF
    assert CompoundMessageHeader.read(header.write())[0].body == b"order 66"
    assert UserMessage.decode(messages.message().data).compound is None


@pytest.mark.parametrize(
    ("offset", "value"), [(4, 17), (4, 0xFFFFFFFF), (8, 9), (8, 0xFFFFFFFF), (12, 9), (12, 0xFFFFFFFF)]
)
def test_a_body_outside_the_compound_message_is_refused(offset: int, value: int) -> None:
    header = CompoundMessageHeader(msg_body_size=4, msg_body_offset=4, data=b"POSTbody")
    with pytest.raises(DecodeError):
        CompoundMessageHeader.read(patched_u32(header.write(), offset, value))


def test_a_body_outside_the_compound_message_is_not_written() -> None:
    with pytest.raises(EncodeError):
        CompoundMessageHeader(msg_body_size=5, msg_body_offset=4, data=b"POSTbody").write()


@pytest.mark.spec("MQRR-2.2.5.1.2-a", "MQRR-2.2.5.1-b")
def test_a_message_that_came_over_http_says_so_and_has_both_headers() -> None:
    headers = messages.srmp_headers()
    over_http = UserMessage.decode(messages.message(**headers).data)
    assert over_http.user.sent_by_http == 1
    assert over_http.envelope == headers["envelope"]
    assert over_http.compound == headers["compound"]
    assert over_http.compound is not None
    assert over_http.compound.body == over_http.body
    assert UserMessage.decode(messages.message().data).user.sent_by_http == 0


@pytest.mark.parametrize("name", ["envelope", "compound"])
def test_one_of_the_two_headers_alone_is_not_written(name: str) -> None:
    with pytest.raises(EncodeError):
        messages.message(**{name: messages.srmp_headers()[name]})


@given(builders.message_parts(http=True))
def test_http_messages_round_trip(parts: dict[str, object]) -> None:
    message = builders.build(**parts)
    received = UserMessage.decode(message.data)
    assert received.envelope == parts.get("envelope")
    assert received.compound == parts.get("compound")
    assert received.body == message.body


@given(st.integers(0, 400), st.binary(min_size=1, max_size=4))
def test_a_mutated_http_message_is_read_or_refused(offset: int, junk: bytes) -> None:
    data = bytearray(messages.message(**builders.optional_headers(), **messages.srmp_headers()).data)
    data[offset : offset + len(junk)] = junk
    with suppress(DecodeError):
        UserMessage.decode(bytes(data))

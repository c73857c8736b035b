"""Builders and Hypothesis strategies for the headers and packets of MS-MQMQ 2.2.18 to 2.2.20.

The builders give one legal value each, to be changed where a test looks. The strategies give every legal
value; what ``message_parts`` draws are the arguments of ``UserMessage.build``, which fills lengths and
presence bits into them. ``accept`` and ``refuse`` put bytes through the whole receiving path: the stream
reader, then the packet decoder.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.wire.delivery import Acknowledgment, acknowledgments
from msmq.wire.framing import Packet, StreamReader, decode_packet
from msmq.wire.headers import (
    NULL_GUID,
    USER_MP,
    BaseHeader,
    MessagePropertiesHeader,
    PrivateQueueFormatName,
    QueueName,
    QueueReference,
    UserHeader,
)
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import DistributionListName, MQFElement, MultiQueueFormatHeader
from msmq.wire.optional_headers import (
    DebugHeader,
    ProviderInfo,
    SecurityHeader,
    SessionHeader,
    SoapHeader,
    TransactionHeader,
)
from msmq.wire.srmp import CompoundMessageHeader, SRMPEnvelopeHeader

VECTORS = Path(__file__).parents[1] / "vectors"


def frame(stem: str) -> bytes:
    """The bytes of a published frame, by the name of its file."""
    return bytes.fromhex((VECTORS / f"{stem}.hex").read_text(encoding="ascii"))


def acknowledgment(message: UserMessage, fate: int, **options: Any) -> Acknowledgment | None:
    """The acknowledgment of one message that meets a fate, or None if none is due."""
    due = acknowledgments((message,), fate, **options)
    assert len(due) <= 1
    return due[0] if due else None


SESSION_FRAMES = (
    "frame03_establish_connection_request",
    "frame04_establish_connection_response",
    "frame05_connection_parameters_request",
    "frame06_connection_parameters_response",
    "frame07_user_message_completed",
    "frame08_session_ack",
)
FRAME_7 = frame("frame07_user_message_completed")

SOURCE = bytes(range(0x10, 0x20))
DESTINATION = bytes(range(0x20, 0x30))
OTHER = bytes(range(0x30, 0x40))
QUEUE = bytes(range(0x40, 0x50))
SID = bytes.fromhex("01 05 000000000005 15000000 AD4A9EBD 36D9FA3D 63A656DA E8030000")

# Where the fields of the first two headers lie in every user message.
BASE_FLAGS = 2
BASE_SIGNATURE = 4
BASE_PACKET_SIZE = 8
USER_FLAGS = 60
USER_NAMES = 64


# --- one legal value of each --------------------------------------------------------------------------------


def user_header(
    destination: QueueName = "OS:host\\q",
    admin: QueueName = None,
    response: QueueName = None,
    *,
    dq: int | None = None,
    aq: int | None = None,
    rq: int | None = None,
    recoverable: bool = False,
    connector_type: bytes | None = None,
) -> UserHeader:
    """A UserHeader whose references follow from the names; a bare number means the destination's host."""
    dq, aq, rq = (
        _reference(name) if given is None else given
        for name, given in ((destination, dq), (admin, aq), (response, rq))
    )
    return UserHeader(
        source_queue_manager=SOURCE,
        queue_manager_address=DESTINATION if dq in (3, 5) else NULL_GUID,
        sent_time=0x44110000,
        message_id=0x8EE,
        flags=USER_MP | bool(connector_type) << 22 | recoverable << 5 | dq << 10 | aq << 13 | rq << 16,
        destination_queue=destination,
        admin_queue=admin,
        response_queue=response,
        connector_type=connector_type,
    )


def _reference(name: QueueName) -> int:
    if name is None:
        return QueueReference.NONE
    if isinstance(name, str):
        return QueueReference.DIRECT
    if isinstance(name, bytes):
        return QueueReference.PUBLIC
    if isinstance(name, PrivateQueueFormatName):
        return QueueReference.PRIVATE_ELSEWHERE
    return QueueReference.PRIVATE_ON_DESTINATION


def build(**parts: Any) -> UserMessage:
    """``UserMessage.build`` with an express message to a direct name where nothing else is asked for."""
    recoverable = parts.get("transaction") is not None
    parts.setdefault("base", BaseHeader())
    parts.setdefault("user", user_header(recoverable=recoverable))
    parts.setdefault("properties", MessagePropertiesHeader())
    return UserMessage.build(**parts)


def optional_headers() -> dict[str, Any]:
    """One of each optional header that the binary protocol carries, by its name in ``UserMessage.build``."""
    provider = ProviderInfo(1, "Other").encode()
    return {
        "transaction": TransactionHeader(flags=0x1D, connector_qm_guid=OTHER),
        "security": SecurityHeader(
            flags=0x21,
            security_id=SID,
            encryption_key=b"key",
            signature=b"signature",
            sender_cert=b"certificate",
            provider_info=provider,
        ),
        "debug": DebugHeader(flags=1, queue_identifier=QUEUE),
        "soap": SoapHeader("head", "body"),
        "multi_queue": MultiQueueFormatHeader.of(
            ["OS:host\\q", QUEUE],
            [PrivateQueueFormatName(OTHER, 7)],
            [DistributionListName(QUEUE)],
            b"signed",
        ),
        "session": SessionHeader(1, 2, 3, 4, 5),
    }


def all_headers() -> UserMessage:
    """A message with every header the binary protocol knows and a name of every layout."""
    user = user_header(
        "OS:host\\q", OTHER, PrivateQueueFormatName(OTHER, 9), recoverable=True, connector_type=QUEUE
    )
    return build(user=user, label="label", extension=b"ext", body=b"body!", **optional_headers())


# --- the receiving path -------------------------------------------------------------------------------------


def patched(data: bytes, offset: int, value: bytes) -> bytes:
    return data[:offset] + value + data[offset + len(value) :]


def patched_u16(data: bytes, offset: int, value: int) -> bytes:
    return patched(data, offset, struct.pack("<H", value))


def patched_u32(data: bytes, offset: int, value: int) -> bytes:
    return patched(data, offset, struct.pack("<I", value))


def resized(data: bytes) -> bytes:
    """The packet with PacketSize set to the bytes it has, the SessionHeader left out as it must be."""
    return patched_u32(data, BASE_PACKET_SIZE, len(data) - (16 if data[BASE_FLAGS] & 0x10 else 0))


def accept(data: bytes) -> Packet:
    """What a session makes of one packet."""
    (packet,) = StreamReader().feed(data)
    assert packet == data
    return decode_packet(packet)


def accept_message(data: bytes) -> UserMessage:
    message = accept(data)
    assert isinstance(message, UserMessage)
    return message


def refuse(data: bytes, match: str | None = None) -> None:
    """A session that gets this packet is closed: the packet is refused, not left waiting and not believed."""
    with pytest.raises(DecodeError, match=match):
        _decode_first(data)


def _decode_first(data: bytes) -> None:
    packets = StreamReader().feed(data)
    assert packets, "the stream reader waits for more"
    decode_packet(packets[0])


# --- every legal value --------------------------------------------------------------------------------------

u8s = st.integers(0, 0xFF)
u16s = st.integers(0, 0xFFFF)
u32s = st.integers(0, 0xFFFFFFFF)
u64s = st.integers(0, 0xFFFFFFFFFFFFFFFF)
guids = st.binary(min_size=16, max_size=16)
real_guids = guids.filter(any)
bits = st.integers(0, 1)
wide_characters = st.characters(exclude_characters="\0")
"""Unpaired surrogates are among them: WCHARs are code units, not text that somebody validated."""


def texts(max_size: int = 12) -> st.SearchStrategy[str]:
    return st.text(wide_characters, max_size=max_size).map(_joined)


def _joined(text: str) -> str:
    """A high and a low surrogate drawn side by side are one character once written."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


private_names = st.builds(PrivateQueueFormatName, guids, u32s)

_BY_REFERENCE: dict[int, st.SearchStrategy[QueueName]] = {
    0: st.none(),
    1: st.none(),
    2: u32s,
    3: u32s,
    4: u32s,
    5: guids,
    6: private_names,
    7: texts(),
}

base_headers = st.builds(
    BaseHeader,
    reserved=u8s,
    flags=st.integers(0, 7),
    packet_size=st.integers(0, 0x400000),
    time_to_reach_queue_s=u32s,
)


@st.composite
def user_headers(draw: st.DrawFn, recoverable: bool | None = None) -> UserHeader:
    dq, aq, rq = (
        draw(st.sampled_from([0, 3, 5, 7])),
        draw(st.sampled_from([0, 2, 3, 5, 6, 7])),
        draw(st.integers(0, 7)),
    )
    connector_type = draw(st.none() | guids)
    flags = USER_MP | dq << 10 | aq << 13 | rq << 16 | (connector_type is not None) << 22
    flags |= draw(st.integers(0, 0x1D)) | draw(st.integers(0, 3)) << 8
    flags |= (draw(st.booleans()) if recoverable is None else recoverable) << 5
    return UserHeader(
        draw(guids),
        draw(real_guids) if dq in (3, 5) else NULL_GUID,
        draw(u32s),
        draw(u32s),
        draw(u32s),
        flags,
        draw(_BY_REFERENCE[dq]),
        draw(_BY_REFERENCE[aq]),
        draw(_BY_REFERENCE[rq]),
        connector_type,
    )


properties_headers = st.builds(
    MessagePropertiesHeader,
    flags=st.integers(0, 0xF),
    message_class=u16s.map(lambda number: number & 0xE1FF),
    correlation_id=st.binary(min_size=20, max_size=20),
    body_type=u32s,
    application_tag=u32s,
    privacy_level=u32s,
    hash_algorithm=u32s,
    encryption_algorithm=u32s,
)


@st.composite
def transaction_headers(draw: st.DrawFn) -> TransactionHeader:
    connector = draw(st.none() | guids)
    return TransactionHeader(
        draw(st.integers(0, 0xFFFFFF)) & ~1 | (connector is not None),
        draw(u64s),
        draw(st.integers(1, 0xFFFFFFFF)),
        draw(st.integers(0, 0xFFFFFFFE)),
        connector,
    )


@st.composite
def sids(draw: st.DrawFn) -> bytes:
    count = draw(st.integers(0, 15))
    return bytes((1, count)) + draw(st.binary(min_size=6 + 4 * count, max_size=6 + 4 * count))


provider_infos = st.builds(ProviderInfo, u32s, texts())


@st.composite
def security_headers(draw: st.DrawFn) -> SecurityHeader:
    kind = draw(st.integers(0, 2))
    encrypted = draw(st.booleans())
    blob = st.binary(max_size=40)
    header = SecurityHeader(
        flags=kind | encrypted << 5 | draw(st.integers(0, 3)) << 6,
        security_id=draw((st.just(b""), sids(), guids)[kind]),
        encryption_key=draw(blob) if encrypted else b"",
        signature=draw(blob),
        sender_cert=draw(blob),
        provider_info=draw(st.just(b"") | provider_infos.map(ProviderInfo.encode)),
    )
    items = (
        header.security_id,
        header.encryption_key,
        header.signature,
        header.sender_cert,
        header.provider_info,
    )
    if not any(items):
        header.signature = b"\x01"
    return header


debug_headers = st.one_of(
    st.builds(DebugHeader, flags=st.just(0), reserved=u16s),
    st.builds(DebugHeader, flags=st.just(1), reserved=u16s, queue_identifier=guids),
)
soap_headers = st.builds(SoapHeader, texts(), texts(), u16s, u16s)
mqf_elements: st.SearchStrategy[MQFElement] = st.one_of(
    texts(), guids, private_names, st.builds(DistributionListName, guids)
)
mqf_lists = st.lists(mqf_elements, max_size=4)
multi_queue_headers = st.builds(
    MultiQueueFormatHeader.of, mqf_lists, mqf_lists, mqf_lists, st.binary(max_size=20)
)
session_headers = st.builds(SessionHeader, u16s, u16s, u32s, u16s, u16s, st.integers(1, 0xFFFF), u16s)
envelope_headers = st.builds(SRMPEnvelopeHeader, texts(), u16s, u16s)


@st.composite
def compound_headers(draw: st.DrawFn) -> CompoundMessageHeader:
    data = draw(st.binary(max_size=40))
    start = draw(st.integers(0, len(data)))
    size = draw(st.integers(0, len(data) - start))
    return CompoundMessageHeader(draw(u16s), draw(u16s), len(data), size, start, data)


@st.composite
def message_parts(draw: st.DrawFn, *, http: bool = False) -> dict[str, Any]:
    """Arguments of ``UserMessage.build``: any optional headers; with ``http`` also the two of MS-MQRR."""
    transaction = draw(st.none() | transaction_headers())
    debug = draw(st.none() | debug_headers)
    base = draw(base_headers)
    if debug is not None:
        base.traced = draw(bits)
    return {
        "base": base,
        "user": draw(user_headers(recoverable=True if transaction is not None else None)),
        "properties": draw(properties_headers),
        "label": draw(texts()),
        "extension": draw(st.binary(max_size=20)),
        "body": draw(st.binary(max_size=40)),
        "transaction": transaction,
        "security": draw(st.none() | security_headers()),
        "debug": debug,
        "envelope": draw(envelope_headers) if http else None,
        "compound": draw(compound_headers()) if http else None,
        "soap": draw(st.none() | soap_headers),
        "multi_queue": draw(st.none() | multi_queue_headers),
        "session": draw(st.none() | session_headers),
    }


messages = message_parts().map(lambda parts: UserMessage.build(**parts))

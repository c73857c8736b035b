"""The declarations: opnums, layouts, and what is refused before a method sees it."""

from __future__ import annotations

import struct

import pytest

from msmq.errors import DecodeError
from msmq.remote_read import interface as idl
from msmq.wire.queue_format import ObjectId, QueueFormat, QueueFormatType
from msmq.wire.sections import Section, SectionType
from tests.remote_read.support import form

HANDLE = bytes(4) + bytes(range(16))


@pytest.mark.spec("MQRR-3.1.4-c", "MQRR-3.1.4-d", "MQRR-1.9-a", "MQRR-1.9-b", "MQRR-6-a")
def test_opnums() -> None:
    names = {operation.opnum: operation.name for operation in idl.REMOTE_READ.operations}
    assert sorted(names) == [0, *range(2, 16)]
    assert names[12] == "R_QMEnlistRemoteTransaction"
    assert str(idl.REMOTE_READ.syntax.uuid.hex()) == "dd34911a397bba45ad8844d01ca47f28"
    assert idl.REMOTE_READ.syntax[1:] == (1, 0)


@pytest.mark.spec("MQMQ-2.2.18.1.8-a")
@pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])
def test_a_unit_of_work_is_never_swapped(ndr64: bool) -> None:
    uow = bytes(range(16))
    asked = idl.EnlistRemoteTransaction(uow, 5, b"token", form(r"DIRECT=OS:srv\private$\q"))
    stub = asked.encode(ndr64)
    assert stub[:16] == uow
    assert idl.EnlistRemoteTransaction.decode(stub, ndr64)[0].p_transaction_id == uow


@pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])
@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.spec("MQRR-6-d", "MQRR-6-e", "MQRR-6-i", "MQRR-2.2.6-g")
def test_an_answer_with_sections(count: int, ndr64: bool) -> None:
    sections = [
        Section(SectionType.BINARY_FIRST_SECTION, 9, b"abcde"),
        Section(SectionType.BINARY_SECOND_SECTION, 3, b"xyz"),
    ]
    reply = idl.StartReceiveReply.of(7, 0x11223344556677, sections[:count])
    if not count:
        reply.pp_packet_sections = None
    stub = reply.encode(ndr64)
    decoded = idl.StartReceiveReply.decode(stub, ndr64)[0]
    assert decoded == reply
    assert decoded.sections == sections[:count]
    assert struct.unpack_from("<I4xQI", stub) == (7, 0x11223344556677, count)
    size, layout = (8, "<Q") if ndr64 else (4, "<I")
    pointer = 24 if ndr64 else 20
    referent = struct.unpack_from(layout, stub, pointer)[0]
    assert bool(referent) == bool(count)
    if count:
        assert struct.unpack_from(layout, stub, pointer + size)[0] == count
        element = 24 if ndr64 else 16
        arrays = pointer + 2 * size + count * element
        assert struct.unpack_from(layout, stub, arrays)[0] == 5  # behind all elements, in their order
        assert stub[arrays + size : arrays + size + 5] == b"abcde"
    for end in range(len(stub)):
        with pytest.raises(DecodeError):
            idl.StartReceiveReply.decode(stub[:end], ndr64)


@pytest.mark.spec("MQRR-3.1.4-b", "MQRR-2.2.6-g")
def test_sections_that_contradict_themselves() -> None:
    reply = idl.StartReceiveReply.of(7, 1, [Section(SectionType.FULL_PACKET, 5, b"abcde")])
    stub = bytearray(reply.encode())
    size = stub.index(b"abcde") - 4
    pointer = size - 4
    null = bytes(stub[:pointer]) + bytes(4) + bytes(stub[-4:])
    with pytest.raises(DecodeError, match="without its bytes"):
        _ = idl.StartReceiveReply.decode(null)[0].sections
    stub[size] = 4
    with pytest.raises(DecodeError):
        idl.StartReceiveReply.decode(bytes(stub))


@pytest.mark.spec("MQRR-2.2.6-a", "MQRR-2.2.6-g", "MQRR-2.2.7-b")
def test_a_section_byte_by_byte() -> None:
    reply = idl.StartReceiveReply.of(7, 1, [Section(SectionType.BINARY_FIRST_SECTION, 9, b"abcde")])
    behind_count = 28
    assert reply.encode()[behind_count:] == bytes.fromhex(
        "0100" "0000" "09000000" "05000000" "04000200"  # type, allocated, size, pointer
        "05000000" "6162636465" "000000" "00000000"  # bytes; status
    )  # fmt: skip
    behind_count = 40
    assert reply.encode(ndr64=True)[behind_count:] == bytes.fromhex(
        "01000000" "09000000" "05000000" "00000000" "0400020000000000"
        "0500000000000000" "6162636465" "000000" "00000000"
    )  # fmt: skip


@pytest.mark.spec("MQRR-2.2.6-b")
def test_no_more_than_two_sections() -> None:
    three = [Section(SectionType.FULL_PACKET, 1, b"x")] * 3
    stub = bytearray(idl.StartReceiveReply.of(7, 1, three[:2]).encode())
    stub[16] = stub[24] = 3
    with pytest.raises(DecodeError):
        idl.StartReceiveReply.decode(bytes(stub))


@pytest.mark.spec("MQRR-2.2.3-a", "MQRR-2.2.3-d", "MQRR-6-c")
@pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])
def test_the_queue_stands_first_in_an_open(ndr64: bool) -> None:
    arms = [
        form("DIRECT=OS:srv\\private$\\q1"),
        form("DIRECT=OS:srv\\private$\\q1;sub"),
        QueueFormat(QueueFormatType.PUBLIC, bytes(range(16))),
        QueueFormat(QueueFormatType.PRIVATE, ObjectId(bytes(range(16)), 7)),
        QueueFormat(QueueFormatType.UNKNOWN),
    ]
    for arm in arms:
        request = idl.OpenQueue(arm, 1, 0, bytes(range(16)), 1, 6, 1, 7601, 1)
        stub = request.encode(ndr64)
        assert stub[0] == stub[8 if ndr64 else 4] == arm.type
        assert idl.OpenQueue.decode(stub, ndr64)[0] == request
    direct = idl.OpenQueue(arms[0], 1, 0, bytes(range(16)), 1, 6, 1, 7601, 1).encode()
    assert len(direct) == 100
    private = idl.OpenQueue(arms[3], 1, 0, bytes(16), 1, 6, 1, 1, 1).encode()
    assert private[8:28] == bytes(range(16)) + bytes((7, 0, 0, 0))


@pytest.mark.spec("MQRR-6-g", "MQRR-3.1.4.9-e")
@pytest.mark.parametrize("ack", [0, 1, 2, 3])
def test_acknowledgments(ack: int) -> None:
    stub = HANDLE + struct.pack("<II", ack, 9)
    if ack in (idl.RR_ACK, idl.RR_NACK):
        assert idl.EndReceive.decode(stub)[0] == idl.EndReceive(HANDLE, ack, 9)
    else:
        with pytest.raises(DecodeError):
            idl.EndReceive.decode(stub)

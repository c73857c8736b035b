"""PDUs: impacket's bytes, round trips, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from impacket.dcerpc.v5.rpcrt import MSRPCBind, MSRPCBindAck, MSRPCHeader

from msmq.errors import DecodeError, EncodeError
from msmq.rpc.pdu import (
    STUB_START,
    Bind,
    BindAck,
    BindNak,
    CommonHeader,
    ContextAnswer,
    ContextElement,
    Fault,
    PduFlags,
    PduType,
    Request,
    Response,
    SecTrailer,
    Syntax,
    build,
    read_fragment,
    read_request,
)
from msmq.rpc.syntaxes import NDR, NDR64
from tests.rpc.machines import take_fragments

ECHO = Syntax(bytes(range(16)), 1, 2)


def test_a_bind_byte_by_byte() -> None:
    bind = Bind(5840, 5840, 0, contexts=(ContextElement(0, ECHO, (NDR,)),))
    assert build(PduType.BIND, 1, bind.write_body()) == bytes.fromhex(
        "05000b03" "10000000" "4800" "0000" "01000000"  # version, type, flags; drep; lengths; call id
        "d016" "d016" "00000000"  # fragments, group
        "01000000"  # one context
        "0000" "01" "00" "000102030405060708090a0b0c0d0e0f" "0100" "0200"
        "045d888aeb1cc9119fe808002b104860" "02000000"
    )  # fmt: skip


def test_impacket_reads_our_bind_and_answer() -> None:
    contexts = (ContextElement(3, ECHO, (NDR,)),)
    theirs = MSRPCBind(
        MSRPCHeader(build(PduType.BIND, 9, Bind(4280, 4280, 7, contexts=contexts).write_body()))["pduData"]
    )
    assert (theirs["max_tfrag"], theirs["assoc_group"], theirs["ctx_num"]) == (4280, 7, 1)
    ack = BindAck(4280, 2048, 7, b"2103", (ContextAnswer(0, 0, NDR), ContextAnswer(2, 1)))
    their_ack = MSRPCBindAck(build(PduType.BIND_ACK, 9, ack.write_body()))
    assert (their_ack["max_rfrag"], their_ack["SecondaryAddr"], their_ack["ctx_num"]) == (2048, "2103", 2)
    assert [item["Result"] for item in their_ack.getCtxItems()] == [0, 2]


syntaxes = st.builds(
    Syntax, st.binary(min_size=16, max_size=16), st.integers(0, 65535), st.integers(0, 65535)
)
elements = st.builds(
    ContextElement, st.integers(0, 65535), syntaxes, st.lists(syntaxes, max_size=4).map(tuple)
)


@given(st.integers(0, 65535), st.integers(0, 2**32 - 1), st.lists(elements, max_size=5).map(tuple))
def test_binds_come_back(size: int, group: int, contexts: tuple[ContextElement, ...]) -> None:
    bind = Bind(size, size, group, contexts=contexts)
    assert Bind.read_body(bind.write_body()) == bind


answers = st.builds(ContextAnswer, st.integers(0, 3), st.integers(0, 3), syntaxes)


@given(
    st.integers(0, 65535),
    st.binary(max_size=9).map(lambda b: b.rstrip(b"\0")),
    st.lists(answers, max_size=5).map(tuple),
)
def test_answers_to_binds_come_back(size: int, address: bytes, found: tuple[ContextAnswer, ...]) -> None:
    ack = BindAck(size, size, 5, address, found)
    assert BindAck.read_body(ack.write_body()) == ack


@given(st.binary(max_size=80))
def test_bodies_raise_only_decode_errors(data: bytes) -> None:
    for read in (
        Bind.read_body,
        BindAck.read_body,
        BindNak.decode,
        Response.decode,
        Fault.decode,
        lambda data: read_fragment(data, 0, len(data)),
    ):
        try:
            read(data)
        except DecodeError:
            continue


@given(st.lists(st.binary(max_size=30), max_size=5), st.integers(1, 40))
def test_a_stream_is_cut_into_its_pdus(bodies: list[bytes], cut: int) -> None:
    stream = b"".join(build(PduType.REQUEST, n, body) for n, body in enumerate(bodies))
    buffer, found = b"", []
    for start in range(0, len(stream), cut):
        buffer += stream[start : start + cut]
        for fragment in take_fragments(buffer, 100):
            found.append(fragment.body)
            buffer = buffer[len(fragment.raw) :]
    assert found == bodies
    assert not buffer


def test_a_request_for_an_object() -> None:
    head = Request(8, 1, 2, bytes(range(16)))
    flags = PduFlags.FIRST_FRAG | PduFlags.LAST_FRAG | PduFlags.OBJECT_UUID
    (fragment,) = take_fragments(build(PduType.REQUEST, 1, head.write_body() + b"stub", flags=flags), 100)
    assert read_request(fragment) == (1, 2, head.object, STUB_START + 16)
    for size in (7, 12):
        (short,) = take_fragments(build(PduType.REQUEST, 1, bytes(size), flags=flags), 100)
        with pytest.raises(DecodeError):
            read_request(short)


def test_a_verifier_is_taken_off() -> None:
    raw = build(PduType.AUTH3, 3, b"12345", trailer=SecTrailer(10, 5, 0, 0, 9), token=b"token")
    (fragment,) = take_fragments(raw, 100)
    assert fragment.trailer == SecTrailer(10, 5, 3, 0, 9)
    assert (fragment.auth_value, fragment.body) == (b"token", b"12345\0\0\0")


@pytest.mark.parametrize(
    "header",
    [
        CommonHeader(rpc_vers=4, frag_length=16),
        CommonHeader(rpc_vers_minor=2, frag_length=16),
        CommonHeader(packed_drep=bytes(4), frag_length=16),
        CommonHeader(frag_length=15),
        CommonHeader(frag_length=101),
        CommonHeader(frag_length=16, auth_length=8),
    ],
    ids=["version", "minor", "big-endian", "short", "long", "verifier"],
)
def test_headers_that_are_refused(header: CommonHeader) -> None:
    with pytest.raises(DecodeError):
        take_fragments(header.encode(), 100)


def test_too_many_contexts_and_too_long_pdus() -> None:
    many = Bind(contexts=tuple(ContextElement(n, ECHO, (NDR64,)) for n in range(33)))
    with pytest.raises(DecodeError):
        Bind.read_body(many.write_body())
    with pytest.raises(DecodeError):
        Bind.read_body(Bind(contexts=(ContextElement(1, ECHO, (NDR64,) * 17),)).write_body())
    with pytest.raises(EncodeError):
        build(PduType.REQUEST, 1, bytes(65_535))

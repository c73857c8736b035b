"""What a reader gets of a message: packet, trailers and sections."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import pytest

from msmq.manager.mailbox.batch import Batch
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.messages.message import Message
from msmq.manager.messages.serialize import serialize
from msmq.remote_read import interface as idl
from msmq.remote_read.actions import Action
from msmq.remote_read.sections import packet_of
from msmq.wire.headers import INFINITE, USER_AH, BaseHeader, MessagePropertiesHeader
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import TransactionHeader
from msmq.wire.sections import SectionType, join_sections
from msmq.wire.srmp import CompoundMessageHeader, SRMPEnvelopeHeader
from msmq.wire.trailers import MessagePacket
from tests.manager.support import NOON, message
from tests.remote_read.support import OK, WHOLE, Peer, Served, direct, on_loop, serving
from tests.wire.builders import build, user_header

S = SectionType
TRAILERS = 12 + 148 + 28


def put(served: Served, stored: StoredMessage, name: str = "orders") -> StoredMessage:
    batch = Batch.of((stored,), served.manager.core.record.identifier)
    _, (stored.lookup_id,) = served.manager.sending.enqueue(served.host.find(name), batch)
    stored.arrival_time = served.manager.core.now_s
    return stored


def srmp() -> StoredMessage:
    """A message that came over HTTP."""
    post = b"POST /msmq/private$/orders HTTP/1.1\r\n\r\n<envelope/>body"
    packet = build(
        base=BaseHeader(flags=3),
        user=user_header(),
        properties=MessagePropertiesHeader(),
        envelope=SRMPEnvelopeHeader("<envelope/>"),
        compound=CompoundMessageHeader(msg_body_size=4, msg_body_offset=len(post) - 4, data=post),
    )
    return StoredMessage(packet, LocalAttributes())


async def sections(peer: Peer, handle: bytes, **limits: Any) -> tuple[idl.StartReceiveReply, list[Any]]:
    reply = await peer.start(handle, Action.PEEK_CURRENT, **limits)
    assert reply.status == OK
    found = reply.sections
    assert len(found) == reply.pdw_number_of_sections
    return reply, found


async def trailers(peer: Peer, handle: bytes, **options: Any) -> MessagePacket:
    _, found = await sections(peer, handle, **options)
    return MessagePacket.decode(join_sections(found))


LIMITS = pytest.mark.parametrize(
    "uow", [None, bytes(16)], ids=["R_StartReceive", "R_StartTransactionalReceive"]
)


@LIMITS
@pytest.mark.parametrize("limit", [0, 10, 99, 100, 101, WHOLE])
@pytest.mark.spec(
    "MQRR-3.1.4.7-w", "MQRR-3.1.4.7-aa", "MQRR-3.1.4.7-ab", "MQRR-3.1.4.7-ac", "MQRR-3.1.4.7-ad", "MQRR-3.1.4.13-j",
    "MQRR-2.2.6-b", "MQRR-2.2.6-c", "MQRR-2.2.6-d", "MQRR-2.2.6-e",
)  # fmt: skip
@on_loop
async def test_a_binary_message(limit: int, uow: bytes | None) -> None:
    body = bytes(range(100))
    async with serving() as served:
        served.queue("orders")
        stored = put(served, message(body))
        packet = packet_of(served.host.find(), stored, served.manager.transactions)
        start = stored.packet.body_offset
        async with await served.connect() as peer:
            handle = await peer.open()
            reply, found = await sections(peer, handle, max_body=limit, max_compound=0, uow=uow)
            assert reply.pdw_arrive_time == NOON
            if limit >= 100:
                assert found == [(S.FULL_PACKET, len(packet), packet)]
            else:
                first, second = found
                assert first == (S.BINARY_FIRST_SECTION, start + 100, packet[: start + limit])
                assert first.size_alloc - first.size == 100 - limit
                assert second == (S.BINARY_SECOND_SECTION, TRAILERS, packet[start + 100 :])


@LIMITS
@pytest.mark.spec(
    "MQRR-3.1.4.7-x", "MQRR-3.1.4.7-w", "MQRR-3.1.4.7-aa", "MQRR-3.1.1.4-a", "MQRR-2.2.5.1.2.2-d",
)  # fmt: skip
@on_loop
async def test_a_message_that_came_over_http(uow: bytes | None) -> None:
    async with serving() as served:
        served.queue("orders")
        stored = put(served, srmp())
        packet = packet_of(served.host.find(), stored, served.manager.transactions)
        assert stored.packet.compound is not None
        size = 16 + len(stored.packet.compound.data)
        async with await served.connect() as peer:
            handle = await peer.open()
            for limit in (size - 1, size, size + 1, 0, WHOLE):
                _, found = await sections(peer, handle, max_body=0, max_compound=limit, uow=uow)
                if limit >= size:
                    assert found == [(S.FULL_PACKET, len(packet), packet)]
                    continue
                first, second = found
                assert (first.type, second.type) == (S.SRMP_FIRST_SECTION, S.SRMP_SECOND_SECTION)
                assert first.size_alloc + second.size_alloc == len(packet)
                assert packet.startswith(first.data)
                assert packet.endswith(second.data)
            read = MessagePacket.decode(packet).message
            assert read.compound is not None
            assert read.compound.data.startswith(b"POST /msmq/private$/orders")


@pytest.mark.spec("MQRR-3.1.4.7-af", "MQRR-2.2.6-h")
@on_loop
async def test_a_body_that_ends_between_boundaries() -> None:
    async with serving() as served:
        served.queue("orders")
        put(served, message(b"12345"))
        async with await served.connect() as peer:
            handle = await peer.open()
            whole = await trailers(peer, handle)
            part = await trailers(peer, handle, max_body=2)
            assert part.message.body == b"12\0\0\0"
            assert (part.extension, part.extended_address) == (whole.extension, whole.extended_address)


@pytest.mark.parametrize("ttrq_s", [60, INFINITE], ids=["a minute", "infinite"])
@pytest.mark.spec("MQRR-3.1.4.7-ag", "MQRR-3.1.4.7-y", "DMPR-3.1.1.12-e")
@on_loop
async def test_times(ttrq_s: int) -> None:
    async with serving() as served:
        queue = served.queue("orders")
        stored = message(b"one", sent_time=NOON - 30)
        data = bytearray(stored.packet.data)
        data[12:16] = ttrq_s.to_bytes(4, "little")
        stored.packet = UserMessage.route(bytes(data))
        put(served, stored)
        expected = INFINITE if ttrq_s == INFINITE else NOON - 30 + 60
        async with await served.connect() as peer:
            handle = await peer.open()
            for action in (Action.PEEK_CURRENT, Action.PEEK_CURRENT, Action.RECEIVE):
                reply = await peer.start(handle, action)
                assert reply.pdw_arrive_time == NOON
                packet = MessagePacket.decode(join_sections(reply.sections))
                assert packet.message.base.time_to_reach_queue_s == expected
            (entry,) = queue.positions
            kept = served.manager.mailbox.load(queue, entry.lookup_id)
            assert kept.packet.base.time_to_reach_queue_s == ttrq_s


@pytest.mark.parametrize("source", ["10.1.2.3", "fd00::7", ""])
@on_loop
async def test_where_a_message_came_from(source: str) -> None:
    async with serving() as served:
        served.queue("orders")
        put(served, message(b"one", source=source))
        async with await served.connect() as peer:
            read = await trailers(peer, await peer.open())
            assert read.extended_address.source == (ip_address(source) if source else None)


@on_loop
async def test_the_dead_letter_queue_of_an_application() -> None:
    async with serving() as served:
        served.queue("orders")
        put(served, message(b"one", application_deadletter_queue="HOST\\private$\\dead"))
        async with await served.connect() as peer:
            read = await trailers(peer, await peer.open())
            assert read.extension.has_dead_letter_header
            assert read.dead_letter is not None
            assert read.dead_letter.path == "HOST\\private$\\dead"


@pytest.mark.spec("MQRR-2.2.5.3-f", "MQRR-2.2.5.3-g", "MQRR-2.2.5.3-h", "MQRR-3.1.4.10-o")
@on_loop
async def test_moves_are_counted() -> None:
    async with serving() as served:
        lookup_id = served.host.send(served.queue("orders"), b"one").lookup_id
        async with await served.connect() as peer:
            handle, sub = await peer.open(), await peer.open(direct("orders", "sub"))
            to_sub = (await peer.open_for_move(direct("orders", "sub"))).p_move_context
            to_queue = (await peer.open_for_move(direct())).p_move_context
            never = (await trailers(peer, handle)).subqueue
            assert (never.move_counter, never.last_move_time, never.subqueue_name) == (0, 0, bytes(64))
            served.host.advance(100)
            assert await peer.move(handle, to_sub, lookup_id) == OK
            once = (await trailers(peer, sub)).subqueue
            assert (once.move_counter, once.last_move_time) == (1, NOON + 100)
            assert once.subqueue_name == "sub".encode("utf-16-le").ljust(64, b"\0")
            assert await peer.move(sub, to_queue, lookup_id) == OK
            twice = (await trailers(peer, handle)).subqueue
            assert (twice.move_counter, twice.subqueue_name) == (2, bytes(64))


@pytest.mark.spec("MQRR-2.2.5.3-e")
@on_loop
async def test_aborts_are_counted() -> None:
    async with serving() as served:
        served.queue("orders", b"one", transactional=True)
        async with await served.connect() as peer:
            handle = await peer.open()
            for count in (0, 1, 2):
                assert (await trailers(peer, handle)).subqueue.abort_counter == count
                uow, token = served.transactions.begin()
                assert await peer.enlist(uow, token) == OK
                assert await peer.read(handle, uow=uow) == b"one"
                assert await peer.end_transactional(handle) == OK
                await served.transactions.abort(uow)


@pytest.mark.spec("MQRR-2.2.5.3-i", "MQRR-2.2.5.3-d")
@on_loop
async def test_a_message_that_is_seen_while_a_transaction_has_it() -> None:
    async with serving() as served:
        queue = served.queue("orders", transactional=True)
        first, second = (
            served.host.send(queue, body, allow_peek_when_locked=True) for body in (b"moved", b"rejected")
        )
        async with await served.connect() as peer:
            handle, sub = await peer.open(), await peer.open(direct("orders", "sub"))
            uow, token = served.transactions.begin()
            assert await peer.enlist(uow, token) == OK
            target = (await peer.open_for_move(direct("orders", "sub"))).p_move_context
            seek = {"lookup_id": second.lookup_id, "request_id": 2}
            assert await peer.read(handle, Action.LOOKUP_RECEIVE_CURRENT, uow=uow, **seek) == b"rejected"
            assert await peer.end_transactional(handle, 2) == OK
            reply = await peer.start(handle, Action.LOOKUP_PEEK_CURRENT, **seek)
            assert _subqueue(reply).acknowledgement_class == 0
            assert await peer.set_class(handle, second.lookup_id, 0xC004) == OK
            reply = await peer.start(handle, Action.LOOKUP_PEEK_CURRENT, **seek)
            assert _subqueue(reply).acknowledgement_class == 0xC004
            assert await peer.move(handle, target, first.lookup_id, uow) == OK
            between = await trailers(peer, handle)
            assert between.subqueue.target_subqueue_name == "sub".encode("utf-16-le").ljust(64, b"\0")
            await served.transactions.commit(uow)
            assert (await trailers(peer, sub)).subqueue.target_subqueue_name == bytes(64)


def _subqueue(reply: idl.StartReceiveReply) -> Any:
    return MessagePacket.decode(join_sections(reply.sections)).subqueue


@on_loop
async def test_a_subqueue_with_a_name_that_is_too_long_for_the_header() -> None:
    async with serving() as served:
        queue = served.queue("orders")
        name = "s" * 32
        served.host.send(served.manager.queues.subqueue(queue, name), b"one")
        async with await served.connect() as peer:
            handle = await peer.open(direct("orders", name))
            assert (await trailers(peer, handle)).subqueue.subqueue == "s" * 31


@pytest.mark.spec("MQRR-3.1.1.4-a")
@pytest.mark.parametrize("size", [0, 1, 4, 100])
def test_headers_body_and_trailers_are_the_packet(size: int) -> None:
    served = Served()
    served.queue("orders")
    for stored in (put(served, message(bytes(size))), put(served, srmp())):
        packet = packet_of(served.host.find(), stored, served.manager.transactions)
        read = MessagePacket.decode(packet)
        assert bool(read.message.compound) == (stored.packet.compound is not None)  # AH tells
        assert read.message.size + TRAILERS == len(packet)
    served.host.store.close()


def test_a_message_of_a_transaction_says_its_stream() -> None:
    packet = build(
        base=BaseHeader(), user=user_header(recoverable=True), properties=MessagePropertiesHeader(),
        body=b"x", transaction=TransactionHeader(),
    )  # fmt: skip
    served = Served()
    served.queue("orders", transactional=True)
    stored = put(served, StoredMessage(packet, LocalAttributes()))
    read = MessagePacket.decode(packet_of(served.host.find(), stored, served.manager.transactions))
    assert read.message.transaction is not None
    served.host.store.close()


@pytest.mark.parametrize(
    "half", [{"soap_envelope": "<e/>"}, {"soap_compound_message": b"POST"}], ids=["envelope", "rest"]
)
@pytest.mark.spec("MQRR-2.2.5.1-c")
@on_loop
async def test_half_of_what_http_brings_is_nothing(half: dict[str, Any]) -> None:
    packet = serialize(Message(body=b"x", sent_time=NOON, destination_queue_format_name=direct(), **half))
    async with serving() as served:
        served.queue("orders")
        put(served, StoredMessage(packet, LocalAttributes()))
        async with await served.connect() as peer:
            read = (await trailers(peer, await peer.open())).message
            assert not read.user.flags & USER_AH
            assert read.envelope is None
            assert read.compound is None

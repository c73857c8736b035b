"""The client's sequences of calls, seen by the server they are made to (MS-MQRR 3.2.4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from msmq.errors import (
    InvalidHandleError,
    MessageNotFoundError,
    MessageStorageFailedError,
    MQError,
    OperationCancelledError,
    OperationNotSupportedByRemoteComputerError,
    TransactionSequenceError,
    TransactionUsageError,
)
from msmq.manager.messages.coordinator import Decision
from msmq.remote_read import interface as idl
from msmq.remote_read.actions import Action
from msmq.remote_read.remote_message import WHOLE, full_lookup_id, read_message
from msmq.remote_read.remote_queue import BodyTooLargeError, RemoteQueue
from msmq.remote_read.session import Access, RemoteHost
from msmq.rpc.interface import Call, Handler
from msmq.rpc.server import RpcServer
from msmq.wire.sections import Section, SectionType
from tests.manager.support import NOON, message
from tests.remote_read.support import OK, Served, direct, eventually, on_loop, one_by_one, serving
from tests.rpc.support import HOST

A = Action
Seen = list[tuple[int, Any]]


@asynccontextmanager
async def watched(
    replace: dict[int, Handler] | None = None, **options: Any
) -> AsyncIterator[tuple[Served, RemoteHost, Seen]]:
    """A server, a client of it, and every request that the server gets; some methods may be replaced."""
    seen: Seen = []

    def watch(opnum: int, handler: Handler) -> Handler:
        def note(call: Call, request: Any) -> Any:
            seen.append((opnum, request))
            return handler(call, request)

        return note

    async with serving(**options) as served:
        methods = served.service.methods | (replace or {})
        methods = {opnum: watch(opnum, one_by_one(handler)) for opnum, handler in methods.items()}
        served.door.server.register(idl.REMOTE_READ, methods)
        async with await RemoteHost.connect(HOST, served.port) as host:
            seen.clear()
            yield served, host, seen


def opnums(seen: Seen) -> list[int]:
    return [opnum for opnum, _ in seen]


def answering(reply: Any) -> Handler:
    async def answer(call: Call, request: Any) -> Any:
        return reply

    return answer


@pytest.mark.spec("MQRR-3.2.4.3-a", "MQRR-3.2.4.3-b")
@on_loop
async def test_peeking() -> None:
    async with watched() as (served, host, seen):
        sent = served.host.send(served.queue("orders"), b"one")
        queue = await host.open(direct(), Access.PEEK)
        found = await queue.peek(timeout_s=1.5, max_body=2)
        assert (found.body, found.lookup_id, found.arrival_time) == (b"on", sent.lookup_id, NOON)
        again = await queue.peek(sent.lookup_id, A.LOOKUP_PEEK_CURRENT)
        assert again.body == b"one"
        assert opnums(seen) == [2, 7, 7]
        first, second = (request for opnum, request in seen if opnum == 7)
        assert (first.h_cursor, first.lookup_id, first.ul_action) == (0, 0, A.PEEK_CURRENT)
        assert (first.ul_timeout, first.dw_max_body_size) == (1500, 2)
        assert (second.lookup_id, second.ul_action) == (sent.lookup_id, A.LOOKUP_PEEK_CURRENT)
        assert first.dw_request_id != second.dw_request_id
        assert first.ph_context == queue.handle


@pytest.mark.spec("MQRR-3.2.4.4.1-a", "MQRR-3.2.4.4.1-c", "MQRR-3.2.4.4-a", "MQRR-3.1.4.9-f")
@on_loop
async def test_receiving() -> None:
    async with watched() as (served, host, seen):
        served.queue("orders", b"one")
        queue = await host.open(direct())
        found = await queue.receive(timeout_s=None)
        assert found.body == b"one"
        with pytest.raises(MQError):
            await queue.receive()
        assert opnums(seen) == [2, 7, 9, 7]  # no end for what did not begin
        start, end = seen[1][1], seen[2][1]
        assert (start.h_cursor, start.lookup_id, start.ul_action, start.ul_timeout) == (
            0,
            0,
            A.RECEIVE,
            0xFFFFFFFF,
        )
        assert start.dw_max_body_size == WHOLE
        assert end == idl.EndReceive(queue.handle, idl.RR_ACK, start.dw_request_id)
        assert not len(served.host.find().positions)


BROKEN = {
    "no sections": [],
    "a second section alone": [Section(SectionType.BINARY_SECOND_SECTION, 3, b"abc")],
    "no packet": [Section(SectionType.FULL_PACKET, 3, b"abc")],
    "more than it stands for": [Section(SectionType.BINARY_FIRST_SECTION, 2, b"abc")],
    "less than it stands for": [Section(SectionType.FULL_PACKET, 4, b"abc")],
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
@pytest.mark.spec("MQRR-3.2.4.4.1-b", "MQRR-2.2.6-e", "MQRR-2.2.6-f", "MQRR-3.2.4.4.2-b", "MQRR-3.2.4.10.1-a")
@on_loop
async def test_a_message_that_cannot_be_put_together_is_given_back(kind: str, transactional: bool) -> None:
    sections = BROKEN[kind]
    broken = answering(idl.StartReceiveReply.of(1, 1, sections))
    ended = answering(idl.Status(OK))
    async with watched({7: broken, 13: broken, 9: ended, 15: ended}) as (served, host, seen):
        served.queue("orders")
        queue = await host.open(direct())
        uow = bytes(range(16)) if transactional else None
        cursor = await queue.create_cursor()
        for options in ({}, {"cursor": cursor}):
            seen.clear()
            with pytest.raises(MessageStorageFailedError):
                await queue.receive(transaction=uow, **options)
            assert opnums(seen) == ([13, 15] if transactional else [7, 9])
            assert seen[1][1].dw_ack == idl.RR_NACK
            assert seen[1][1].dw_request_id == seen[0][1].dw_request_id
        with pytest.raises(MessageStorageFailedError):
            await queue.peek()


@pytest.mark.parametrize("room", [0, 3, 4, 5])
@pytest.mark.spec("MQMQ-2.4-i")
@on_loop
async def test_a_reader_with_too_little_room(room: int) -> None:
    async with watched() as (served, host, _):
        made = served.queue("orders", b"1234")
        queue = await host.open(direct())
        if room >= 4:
            assert (await queue.receive(max_body=room)).body == b"1234"
            return
        with pytest.raises(BodyTooLargeError) as refused:
            await queue.receive(max_body=room)
        assert refused.value.code == 0xC00E001A
        assert refused.value.partial.body == b"1234"[:room]
        assert served.host.contents(made) == [b"1234"]
        assert (await queue.receive()).body == b"1234"


@pytest.mark.spec("MQRR-3.2.4.4.1-d", "MQRR-7-o", "MQRR-3.2.4.10.1-b")
@pytest.mark.parametrize("with_cursor", [False, True], ids=["front", "cursor"])
@on_loop
async def test_an_acknowledgment_that_fails_is_logged(
    caplog: pytest.LogCaptureFixture, with_cursor: bool
) -> None:
    failing = answering(idl.Status(InvalidHandleError.code))
    async with watched({9: failing}) as (served, host, _):
        served.queue("orders", b"one")
        queue = await host.open(direct())
        cursor = await queue.create_cursor() if with_cursor else None
        with caplog.at_level(logging.WARNING):
            found = await queue.receive(cursor=cursor)
        assert found.body == b"one"
        assert "acknowledgment failed" in caplog.text


@pytest.mark.spec("MQRR-3.2.4.4.2-c", "MQRR-3.2.4.10.2-b")
@pytest.mark.parametrize("with_cursor", [False, True], ids=["front", "cursor"])
@on_loop
async def test_an_end_of_a_transaction_that_fails_is_the_applications_business(with_cursor: bool) -> None:
    failing = answering(idl.Status(TransactionSequenceError.code))
    async with watched({15: failing}) as (served, host, _):
        served.queue("orders", b"one", transactional=True)
        queue = await host.open(direct())
        uow, token = served.transactions.begin()
        await queue.enlist(uow, token, direct())
        cursor = await queue.create_cursor() if with_cursor else None
        with pytest.raises(TransactionSequenceError):
            await queue.receive(cursor=cursor, transaction=uow)


@pytest.mark.spec(
    "MQRR-3.2.4.2-a", "MQRR-3.2.4.2-b", "MQRR-3.2.4.4.2-a", "MQRR-3.2.4.4.2-b", "MQRR-3.2.4.4-a", "MQRR-3.2.4.5-a",
    "MQRR-3.1.4.14-i",
)  # fmt: skip
@pytest.mark.parametrize("outcome", ["commit", "abort"])
@on_loop
async def test_receiving_and_rejecting_in_a_transaction(outcome: str) -> None:
    async with watched() as (served, host, seen):
        made = served.queue("orders", b"one", transactional=True)
        queue = await host.open(direct())
        uow, token = served.transactions.begin()
        await queue.enlist(uow, token, direct())
        pending = await queue.begin_receive(transaction=uow, timeout_s=2)
        assert pending.message.body == b"one"
        await pending.reject()
        assert opnums(seen) == [2, 12, 13, 15, 14]
        enlist, start, end, reject = (request for _, request in seen[1:])
        assert (enlist.p_transaction_id, enlist.pb_propagation_token) == (uow, token)
        assert enlist.p_queue_format == queue.form
        assert (start.p_transaction_id, start.h_cursor, start.ul_timeout) == (uow, 0, 2000)
        assert (end.dw_ack, end.dw_request_id) == (idl.RR_ACK, start.dw_request_id)
        (entry,) = made.positions
        assert (reject.lookup_id, reject.us_class, reject.ph_context) == (
            entry.lookup_id,
            0xC004,
            queue.handle,
        )
        if outcome == "commit":
            assert await served.transactions.commit(uow) is Decision.COMMITTED
            assert not len(made.positions)
        else:
            await served.transactions.abort(uow)
            assert (await queue.receive()).body == b"one"


@pytest.mark.parametrize("priority", range(8))
@pytest.mark.spec("MQRR-3.1.4.14-i")
@on_loop
async def test_the_lookup_identifier_is_whole(priority: int) -> None:
    async with watched() as (served, host, _):
        made = served.queue("orders")
        sent = served.host.send(made, b"one", priority=priority)
        queue = await host.open(direct())
        assert (await queue.peek()).lookup_id == sent.lookup_id
        assert (await queue.receive(sent.lookup_id, A.LOOKUP_RECEIVE_CURRENT)).body == b"one"


@on_loop
async def test_only_transactions_reject() -> None:
    async with watched() as (served, host, _):
        served.queue("orders", b"one")
        queue = await host.open(direct())
        pending = await queue.begin_receive()
        with pytest.raises(TransactionUsageError):
            await pending.reject()
        await pending.give_back()
        await pending.give_back()  # a second time says nothing
        assert (await queue.receive()).body == b"one"


@pytest.mark.spec("MQRR-2.2.8-b", "MQRR-7-f")
@on_loop
async def test_transactions_of_one_message() -> None:
    async with watched() as (served, host, seen):
        served.queue("orders", b"one", b"two", transactional=True)
        queue = await host.open(direct())
        for body in (b"one", b"two"):
            assert (await queue.receive(transaction=queue.internal_transaction())).body == body
        used = [request.p_transaction_id for opnum, request in seen if opnum == 13]
        assert len(set(used)) == 2
        assert bytes(16) not in used
        assert all(uow[7] >> 4 == 4 for uow in used)  # the version of a random UUID


@pytest.mark.spec("MQRR-3.2.4.6-a", "MQRR-3.2.4.6-b", "MQRR-3.1.4.11-b")
@on_loop
async def test_moving() -> None:
    async with watched() as (served, host, seen):
        made = served.queue("orders", transactional=True)
        one, two = (each.lookup_id for each in served.fill(made, b"one", b"two"))
        queue = await host.open(direct())
        target = await host.open_for_move(direct("orders", "later"))
        assert (seen[1][1].dw_access, seen[1][1].dw_share_mode) == (4, 0)
        uow, token = served.transactions.begin()
        with pytest.raises(TransactionUsageError):
            await queue.move(one, target, uow)
        await queue.enlist(uow, token, direct())
        await queue.move(one, target, uow)
        assert opnums(seen) == [2, 11, 12, 10]
        assert seen[-1][1] == idl.MoveMessage(queue.handle, target.context, one, uow)
        await queue.move(two, target)
        assert seen[-1][1].p_transaction_id == bytes(16)
        await served.transactions.commit(uow)
        assert sorted(served.host.contents(made.subqueue_collection["later"])) == [b"one", b"two"]
        later = await host.open(direct("orders", "later"))
        assert (await later.peek()).subqueue == "later"
        await target.close()
        with pytest.raises(InvalidHandleError):
            await queue.move(two, target)


@pytest.mark.spec("MQRR-3.2.4.7-a", "MQRR-3.2.4.8-a", "MQRR-3.2.4.9-a", "MQRR-3.2.4.12-b", "MQRR-3.2.1-a")
@on_loop
async def test_purging_and_cursors() -> None:
    async with watched() as (served, host, seen):
        served.queue("orders", b"1", b"2", b"3")
        queue = await host.open(direct())
        cursor = await queue.create_cursor()
        assert queue.cursors == {cursor.handle: cursor}
        assert (await cursor.peek(timeout_s=3, max_body=7)).body == b"1"
        assert (await cursor.peek_next()).body == b"2"
        first, second = seen[-2][1], seen[-1][1]
        assert (first.h_cursor, first.lookup_id, first.ul_action) == (cursor.handle, 0, A.PEEK_CURRENT)
        assert (first.ul_timeout, first.dw_max_body_size) == (3000, 7)
        assert second.ul_action == A.PEEK_NEXT
        assert first.dw_request_id != second.dw_request_id
        await cursor.close()
        assert seen[-1] == (5, idl.CloseCursor(queue.handle, cursor.handle))
        assert not queue.cursors
        await queue.purge()
        assert seen[-1] == (6, idl.OnHandle(queue.handle))
        assert not len(served.host.find().positions)


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
@pytest.mark.spec("MQRR-3.2.4.10-a", "MQRR-3.2.4.10.1-a", "MQRR-3.2.4.10.2-a")
@on_loop
async def test_receiving_with_a_cursor(transactional: bool) -> None:
    async with watched() as (served, host, seen):
        served.queue("orders", b"1", b"2", transactional=transactional)
        queue = await host.open(direct())
        cursor = await queue.create_cursor()
        uow = None
        if transactional:
            uow, token = served.transactions.begin()
            await queue.enlist(uow, token, direct())
        await cursor.peek()
        seen.clear()
        assert (await cursor.receive(transaction=uow)).body == b"1"
        assert opnums(seen) == ([13, 15] if transactional else [7, 9])
        start, end = seen[0][1], seen[1][1]
        assert (start.h_cursor, start.lookup_id, start.ul_action) == (cursor.handle, 0, A.RECEIVE)
        assert (end.dw_ack, end.dw_request_id) == (idl.RR_ACK, start.dw_request_id)
        assert end.ph_context == start.ph_context == queue.handle


async def waiting(start: Awaitable[Any], served: Served, count: int = 1) -> asyncio.Future[Any]:
    task = asyncio.ensure_future(start)
    await eventually(lambda: len(served.host.find().waiting) == count)
    return task


@pytest.mark.parametrize("kind", ["peek", "receive"])
@pytest.mark.spec("MQRR-3.2.4.11-a")
@on_loop
async def test_cancelling(kind: str) -> None:
    async with watched() as (served, host, seen):
        served.queue("orders")
        queue = await host.open(direct())
        ids: list[int] = []
        begin: Callable[..., Awaitable[Any]] = queue.begin_receive
        if kind == "peek":
            task = await waiting(queue.read(A.PEEK_CURRENT, timeout_s=None, started=ids.append), served)
        else:
            task = await waiting(begin(timeout_s=None, started=ids.append), served)
        await queue.cancel(ids[0])
        assert seen[-1] == (8, idl.CancelReceive(queue.handle, ids[0]))
        with pytest.raises(OperationCancelledError):
            await task
        with pytest.raises(MQError):
            await queue.cancel(ids[0])


@pytest.mark.spec("MQRR-3.2.4.12-a", "MQRR-3.2.4.13-a")
@on_loop
async def test_closing_cancels_what_waits() -> None:
    async with watched() as (served, host, seen):
        served.queue("orders")
        queue = await host.open(direct())
        first, second = await queue.create_cursor(), await queue.create_cursor()
        on_first = await waiting(first.peek(timeout_s=None), served)
        seen.clear()
        await first.close()
        assert opnums(seen) == [8, 5]
        on_second = await waiting(second.peek(timeout_s=None), served)
        plain = await waiting(queue.receive(timeout_s=None), served, 2)
        seen.clear()
        await queue.close()
        assert opnums(seen) == [8, 8, 5, 3]
        for task in (on_first, on_second, plain):
            with pytest.raises(OperationCancelledError):
                await task
        assert queue not in host.queues
        assert not queue.cursors
        assert not queue.waiting
        await queue.close()
        assert opnums(seen) == [8, 8, 5, 3]


@pytest.mark.spec("MQRR-3.1.4.7-an")
@on_loop
async def test_nothing_of_a_failed_answer_is_believed() -> None:
    garbage = [Section(SectionType.FULL_PACKET, 3, b"abc")]
    reply = idl.StartReceiveReply.of(99, 99, garbage)
    reply.status = MessageNotFoundError.code
    failed = answering(reply)
    async with watched({7: failed}) as (served, host, seen):
        served.queue("orders")
        queue = await host.open(direct())
        for read in (queue.peek, queue.receive):
            with pytest.raises(MessageNotFoundError):
                await read()
        assert opnums(seen) == [2, 7, 7]


@pytest.mark.spec("MQRR-7-m", "MQRR-1.7-a")
@on_loop
async def test_a_server_of_2003_lacks_the_newer_methods() -> None:
    async with serving() as served:
        served.queue("orders", b"one", transactional=True)
        server = RpcServer()
        old = {opnum: handler for opnum, handler in served.service.methods.items() if opnum < 10}
        server.register(idl.REMOTE_READ, old)
        port = await server.listen(HOST, 0)
        async with await RemoteHost.connect(HOST, port) as host:
            queue = await host.open(direct())
            with pytest.raises(OperationNotSupportedByRemoteComputerError):
                await queue.receive(transaction=bytes(range(16)))
            with pytest.raises(OperationNotSupportedByRemoteComputerError):
                await host.open_for_move(direct())
            assert (await queue.receive()).body == b"one"
        await server.close()


@pytest.mark.spec("MQRR-7-e", "MQRR-3.1.4.7-ae")
@on_loop
async def test_packets_without_trailers() -> None:
    """As Windows Server 2003 sends them: the packet ends where the message ends."""
    packet = message(b"twelve bytes").packet
    reply = idl.StartReceiveReply.of(1, 2, [Section(SectionType.FULL_PACKET, len(packet.data), packet.data)])
    async with watched({7: answering(reply)}) as (served, host, _):
        served.queue("orders")
        queue = await host.open(direct())
        found = await queue.peek()
        assert found.body == b"twelve bytes"
        assert found.trailers is None
        assert found.subqueue == ""
    from msmq.wire.sections import split_sections

    (only,) = split_sections(packet.data, 4, 4)
    assert only.type == SectionType.BINARY_FIRST_SECTION
    assert read_message(idl.StartReceiveReply.of(1, 2, [only]), 4).body == b"twel"


@pytest.mark.parametrize("transactional", [False, True])
def test_lanes(transactional: bool) -> None:
    stored = message(priority=2, transactional=transactional)
    assert full_lookup_id(stored.packet, 7) == (7 if transactional else 5 << 56 | 7)
    assert full_lookup_id(stored.packet, 0xFF << 56 | 7) & (1 << 56) - 1 == 7


@pytest.mark.spec("MQRR-3.2-a", "MQRR-3.2.4-a")
def test_every_event_of_an_application_has_its_method() -> None:
    for name in ("open", "open_for_move", "enlist", "close"):
        assert callable(getattr(RemoteHost, name))
    for name in (
        "peek", "receive", "begin_receive", "end", "cancel", "enlist", "reject", "move", "purge", "create_cursor",
        "close_cursor", "close",
    ):  # fmt: skip
        assert callable(getattr(RemoteQueue, name))

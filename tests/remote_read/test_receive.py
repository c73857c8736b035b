"""Reads: what they ask for, what they answer and how they end. How they wait: test_waiting."""

from __future__ import annotations

import asyncio

import pytest

from msmq.manager.mailbox.positions import PositionState
from msmq.manager.model import MessageSeekAction
from msmq.remote_read import interface as idl
from msmq.remote_read.actions import ACTIONS, Action
from msmq.remote_read.handles import MAX_CURSORS
from msmq.rpc.status import RpcFault
from msmq.wire.classes import MessageClass
from tests.remote_read.support import (
    ACCESS_DENIED,
    ALREADY_RECEIVED,
    BOTH,
    CANCELLED,
    ILLEGAL_CURSOR_ACTION,
    INVALID_HANDLE,
    INVALID_PARAMETER,
    NOT_FOUND,
    OK,
    SEVERITY,
    STATUS_INVALID_HANDLE,
    TIMEOUT,
    Loose,
    eventually,
    on_loop,
    serving,
    state_of,
)

A = Action
LOOKUPS = [action for action, meaning in ACTIONS.items() if meaning.seek is not None]


@BOTH
@pytest.mark.parametrize(
    ("action", "selectors"),
    [
        pytest.param(A.RECEIVE, {"lookup_id": 5}, id="receive with a lookup id"),
        pytest.param(A.PEEK_CURRENT, {"lookup_id": 5}, id="peek with a lookup id"),
        pytest.param(A.PEEK_NEXT, {}, id="peek next without a cursor"),
        *[pytest.param(each, {}, id=f"{Action(each).name} without an id") for each in LOOKUPS],
        *[pytest.param(each, {"lookup_id": 5, "timeout_ms": 1}, id=f"{Action(each).name} waits") for each in LOOKUPS],
        *[pytest.param(each, {"lookup_id": 5, "cursor": 1}, id=f"{Action(each).name} at a cursor") for each in LOOKUPS],
        pytest.param(A.LOOKUP_RECEIVE_NEXT, {"cursor": 1}, id="a cursor and no id"),
        pytest.param(0x12345678, {}, id="no such action"),
        pytest.param(1, {}, id="nearly an action"),
    ],
)  # fmt: skip
@pytest.mark.spec(
    "MQRR-3.1.4.7-l", "MQRR-3.1.4.7-m", "MQRR-3.1.4.7-n", "MQRR-3.1.4.7-o", "MQRR-3.1.4.7-u", "MQRR-3.1.4.7-am",
    "MQRR-3.1.4.13-f",
)  # fmt: skip
@on_loop
async def test_parameters_that_do_not_go_together(
    action: int, selectors: dict[str, int], uow: bytes | None
) -> None:
    async with serving() as served:
        served.queue("orders", b"one")
        async with await served.connect() as peer:
            handle = await peer.open()
            reply = await peer.start(handle, action, uow=uow, **selectors)
            assert reply == idl.StartReceiveReply(0, 0, 0, None, INVALID_PARAMETER)
            assert not served.handle.requests
            assert state_of(served) is PositionState.AVAILABLE


@pytest.mark.spec("MQRR-4.2-a", "MQRR-3.1.4.9-c", "MQRR-3.1.4.7-d", "MQRR-3.1.4.7-ar", "MQRR-3.1.1.1-a")
@on_loop
async def test_a_message_is_gone_after_its_acknowledgment_and_not_before() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one", b"two")
        async with await served.connect() as peer:
            handle = await peer.open()
            assert await peer.read(handle, request_id=7) == b"one"
            assert state_of(served) is PositionState.LOCKED
            assert served.host.contents(queue) == [b"one", b"two"]
            assert await peer.end(handle, 7) == OK
            assert served.host.contents(queue) == [b"two"]
            # What others on this host see, by whatever protocol: the same queue.
            assert served.host.reader(queue).receive() is not None
            assert await peer.read(handle, request_id=8) == TIMEOUT


@pytest.mark.spec("MQRR-3.1.4.9-d", "MQRR-3.1.4.9-l")
@on_loop
async def test_a_message_that_did_not_arrive_is_back_in_its_place() -> None:
    async with serving() as served:
        queue = served.queue("orders")
        served.host.send(queue, b"one", admin="OS:HOST\\private$\\acks", acknowledge=0x0E)
        served.host.send(queue, b"two")
        acks = served.queue("acks")
        async with await served.connect() as peer:
            handle = await peer.open()
            assert await peer.read(handle) == b"one"
            assert await peer.end(handle, ack=idl.RR_NACK) == OK
            assert state_of(served) is PositionState.AVAILABLE
            assert not len(acks.positions)
            assert await peer.read(handle) == b"one"
            assert await peer.end(handle) == OK
        (ack,) = acks.positions
        stored = served.manager.mailbox.load(acks, ack.lookup_id)
        assert stored.packet.properties.message_class == MessageClass.ACK_RECEIVE


@pytest.mark.spec("MQRR-3.1.4.9-g", "MQRR-3.1.4.9-h", "MQRR-3.1.4.9-i")
@on_loop
async def test_ends_that_belong_to_nothing() -> None:
    async with serving() as served:
        served.queue("orders", b"one", b"two")
        async with await served.connect() as peer:
            handle = await peer.open()
            assert await peer.end(handle, 1) == INVALID_HANDLE
            assert await peer.read(handle, request_id=1) == b"one"
            assert await peer.end(handle, 2) == INVALID_PARAMETER
            assert await peer.end(handle, 1) == OK
            assert await peer.end(handle, 1) == INVALID_HANDLE
            assert await peer.read(handle, request_id=3) == b"two"
            assert await peer.end(handle, 1) == INVALID_PARAMETER


@pytest.mark.parametrize("ack", [0, 3])
@pytest.mark.spec("MQRR-3.1.4.9-e", "MQRR-3.1.4.15-e", "MQRR-6-g")
@on_loop
async def test_an_acknowledgment_is_one_of_two_numbers(ack: int) -> None:
    async with serving() as served:
        served.queue("orders", b"one")
        async with await served.connect() as peer:
            handle = await peer.open()
            assert await peer.read(handle) == b"one"
            for operation in (idl.R_END_RECEIVE, idl.R_END_TRANSACTIONAL_RECEIVE):
                with pytest.raises(RpcFault) as refused:
                    await peer.call(
                        operation, Loose(handle + ack.to_bytes(4, "little") + bytes((1, 0, 0, 0)))
                    )
                assert refused.value.status == 0x6F7
            assert state_of(served) is PositionState.LOCKED
            assert await peer.end(handle) == OK


@pytest.mark.spec("MQRR-3.1.4.9-k", "MQRR-3.1.4.15-j")
@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
@on_loop
async def test_a_message_that_vanished_meanwhile(transactional: bool) -> None:
    async with serving() as served:
        queue = served.queue("orders", transactional=transactional)
        position = served.host.send(queue, b"one")
        async with await served.connect() as peer:
            handle = await peer.open()
            if transactional:
                uow, token = served.transactions.begin()
                assert await peer.enlist(uow, token) == OK
                assert await peer.read(handle, uow=uow) == b"one"
            else:
                assert await peer.read(handle) == b"one"
            served.manager.mailbox.remove(queue, (position.lookup_id,), MessageClass.NACK_Q_PURGED)
            end = peer.end_transactional if transactional else peer.end
            assert await end(handle) == NOT_FOUND


@pytest.mark.spec("MQRR-3.1.4.7-j", "MQRR-3.1.4.7-az", "MQRR-3.1.4.2-f")
@on_loop
async def test_what_somebody_has_is_hidden_from_others() -> None:
    async with serving() as served:
        served.queue("orders", b"one", b"two")
        async with await served.connect() as first, await served.connect() as second:
            mine, theirs = await first.open(), await second.open()
            assert await first.read(mine) == b"one"
            assert await second.read(theirs, A.PEEK_CURRENT) == b"two"
            assert await second.read(theirs) == b"two"


@pytest.mark.spec("MQRR-3.1.4.7-q", "MQRR-3.1.4.7-c", "MQRR-3.1.4.7-au")
@BOTH
@on_loop
async def test_a_peek_changes_nothing_and_is_over(uow: bytes | None) -> None:
    async with serving() as served:
        served.queue("orders", b"one")
        async with await served.connect() as peer:
            handle = await peer.open(access=0x20)
            for _ in range(2):
                assert await peer.read(handle, A.PEEK_CURRENT, uow=uow) == b"one"
            assert state_of(served) is PositionState.AVAILABLE
            assert not served.handle.requests
            assert await peer.end(handle) == INVALID_HANDLE


@pytest.mark.spec("MQRR-3.1.4.7-k", "MQRR-3.1.4.2-e", "MQRR-3.1.4.13-b")
@pytest.mark.parametrize("action", [A.RECEIVE, A.LOOKUP_RECEIVE_CURRENT], ids=lambda each: each.name)
@BOTH
@on_loop
async def test_a_peek_handle_receives_nothing(action: Action, uow: bytes | None) -> None:
    async with serving() as served:
        position = served.host.send(served.queue("orders"), b"one")
        async with await served.connect() as peer:
            handle = await peer.open(access=0x20)
            lookup_id = 0 if action is A.RECEIVE else position.lookup_id
            assert await peer.read(handle, action, lookup_id=lookup_id, uow=uow) == ACCESS_DENIED
            assert state_of(served) is PositionState.AVAILABLE
            assert not served.handle.requests
            assert await peer.read(handle, A.PEEK_CURRENT) == b"one"


NEIGHBOURS = {
    A.LOOKUP_PEEK_CURRENT: b"2", A.LOOKUP_PEEK_NEXT: b"3", A.LOOKUP_PEEK_PREV: b"1",
    A.LOOKUP_RECEIVE_CURRENT: b"2", A.LOOKUP_RECEIVE_NEXT: b"3", A.LOOKUP_RECEIVE_PREV: b"1",
}  # fmt: skip


@pytest.mark.spec(
    "MQRR-3.1.4.7-s", "MQRR-3.1.4.7-t", "MQRR-3.1.4.7-aw", "MQRR-3.1.4.7-ax", "MQRR-3.1.4.7-aq", "MQRR-3.1.4.7-z",
)  # fmt: skip
@pytest.mark.parametrize("action", NEIGHBOURS, ids=lambda each: each.name)
@BOTH
@on_loop
async def test_by_lookup_identifier(action: Action, uow: bytes | None) -> None:
    async with serving() as served:
        queue = served.queue("orders")
        positions = served.fill(queue, b"1", b"2", b"3")
        expected = NEIGHBOURS[action]
        async with await served.connect() as peer:
            handle = await peer.open()
            reply = await peer.start(handle, action, lookup_id=positions[1].lookup_id, uow=uow)
            lookup_id = positions[int(expected) - 1].lookup_id
            assert lookup_id >> 56  # the priority is in there
            assert reply.p_sequence_id == lookup_id & (1 << 56) - 1
            receives = ACTIONS[action].receives
            states = [queue.position(each.lookup_id).state for each in positions]
            locked = [state is PositionState.LOCKED for state in states]
            assert locked == [receives and expected == each for each in (b"1", b"2", b"3")]
            if receives:
                assert served.handle.requests[1].lookup_id == lookup_id
                assert await peer.end(handle) == OK
                assert served.host.contents(queue) == [
                    each for each in (b"1", b"2", b"3") if each != expected
                ]
            else:
                assert not served.handle.requests


@pytest.mark.spec("MQRR-3.1.4.7-h", "MQRR-3.1.4.7-aj", "MQRR-3.1.4.7-ay", "MQRR-3.1.4.7-b")
@on_loop
async def test_neighbours_of_what_is_locked_or_was_never_there() -> None:
    async with serving() as served:
        positions = served.fill(served.queue("orders"), b"1", b"2", b"3")
        one, two, three = (position.lookup_id for position in positions)
        async with await served.connect() as peer:
            handle = await peer.open()
            assert await peer.read(handle, A.LOOKUP_RECEIVE_CURRENT, lookup_id=two, request_id=9) == b"2"
            assert await peer.read(handle, A.LOOKUP_PEEK_NEXT, lookup_id=one) == b"3"
            assert await peer.read(handle, A.LOOKUP_PEEK_PREV, lookup_id=three) == b"1"
            for action, lookup_id in (
                (A.LOOKUP_PEEK_CURRENT, 12345), (A.LOOKUP_RECEIVE_CURRENT, 12345),
                (A.LOOKUP_PEEK_NEXT, three), (A.LOOKUP_PEEK_PREV, one),
                (A.LOOKUP_RECEIVE_NEXT, three), (A.LOOKUP_RECEIVE_PREV, one),
            ):  # fmt: skip
                failed = await peer.start(handle, action, lookup_id=lookup_id)
                assert failed == idl.StartReceiveReply(0, 0, 0, None, NOT_FOUND)
            assert len(failed.encode()) == 28
            assert await peer.end(handle, 9) == OK
            # Two is gone now, and its place still has neighbours (ruling RR4).
            assert await peer.read(handle, A.LOOKUP_PEEK_CURRENT, lookup_id=two) == NOT_FOUND
            assert await peer.read(handle, A.LOOKUP_PEEK_NEXT, lookup_id=two) == b"3"
            assert await peer.read(handle, A.LOOKUP_PEEK_PREV, lookup_id=two) == b"1"
            assert await peer.read(handle, A.LOOKUP_PEEK_NEXT, lookup_id=three + 1) == NOT_FOUND


@pytest.mark.spec("MQRR-3.1.4.7-i", "MQRR-3.1.4.7-r", "MQRR-3.1.4.7-av", "MQRR-3.1.4.7-p", "MQRR-3.1.4.4-c")
@on_loop
async def test_a_cursor_walks_the_queue() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"1", b"2", b"3")
        async with await served.connect() as peer:
            handle = await peer.open()
            cursor = await peer.create_cursor(handle)
            assert cursor
            assert await peer.read(handle, A.PEEK_NEXT, cursor=cursor) == ILLEGAL_CURSOR_ACTION
            for _ in range(2):
                assert await peer.read(handle, A.PEEK_CURRENT, cursor=cursor) == b"1"
            assert await peer.read(handle, A.PEEK_NEXT, cursor=cursor) == b"2"
            assert await peer.read(handle, A.PEEK_CURRENT, cursor=cursor) == b"2"
            assert await peer.read(handle, A.RECEIVE, cursor=cursor, request_id=4) == b"2"
            assert await peer.end(handle, 4) == OK
            assert served.host.contents(queue) == [b"1", b"3"]
            assert await peer.read(handle, A.PEEK_CURRENT, cursor=cursor) == b"3"
            assert await peer.read(handle, A.PEEK_NEXT, cursor=cursor) == TIMEOUT


@on_loop
async def test_a_handle_has_so_many_cursors_and_no_more() -> None:
    async with serving() as served:
        served.queue("orders")
        async with await served.connect() as peer:
            handle, other = await peer.open(), await peer.open()
            cursors = [await peer.create_cursor(handle) for _ in range(MAX_CURSORS)]
            reply = await peer.call(idl.R_CREATE_CURSOR, idl.OnHandle(handle))
            assert (reply.ph_cursor, reply.status) == (0, 0xC00E0027)
            await peer.create_cursor(other)
            assert await peer.close_cursor(handle, cursors[7]) == OK
            await peer.create_cursor(handle)


@pytest.mark.spec("MQRR-3.1.4.7-ak")
@on_loop
async def test_what_stood_under_the_cursor_was_taken_by_another() -> None:
    async with serving() as served:
        served.queue("orders", b"1", b"2")
        async with await served.connect() as peer, await served.connect() as other:
            handle, theirs = await peer.open(), await other.open()
            cursor = await peer.create_cursor(handle)
            assert await peer.read(handle, A.PEEK_CURRENT, cursor=cursor) == b"1"
            assert await other.read(theirs) == b"1"
            assert await other.end(theirs) == OK
            assert await peer.read(handle, A.RECEIVE, cursor=cursor) == ALREADY_RECEIVED
            assert not any(each.requests for each in served.service.handles.open)


@pytest.mark.spec("MQRR-3.1.4.7-ao", "MQRR-3.1.4.5-d", "MQRR-3.1.4.5-b", "MQRR-3.1.4.5-c", "MQRR-3.1.4.13-l")
@on_loop
async def test_cursors_belong_to_their_handle() -> None:
    async with serving() as served:
        served.queue("orders", b"1", transactional=True)
        uow, token = served.transactions.begin()
        async with await served.connect() as peer, await served.connect() as other:
            handle, theirs = await peer.open(), await other.open()
            assert await peer.enlist(uow, token) == OK
            cursor = await peer.create_cursor(handle)
            for number in (999, await other.create_cursor(theirs)):
                for transaction in (None, uow):
                    status = await peer.read(handle, A.RECEIVE, cursor=number, uow=transaction)
                    assert status == STATUS_INVALID_HANDLE
            assert await other.close_cursor(theirs, cursor) & SEVERITY
            assert await peer.read(handle, A.PEEK_CURRENT, cursor=cursor) == b"1"
            assert await peer.close_cursor(handle, cursor) == OK
            assert await peer.close_cursor(handle, cursor) & SEVERITY
            assert await peer.read(handle, A.PEEK_CURRENT, cursor=cursor) == STATUS_INVALID_HANDLE


# --- the cleanup timer ------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "MQRR-3.1.2.2-a", "MQRR-3.1.5.1-a", "MQRR-3.1.5.1-b", "MQRR-3.1.5-a", "MQRR-3.1.4.9-m",
)  # fmt: skip
@on_loop
async def test_who_says_nothing_for_five_minutes_has_nothing() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one")
        async with await served.connect() as peer, await served.connect() as other:
            handle, theirs = await peer.open(), await other.open()
            assert await peer.read(handle) == b"one"
            served.host.advance(299)
            assert await other.read(theirs) == TIMEOUT
            served.host.advance(1)
            assert await peer.end(handle) == INVALID_HANDLE
            assert served.host.contents(queue) == [b"one"]
            assert await other.read(theirs) == b"one"
            assert await other.end(theirs) == OK


@pytest.mark.spec("MQRR-3.1.2.2-b", "MQRR-3.1.5.1-c")
@on_loop
async def test_the_five_minutes_begin_with_the_answer() -> None:
    async with serving() as served:
        queue = served.queue("orders")
        async with await served.connect() as peer:
            handle = await peer.open()
            read = asyncio.create_task(peer.read(handle, timeout_ms=600_000))
            await eventually(lambda: queue.waiting)
            served.host.advance(7 * 60)
            assert queue.waiting
            served.host.send(queue, b"late")
            assert await read == b"late"
            assert await peer.end(handle) == OK
            assert served.host.contents(queue) == []


@pytest.mark.spec("MQRR-3.1.2-a", "MQRR-7-g")
@on_loop
async def test_another_time_than_five_minutes() -> None:
    async with serving(cleanup_s=60.0) as served:
        served.queue("orders", b"one")
        async with await served.connect() as peer:
            handle = await peer.open()
            read = asyncio.create_task(peer.read(handle, request_id=1, timeout_ms=0))
            assert await read == b"one"
            waiting = asyncio.create_task(peer.read(handle, request_id=2, timeout_ms=30_000))
            await eventually(lambda: served.host.find().waiting)
            served.host.advance(30)  # the time of the call is over, that of the receive is not
            assert await waiting == TIMEOUT
            assert state_of(served) is PositionState.LOCKED
            served.host.advance(30)
            assert state_of(served) is PositionState.AVAILABLE


# --- durability --------------------------------------------------------------------------------------------------


@on_loop
async def test_no_answer_leaves_before_the_disk_has_it() -> None:
    async with serving() as served:
        served.queue("orders")
        async with await served.connect() as peer:
            handle = await peer.open()
            served.host.send(served.host.find(), b"one", recoverable=True)
            served.slow = True
            read = asyncio.create_task(peer.read(handle))
            await eventually(lambda: served._waiting)
            assert not read.done()
            served.settle()
            assert await read == b"one"
            served.slow = True
            end = asyncio.create_task(peer.end(handle))
            await eventually(lambda: served._waiting)
            await peer.get_port()  # others are served meanwhile
            assert not end.done()
            served.settle()
            assert await end == OK


@on_loop
async def test_a_handle_that_is_closed_before_the_disk_has_it_leaves_nothing_locked() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one")
        async with await served.connect() as peer:
            handle = await peer.open()
            served.slow = True
            read = asyncio.create_task(peer.read(handle))
            await eventually(lambda: served._waiting)
            close = asyncio.create_task(peer.close_queue(handle))
            await eventually(lambda: not served.service.handles.open)
            assert not read.done()
            served.settle()
            assert await read == CANCELLED
            assert (await close).status == OK
            assert [entry.state for entry in queue.positions] == [PositionState.AVAILABLE]


def test_seeks_of_the_table() -> None:
    """Every lookup action has a direction, and there are three of each kind."""
    seeks = [(meaning.receives, meaning.seek) for meaning in ACTIONS.values() if meaning.seek is not None]
    seek = MessageSeekAction
    assert (
        {s for r, s in seeks if r}
        == {s for r, s in seeks if not r}
        == {seek.CURRENT, seek.NEXT, seek.PREVIOUS}
    )

"""The methods beside reads: opening and closing, cursors, purging, the loss of a client, and access."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from msmq.errors import DsIsFullError, MQError, NoDsError
from msmq.manager.mailbox.cursor import CursorState
from msmq.manager.mailbox.positions import START, PositionState
from msmq.manager.model import QueueAccessType, QueueShareMode, RemoteReadState
from msmq.manager.queues.queues import QueueRequest
from msmq.remote_read import interface as idl
from msmq.remote_read.actions import Action
from msmq.rpc.epm import EPM, EPT_LOOKUP, Endpoint, EptLookup
from msmq.rpc.interface import Operation
from msmq.rpc.ndr import NULL_HANDLE
from msmq.rpc.pdu import AuthLevel
from msmq.rpc.status import RpcFault
from msmq.security.sddl import parse_sddl
from msmq.wire.classes import MessageClass
from msmq.wire.names import SuffixType
from msmq.wire.queue_format import DLId, MulticastId, ObjectId, QueueFormat, QueueFormatFlags, QueueFormatType
from tests.remote_read.support import (
    ACCESS_DENIED,
    CANCELLED,
    EVERYBODY,
    INVALID_HANDLE,
    INVALID_PARAMETER,
    MISMATCH,
    OK,
    OP_RANGE,
    OPEN,
    QUEUE_NOT_FOUND,
    SEVERITY,
    SHARING_VIOLATION,
    STATUS_ACCESS_DENIED,
    Peer,
    Served,
    direct,
    eventually,
    form,
    on_loop,
    serving,
)
from tests.rpc.support import ALICE

T = QueueFormatType


async def thrown(work: Any) -> int:
    """The status of the fault that a call ends with."""
    with pytest.raises(RpcFault) as fault:
        await work
    return fault.value.status


# --- opening --------------------------------------------------------------------------------------------------


def forms(served: Served) -> dict[str, QueueFormat]:
    """A name of each kind for a queue that is there."""
    record = served.manager.core.record
    private = served.host.find()
    public = served.manager.queues.create(_public_request(), skip_directory=True)
    return {
        "PUBLIC": QueueFormat(T.PUBLIC, public.identifier),
        "PRIVATE": QueueFormat(T.PRIVATE, ObjectId(record.identifier, private.private_queue_number)),
        "DIRECT": form(direct()),
        "MACHINE": QueueFormat(T.MACHINE, record.identifier, SuffixType.DEADLETTER, QueueFormatFlags.SYSTEM),
        "SUBQUEUE": form(direct("orders", "later")),
    }


def _public_request() -> QueueRequest:
    return QueueRequest(".\\public", security=EVERYBODY)


@pytest.mark.parametrize("kind", ["PUBLIC", "PRIVATE", "DIRECT", "MACHINE", "SUBQUEUE"])
@pytest.mark.spec("MQRR-3.1.4.2-c", "MQRR-2.2.3-b", "MQRR-3.1.4.11-c")
@on_loop
async def test_names_of_every_kind(kind: str) -> None:
    async with serving() as served:
        served.queue("orders")
        served.manager.core.record.security = EVERYBODY
        name = forms(served)[kind]
        async with await served.connect() as peer:
            handle = await peer.open(name)
            queue = served.handle.descriptor.queue
            assert queue is not None
            assert handle != NULL_HANDLE
            if kind == "SUBQUEUE":
                assert queue.pathname.endswith("orders;later")
            if kind != "MACHINE":
                reply = await peer.call(idl.R_OPEN_QUEUE_FOR_MOVE, peer.request(name, 4))
                assert reply.p_move_context


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(QueueFormat(T.UNKNOWN), id="UNKNOWN"),
        pytest.param(QueueFormat(T.CONNECTOR, bytes(16)), id="CONNECTOR"),
        pytest.param(QueueFormat(T.DL, DLId(bytes(16), None)), id="DL"),
        pytest.param(QueueFormat(T.MULTICAST, MulticastId(1, 2)), id="MULTICAST"),
        pytest.param(QueueFormat(T.DIRECT, "HTTP://HOST/msmq/private$/orders"), id="HTTP"),
        pytest.param(QueueFormat(T.MACHINE, bytes(16)), id="a bare machine"),
        pytest.param(QueueFormat(T.DIRECT, "nonsense"), id="no name"),
    ],
)
@pytest.mark.spec("MQRR-3.1.4.2-c", "MQRR-2.2.3-b", "MQRR-2.2.3-c", "MQRR-3.1.4.2-o", "MQRR-3.1.4.2-m")
@on_loop
async def test_names_this_protocol_does_not_know(name: QueueFormat) -> None:
    async with serving() as served:
        served.queue("orders")
        async with await served.connect() as peer:
            assert await thrown(peer.open(name)) == INVALID_PARAMETER
            assert not served.service.handles.open


@pytest.mark.spec("MQRR-2.2.3-c")
@on_loop
async def test_two_ways_to_name_a_host() -> None:
    async with serving() as served:
        queue = served.queue("orders")
        async with await served.connect() as peer:
            await peer.open("DIRECT=OS:HOST\\private$\\orders")
            await peer.open("DIRECT=TCP:127.0.0.1\\private$\\orders")
            assert len(queue.open_descriptors) == 2


@pytest.mark.spec("MQRR-2.2.3-e")
@on_loop
async def test_journals_and_dead_letters() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one", journaling=True)
        served.manager.core.record.security = EVERYBODY
        served.host.send(served.manager.core.dead_letter_queue, b"dead")
        machine = served.manager.core.record.identifier
        private = ObjectId(machine, queue.private_queue_number)
        system = QueueFormatFlags.SYSTEM
        async with await served.connect() as peer:
            handle = await peer.open()
            assert await peer.read(handle) == b"one"
            assert await peer.end(handle) == OK
            journal = QueueFormat(T.PRIVATE, private, SuffixType.JOURNAL, system)
            assert journal.suffix_and_flags == 0x81
            assert await peer.read(await peer.open(journal), Action.PEEK_CURRENT) == b"one"
            dead = QueueFormat(T.MACHINE, machine, SuffixType.DEADLETTER, system)
            assert dead.suffix_and_flags == 0x82
            assert await peer.read(await peer.open(dead), Action.PEEK_CURRENT) == b"dead"


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"share": 7}, id="share mode"),
        pytest.param({"access": 2}, id="access"),
        pytest.param({"f_non_routing_server": 2}, id="fNonRoutingServer"),
        pytest.param({"f_workgroup": -1}, id="fWorkgroup"),
    ],
)
@pytest.mark.spec("MQRR-3.1.4.2-o")
@on_loop
async def test_values_that_cannot_be(wrong: dict[str, int]) -> None:
    async with serving() as served:
        served.queue("orders")
        async with await served.connect() as peer:
            assert await thrown(peer.open(**wrong)) == INVALID_PARAMETER


@pytest.mark.spec("MQRR-3.1.4.2-p", "MQRR-3.1.4.11-h", "MQRR-3.1.4.11-g", "MQRR-3.1.4.2-m")
@on_loop
async def test_a_queue_that_is_not_there() -> None:
    async with serving() as served, await served.connect() as peer:
        for name in (direct("nope"), direct("nope", "sub"), "DIRECT=OS:elsewhere\\private$\\orders"):
            assert await thrown(peer.open(name)) == QUEUE_NOT_FOUND
            assert await thrown(peer.open_for_move(name)) == QUEUE_NOT_FOUND
        assert not served.manager.core.outgoing


@pytest.mark.parametrize(("access", "expected"), [(1, QueueAccessType.RECEIVE), (0x20, QueueAccessType.PEEK)])
@pytest.mark.parametrize(("share", "mode"), [(0, QueueShareMode.DENY_NONE), (1, QueueShareMode.DENY_RECEIVE)])
@pytest.mark.spec(
    "MQRR-3.1.4.2-q", "MQRR-3.1.4.2-r", "MQRR-3.1.4.2-s", "MQRR-3.1.4.2-t", "DMPR-3.1.1.16-d", "MQRR-2.2.4-c",
)  # fmt: skip
@on_loop
async def test_what_is_opened(
    access: int, expected: QueueAccessType, share: int, mode: QueueShareMode
) -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one")
        local = served.host.open(queue, QueueAccessType.PEEK)
        assert local.remote_read_state is RemoteReadState.NONE
        async with await served.connect() as peer:
            handle = await peer.open(access=access, share=share)
            descriptor = served.handle.descriptor
            assert descriptor in queue.open_descriptors
            assert (descriptor.access_type, descriptor.share_mode) == (expected, mode)
            assert descriptor.remote_read_state is RemoteReadState.OPENED
            assert await peer.read(handle, Action.PEEK_CURRENT) == b"one"
            assert descriptor.remote_read_state is RemoteReadState.READY_FOR_READ


@pytest.mark.spec("MQRR-3.1.4.2-g", "MQRR-3.1.4.2-u", "MQRR-3.1.4.3-e")
@on_loop
async def test_one_who_wants_a_queue_alone() -> None:
    async with serving() as served:
        served.queue("orders")
        async with await served.connect() as peer, await served.connect() as other:
            handle = await peer.open(share=1)
            assert await thrown(other.open()) == SHARING_VIOLATION
            assert await thrown(other.open(share=1)) == SHARING_VIOLATION
            assert (await peer.close_queue(handle)).status == OK
            await other.open(share=1)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"major": 0, "minor": 0, "build_number": 0}, id="no version"),
        pytest.param({"major": 255, "minor": 255, "build_number": 65535}, id="any version"),
        pytest.param({"p_client_id": bytes(16)}, id="no client id"),
        pytest.param({"p_client_id": bytes(range(16))}, id="a client id"),
        pytest.param({"p_client_id": bytes(range(16)), "f_non_routing_server": 0}, id="a routing server"),
    ],
)
@pytest.mark.spec("MQRR-3.1.4.2-i", "MQRR-3.1.4.2-k", "MQRR-3.1.4.11-d", "MQRR-7-h")
@on_loop
async def test_what_clients_say_of_themselves_changes_nothing(fields: dict[str, Any]) -> None:
    async with serving() as served:
        served.queue("orders", b"one")
        async with await served.connect() as peer:
            for _ in range(3):
                handle = await peer.open(**fields)
                assert await peer.read(handle, Action.PEEK_CURRENT) == b"one"
            assert (await peer.open_for_move(direct(), **fields)).p_move_context


@pytest.mark.spec("MQRR-2.1-e", "MQRR-2.1-d")
@on_loop
async def test_the_queue_decides_who_may() -> None:
    only_alice = parse_sddl(f"D:(A;;0x10000000;;;{ALICE})").encode()
    async with serving() as served:
        queue = served.queue("orders", b"one", security=only_alice)
        async with await served.connect("alice") as alice, await served.connect("bob") as bob:
            handle = await alice.open()
            assert await alice.read(handle) == b"one"
            assert await bob.get_port() == served.port
            for access in (1, 0x20):
                assert await thrown(bob.open(access=access)) == ACCESS_DENIED
            assert await thrown(bob.open_for_move(direct())) == ACCESS_DENIED
            assert await thrown(bob.open(direct("orders", "mine"))) == ACCESS_DENIED
            assert not queue.subqueue_collection


# --- closing --------------------------------------------------------------------------------------------------


@pytest.mark.spec("MQRR-3.1.4.3-b", "MQRR-3.1.4.3-c", "MQRR-2.2.4-b")
@on_loop
async def test_both_kinds_of_handles_are_closed_once() -> None:
    async with serving() as served:
        served.queue("orders", b"one")
        async with await served.connect() as peer:
            plain = await peer.open()
            moving = (await peer.open_for_move(direct())).pph_context
            # A handle for moving passes as a handle; what cannot be done with it is another matter.
            assert await peer.read(moving) == ACCESS_DENIED
            assert await peer.create_cursor(moving)
            for handle in (plain, moving):
                assert await peer.close_queue(handle) == idl.CloseQueueReply(NULL_HANDLE, OK)
                assert await thrown(peer.close_queue(handle)) == MISMATCH
                assert await thrown(peer.start(handle)) == MISMATCH


@pytest.mark.spec("MQRR-2.2.4.1-b", "MQRR-2.2.4.2-b")
@on_loop
async def test_handles_of_other_interfaces_are_none_of_ours() -> None:
    async with serving() as served:
        served.queue("orders", b"one")
        served.door.endpoints.add(Endpoint(EPM.syntax, 135))
        async with await served.connect() as peer:
            await peer.client.bind(EPM)
            foreign = (await peer.call(EPT_LOOKUP, EptLookup(0, None, None, 1, NULL_HANDLE, 1))).entry_handle
            assert foreign != NULL_HANDLE
            for use in (peer.start, peer.close_queue, peer.purge):
                assert await thrown(use(foreign)) == MISMATCH
            plain, moving = await peer.open(), (await peer.open_for_move(direct())).pph_context
            assert (
                await peer.read(moving) == ACCESS_DENIED
            )  # the runtime lets it pass, the queue manager does not
            for handle in (plain, moving):
                assert (await peer.close_queue(handle)).status == OK


ON_HANDLE = {
    "R_CreateCursor": lambda peer, handle: peer.create_cursor(handle),
    "R_CloseCursor": lambda peer, handle: peer.close_cursor(handle, 1),
    "R_PurgeQueue": lambda peer, handle: peer.purge(handle),
    "R_StartReceive": lambda peer, handle: peer.start(handle),
    "R_CancelReceive": lambda peer, handle: peer.cancel(handle),
    "R_EndReceive": lambda peer, handle: peer.end(handle),
    "R_MoveMessage": lambda peer, handle: peer.move(handle, 1, 1),
    "R_StartTransactionalReceive": lambda peer, handle: peer.start(handle, uow=bytes(range(16))),
    "R_SetUserAcknowledgementClass": lambda peer, handle: peer.set_class(handle, 1, 0),
    "R_EndTransactionalReceive": lambda peer, handle: peer.end_transactional(handle),
}


@pytest.mark.parametrize("method", ON_HANDLE)
@pytest.mark.spec("MQRR-3.1.4.2-b", "MQRR-2.2.4-b")
@on_loop
async def test_a_handle_of_nobody(method: str) -> None:
    async with serving() as served:
        served.queue("orders", b"one")
        async with await served.connect() as peer:
            for handle in (NULL_HANDLE, bytes(4) + bytes(range(16))):
                assert await thrown(ON_HANDLE[method](peer, handle)) == MISMATCH


@pytest.mark.parametrize("how", ["closed", "deleted"])
@pytest.mark.parametrize("method", [*ON_HANDLE, "R_CloseQueue"])
@pytest.mark.spec(
    "MQRR-3.1.4.3-d", "MQRR-3.1.4.4-d", "MQRR-3.1.4.5-c", "MQRR-3.1.4.6-b", "MQRR-3.1.4.7-ah", "MQRR-3.1.4.8-c",
    "MQRR-3.1.4.9-j", "MQRR-3.1.4.10-e", "MQRR-3.1.4.13-k", "MQRR-3.1.4.14-d", "MQRR-3.1.4.15-i", "MQRR-2.2.1-a",
)  # fmt: skip
@on_loop
async def test_a_descriptor_that_vanished(method: str, how: str) -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one", transactional=True)
        async with await served.connect() as peer:
            handle = await peer.open()
            if how == "closed":
                served.manager.queues.close(served.handle.descriptor)
            else:
                served.manager.queues.delete(queue)
            if method == "R_CloseQueue":
                assert await peer.close_queue(handle) == idl.CloseQueueReply(handle, INVALID_HANDLE)
                assert not served.service.handles.open
            elif method == "R_CreateCursor":
                reply = await peer.call(idl.R_CREATE_CURSOR, idl.OnHandle(handle))
                assert reply == idl.CreateCursorReply(0, INVALID_HANDLE)
            else:
                result = await ON_HANDLE[method](peer, handle)
                status = result.status if isinstance(result, idl.StartReceiveReply) else result
                assert status == INVALID_HANDLE
                assert status & SEVERITY
            if how == "closed":
                assert len(queue.positions) == 1


@pytest.mark.spec(
    "MQRR-3.1.4.3-f", "MQRR-3.1.4.3-g", "MQRR-3.1.4.3-h", "MQRR-3.1.4.3-i", "MQRR-7-p", "MQRR-2.2.4.2-a"
)
@on_loop
async def test_closing_with_everything_open() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one")
        async with await served.connect() as peer, await served.connect() as other:
            handle = await peer.open()
            descriptor = served.handle.descriptor
            await peer.create_cursor(handle)
            assert await peer.read(handle, request_id=1) == b"one"
            waiting = asyncio.create_task(peer.read(handle, request_id=2, timeout_ms=10**6))
            await eventually(lambda: queue.waiting)
            closes = [asyncio.create_task(peer.close_queue(handle)) for _ in range(2)]
            results = await asyncio.gather(*closes, return_exceptions=True)
            done = [each for each in results if isinstance(each, idl.CloseQueueReply)]
            refused = [each for each in results if isinstance(each, RpcFault)]
            assert [each.status for each in done] == [OK]
            assert [each.status for each in refused] == [MISMATCH]
            assert await waiting == CANCELLED
            assert not descriptor.cursors
            theirs = await other.open()
            assert await other.read(theirs) == b"one"
            assert await thrown(peer.end(handle, 1)) == MISMATCH


# --- cursors and purge ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("access", [1, 0x20], ids=["receive", "peek"])
@pytest.mark.spec("MQRR-3.1.4.4-b", "MQRR-3.1.4.4-c", "MQRR-3.1.4.4-e", "DMPR-3.2-a")
@on_loop
async def test_cursors_without_number(access: int) -> None:
    async with serving() as served:
        served.queue("orders")
        async with await served.connect() as peer:
            handle, second = await peer.open(access=access), await peer.open(access=access)
            made = [await peer.create_cursor(each) for each in [handle] * 1000 + [second]]
            assert 0 not in made
            assert len(set(made)) == 1001
            opened = {
                number: c
                for each in served.service.handles.open
                for number, c in each.descriptor.cursors.items()
            }
            assert set(opened) == set(made)  # anybody on this host finds them by their handle
            cursor = opened[made[0]]
            assert (cursor.state, cursor.place) == (CursorState.UNREAD, START)


@pytest.mark.spec("MQRR-3.1.4.6-c", "MQRR-3.1.4.6-d", "MQRR-3.1.4.2-d")
@on_loop
async def test_purging() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"1", b"2", b"3")
        async with await served.connect() as peer:
            peeking, receiving = await peer.open(access=0x20), await peer.open()
            assert await peer.purge(peeking) == STATUS_ACCESS_DENIED
            assert len(queue.positions) == 3
            assert await peer.read(receiving, Action.PEEK_CURRENT) == b"1"
            assert await peer.purge(receiving) == OK
            assert not len(queue.positions)


@pytest.mark.spec("MQMQ-2.4-s")
@pytest.mark.parametrize(("error", "code"), [(DsIsFullError, MQError.code), (NoDsError, NoDsError.code)])
@on_loop
async def test_no_peer_hears_a_code_of_old_versions(
    error: type[MQError], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving() as served:
        served.queue("orders")

        def fail(descriptor: object) -> None:
            raise error

        monkeypatch.setattr(served.manager.queues, "purge_opened", fail)
        async with await served.connect() as peer:
            assert await peer.purge(await peer.open()) == code


@pytest.mark.parametrize("ack", [idl.RR_ACK, idl.RR_NACK], ids=["ack", "nack"])
@pytest.mark.spec("MQRR-3.1.4.6-e")
@on_loop
async def test_a_purge_has_the_last_word(ack: int) -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one")
        async with await served.connect() as peer, await served.connect() as other:
            handle, theirs = await peer.open(), await other.open()
            assert await peer.read(handle) == b"one"
            assert await other.purge(theirs) == OK
            assert [entry.state for entry in queue.positions] == [PositionState.PURGE_PENDING]
            assert await peer.end(handle, ack=ack) == OK
            assert not len(queue.positions)
            assert served.host.spy.deleted == [(b"one", MessageClass.NACK_Q_PURGED)]


# --- the loss of a client ---------------------------------------------------------------------------------------


@pytest.mark.spec(
    "MQRR-3.1.6.1-a", "MQRR-3.1.6.1-b", "MQRR-3.1.6.2-a", "MQRR-3.1.6.2-b", "MQRR-3.1.6.2-c", "MQRR-3.1.6-a",
    "MQRR-3.1.4.9-b", "MQRR-3.1.6.2-d",
)  # fmt: skip
@on_loop
async def test_a_client_that_dies() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"1", b"2", b"3", b"4")
        async with await served.connect() as other:
            peer = await served.connect()
            handle = await peer.open(share=1)
            await peer.create_cursor(handle)
            descriptor = served.handle.descriptor
            for number in (1, 2, 3):
                assert await peer.read(handle, request_id=number) == str(number).encode()
            for number in (4, 5):
                task = asyncio.create_task(peer.read(handle, request_id=number, timeout_ms=10**6))
            await eventually(lambda: len(queue.waiting) == 1)
            peer.client.abort()
            with pytest.raises(ConnectionError):
                await task
            await eventually(lambda: not served.service.handles.open)
            assert not descriptor.cursors
            assert not queue.open_descriptors
            assert not queue.waiting
            theirs = await other.open(share=1)
            for number in (1, 2, 3, 4):
                assert await other.read(theirs, request_id=number) == str(number).encode()
            assert await thrown(other.end(handle)) == MISMATCH


@pytest.mark.spec("MQRR-3.1.6.2-e", "MQRR-2.2.4-d")
@on_loop
async def test_connections_of_one_group_share_their_handles() -> None:
    async with serving() as served:
        served.queue("orders", b"one")
        first = await served.connect()
        group = first.client.association_group_id
        second = await served.connect(association_group_id=group)
        async with second, await served.connect() as stranger:
            handle = await first.open()
            assert await first.read(handle) == b"one"
            assert await thrown(stranger.end(handle)) == MISMATCH
            await first.close()
            await eventually(lambda: served.door.server.connections == 2)
            assert await second.end(handle) == OK
            assert served.service.handles.open
        await eventually(lambda: not served.service.handles.open)


@pytest.mark.spec("MQRR-3.1.6.1-c")
@on_loop
async def test_a_client_that_leaves_properly(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served:
        served.queue("orders")
        peer = await served.connect()
        await peer.close_queue(await peer.open())
        await peer.close()
        await eventually(lambda: not served.door.server.connections and not len(served.door.server.groups))
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


@pytest.mark.spec("MQRR-3.1-a", "MQRR-3.1.1-a")
@on_loop
async def test_ten_clients_at_one_queue() -> None:
    async with serving() as served:
        bodies = [str(number).encode() for number in range(200)]
        queue = served.queue("orders", *bodies)
        taken: list[bytes] = []

        async def work(peer: Peer) -> None:
            handle = await peer.open()
            while isinstance(body := await peer.read(handle), bytes):
                assert await peer.end(handle) == OK
                taken.append(body)
            assert body & SEVERITY

        peers = [await served.connect() for _ in range(10)]
        await asyncio.gather(*map(work, peers))
        assert sorted(taken) == sorted(bodies)
        assert not len(queue.positions)
        for peer in peers:
            await peer.close()


@pytest.mark.spec("DMPR-3.1.7.1.8-b")
@on_loop
async def test_reads_without_transaction_leave_none_behind() -> None:
    async with serving() as served:
        served.queue("orders", *[b"x"] * 1000, transactional=True)
        async with await served.connect() as peer:
            handle = await peer.open()
            for _ in range(1000):
                assert await peer.read(handle, uow=bytes(16)) == b"x"
                assert await peer.end_transactional(handle) == OK
            assert not served.manager.transactions.collection


# --- opnums -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opnum", [1, 16, 99])
@pytest.mark.spec("MQRR-3.1.4-e", "MQRR-3.1.4-d")
@on_loop
async def test_opnums_that_are_not_there(opnum: int) -> None:
    operation = Operation(opnum, "none", idl.Nothing, idl.Status)
    async with serving() as served, await served.connect() as peer:
        peer.client._contexts[operation] = peer.client._contexts[idl.R_GET_SERVER_PORT]
        assert await thrown(peer.call(operation, idl.Nothing())) == OP_RANGE
        assert await peer.get_port() == served.port
    assert idl.REMOTE_READ.find(1) is None  # our client has no way to say it


@pytest.mark.spec("MQRR-2.1-d")
@on_loop
async def test_who_may_open_a_queue_is_asked_of_every_call_on_it() -> None:
    """A handle that was opened with privacy is of no use to a connection of the same user without."""
    async with serving(OPEN) as served:
        served.queue("orders", b"one")
        async with await served.connect("alice") as peer:
            handle = await peer.open()
            served.handle.required = AuthLevel.PRIVACY
            group = peer.client.association_group_id
            async with await served.connect(
                "alice", level=AuthLevel.CONNECT, association_group_id=group
            ) as weaker:
                assert await thrown(weaker.start(handle)) == 5
            assert await peer.read(handle) == b"one"

"""Transactions: enlisting, receiving, rejecting and moving in them, and what becomes of it all."""

from __future__ import annotations

import pytest

from msmq.errors import TransactionEnlistError, TransactionSequenceError
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.messages.coordinator import Decision, ResourceManager
from msmq.manager.model import OperationType
from msmq.manager.queues.queue import Queue
from msmq.remote_read import interface as idl
from msmq.remote_read.actions import Action
from msmq.remote_read.enlistment import token_of
from msmq.rpc.status import RpcFault
from msmq.wire.classes import MessageClass
from tests.remote_read.support import (
    ACCESS_DENIED,
    BAD_STUB,
    INVALID_HANDLE,
    INVALID_PARAMETER,
    LOCKED_UNDER_TRANSACTION,
    NOT_FOUND,
    OK,
    SEVERITY,
    STATUS_INVALID_PARAMETER,
    TIMEOUT,
    TRANSACTION_SEQUENCE,
    TRANSACTION_USAGE,
    Loose,
    Peer,
    Served,
    direct,
    eventually,
    form,
    on_loop,
    serving,
)

A = Action
RANDOM = bytes(range(1, 17))


def states(queue: Queue) -> list[PositionState]:
    return [entry.state for entry in queue.positions]


async def enlisted(served: Served, peer: Peer) -> bytes:
    uow, token = served.transactions.begin()
    assert await peer.enlist(uow, token) == OK
    return uow


# --- enlisting ------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "MQRR-3.1.4.12-f", "MQRR-3.1.4.12-g", "MQRR-3.1.4.12-i", "MQRR-3.1.4.12-d", "MQRR-3.1.4.12-h"
)
@on_loop
async def test_the_transaction_manager_is_asked() -> None:
    class Double:
        """Knows one transaction."""

        def __init__(self) -> None:
            self.enlisted: list[bytes] = []

        def enlist(self, uow: bytes, token: bytes, resource: ResourceManager) -> None:
            if token != b"token of " + uow:
                raise TransactionEnlistError("another transaction's token")
            assert resource is served.service.resource
            self.enlisted.append(uow)

    async with serving() as served:
        manager = served.service.transaction_manager = Double()
        collection = served.manager.transactions.collection
        async with await served.connect() as peer:
            for _ in range(2):
                assert await peer.enlist(RANDOM, b"token of " + RANDOM) == OK
                assert list(collection) == [RANDOM]
            assert manager.enlisted == [RANDOM, RANDOM]
            other = bytes(range(16))
            assert await peer.enlist(other, b"token of " + RANDOM) & SEVERITY
            served.service.transaction_manager = None
            assert await peer.enlist(other, b"token of " + other) & SEVERITY
            assert list(collection) == [RANDOM]
            assert await peer.enlist(bytes(16), b"") == INVALID_PARAMETER


@pytest.mark.parametrize(
    "name",
    [direct(), direct("nope"), "PUBLIC=00000000-0000-0000-0000-000000000001"],
    ids=["ours", "none", "public"],
)
@pytest.mark.spec("MQRR-3.1.4.12-e", "MQRR-7-n")
@on_loop
async def test_the_queue_of_an_enlistment_is_not_looked_at(name: str) -> None:
    async with serving() as served, await served.connect() as peer:
        uow, token = served.transactions.begin()
        assert await peer.enlist(uow, token, name) == OK


@pytest.mark.spec("MQRR-3.1.4.12-a", "MQRR-3.1.4.12-c", "MQRR-6-f", "MQRR-6-g")
@on_loop
async def test_the_size_of_a_token() -> None:
    def stub(told: int, held: int) -> bytes:
        name = idl.OpenQueue(form(direct()), 1, 0, bytes(16), 1, 6, 1, 1, 1).encode()
        head = RANDOM + told.to_bytes(4, "little") + held.to_bytes(4, "little") + bytes(held)
        return head + bytes(-len(head) % 4) + name

    async with serving() as served, await served.connect("alice") as peer:
        token = b"12345"
        request = idl.EnlistRemoteTransaction(RANDOM, 5, token, form(direct()))
        assert request.encode()[:32] == RANDOM + bytes((5, 0, 0, 0, 5, 0, 0, 0)) + token + bytes(3)
        for told, held in ((131_073, 131_073), (5, 4), (4, 5)):
            with pytest.raises(RpcFault) as refused:
                await peer.call(idl.R_ENLIST_REMOTE_TRANSACTION, Loose(stub(told, held)))
            assert refused.value.status == BAD_STUB
        status = (await peer.call(idl.R_ENLIST_REMOTE_TRANSACTION, Loose(stub(131_072, 131_072)))).status
        assert status == TransactionEnlistError.code  # it was looked at, and is no token of ours


@on_loop
async def test_transactions_of_this_process() -> None:
    async with serving() as served:
        manager = served.transactions
        uow, token = manager.begin()
        assert token == token_of(uow)
        with pytest.raises(TransactionEnlistError):
            manager.enlist(uow, b"other", served.service.resource)
        with pytest.raises(TransactionEnlistError):
            manager.enlist(RANDOM, token_of(RANDOM), served.service.resource)
        assert await manager.commit(uow) is Decision.COMMITTED  # nobody took part
        for end in (manager.commit, manager.abort):
            with pytest.raises(TransactionSequenceError):
                await end(uow)


@pytest.mark.parametrize("outcome", ["commit", "abort"])
@on_loop
async def test_two_participants(outcome: str) -> None:
    """Another participant beside the queue manager: two phases."""

    async with serving() as served:
        queue = served.queue("orders", b"one", transactional=True)
        async with await served.connect() as peer:
            handle = await peer.open()
            uow = await enlisted(served, peer)
            other = ResourceManager(served.manager.transactions)
            seen: list[str] = []

            class Other(ResourceManager):
                def prepare(self, identifier: bytes, *, single_phase: bool = False) -> object:  # type: ignore[override]
                    seen.append("prepare")
                    from msmq.manager.messages.coordinator import Vote

                    return Vote.PREPARED

                def commit(self, identifier: bytes) -> None:
                    seen.append("commit")

                def abort(self, identifier: bytes) -> None:
                    seen.append("abort")

            other = Other(served.manager.transactions)
            served.transactions.enlist(uow, token_of(uow), other)
            assert await peer.read(handle, uow=uow) == b"one"
            assert await peer.end_transactional(handle) == OK
            if outcome == "commit":
                assert await served.transactions.commit(uow) is Decision.COMMITTED
                assert seen == ["prepare", "commit"]
                assert not len(queue.positions)
            else:
                await served.transactions.abort(uow)
                assert seen == ["abort"]
                assert states(queue) == [PositionState.AVAILABLE]


# --- receiving in a transaction ---------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["commit", "abort"])
@pytest.mark.spec(
    "MQRR-4.3-a", "MQRR-3.1.4.15-c", "MQRR-3.1.4.15-k", "MQRR-3.1.4.13-o", "MQRR-3.1.4.13-r", "MQRR-3.1.4.13-e",
    "MQRR-3.1.4.13-q", "MQRR-3.1.4.15-h", "MQRR-3.1.4.15-f", "MQRR-3.1.4.15-g",
)  # fmt: skip
@on_loop
async def test_a_receive_in_a_transaction(outcome: str) -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one", b"two", transactional=True)
        async with await served.connect() as peer:
            handle = await peer.open()
            uow = await enlisted(served, peer)
            assert await peer.end_transactional(handle, 5) == INVALID_HANDLE
            assert await peer.read(handle, request_id=5, uow=uow) == b"one"
            assert served.handle.requests[5].lookup_id == next(iter(queue.positions)).lookup_id
            assert states(queue)[0] is PositionState.LOCKED
            assert await peer.end_transactional(handle, 6) == INVALID_PARAMETER
            assert await peer.end_transactional(handle, 5) == OK
            assert not served.handle.requests
            assert await peer.end_transactional(handle, 5) & SEVERITY
            (operation,) = served.manager.transactions.collection[uow].operations
            assert operation.operation_type is OperationType.DEQUEUE
            assert states(queue) == [PositionState.LOCKED, PositionState.AVAILABLE]
            if outcome == "commit":
                assert await served.transactions.commit(uow) is Decision.COMMITTED
                assert served.host.contents(queue) == [b"two"]
            else:
                await served.transactions.abort(uow)
                assert states(queue) == [PositionState.AVAILABLE] * 2
                assert await peer.read(handle) == b"one"


@pytest.mark.spec("MQRR-3.1.4.15-d")
@on_loop
async def test_what_did_not_arrive_is_in_no_transaction() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one", transactional=True)
        async with await served.connect() as peer, await served.connect() as other:
            handle, theirs = await peer.open(), await other.open()
            uow = await enlisted(served, peer)
            assert await peer.read(handle, uow=uow) == b"one"
            assert await peer.end_transactional(handle, ack=idl.RR_NACK) == OK
            assert await other.read(theirs) == b"one"
            assert await served.transactions.commit(uow) is Decision.COMMITTED
            assert served.host.contents(queue) == [b"one"]
            assert await other.end(theirs) == OK


@pytest.mark.spec("MQRR-3.1.4.15-b")
@on_loop
async def test_a_client_that_dies_before_it_confirms() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one", transactional=True)
        peer = await served.connect()
        handle = await peer.open()
        uow = await enlisted(served, peer)
        assert await peer.read(handle, uow=uow) == b"one"
        peer.client.abort()
        await eventually(lambda: states(queue) == [PositionState.AVAILABLE])
        assert await served.transactions.commit(uow) is Decision.COMMITTED
        assert served.host.contents(queue) == [b"one"]


@pytest.mark.spec("MQRR-3.1.5.1-d")
@on_loop
async def test_the_cleanup_timer_takes_a_message_out_of_its_transaction() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one", transactional=True)
        async with await served.connect() as peer:
            handle = await peer.open()
            uow = await enlisted(served, peer)
            assert await peer.read(handle, uow=uow) == b"one"
            served.host.advance(300)
            assert states(queue) == [PositionState.AVAILABLE]
            assert await served.transactions.commit(uow) is Decision.COMMITTED
            assert served.host.contents(queue) == [b"one"]


@on_loop
async def test_a_transaction_that_ended_before_its_message_was_confirmed() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one", transactional=True)
        async with await served.connect() as peer:
            handle = await peer.open()
            uow = await enlisted(served, peer)
            assert await peer.read(handle, uow=uow) == b"one"
            assert await served.transactions.commit(uow) is Decision.COMMITTED
            assert await peer.end_transactional(handle) == TRANSACTION_SEQUENCE
            assert states(queue) == [PositionState.AVAILABLE]


@on_loop
async def test_a_purge_while_a_transaction_has_it() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one", transactional=True)
        async with await served.connect() as peer:
            handle = await peer.open()
            uow = await enlisted(served, peer)
            assert await peer.read(handle, uow=uow) == b"one"
            assert await peer.purge(handle) == OK
            assert await peer.end_transactional(handle) == OK
            assert states(queue) == [PositionState.PURGE_PENDING]
            await served.transactions.abort(uow)
            assert not len(queue.positions)


NEIGHBOURS = {A.LOOKUP_RECEIVE_CURRENT: b"2", A.LOOKUP_RECEIVE_NEXT: b"3", A.LOOKUP_RECEIVE_PREV: b"1"}


@pytest.mark.parametrize("action", NEIGHBOURS, ids=lambda each: each.name)
@pytest.mark.spec("MQRR-3.1.4.13-s", "MQRR-3.1.4.13-q")
@on_loop
async def test_by_lookup_identifier(action: Action) -> None:
    async with serving() as served:
        queue = served.queue("orders", transactional=True)
        two = served.fill(queue, b"1", b"2", b"3")[1].lookup_id
        async with await served.connect() as peer:
            handle = await peer.open()
            uow = await enlisted(served, peer)
            assert await peer.read(handle, action, lookup_id=two, uow=uow) == NEIGHBOURS[action]
            assert list(served.handle.requests) == [1]
            assert await peer.end_transactional(handle) == OK
            assert states(queue).count(PositionState.LOCKED) == 1
            assert await served.transactions.commit(uow) is Decision.COMMITTED
            assert NEIGHBOURS[action] not in served.host.contents(queue)


PEEKS = [A.PEEK_CURRENT, A.PEEK_NEXT, A.LOOKUP_PEEK_CURRENT, A.LOOKUP_PEEK_NEXT, A.LOOKUP_PEEK_PREV]


@pytest.mark.parametrize("action", PEEKS, ids=lambda each: each.name)
@pytest.mark.spec("MQRR-3.1.4.13-g", "MQRR-3.1.4.13-n")
@on_loop
async def test_no_peek_is_part_of_a_transaction(action: Action) -> None:
    async with serving() as served:
        lookup_id = served.host.send(served.queue("orders", transactional=True), b"one").lookup_id
        async with await served.connect() as peer:
            handle = await peer.open()
            uow = await enlisted(served, peer)
            cursor = await peer.create_cursor(handle) if action is A.PEEK_NEXT else 0
            wanted = lookup_id if "LOOKUP" in action.name else 0
            status = await peer.read(handle, action, lookup_id=wanted, cursor=cursor, uow=uow)
            assert status == TRANSACTION_USAGE


@pytest.mark.spec("MQRR-3.1.4.13-m")
@on_loop
async def test_a_queue_without_transactions() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one")
        async with await served.connect() as peer:
            handle = await peer.open()
            uow = await enlisted(served, peer)
            assert await peer.read(handle, uow=uow) == TRANSACTION_USAGE
            assert states(queue) == [PositionState.AVAILABLE]


@pytest.mark.spec("MQRR-3.1.4.13-c", "MQRR-3.1.4.13-d")
@on_loop
async def test_no_transaction_is_all_zero() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one")
        async with await served.connect() as peer:
            handle = await peer.open()
            assert await peer.read(handle, A.PEEK_CURRENT, uow=bytes(16)) == b"one"
            assert not served.handle.requests
            assert await peer.read(handle, uow=bytes(16)) == b"one"
            assert list(served.handle.requests) == [1]
            assert await peer.end(handle) == OK
            assert not len(queue.positions)


@pytest.mark.spec("MQRR-3.1.4.9-f")
@on_loop
async def test_a_receive_in_a_transaction_is_ended_by_its_counterpart_only() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one", transactional=True)
        async with await served.connect() as peer:
            handle = await peer.open()
            uow = await enlisted(served, peer)
            assert await peer.read(handle, uow=uow) == b"one"
            assert await peer.end(handle) == INVALID_PARAMETER
            assert states(queue) == [PositionState.LOCKED]
            assert await peer.end_transactional(handle) == OK


@pytest.mark.parametrize("ack", [idl.RR_ACK, idl.RR_NACK], ids=["ack", "nack"])
@pytest.mark.spec("MQRR-3.1.4.13-p")
@on_loop
async def test_a_transaction_of_one_message(ack: int) -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one", transactional=True)
        async with await served.connect() as peer:
            handle = await peer.open()
            assert await peer.read(handle, uow=RANDOM) == b"one"
            assert await peer.end_transactional(handle, ack=ack) == OK
            assert served.host.contents(queue) == ([] if ack == idl.RR_ACK else [b"one"])
            assert not served.manager.transactions.collection


@pytest.mark.parametrize("enlists", [True, False], ids=["enlisted", "internal"])
@pytest.mark.parametrize("ack", [idl.RR_ACK, idl.RR_NACK], ids=["ack", "nack"])
@pytest.mark.spec("MQRR-3.1.4.14-g", "MQRR-3.1.4.13-p")
@on_loop
async def test_a_pending_message_of_a_transaction_is_rejected(enlists: bool, ack: int) -> None:
    async with serving() as served:
        queue, acks = served.queue("orders", transactional=True), served.queue("acks")
        sent = served.host.send(queue, b"one", admin="OS:HOST\\private$\\acks", acknowledge=0x0E)
        async with await served.connect() as peer:
            handle, uow = await peer.open(), await enlisted(served, peer) if enlists else RANDOM
            assert await peer.read(handle, uow=uow) == b"one"
            assert await peer.set_class(handle, sent.lookup_id, idl.REJECTED_CLASS) == OK
            assert await peer.end_transactional(handle, ack=ack) == OK
            if enlists:
                await served.transactions.commit(uow)
            loaded = [served.manager.mailbox.load(acks, told.lookup_id) for told in acks.positions]
            classes = [told.packet.properties.message_class for told in loaded]
            assert (len(queue.positions), classes) == ((0, [0xC004]) if ack == idl.RR_ACK else (1, []))


@on_loop
async def test_a_promised_transaction_takes_no_more() -> None:
    async with serving() as served:
        queue = served.queue("orders", b"one", transactional=True)
        async with await served.connect() as peer:
            handle = await peer.open()
            uow = await enlisted(served, peer)
            target = (await peer.open_for_move(direct("orders", "a"))).p_move_context
            served.service.resource.prepare(uow)
            assert await peer.read(handle, uow=uow) == TRANSACTION_SEQUENCE
            lookup_id = next(iter(queue.positions)).lookup_id
            assert await peer.move(handle, target, lookup_id, uow) == TRANSACTION_SEQUENCE


# --- rejecting --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "told"), [(0, MessageClass.ACK_RECEIVE), (0xC004, 0xC004)], ids=["kept", "rejected"]
)
@pytest.mark.spec("MQRR-3.1.4.14-c", "MQRR-3.1.4.14-g", "MQRR-3.1.4.14-b")
@on_loop
async def test_rejecting(value: int, told: int) -> None:
    async with serving() as served:
        queue = served.queue("orders", transactional=True)
        acks = served.queue("acks")
        sent = served.host.send(queue, b"one", admin="OS:HOST\\private$\\acks", acknowledge=0x0E)
        async with await served.connect() as peer:
            handle = await peer.open()
            uow = await enlisted(served, peer)
            assert await peer.read(handle, uow=uow) == b"one"
            assert await peer.end_transactional(handle) == OK
            assert await peer.set_class(handle, sent.lookup_id, value) == OK
            assert await served.transactions.commit(uow) is Decision.COMMITTED
            (ack,) = acks.positions
            assert served.manager.mailbox.load(acks, ack.lookup_id).packet.properties.message_class == told
            assert await peer.set_class(handle, sent.lookup_id, value) == NOT_FOUND


@pytest.mark.spec("MQRR-3.1.4.14-e", "MQRR-3.1.4.14-f", "MQRR-3.1.4.14-h")
@on_loop
async def test_what_cannot_be_rejected() -> None:
    async with serving() as served:
        queue = served.queue("orders", transactional=True)
        one, two = (each.lookup_id for each in served.fill(queue, b"one", b"two"))
        async with await served.connect() as peer:
            handle, peeking = await peer.open(), await peer.open(access=0x20)
            uow = await enlisted(served, peer)
            assert await peer.set_class(handle, 12345, 0xC004) == NOT_FOUND
            assert await peer.set_class(handle, one, 0xC004) == TRANSACTION_USAGE
            assert await peer.read(handle, uow=uow) == b"one"
            assert await peer.end_transactional(handle) == OK
            (operation,) = served.manager.transactions.collection[uow].operations
            assert await peer.set_class(handle, one, 0x8000) == INVALID_PARAMETER
            assert await peer.set_class(peeking, one, 0xC004) == ACCESS_DENIED
            assert not operation.reasons
            assert await peer.set_class(handle, two, 0xC004) == TRANSACTION_USAGE
            assert await peer.set_class(handle, one, 0xC004) == OK
            assert list(operation.reasons.values()) == [0xC004]


# --- moving -----------------------------------------------------------------------------------------------------


MOVES = {
    "queue to subqueue": ("", "a", True),
    "subqueue to queue": ("a", "", True),
    "subqueue to subqueue": ("a", "b", True),
    "queue to itself": ("", "", False),
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.spec("MQRR-3.1.4.10-b", "MQRR-3.1.4.10-c", "MQRR-3.1.4.10-m", "MQRR-3.1.4.10-h")
@on_loop
async def test_moves_within_a_family(move: str) -> None:
    source_name, target_name, allowed = MOVES[move]
    async with serving() as served:
        queue = served.queue("orders")
        family = {"": queue, "a": served.manager.queues.subqueue(queue, "a")}
        family["b"] = served.manager.queues.subqueue(queue, "b")
        source, target = family[source_name], family[target_name]
        lookup_id = served.host.send(source, b"one").lookup_id
        async with await served.connect() as peer:
            handle = await peer.open(direct("orders", source_name))
            context = (await peer.open_for_move(direct("orders", target_name))).p_move_context
            assert await peer.move(handle, context ^ 1, lookup_id) == INVALID_HANDLE
            status = await peer.move(handle, context, lookup_id)
            if allowed:
                assert status == OK
                assert served.host.contents(source) == []
                assert served.host.contents(target) == [b"one"]
            else:
                assert status == STATUS_INVALID_PARAMETER


@pytest.mark.parametrize(("source", "target"), [("", ""), ("a", "a"), ("", "a")])
@pytest.mark.spec("MQRR-3.1.4.10-g", "MQRR-3.1.4.10-h", "MQRR-3.1.4.10-b")
@on_loop
async def test_no_moves_between_families(source: str, target: str) -> None:
    async with serving() as served:
        served.queue("orders")
        served.queue("others")
        async with await served.connect() as peer:
            handle = await peer.open(direct("orders", source))
            queue = served.handle.descriptor.queue
            assert queue is not None
            lookup_id = served.host.send(queue, b"one").lookup_id
            context = (await peer.open_for_move(direct("others", target))).p_move_context
            assert await peer.move(handle, context, lookup_id) == STATUS_INVALID_PARAMETER
            assert served.host.contents(queue) == [b"one"]


@pytest.mark.spec(
    "MQRR-3.1.4.10-f", "MQRR-3.1.4.10-i", "MQRR-3.1.4.10-j", "MQRR-3.1.4.10-l", "MQRR-3.1.4.11-e", "MQRR-3.1.4.11-f",
    "MQRR-3.1.4.11-b", "MQRR-3.1.4.11-i",
)  # fmt: skip
@on_loop
async def test_moves_that_cannot_be() -> None:
    async with serving() as served:
        plain = served.host.send(served.queue("plain"), b"one").lookup_id
        exact = served.host.send(served.queue("exact", transactional=True), b"one").lookup_id
        async with await served.connect() as peer, await served.connect() as other:
            uow = await enlisted(served, peer)
            from_plain, from_exact = await peer.open(direct("plain")), await peer.open(direct("exact"))
            peeking = await peer.open(direct("plain"), access=0x20)
            to_plain = await peer.open_for_move(direct("plain", "a"))
            to_exact = await peer.open_for_move(direct("exact", "a"))
            second = await peer.open_for_move(direct("exact", "a"))
            accesses = [h.descriptor.access_type.value for h in served.service.handles.open if h.move_context]
            assert accesses == ["MoveAccess"] * 3
            # A receive handle has no such number; that of a descriptor is none either.
            numbers = [h.descriptor.handle for h in served.service.handles.open]
            for number in numbers:
                assert await peer.move(from_plain, number, plain) == INVALID_HANDLE
            assert await peer.move(from_plain, to_plain.p_move_context, plain, uow) == TRANSACTION_USAGE
            assert await peer.move(from_plain, to_plain.p_move_context, 12345) == NOT_FOUND
            assert await peer.move(peeking, to_plain.p_move_context, plain) == ACCESS_DENIED
            assert await peer.move(from_exact, to_exact.p_move_context, exact, RANDOM) == TRANSACTION_SEQUENCE
            theirs = await other.open(direct("exact"))
            assert await other.move(theirs, to_exact.p_move_context, exact) == INVALID_HANDLE
            assert (await peer.close_queue(to_exact.pph_context)).status == OK
            assert await peer.move(from_exact, to_exact.p_move_context, exact) == INVALID_HANDLE
            assert await peer.move(from_exact, second.p_move_context, exact) == OK


@pytest.mark.parametrize("wrong", [{"access": 1}, {"share": 1}], ids=["access", "share"])
@pytest.mark.spec("MQRR-3.1.4.11-b", "MQRR-3.1.4.11-g")
@on_loop
async def test_destinations_are_opened_for_moving_and_shared(wrong: dict[str, int]) -> None:
    async with serving() as served:
        served.queue("orders")
        async with await served.connect() as peer:
            with pytest.raises(RpcFault) as fault:
                await peer.open_for_move(direct(), **wrong)
            assert fault.value.status == INVALID_PARAMETER


@pytest.mark.spec("MQRR-3.1.4.10-k")
@on_loop
async def test_what_a_transaction_has_cannot_be_moved() -> None:
    async with serving() as served:
        lookup_id = served.host.send(served.queue("orders", transactional=True), b"one").lookup_id
        async with await served.connect() as peer:
            handle = await peer.open()
            uow = await enlisted(served, peer)
            context = (await peer.open_for_move(direct("orders", "a"))).p_move_context
            assert await peer.read(handle, uow=uow) == b"one"
            assert await peer.move(handle, context, lookup_id) == LOCKED_UNDER_TRANSACTION
            assert await peer.end_transactional(handle) == OK
            assert await peer.move(handle, context, lookup_id) == LOCKED_UNDER_TRANSACTION


@pytest.mark.parametrize("outcome", ["commit", "abort"])
@pytest.mark.spec("MQRR-3.1.4.10-n", "MQRR-3.1.4.10-d", "MQRR-3.1.4.12-b")
@on_loop
async def test_two_receives_and_a_move_in_one_transaction(outcome: str) -> None:
    async with serving() as served:
        queue = served.queue("orders", transactional=True)
        sent = served.fill(queue, b"1", b"2", b"3")
        async with await served.connect() as peer:
            handle, below = await peer.open(), await peer.open(direct("orders", "a"))
            uow = await enlisted(served, peer)
            context = (await peer.open_for_move(direct("orders", "a"))).p_move_context
            for number in (1, 2):
                assert await peer.read(handle, request_id=number, uow=uow) == str(number).encode()
                assert await peer.end_transactional(handle, number) == OK
            assert await peer.move(handle, context, sent[2].lookup_id, uow) == OK
            for each in (handle, below):  # nobody sees any of them
                assert await peer.read(each, A.PEEK_CURRENT, request_id=9) == TIMEOUT
            subqueue = queue.subqueue_collection["a"]
            if outcome == "commit":
                assert await served.transactions.commit(uow) is Decision.COMMITTED
                assert served.host.contents(queue) == []
                assert served.host.contents(subqueue) == [b"3"]
            else:
                await served.transactions.abort(uow)
                assert states(queue) == [PositionState.AVAILABLE] * 3
                assert served.host.contents(subqueue) == []

"""impacket's RPC client, which we did not write, calls every method of our server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from impacket.dcerpc.v5.rpcrt import DCERPCException
from impacket.uuid import uuidtup_to_bin

from msmq.remote_read import interface as idl
from msmq.wire.sections import Section, join_sections
from msmq.wire.trailers import MessagePacket
from tests.remote_read import impacket_peer as peer
from tests.remote_read.clients import SUCCEEDS
from tests.remote_read.support import CANCELLED, Served, form, serving_in_a_thread
from tests.rpc.support import eventually_here

NAME = "OS:HOST\\private$\\orders"
QUIET = {"checkError": False}


@pytest.fixture
def served() -> Iterator[Served]:
    with serving_in_a_thread() as running:
        yield running


@pytest.fixture
def opened() -> Iterator[list[Any]]:
    found: list[Any] = []
    yield found
    for dce in found:
        dce.disconnect()


def connect(served: Served, opened: list[Any], level: str = "none", **options: Any) -> Any:
    dce = peer.connect(served.port, level, **options)
    opened.append(dce)
    return dce


def noting(dce: Any, succeeded: set[int]) -> Any:
    """Have the numbers of the methods noted that succeed."""
    plain = dce.request

    def request(call: Any, **options: Any) -> Any:
        answer = plain(call, **options)
        port_or_status = answer.fields["ErrorCode"]["Data"] if "ErrorCode" in answer.fields else 0
        if not port_or_status or call.opnum == 0:
            succeeded.add(call.opnum)
        return answer

    dce.request = request
    return dce


def open_queue(dce: Any, access: int = 1) -> Any:
    return dce.request(peer.open_request(peer.R_OpenQueue(), NAME, access), **QUIET)["pphContext"]


def packet(answer: Any) -> MessagePacket:
    assert answer["ErrorCode"] == 0, hex(answer["ErrorCode"])
    found = [
        Section(each["SectionBufferType"], each["SectionSizeAlloc"], b"".join(each["pSectionBuffer"]))
        for each in answer["ppPacketSections"]
    ]
    return MessagePacket.decode(join_sections(found))


def request(kind: Any, **values: Any) -> Any:
    call = kind()
    for name, value in values.items():
        call[name] = value
    return call


@pytest.mark.parametrize("level", SUCCEEDS["impacket"])
@pytest.mark.spec(
    "MQRR-1.9-a", "MQRR-1.9-b", "MQRR-3.1.4-c", "MQRR-2.1-a", "MQRR-6-a", "MQRR-6-d", "MQRR-6-e",
    "MQRR-3.1.4.10-a", "MQRR-2.2.8-a", "MQRR-2.2.5.2-b",
)  # fmt: skip
def test_every_method(served: Served, opened: list[Any], level: str) -> None:
    queue = served.queue("orders", transactional=True)
    ids = [each.lookup_id for each in served.fill(queue, b"1", b"2", b"3", b"4")]
    ids.append(served.host.send(queue, b"5" * 100).lookup_id)  # nothing but the trailers follows its body
    succeeded: set[int] = set()
    dce = noting(connect(served, opened, level), succeeded)

    # 0, then the port it tells
    assert dce.request(peer.R_GetServerPort(), **QUIET)["ErrorCode"] == served.port
    # 2
    handle = open_queue(dce)
    # 7 and 9
    answer = dce.request(peer.start_request(peer.R_StartReceive(), handle, 0, dwRequestId=1), **QUIET)
    assert packet(answer).message.body == b"1"
    assert answer["pSequenceId"] == ids[0] & (1 << 56) - 1
    assert len(queue.positions) == 5
    end = {"phContext": handle, "dwAck": 2, "dwRequestId": 1}
    assert dce.request(request(peer.R_EndReceive, **end), **QUIET)["ErrorCode"] == 0
    assert len(queue.positions) == 4
    # 8: first nothing waits; then something does, and another connection of the group cancels it
    cancel = request(peer.R_CancelReceive, phContext=handle, dwRequestId=7)
    assert dce.request(cancel, **QUIET)["ErrorCode"] >= 0x80000000
    (group,) = [each for each in served.door.server.groups if len(each.handles)]
    other = noting(connect(served, opened, level, group=group.group_id), succeeded)
    empty = served.queue("empty")
    waits = dce.request(peer.open_request(peer.R_OpenQueue(), "OS:HOST\\private$\\empty", 1), **QUIET)[
        "pphContext"
    ]
    wait = peer.start_request(peer.R_StartReceive(), waits, 0, ulTimeout=60_000, dwRequestId=7)
    dce.call(7, wait)
    eventually_here(lambda: bool(empty.waiting))
    cancel = request(peer.R_CancelReceive, phContext=waits, dwRequestId=7)
    assert other.request(cancel, **QUIET)["ErrorCode"] == 0
    assert dce.recv()[-4:] == CANCELLED.to_bytes(4, "little")
    # 4 and 5, with a peek between them, in two sections
    cursor = dce.request(request(peer.R_CreateCursor, phContext=handle), **QUIET)["phCursor"]
    peek = peer.start_request(peer.R_StartReceive(), handle, 0x80000000, hCursor=cursor)
    assert packet(dce.request(peek, **QUIET)).message.body == b"2"
    last = peer.start_request(peer.R_StartReceive(), handle, 0x40000010, LookupId=ids[4], dwMaxBodySize=10)
    answer = dce.request(last, **QUIET)
    assert answer["pdwNumberOfSections"] == 2
    first, second = peer.sections(answer)
    assert first.endswith(b"5" * 10)
    assert len(second) == 12 + 148 + 28
    assert second[4:8] == (148 + 28).to_bytes(4, "little")
    closed = dce.request(request(peer.R_CloseCursor, phContext=handle, hCursor=cursor), **QUIET)
    assert closed["ErrorCode"] == 0
    # 11 and 10
    target = peer.open_request(peer.R_OpenQueueForMove(), NAME + ";later", 4, qft=8)
    answer = dce.request(target, **QUIET)
    context, moving = answer["pMoveContext"], answer["pphContext"]
    no_uow = peer.XACTUOW()
    no_uow["rgb"] = bytes(16)
    move = request(
        peer.R_MoveMessage, phContextFrom=handle, ullContextTo=context, LookupId=ids[1], pTransactionId=no_uow
    )
    assert dce.request(move, **QUIET)["ErrorCode"] == 0
    assert served.host.contents(queue.subqueue_collection["later"]) == [b"2"]
    # 12, 13, 15, 14
    uow, token = served.transactions.begin()
    enlist = request(
        peer.R_QMEnlistRemoteTransaction,
        cbPropagationToken=len(token),
        pbPropagationToken=[bytes((each,)) for each in token],
    )
    enlist["pTransactionId"]["rgb"] = uow
    peer.fill_direct(enlist["pQueueFormat"], NAME)
    assert dce.request(enlist, **QUIET)["ErrorCode"] == 0
    start = peer.start_request(peer.R_StartTransactionalReceive(), handle, 0, dwRequestId=3)
    start["pTransactionId"]["rgb"] = uow
    assert packet(dce.request(start, **QUIET)).message.body == b"3"
    end = {"phContext": handle, "dwAck": 2, "dwRequestId": 3}
    assert dce.request(request(peer.R_EndTransactionalReceive, **end), **QUIET)["ErrorCode"] == 0
    reject = request(peer.R_SetUserAcknowledgementClass, phContext=handle, LookupId=ids[2], usClass=0xC004)
    assert dce.request(reject, **QUIET)["ErrorCode"] == 0
    (operation,) = served.manager.transactions.collection[uow].operations
    assert list(operation.reasons.values()) == [0xC004]
    # 6 and 3
    assert dce.request(request(peer.R_PurgeQueue, phContext=handle), **QUIET)["ErrorCode"] == 0
    assert [entry.lookup_id for entry in queue.positions] == [ids[2]]  # the transaction has it
    for each in (handle, moving, waits):
        answer = dce.request(request(peer.R_CloseQueue, pphContext=each), **QUIET)
        assert answer["ErrorCode"] == 0
        assert answer["pphContext"] == bytes(20)
    assert not served.service.handles.open
    assert sorted(succeeded) == SUCCEEDS["impacket"][level]


SIZES = {
    # request and answer, in bytes
    "R_GetServerPort": (0, 4),
    "R_OpenQueue": (100, 20),
    "R_CloseQueue": (20, 24),
    "R_CreateCursor": (20, 8),
    "R_CloseCursor": (24, 4),
    "R_PurgeQueue": (20, 4),
    "R_StartReceive": (56, 28),
    "R_CancelReceive": (24, 4),
    "R_EndReceive": (28, 4),
    "R_MoveMessage": (56, 4),
    "R_OpenQueueForMove": (100, 28),
    "R_StartTransactionalReceive": (72, 28),
    "R_SetUserAcknowledgementClass": (34, 4),
    "R_EndTransactionalReceive": (28, 4),
}


@pytest.mark.parametrize("method", SIZES)
@pytest.mark.spec(
    "MQRR-3.1.4.1-a", "MQRR-3.1.4.2-a", "MQRR-3.1.4.3-a", "MQRR-3.1.4.4-a", "MQRR-3.1.4.5-a", "MQRR-3.1.4.6-a",
    "MQRR-3.1.4.7-a", "MQRR-3.1.4.7-b", "MQRR-3.1.4.8-a", "MQRR-3.1.4.9-a", "MQRR-3.1.4.11-a",
    "MQRR-3.1.4.13-a", "MQRR-3.1.4.14-a", "MQRR-3.1.4.15-a", "MQRR-2.2.4-a", "MQRR-3.1.4.3-c",
    "MQRR-2.2.2-a", "MQRR-2.2.3-a", "MQRR-6-b", "MQRR-6-c", "MQRR-6-h",
)  # fmt: skip
def test_sizes_on_the_wire(served: Served, opened: list[Any], method: str) -> None:
    served.queue("orders")
    served.queue("abcd")
    dce = connect(served, opened)
    handle = open_queue(dce)
    call = getattr(peer, method)()
    names = [name for name, _ in call.structure]
    if "pQueueFormat" in names:
        # As long as the name of the example, which makes 100 bytes.
        peer.open_request(call, "OS:.\\private$\\abcd", 4 if "Move" in method else 1)
    elif "ulAction" in names:
        peer.start_request(call, handle, 0)
    for name in ("phContext", "pphContext", "phContextFrom"):
        if name in names:
            call[name] = handle
    if "dwAck" in names:
        call["dwAck"] = 2
    if "pTransactionId" in names:
        call["pTransactionId"]["rgb"] = bytes(range(16))
    stub = call.getData()
    expected_request, expected_answer = SIZES[method]
    assert len(stub) == expected_request
    if method in ("R_StartTransactionalReceive", "R_MoveMessage"):
        assert stub.endswith(bytes(range(16)))
    if "OpenQueue" in method:
        assert stub[:5] == bytes((3, 0, 0, 0, 3))
        assert bytes(range(16)) in stub
        assert idl.OpenQueue.decode(stub)[0].p_client_id == bytes(range(16))
    dce.call(call.opnum, stub)
    answer = dce.recv()
    assert len(answer) == expected_answer
    if "OpenQueue" in method:
        assert answer[-20:-16] == bytes(4)
        assert any(answer[-16:])
    if method == "R_CloseQueue":
        assert answer == bytes(24)


@pytest.mark.spec("MQRR-2.2-a", "MQRR-6-i", "MQRR-2.2.3-d")
@pytest.mark.parametrize("ndr64", [False, True], ids=["NDR", "NDR64"])
def test_both_transfer_syntaxes(served: Served, opened: list[Any], ndr64: bool) -> None:
    served.queue("orders", b"one")
    dce = connect(served, opened, ndr64=ndr64)
    stub = idl.OpenQueue(form("DIRECT=" + NAME), 1, 0, bytes(16), 1, 6, 1, 1, 1).encode(ndr64)
    if ndr64:
        assert stub[:4] == bytes((3, 0, 0, 0))
        assert stub[8] == 3  # the tag is aligned like the widest arm
        assert any(stub[16:24])  # the pointer
    theirs = peer.open_request(peer.R_OpenQueue(isNDR64=ndr64), NAME, 1)
    dce.call(2, theirs.getData())
    handle = dce.recv()
    assert len(handle) == 20
    assert any(handle[4:])
    start = idl.StartReceive(handle, 0, 0, 0, 0, 1, 100, 100).encode(ndr64)
    dce.call(7, start)
    reply, _ = idl.StartReceiveReply.decode(dce.recv(), ndr64)
    assert reply.status == 0
    assert MessagePacket.decode(join_sections(reply.sections)).message.body == b"one"


@pytest.mark.spec("MQRR-3.1.4.2-m", "MQRR-3.1.4.2-p")
@pytest.mark.parametrize("level", ["none", "integrity", "privacy"])
def test_a_queue_that_is_not_there_is_a_fault(served: Served, opened: list[Any], level: str) -> None:
    dce = connect(served, opened, level)
    with pytest.raises(DCERPCException) as fault:
        dce.request(peer.open_request(peer.R_OpenQueue(), NAME, 1))
    assert "c00e0003" in str(fault.value).lower()


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda stub: stub[:60], id="truncated"),
        pytest.param(lambda stub: stub[:20] + b"\xff\xff\xff\x7f" + stub[24:], id="a count too large"),
        pytest.param(lambda stub: stub[:4] + b"\x01" + stub[5:], id="another tag"),
        pytest.param(lambda stub: b"", id="nothing"),
    ],
)
@pytest.mark.spec("MQRR-3.1.4-a")
def test_stubs_that_contradict_themselves(served: Served, opened: list[Any], spoil: Any) -> None:
    served.queue("orders")
    dce = connect(served, opened)
    dce.call(2, spoil(peer.open_request(peer.R_OpenQueue(), NAME, 1).getData()))
    with pytest.raises(DCERPCException, match=r"rpc_x_bad_stub_data|RPC_X_BAD_STUB_DATA|0x6f7|1783"):
        dce.recv()
    assert not served.service.handles.open
    assert not served.host.find().open_descriptors
    assert open_queue(dce)


@pytest.mark.parametrize("uuid", ["other", "version"])
@pytest.mark.spec("MQRR-1.9-a", "MQRR-1.9-b")
def test_another_interface_is_refused(served: Served, opened: list[Any], uuid: str) -> None:
    wanted = {
        "other": ("1a9134dd-7b39-45ba-ad88-44d01ca47f29", "1.0"),
        "version": ("1a9134dd-7b39-45ba-ad88-44d01ca47f28", "2.0"),
    }[uuid]
    with pytest.raises(DCERPCException, match="abstract_syntax_not_supported"):
        connect(served, opened, bind=uuidtup_to_bin(wanted))


@pytest.mark.spec("MQRR-4.1-a", "MQRR-7-d")
def test_bind_and_purge(served: Served, opened: list[Any]) -> None:
    """As Windows Server 2003 does it: ask for the port, connect to that, purge."""
    queue = served.queue("orders", b"1", b"2", b"3")
    port = connect(served, opened).request(peer.R_GetServerPort(), **QUIET)["ErrorCode"]
    dce = peer.connect(port)
    opened.append(dce)
    handle = open_queue(dce)
    assert dce.request(request(peer.R_PurgeQueue, phContext=handle), **QUIET)["ErrorCode"] == 0
    assert dce.request(request(peer.R_CloseQueue, pphContext=handle), **QUIET)["ErrorCode"] == 0
    assert not len(queue.positions)

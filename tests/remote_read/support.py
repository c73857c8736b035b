"""A queue manager with a fake clock and a simulated disk, served to remote readers on a loopback port."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import pytest

from msmq.manager.mailbox.positions import PositionState
from msmq.manager.messages.coordinator import Coordinator
from msmq.manager.model import QueueAccessType
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import MessagePosition, Queue
from msmq.remote_read import interface as idl
from msmq.remote_read.actions import Action
from msmq.remote_read.door import DoorSettings, RemoteReadDoor, server_config
from msmq.remote_read.enlistment import LocalTransactionManager
from msmq.remote_read.handles import OpenHandle
from msmq.remote_read.policy import Policy
from msmq.remote_read.remote_message import read_message
from msmq.remote_read.service import RemoteReadService
from msmq.rpc.client import RpcClient
from msmq.rpc.interface import Call, Handler, Operation, Together
from msmq.rpc.ndr import Parameters
from msmq.rpc.pdu import AuthLevel, AuthType
from msmq.rpc.security import Authentication, Credentials
from msmq.security.sddl import parse_sddl
from msmq.testing.traffic import Door, Draft, properties_of
from msmq.wire.message import UserMessage
from msmq.wire.names import MultipleElementName, parse_format_name
from msmq.wire.queue_format import QueueFormat
from tests.mail import Mail
from tests.manager.support import Host
from tests.rpc.support import HOST, PASSWORD, Known

PATIENCE_S = 120
EVERYBODY = parse_sddl("D:(A;;0x10000000;;;WD)(A;;0x10000000;;;AN)").encode()
"""Generic all for everyone, anonymous callers among them."""
OPEN = Policy(AuthLevel.NONE)
OK = 0
WHOLE = 0xFFFFFFFF
INVALID_PARAMETER, INVALID_HANDLE = 0xC00E0006, 0xC00E0007
CANCELLED, TIMEOUT, NOT_FOUND = 0xC00E0008, 0xC00E001B, 0xC00E0088
ALREADY_RECEIVED, ACCESS_DENIED, QUEUE_NOT_FOUND = 0xC00E001D, 0xC00E0025, 0xC00E0003
TRANSACTION_USAGE, TRANSACTION_SEQUENCE, LOCKED_UNDER_TRANSACTION = 0xC00E0050, 0xC00E0051, 0xC00E009C
SHARING_VIOLATION, ILLEGAL_CURSOR_ACTION = 0xC00E0009, 0xC00E001C
STATUS_INVALID_HANDLE, STATUS_ACCESS_DENIED, STATUS_INVALID_PARAMETER = 0xC0000008, 0xC0000022, 0xC000000D
MISMATCH, BAD_STUB, OP_RANGE = 0x1C00001A, 0x6F7, 0x1C010002
SEVERITY = 0x80000000

NO_TRANSACTION = bytes(16)
BOTH = pytest.mark.parametrize(
    "uow", [None, NO_TRANSACTION], ids=["R_StartReceive", "R_StartTransactionalReceive"]
)

P = ParamSpec("P")
T = TypeVar("T")


def on_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run an asynchronous test on a loop of its own, with patience."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def limited() -> None:
            async with asyncio.timeout(PATIENCE_S):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return run


async def eventually(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.002)


class PunctualHost(Host):
    """The same queue manager by the real clock."""

    @property
    def now(self) -> float:
        return time.time()

    @now.setter
    def now(self, value: float) -> None:
        pass


class Served:
    """The queue manager, its service and its door."""

    def __init__(
        self,
        policy: Policy = OPEN,
        *,
        punctual: bool = False,
        host: Host | None = None,
        authentication: Authentication | None = None,
        **options: Any,
    ) -> None:
        self.host = host or (PunctualHost() if punctual else Host())
        self.slow = False
        """Whether nothing becomes durable until `settle`."""
        self._waiting: list[Callable[[], None]] = []
        self.mail = Mail(Door.MANAGER, direct())
        self.service = RemoteReadService(self, policy, **options)
        self.coordinator = Coordinator(self.manager.core.ledger)
        self.transactions = LocalTransactionManager(
            self.coordinator, lambda: self.host.random.randbytes(16), self.service.durable
        )
        self.service.transaction_manager = self.transactions
        settings = DoorSettings((HOST,), 0, 0, policy, server=server_config(policy))
        self.door = RemoteReadDoor(settings, self.service, authentication or Authentication(accounts=Known()))

    @property
    def manager(self) -> QueueManager:
        return self.host.manager

    def when_durable(self, action: Callable[[], None]) -> None:
        if self.slow:
            self._waiting.append(action)
            return
        self.host.store.commit()
        action()

    def settle(self) -> None:
        """The disk has caught up."""
        self.slow = False
        self.host.store.commit()
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            action()

    @property
    def port(self) -> int:
        return self.service.port

    def queue(self, name: str = "orders", *bodies: bytes, **attributes: Any) -> Queue:
        """A queue that everybody may use, with messages in it."""
        attributes.setdefault("security", EVERYBODY)
        queue = self.host.queue(name, **attributes)
        self.fill(queue, *bodies)
        return queue

    def fill(self, queue: Queue, *bodies: bytes) -> list[MessagePosition]:
        """Messages of every kind, in this order; nobody sees those that somebody has."""
        usual = {"priority": 3, "peekable_when_locked": False}
        return self.post(queue, *(self.mail.draft(body, queue.transactional, **usual) for body in bodies))

    def post(self, queue: Queue, *drafts: Draft) -> list[MessagePosition]:
        """Send messages from here; to a transactional queue, in one transaction."""
        transaction = self.manager.transactions.create() if queue.transactional and drafts else None
        descriptor = self.manager.queues.open(f"DIRECT=OS:{queue.pathname}", QueueAccessType.SEND)
        copies = [self.manager.posting.send(descriptor, properties_of(each), transaction) for each in drafts]
        self.manager.queues.close(descriptor)
        if transaction is not None:
            self.manager.transactions.commit(transaction.identifier)
        return [queue.position(copy.lookup_id) for (copy,) in copies]

    @property
    def handle(self) -> OpenHandle:
        """The only open handle."""
        (handle,) = self.service.handles.open
        return handle

    async def connect(self, user: str | None = None, **options: Any) -> Peer:
        level = options.pop("level", AuthLevel.PRIVACY)
        credentials = Credentials(user, PASSWORD, AuthType.NTLM, level) if user is not None else None
        client = await RpcClient.connect(HOST, self.port, idl.REMOTE_READ, credentials, **options)
        return Peer(client)


def state_of(served: Served, number: int = 0) -> PositionState:
    """The state of a message of the usual queue."""
    return list(served.host.find().positions)[number].state


@asynccontextmanager
async def serving(policy: Policy = OPEN, **options: Any) -> AsyncIterator[Served]:
    served = Served(policy, **options)
    await served.door.open()
    try:
        yield served
    finally:
        await asyncio.wait_for(served.door.close(), PATIENCE_S)


@contextmanager
def serving_in_a_thread(policy: Policy = OPEN, **options: Any) -> Iterator[Served]:
    """The same for peers that block their thread. Touch the queue manager between calls only."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        served = Served(policy, **options)
        asyncio.run_coroutine_threadsafe(served.door.open(), loop).result(PATIENCE_S)
        try:
            yield served
        finally:
            asyncio.run_coroutine_threadsafe(served.door.close(), loop).result(PATIENCE_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


def form(name: str) -> QueueFormat:
    parsed = parse_format_name(name)
    assert not isinstance(parsed, MultipleElementName)
    return QueueFormat.from_name(parsed)


def direct(queue: str = "orders", subqueue: str = "") -> str:
    return f"DIRECT=OS:HOST\\private$\\{queue}" + (f";{subqueue}" if subqueue else "")


class Peer:
    """A client that makes each call by itself and looks at what comes back."""

    def __init__(self, client: RpcClient) -> None:
        self.client = client

    async def call(self, operation: Operation[Any, Any], request: Parameters) -> Any:
        return await self.client.call(operation, request)

    async def close(self) -> None:
        await self.client.close()

    async def __aenter__(self) -> Peer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(
        self, name: str | QueueFormat | None = None, access: int = 1, share: int = 0, **fields: Any
    ) -> bytes:
        request = self.request(name, access, share, **fields)
        handle: bytes = (await self.call(idl.R_OPEN_QUEUE, request)).pph_context
        return handle

    def request(
        self, name: str | QueueFormat | None, access: int = 1, share: int = 0, **fields: Any
    ) -> idl.OpenQueue:  # fmt: skip
        queue = name if isinstance(name, QueueFormat) else form(name or direct())
        values = {
            "p_client_id": bytes(16), "f_non_routing_server": 1, "major": 6, "minor": 1, "build_number": 1,
            "f_workgroup": 1,
        } | fields  # fmt: skip
        return idl.OpenQueue(queue, access, share, **values)

    async def open_for_move(self, name: str, **fields: Any) -> idl.OpenQueueForMoveReply:
        request = self.request(name, fields.pop("access", 4), fields.pop("share", 0), **fields)
        reply: idl.OpenQueueForMoveReply = await self.call(idl.R_OPEN_QUEUE_FOR_MOVE, request)
        return reply

    async def start(
        self,
        handle: bytes,
        action: int = Action.RECEIVE,
        *,
        request_id: int = 1,
        lookup_id: int = 0,
        cursor: int = 0,
        timeout_ms: int = 0,
        max_body: int = WHOLE,
        max_compound: int = WHOLE,
        uow: bytes | None = None,
    ) -> idl.StartReceiveReply:
        values = (handle, lookup_id, cursor, action, timeout_ms, request_id, max_body, max_compound)
        if uow is None:
            reply = await self.call(idl.R_START_RECEIVE, idl.StartReceive(*values))
        else:
            request = idl.StartTransactionalReceive(*values, uow)
            reply = await self.call(idl.R_START_TRANSACTIONAL_RECEIVE, request)
        assert isinstance(reply, idl.StartReceiveReply)
        return reply

    async def read(self, handle: bytes, action: int = Action.RECEIVE, **options: Any) -> bytes | int:
        """The body that a read gives, or the status it fails with."""
        return body_or_status(await self.start(handle, action, **options))

    async def end(self, handle: bytes, request_id: int = 1, ack: int = idl.RR_ACK) -> int:
        return await self._status(idl.R_END_RECEIVE, idl.EndReceive(handle, ack, request_id))

    async def end_transactional(self, handle: bytes, request_id: int = 1, ack: int = idl.RR_ACK) -> int:
        return await self._status(idl.R_END_TRANSACTIONAL_RECEIVE, idl.EndReceive(handle, ack, request_id))

    async def cancel(self, handle: bytes, request_id: int = 1) -> int:
        return await self._status(idl.R_CANCEL_RECEIVE, idl.CancelReceive(handle, request_id))

    async def close_queue(self, handle: bytes) -> idl.CloseQueueReply:
        reply: idl.CloseQueueReply = await self.call(idl.R_CLOSE_QUEUE, idl.OnHandle(handle))
        return reply

    async def create_cursor(self, handle: bytes) -> int:
        reply = await self.call(idl.R_CREATE_CURSOR, idl.OnHandle(handle))
        assert reply.status == OK
        return int(reply.ph_cursor)

    async def close_cursor(self, handle: bytes, cursor: int) -> int:
        return await self._status(idl.R_CLOSE_CURSOR, idl.CloseCursor(handle, cursor))

    async def purge(self, handle: bytes) -> int:
        return await self._status(idl.R_PURGE_QUEUE, idl.OnHandle(handle))

    async def move(self, handle: bytes, context: int, lookup_id: int, uow: bytes = bytes(16)) -> int:
        request = idl.MoveMessage(handle, context, lookup_id, uow)
        return await self._status(idl.R_MOVE_MESSAGE, request)

    async def enlist(self, uow: bytes, token: bytes, name: str | None = None) -> int:
        request = idl.EnlistRemoteTransaction(uow, len(token), token, form(name or direct()))
        return await self._status(idl.R_ENLIST_REMOTE_TRANSACTION, request)

    async def set_class(self, handle: bytes, lookup_id: int, value: int) -> int:
        request = idl.SetUserAcknowledgementClass(handle, lookup_id, value)
        return await self._status(idl.R_SET_USER_ACKNOWLEDGEMENT_CLASS, request)

    async def get_port(self) -> int:
        return await self._status(idl.R_GET_SERVER_PORT, idl.Nothing())

    async def _status(self, operation: Operation[Any, Any], request: Parameters) -> int:
        return int((await self.call(operation, request)).status)


def body_or_status(reply: idl.StartReceiveReply) -> bytes | int:
    return reply.status if reply.status else bytes(packet_of(reply).body)


def packet_of(reply: idl.StartReceiveReply) -> UserMessage:
    assert reply.status == OK, f"0x{reply.status:08X}"
    return read_message(reply).packet


def one_by_one(handler: Handler | Together) -> Handler:
    """A handler as one of single calls."""

    def answer(call: Call, request: Any) -> Any:
        assert isinstance(handler, Together)
        (found,) = handler.answer(call, [request])
        return found

    return answer if isinstance(handler, Together) else handler


class Loose(idl.Nothing):
    """A stub of any bytes."""

    def __init__(self, stub: bytes) -> None:
        self.stub = stub

    def encode(self, ndr64: bool = False) -> bytes:
        return self.stub

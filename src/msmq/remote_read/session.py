"""The client: connecting to a server and opening queues (MS-MQRR 3.2.3, 3.2.4.1).

::

    async with await RemoteHost.connect("server", credentials=Credentials("alice", "secret")) as host:
        queue = await host.open("DIRECT=OS:server\\\\private$\\\\orders", Access.RECEIVE)

Without a port, the endpoint mapper of the server is asked for it. For servers that offer less protection or allow only
peeking, callers can pass ``levels``, which are tried in order, and ``peek_too``, which opens a queue for peeking if
receiving is denied.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from types import TracebackType
from typing import Final, Self, TypeVar

from msmq.errors import (
    AccessDeniedError,
    DecodeError,
    MQError,
    OperationNotSupportedByRemoteComputerError,
    RemoteMachineNotAvailableError,
    UnsupportedFormatnameOperationError,
)
from msmq.remote_read import interface as idl
from msmq.remote_read.failures import call, check_status
from msmq.remote_read.remote_queue import MoveTarget, RemoteQueue
from msmq.rpc.client import RpcClient
from msmq.rpc.epm import EPM, EPT_MAP, EptMap, Tower, build_tower, read_tower
from msmq.rpc.interface import Operation
from msmq.rpc.ndr import NULL_HANDLE, Parameters
from msmq.rpc.pdu import AuthLevel
from msmq.rpc.ports import ENDPOINT_MAPPER_PORT
from msmq.rpc.security import Credentials
from msmq.rpc.status import NotServedError, RpcBindError, RpcConnectionError, RpcFault
from msmq.wire.guid import NULL_GUID
from msmq.wire.names import MultipleElementName, parse_format_name
from msmq.wire.queue_format import QueueFormat

CALL_TIMEOUT_S: Final = 300.0
"""RPC Call Timeout Timer (3.1.2.1): the longest that opening and enlisting may take."""
VERSION: Final = (6, 1, 7601)
"""The version we announce: major, minor and build number. Servers ignore it."""
_MAX_TOWERS: Final = 4
_log = logging.getLogger(__name__)

Q = TypeVar("Q", bound=Parameters)
R = TypeVar("R", bound=Parameters)


class Access(IntEnum):
    """The purposes for which a queue can be opened."""

    RECEIVE = idl.RECEIVE_ACCESS
    PEEK = idl.PEEK_ACCESS


class Share(IntEnum):
    """Whether others may read the queue at the same time."""

    DENY_NONE = idl.DENY_NONE
    DENY_SHARE = idl.DENY_SHARE


@dataclass(frozen=True, slots=True)
class Caller:
    """What a client states about itself when it opens a queue (3.1.4.2)."""

    client_id: bytes = NULL_GUID
    """The identifier of the client's queue manager, if it is one."""
    routing_server: bool = False
    workgroup: bool = True


async def find_port(host: str, *, mapper_port: int = ENDPOINT_MAPPER_PORT) -> int:
    """Ask the endpoint mapper of ``host`` for the port of remote read."""
    tower = build_tower(idl.REMOTE_READ.syntax, 0, "")
    try:
        async with await RpcClient.connect(host, mapper_port, EPM) as client:
            request = EptMap(None, Tower(len(tower), tower), NULL_HANDLE, _MAX_TOWERS)
            answer = await client.call(EPT_MAP, request)
    except RpcConnectionError as error:
        raise RemoteMachineNotAvailableError(f"{host} has no endpoint mapper: {error}") from error
    except RpcFault as error:
        raise RemoteMachineNotAvailableError(
            f"The endpoint mapper of {host} does not tell: {error}"
        ) from error
    for found in answer.towers:
        try:
            port = read_tower(found.tower_octet_string).port if found is not None else 0
        except DecodeError:
            continue
        if port:
            return port
    raise NoRemoteReadError(host)


# By 3.2.4.1 the client goes on with MS-MQQP here, which we do not speak. To add it, catch this error where
# `RemoteHost.connect` raises it, and return a host that reads in the other protocol.
class NoRemoteReadError(OperationNotSupportedByRemoteComputerError):
    """The queues of that computer cannot be read from another one."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host} does not serve remote read (MS-MQRR): it is switched off there, another program has the port, or "
            "the queue manager is as old as those of Windows 2000 and XP, which serve only MS-MQQP.",
            advice=f"Switch it on at {host} and check the port (`msmq serve --rpc-port 2103` with this program); or "
            f"read the queue on {host} itself, or have its messages sent to a queue of this computer.",
        )


class RemoteHost:
    """A connection to the queue manager of another host, made by `connect`."""

    def __init__(self, client: RpcClient, caller: Caller, call_timeout_s: float) -> None:
        self.client = client
        self.caller = caller
        self.call_timeout_s = call_timeout_s
        self.queues: set[RemoteQueue] = set()
        """Queues opened on this connection."""

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int | None = None,
        credentials: Credentials | None = None,
        *,
        levels: Sequence[AuthLevel] = (),
        caller: Caller | None = None,
        ask_port: bool = False,
        mapper_port: int = ENDPOINT_MAPPER_PORT,
        ndr64: bool = False,
        target_name: str | None = None,
        call_timeout_s: float = CALL_TIMEOUT_S,
    ) -> Self:
        """Connect to ``host``; without a port its endpoint mapper is asked.

        ``levels`` are authentication levels to try in order instead of the one of the credentials; NONE connects
        without authentication. ``ask_port`` asks the server for its port (R_GetServerPort) and connects to that one,
        as old systems do. ``target_name`` is the host in its Kerberos principal, if that differs from ``host``. Raises
        NoRemoteReadError if the host has no remote read.
        """
        if port is None:
            port = await find_port(host, mapper_port=mapper_port)
        trouble: RpcConnectionError | None = None
        for attempt in _attempts(credentials, levels):
            try:
                client = await RpcClient.connect(
                    host, port, idl.REMOTE_READ, attempt, ndr64=ndr64, target_name=target_name
                )
                answer = await _first_answer(client)
            except NotServedError as error:
                raise NoRemoteReadError(host) from error
            except RpcBindError as error:
                trouble = error
                continue
            except RpcFault as error:
                client.abort()
                trouble = RpcBindError(str(error))
                continue
            except RpcConnectionError as error:
                raise RemoteMachineNotAvailableError(f"{host} cannot be reached: {error}") from error
            if ask_port and answer.status:
                await client.close()
                try:
                    client = await RpcClient.connect(
                        host, answer.status, idl.REMOTE_READ, attempt, ndr64=ndr64, target_name=target_name
                    )
                except RpcConnectionError as error:
                    raise RemoteMachineNotAvailableError(
                        f"{host} cannot be reached at port {answer.status}, which it gave itself: {error}"
                    ) from error
            return cls(client, caller or Caller(), call_timeout_s)
        raise AccessDeniedError(f"{host} does not let us in: {trouble}")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all queues, then the connection."""
        for queue in list(self.queues):
            try:
                await queue.close()
            except (MQError, RpcFault, RpcConnectionError) as error:
                _log.debug("a queue could not be closed: %s", error)
        await self.client.close()

    # --- opening ----------------------------------------------------------------------------------------

    async def open(
        self,
        name: str,
        access: Access = Access.RECEIVE,
        share: Share = Share.DENY_NONE,
        *,
        peek_too: bool = False,
    ) -> RemoteQueue:
        """Open a queue. Raises MQError, whatever goes wrong.

        ``peek_too`` opens the queue for peeking if receiving is denied; ``queue.access`` says which it was.
        """
        form = _form(name)
        try:
            reply = await self.limited(idl.R_OPEN_QUEUE, self._request(form, access, share))
        except AccessDeniedError:
            if not peek_too or access is Access.PEEK:
                raise
            access = Access.PEEK
            reply = await self.limited(idl.R_OPEN_QUEUE, self._request(form, access, share))
        queue = RemoteQueue(self, reply.pph_context, form, access)
        self.queues.add(queue)
        return queue

    async def open_for_move(self, name: str) -> MoveTarget:
        """Open the destination of moves."""
        request = self._request(_form(name), idl.MOVE_ACCESS, Share.DENY_NONE)
        reply = await self.limited(idl.R_OPEN_QUEUE_FOR_MOVE, request)
        return MoveTarget(self, reply.pph_context, reply.p_move_context)

    def _request(self, form: QueueFormat, access: int, share: int) -> idl.OpenQueue:
        caller = self.caller
        return idl.OpenQueue(
            form,
            int(access),
            int(share),
            caller.client_id,
            int(not caller.routing_server),
            *VERSION,
            int(caller.workgroup),
        )

    async def enlist(self, uow: bytes, token: bytes, queue_name: str) -> None:
        """Have the server take part in a transaction (3.2.4.2)."""
        request = idl.EnlistRemoteTransaction(uow, len(token), token, _form(queue_name))
        reply = await self.limited(idl.R_ENLIST_REMOTE_TRANSACTION, request)
        check_status(reply.status)

    async def limited(self, operation: Operation[Q, R], request: Q) -> R:
        """Make a call that is limited by the RPC Call Timeout Timer."""
        try:
            async with asyncio.timeout(self.call_timeout_s):
                return await call(self.client, operation, request)
        except TimeoutError:
            raise RemoteMachineNotAvailableError(
                f"{operation.name} was not answered within {self.call_timeout_s:g} seconds."
            ) from None


async def _first_answer(client: RpcClient) -> idl.Status:
    """Make a first call, which proves who we are. If it is cancelled the connection is closed."""
    try:
        return await client.call(idl.R_GET_SERVER_PORT, idl.Nothing())
    except asyncio.CancelledError:
        client.abort()
        raise


def _attempts(credentials: Credentials | None, levels: Sequence[AuthLevel]) -> list[Credentials | None]:
    if credentials is None or not levels:
        return [credentials]
    return [None if level is AuthLevel.NONE else replace(credentials, level=level) for level in levels]


def _form(name: str) -> QueueFormat:
    parsed = parse_format_name(name)
    if isinstance(parsed, MultipleElementName):
        raise UnsupportedFormatnameOperationError("Several queues at once cannot be read.")
    return QueueFormat.from_name(parsed)

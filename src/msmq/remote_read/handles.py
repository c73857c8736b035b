"""Open queues of remote readers, and the requests that are under way on them (MS-MQRR 3.1.1.2, 3.1.1.3).

A *request* is on the table of its handle from the arrival of its call: while it waits for a message, and, if it
receives one, until the client has acknowledged or returned it. So a request id is never used twice at a time, and a
client that closes its handle or goes away leaves nothing locked.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msmq.errors import InvalidHandleError, InvalidParameterError, MQError
from msmq.manager.core import RETRY_S
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.transactions import Transaction
from msmq.manager.model import RemoteReadState
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import OpenQueueDescriptor
from msmq.rpc.association import AssociationGroup
from msmq.rpc.interface import Call
from msmq.rpc.pdu import AuthLevel
from msmq.rpc.status import FaultStatus, RpcFault

MAX_REQUESTS: Final = 4_096
"""The most requests of one handle under way."""
MAX_CURSORS: Final = 1_024
"""The most open cursors of one handle."""
_TIME_STAMP_MASK: Final = 0xFFFFFFFF


@dataclass(eq=False, slots=True)
class Request:
    """PendingRequestEntry (3.1.1.2)."""

    request_id: int
    began: float
    receives: bool
    transactional: bool = False
    """Whether R_StartTransactionalReceive began it with a transaction; then only its counterpart may end it."""
    transaction: Transaction | None = None
    """None, if ``transactional``, stands for an internal transaction, which ends with the acknowledgment."""
    lookup_id: int = 0
    """The message locked for the client; 0 while the request waits for one."""
    rejected: bool = False
    """Whether the acknowledgment of the client will reject the message."""
    message: StoredMessage | None = None
    """The locked message, if it is small enough to be kept until the request ends."""

    @property
    def time_stamp_ms(self) -> int:
        """TimeStamp: when the request began, cut to the 32 bits of the field."""
        return int(self.began * 1000) & _TIME_STAMP_MASK


@dataclass(eq=False, slots=True)
class OpenHandle:
    """An open queue, for which a queue context handle stands."""

    descriptor: OpenQueueDescriptor
    group: AssociationGroup
    required: AuthLevel
    """The authentication level that every call with this handle must have."""
    move_context: int = 0
    requests: dict[int, Request] = field(default_factory=dict)

    @property
    def pending(self) -> Iterator[Request]:
        """The PendingRequestTable of this handle: those of its requests that are receives."""
        return (request for request in self.requests.values() if request.receives)


class Handles:
    """All open handles and their requests, which together are the PendingRequestTable (3.1.1.3)."""

    def __init__(self, manager: QueueManager, cleanup_s: float) -> None:
        self.manager = manager
        self.cleanup_s = cleanup_s
        """How long a message stays locked for a client that neither acknowledges nor returns it (3.1.2.2)."""
        self.open: set[OpenHandle] = set()
        self._by_move_context: dict[int, OpenHandle] = {}
        self._unsaid: dict[Request, tuple[float, OpenHandle]] = {}
        """Receives whose message is with the client, with their deadline and handle; the oldest first."""
        self._watching = False

    # --- handles ----------------------------------------------------------------------------------------

    def add(self, descriptor: OpenQueueDescriptor, call: Call, required: AuthLevel) -> OpenHandle:
        handle = OpenHandle(descriptor, call.group, required)
        descriptor.remote_read_state = RemoteReadState.OPENED
        self.open.add(handle)
        return handle

    def add_for_move(self, descriptor: OpenQueueDescriptor, call: Call, required: AuthLevel) -> OpenHandle:
        """Like :meth:`add`, but also gives the handle an unguessable number, by which R_MoveMessage names it."""
        handle = self.add(descriptor, call, required)
        while not handle.move_context or handle.move_context in self._by_move_context:
            handle.move_context = secrets.randbits(64)
        self._by_move_context[handle.move_context] = handle
        return handle

    def find(self, call: Call, context: bytes) -> OpenHandle:
        """Return the handle of a call. A context of another client, user or interface is a fault, as is too little
        authentication; a queue that has been closed or deleted is an InvalidHandleError."""
        handle: OpenHandle = call.group.handles.find(context, call.interface.syntax, call.token)
        if call.auth_level < handle.required:
            raise RpcFault(FaultStatus.ACCESS_DENIED, did_not_execute=True)
        if handle.descriptor.handle not in self.manager.queues.descriptors or handle.descriptor.queue is None:
            raise InvalidHandleError("The queue of this handle is no longer open.")
        handle.descriptor.remote_read_state = RemoteReadState.READY_FOR_READ
        return handle

    def find_move_target(self, call: Call, move_context: int) -> OpenHandle:
        """The destination of a move. Only the client that opened it may name it."""
        handle = self._by_move_context.get(move_context)
        if handle is None or handle.group is not call.group or handle.descriptor.queue is None:
            raise InvalidHandleError("No queue was opened for moving with this number.")
        return handle

    def close(self, handle: OpenHandle) -> None:
        """Close a handle, for R_CloseQueue, the loss of the client and rundown: messages are unlocked, waiting
        requests cancelled, and cursors and queue closed."""
        self.open.discard(handle)
        self._by_move_context.pop(handle.move_context, None)
        waiting = [request for request in handle.requests.values() if not request.lookup_id]
        for request in waiting:  # before anything is given back, or they would get it
            self.manager.reading.cancel(handle.descriptor, request.request_id)
        try:
            for request in list(handle.requests.values()):
                self.give_back(handle, request)
        finally:
            self.manager.queues.close(handle.descriptor)

    # --- requests ---------------------------------------------------------------------------------------

    def has_room(self, handle: OpenHandle, request_id: int, others: int = 0) -> bool:
        """Whether a request with this id may be put on the table, after ``others`` more."""
        return request_id not in handle.requests and len(handle.requests) + others < MAX_REQUESTS

    def check_room(self, handle: OpenHandle, request_id: int) -> None:
        """Refuse a request whose id is in use, or for which the table has no room."""
        if not self.has_room(handle, request_id):
            raise InvalidParameterError("This request id is in use, or too many requests are under way.")

    def enter(self, handle: OpenHandle, request: Request) -> None:
        """Put a request on the table, which must have room for it."""
        handle.requests[request.request_id] = request

    def start_cleanup(self, handle: OpenHandle, request: Request) -> None:
        """Start Pending Request Cleanup Timer when the answer leaves. All requests have the same time-out, so the
        first to start is the first to expire, and one timer is enough."""
        core = self.manager.core
        deadline = core.environment.now() + self.cleanup_s
        self._unsaid[request] = (deadline, handle)
        if not self._watching:
            self._watching = True
            core.timers.start(deadline, self._clean_up)

    def _clean_up(self) -> None:
        """Pending Request Cleanup Timer Event (3.1.5.1) of all requests that have expired."""
        core = self.manager.core
        now = core.environment.now()
        self._watching = False
        while self._unsaid:
            request, (deadline, handle) = next(iter(self._unsaid.items()))
            if deadline > now:
                self._watching = True
                core.timers.start(deadline, self._clean_up)
                return
            try:
                self.give_back(handle, request)
            except MQError:  # usually because the disk is full
                core.timers.start(now + RETRY_S, partial(self._try_again, handle, request))

    def _try_again(self, handle: OpenHandle, request: Request) -> None:
        if request in self._unsaid:
            self.give_back(handle, request)

    def forget(self, handle: OpenHandle, request: Request) -> None:
        """Take a request off the table and stop its timer."""
        if handle.requests.get(request.request_id) is request:
            del handle.requests[request.request_id]
        self._unsaid.pop(request, None)

    def not_there(self, handle: OpenHandle, request: Request) -> None:
        """Note that the message a request had found is gone. The request stays on the table, looking for another."""
        self._unsaid.pop(request, None)
        handle.descriptor.begun.discard(request.lookup_id)
        request.lookup_id = 0

    def give_back(self, handle: OpenHandle, request: Request) -> None:
        """Unlock the message of a request that the client returned or left without an answer (3.1.5.1, 3.1.6.2)."""
        self.forget(handle, request)
        descriptor, lookup_id = handle.descriptor, request.lookup_id
        if not lookup_id or lookup_id not in descriptor.begun or descriptor.queue is None:
            return
        position = descriptor.queue.position(lookup_id)
        if position.state is PositionState.DELETED:
            descriptor.begun.discard(lookup_id)
            return
        try:
            self.manager.reading.dequeue_end(descriptor, position, delete_message=False)
        except MQError:
            if handle.descriptor.handle in self.manager.queues.descriptors:
                handle.requests[request.request_id] = request
                self.start_cleanup(handle, request)
            raise

"""The server of remote read: the methods of the RemoteRead interface (MS-MQRR 3.1.4).

No method changes a queue by itself: it checks its arguments, finds its handle and generates the event of the queue
manager that the specification names. Three rules hold everywhere. Nothing is deleted before the client has
acknowledged the message. No answer leaves before everything it depends on is durable. A read that waits keeps nobody
else waiting.

A message received in a transaction is locked for the client until the client has acknowledged it, and only then
becomes part of the transaction, so that a commit before that cannot lose it (ruling RR2).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from msmq.errors import (
    AccessDeniedError,
    InsufficientResourcesError,
    InvalidHandleError,
    InvalidParameterError,
    MessageLockedUnderTransactionError,
    MessageNotFoundError,
    MQError,
    QueueNotFoundError,
    TransactionEnlistError,
    TransactionSequenceError,
    TransactionUsageError,
)
from msmq.manager.mailbox.positions import PositionState
from msmq.manager.messages.coordinator import ResourceManager
from msmq.manager.model import QueueAccessType, QueueShareMode
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queue import MessagePosition, Queue
from msmq.remote_read import interface as idl
from msmq.remote_read.enlistment import TransactionManager
from msmq.remote_read.handles import MAX_CURSORS, Handles, OpenHandle, Request
from msmq.remote_read.policy import Policy
from msmq.remote_read.receive import MQ_OK, STATUS_INVALID_HANDLE, Receiving
from msmq.remote_read.sections import operation_on, subqueue_name
from msmq.rpc.interface import Answer, Call, Handler, Promise, Together
from msmq.rpc.ndr import NULL_HANDLE, Parameters
from msmq.rpc.pdu import AuthLevel
from msmq.rpc.server import RpcServer
from msmq.rpc.status import FaultStatus, RpcFault
from msmq.security.access import Token
from msmq.wire.classes import MessageClass
from msmq.wire.names import FormatName, QueueTarget, target_of
from msmq.wire.queue_format import QueueFormat, QueueFormatType, supported_by_remote_read

STATUS_ACCESS_DENIED: Final = 0xC0000022
STATUS_INVALID_PARAMETER: Final = 0xC000000D
CLEANUP_S: Final = 300.0
_ACCESS: Final = {
    idl.RECEIVE_ACCESS: QueueAccessType.RECEIVE,
    idl.PEEK_ACCESS: QueueAccessType.PEEK,
}
_SHARE: Final = {idl.DENY_NONE: QueueShareMode.DENY_NONE, idl.DENY_SHARE: QueueShareMode.DENY_RECEIVE}
_OK: Final = idl.Status(MQ_OK)
_log = logging.getLogger(__name__)


class Host(Protocol):
    """The daemon, as far as remote read needs it."""

    @property
    def manager(self) -> QueueManager: ...

    def when_durable(self, action: Callable[[], None]) -> None:
        """Call ``action`` once everything done so far is durable."""


Q = TypeVar("Q", bound=Parameters)


class RemoteReadService:
    """Serves one queue manager to remote readers."""

    def __init__(
        self,
        host: Host,
        policy: Policy | None = None,
        *,
        transaction_manager: TransactionManager | None = None,
        cleanup_s: float = CLEANUP_S,
    ) -> None:
        self.host = host
        self.policy = policy or Policy()
        self.port = 0
        """The port that R_GetServerPort returns: 0 while none is open."""
        self.handles = Handles(host.manager, cleanup_s)
        self.resource = ResourceManager(host.manager.transactions)
        self.transaction_manager = transaction_manager
        """Decides whether this queue manager may take part in a client's transaction."""
        self._receiving = Receiving(host.manager, self.handles, host.when_durable)

    def register(self, server: RpcServer) -> None:
        """Serve on ``server``. Anybody may connect; authentication is checked when a queue is opened."""
        server.register(idl.REMOTE_READ, self.methods)

    @property
    def methods(self) -> dict[int, Handler | Together]:
        answering = partial(_with_status, idl.Status)
        return {
            0: self.get_server_port,
            2: self.open_queue,
            3: self.close_queue,
            4: _with_status(lambda status: idl.CreateCursorReply(0, status), self.create_cursor),
            5: answering(self.close_cursor),
            6: answering(self.purge_queue),
            7: Together(_first_with_status(no_message, self._receiving.start)),
            8: answering(self.cancel_receive),
            9: Together(_first_with_status(idl.Status, self.end_receive)),
            10: answering(self.move_message),
            11: self.open_queue_for_move,
            12: answering(self.enlist_remote_transaction),
            13: _with_status(no_message, self.start_transactional_receive),
            14: answering(self.set_user_acknowledgement_class),
            15: answering(self.end_transactional_receive),
        }

    async def durable(self) -> None:
        """Wait until everything done so far is durable."""
        done = False

        def survive() -> None:
            nonlocal done
            done = True
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

        waiting: asyncio.Future[None] | None = None
        self.host.when_durable(survive)
        if not done:
            waiting = asyncio.get_running_loop().create_future()
            await waiting

    def _once_durable(self, answer: Parameters) -> Parameters | Promise:
        """Answer once everything done so far is durable, at once if it already is."""
        promise: Promise | None = None
        done = False

        def survive() -> None:
            nonlocal done
            done = True
            if promise is not None:
                promise.answer(answer)

        self.host.when_durable(survive)
        if done:
            return answer
        promise = Promise()
        return promise

    def close(self) -> None:
        """Close every handle when the queue manager stops."""
        for handle in list(self.handles.open):
            self._run_down(handle)

    # --- open and close ---------------------------------------------------------------------------------

    def get_server_port(self, call: Call, request: idl.Nothing) -> idl.Status:
        """R_GetServerPort (3.1.4.1)."""
        return idl.Status(self.port)

    async def open_queue(self, call: Call, request: idl.OpenQueue) -> idl.OpenQueueReply:
        """R_OpenQueue (3.1.4.2). It has no status: failures are faults."""
        access = _ACCESS.get(request.dw_access)
        if access is None:
            raise InvalidParameterError("A queue is opened for receiving or for peeking.")
        handle = await self._open(call, request, access)
        return idl.OpenQueueReply(call.open_handle(handle, self._run_down))

    async def open_queue_for_move(
        self, call: Call, request: idl.OpenQueue
    ) -> idl.OpenQueueForMoveReply:  # fmt: skip
        """R_OpenQueueForMove (3.1.4.11): the destination of moves."""
        if request.dw_access != idl.MOVE_ACCESS or request.dw_share_mode != idl.DENY_NONE:
            raise InvalidParameterError("The destination of a move is opened for moving, and shared.")
        handle = await self._open(call, request, QueueAccessType.MOVE)
        return idl.OpenQueueForMoveReply(handle.move_context, call.open_handle(handle, self._run_down))

    async def _open(self, call: Call, request: idl.OpenQueue, access: QueueAccessType) -> OpenHandle:
        share_mode = _SHARE.get(request.dw_share_mode)
        if share_mode is None or any(
            flag not in (0, 1) for flag in (request.f_non_routing_server, request.f_workgroup)
        ):
            raise InvalidParameterError("A parameter has a value it cannot have.")
        name = _name_of(request.p_queue_format)
        required = self._required_level(name, access, workgroup=bool(request.f_workgroup))
        if call.auth_level < required:
            raise RpcFault(FaultStatus.ACCESS_DENIED, did_not_execute=True)
        queues = self.host.manager.queues
        if not self._known(name):
            raise QueueNotFoundError(f"There is no queue {name} on this computer.")
        descriptor = queues.open(str(name), access, share_mode, call.token)
        add = self.handles.add_for_move if access is QueueAccessType.MOVE else self.handles.add
        handle = add(descriptor, call, required)
        try:
            await self.durable()  # opening may have created a subqueue
        except BaseException:
            self.handles.close(handle)
            raise
        return handle

    def _known(self, name: FormatName) -> bool:
        """Whether a name leads to a queue of ours, or to a subqueue, which is created when it is opened."""
        naming = self.host.manager.naming
        return naming.find(name) is not None or target_of(name) is QueueTarget.SUBQUEUE

    def _required_level(self, name: FormatName, access: QueueAccessType, *, workgroup: bool) -> AuthLevel:
        manager = self.host.manager
        anonymous_may = False
        if self.policy.allow_none_security:
            queue = manager.naming.find(name)
            try:
                if queue is not None:
                    manager.guard.check_open(Token.anonymous(), queue, access)
                    anonymous_may = True
            except MQError:
                pass
        return self.policy.required(workgroup=workgroup, anonymous_may=anonymous_may)

    def close_queue(self, call: Call, request: idl.OnHandle) -> Parameters | Promise:
        """R_CloseQueue (3.1.4.3)."""
        try:
            handle = self.handles.find(call, request.ph_context)
        except InvalidHandleError as error:
            self.handles.close(call.close_handle(request.ph_context))
            return idl.CloseQueueReply(request.ph_context, error.answer_code)
        call.close_handle(request.ph_context)
        self.handles.close(handle)
        return self._once_durable(idl.CloseQueueReply(NULL_HANDLE, MQ_OK))

    def _run_down(self, handle: OpenHandle) -> None:
        """RPC Failure Event and Queue Context Handles Rundown Routine (3.1.6)."""
        try:
            self.handles.close(handle)
        except MQError as error:
            _log.warning("a queue of a client that is gone: %s", error)

    # --- cursors and purge ------------------------------------------------------------------------------

    def create_cursor(self, call: Call, request: idl.OnHandle) -> idl.CreateCursorReply:
        """R_CreateCursor (3.1.4.4)."""
        handle = self.handles.find(call, request.ph_context)
        if len(handle.descriptor.cursors) >= MAX_CURSORS:
            raise InsufficientResourcesError(f"A handle has at most {MAX_CURSORS} cursors.")
        cursor = self.host.manager.reading.open_cursor(handle.descriptor)
        assert cursor is not None  # the handle has a queue
        return idl.CreateCursorReply(cursor.handle, MQ_OK)

    def close_cursor(self, call: Call, request: idl.CloseCursor) -> idl.Status:
        """R_CloseCursor (3.1.4.5)."""
        handle = self.handles.find(call, request.ph_context)
        cursor = handle.descriptor.cursors.get(request.h_cursor)
        if cursor is None:
            return idl.Status(STATUS_INVALID_HANDLE)
        self.host.manager.reading.close_cursor(cursor)
        return idl.Status(MQ_OK)

    def purge_queue(self, call: Call, request: idl.OnHandle) -> Parameters | Promise:
        """R_PurgeQueue (3.1.4.6)."""
        handle = self.handles.find(call, request.ph_context)
        if handle.descriptor.access_type is not QueueAccessType.RECEIVE:
            return idl.Status(STATUS_ACCESS_DENIED)
        self.host.manager.queues.purge_opened(handle.descriptor)
        return self._once_durable(idl.Status(MQ_OK))

    # --- reads ------------------------------------------------------------------------------------------

    def start_transactional_receive(
        self, call: Call, request: idl.StartTransactionalReceive
    ) -> Answer | Exception:
        """R_StartTransactionalReceive (3.1.4.13). If nobody enlisted us in the transaction, it is an internal one of
        this message alone."""
        if request.p_transaction_id == idl.NO_TRANSACTION:
            return self._receiving.start(call, (request,))[0]
        transactions = self.host.manager.transactions
        found = transactions.collection.get(request.p_transaction_id)

        def check(queue: Queue, receives: bool) -> None:
            if not queue.transactional or not receives:
                raise TransactionUsageError(
                    "Only receives from a transactional queue can be in a transaction."
                )
            if found is not None and not transactions.is_open(found):
                raise TransactionSequenceError("The transaction is ending.")

        return self._receiving.start(call, (request,), check=check, transaction=found)[0]

    def cancel_receive(self, call: Call, request: idl.CancelReceive) -> idl.Status:
        """R_CancelReceive (3.1.4.8)."""
        handle = self.handles.find(call, request.ph_context)
        status = self.host.manager.reading.cancel(handle.descriptor, request.dw_request_id)
        if status == MQ_OK:
            waiting = handle.requests.get(request.dw_request_id)
            if waiting is not None:
                self.handles.forget(handle, waiting)
        return idl.Status(status)

    def end_receive(
        self, call: Call, requests: Sequence[idl.EndReceive]
    ) -> Sequence[Parameters | Promise]:  # fmt: skip
        """R_EndReceive (3.1.4.9). Acknowledged messages of one queue leave it in one event."""
        handle, pending = self._pending(call, requests[0], transactional=False)
        ending = [pending]
        delete = requests[0].dw_ack == idl.RR_ACK
        if delete and len(requests) > 1:
            ending += self._kept_too(handle, pending, requests)
        self._end(handle, ending, delete=delete)
        return [self._once_durable(_OK) for _ in ending]

    def _kept_too(
        self, handle: OpenHandle, first: Request, requests: Sequence[idl.EndReceive]
    ) -> list[Request]:  # fmt: skip
        """Collect the receives that the requests behind the first one acknowledge too, and take them off the table. A
        request that might be refused is left for its own turn."""
        context, descriptor = requests[0].ph_context, handle.descriptor
        found = {first.lookup_id: first}
        for request in requests[1:]:
            pending = handle.requests.get(request.dw_request_id)
            if (
                request.ph_context != context
                or request.dw_ack != idl.RR_ACK
                or pending is None
                or pending.transactional
                or not pending.lookup_id
                or pending.lookup_id in found
            ):
                break
            found[pending.lookup_id] = pending
        assert descriptor.queue is not None  # the handle was found
        if not descriptor.begun >= found.keys() or len(
            descriptor.queue.positions.find(list(found)).ids
        ) < len(found):
            return []  # one of them is gone
        del found[first.lookup_id]
        for pending in found.values():
            self.handles.forget(handle, pending)
        return list(found.values())

    def end_transactional_receive(self, call: Call, request: idl.EndReceive) -> Parameters | Promise:
        """R_EndTransactionalReceive (3.1.4.15): RR_ACK makes the message part of the transaction."""
        handle, pending = self._pending(call, request, transactional=True)
        keep = request.dw_ack == idl.RR_ACK
        transaction = pending.transaction
        if not keep or transaction is None:  # an internal transaction ends here
            self._end(handle, [pending], delete=keep)
        elif not self.host.manager.transactions.is_open(transaction):
            self.handles.give_back(handle, pending)
            raise TransactionSequenceError("The transaction has ended before this message was confirmed.")
        else:
            position = self._position(handle, pending)
            self.host.manager.reading.join_transaction(handle.descriptor, position, transaction)
            if pending.rejected:
                self._reject(position.queue, pending.lookup_id)
        return self._once_durable(idl.Status(MQ_OK))

    def _pending(
        self, call: Call, request: idl.EndReceive, *, transactional: bool
    ) -> tuple[OpenHandle, Request]:
        """Find the receive to end and take it off the table. One in a transaction can only be ended by
        R_EndTransactionalReceive; without a transaction either method will do."""
        handle = self.handles.find(call, request.ph_context)
        pending = handle.requests.get(request.dw_request_id)
        if (pending is None or not pending.receives) and not any(handle.pending):
            raise InvalidHandleError("No receive is pending on this handle.")
        if pending is None or not pending.lookup_id or (pending.transactional and not transactional):
            raise InvalidParameterError("No receive with this request id can be ended like this.")
        self.handles.forget(handle, pending)
        return handle, pending

    def _position(self, handle: OpenHandle, pending: Request) -> MessagePosition:
        queue = handle.descriptor.queue
        assert queue is not None  # the handle was found
        position = queue.position(pending.lookup_id)
        if position.state is PositionState.DELETED:
            handle.descriptor.begun.discard(pending.lookup_id)
            raise MessageNotFoundError("The message is no longer in the queue.")
        return position

    def _end(self, handle: OpenHandle, ending: Sequence[Request], *, delete: bool) -> None:
        """End receives in one event; they are off the table already. If there are several, all of their messages are
        in the queue and none is rejected."""
        reading, descriptor = self.host.manager.reading, handle.descriptor
        ids = [pending.lookup_id for pending in ending]
        known = {pending.lookup_id: pending.message for pending in ending if pending.message is not None}
        reason = idl.REJECTED_CLASS if ending[0].rejected else MessageClass.ACK_RECEIVE
        try:
            if delete:
                ended = reading.keep(descriptor, ids, known, reason)
            else:
                ended = reading.give_back(descriptor, ids, known)
        except MQError:
            for pending in ending:
                self._still_pending(handle, pending)
            raise
        if not ended:
            descriptor.begun.difference_update(ids)
            raise MessageNotFoundError("The message is no longer in the queue.")

    def _still_pending(self, handle: OpenHandle, pending: Request) -> None:
        """Put a receive back on the table, because ending it failed; the client may try again."""
        handle.requests[pending.request_id] = pending
        self.handles.start_cleanup(handle, pending)

    # --- moves and transactions -------------------------------------------------------------------------

    def move_message(self, call: Call, request: idl.MoveMessage) -> Parameters | Promise:
        """R_MoveMessage (3.1.4.10)."""
        manager = self.host.manager
        source_handle = self.handles.find(call, request.ph_context_from)
        target = self.handles.find_move_target(call, request.ull_context_to).descriptor.queue
        source = source_handle.descriptor.queue
        assert source is not None
        assert target is not None
        if not _related(source, target):
            return idl.Status(STATUS_INVALID_PARAMETER)
        if source_handle.descriptor.access_type is not QueueAccessType.RECEIVE:
            raise AccessDeniedError("Messages are moved out of a queue that was opened for receiving.")
        uow = request.p_transaction_id
        in_transaction = uow != idl.NO_TRANSACTION
        if in_transaction and not target.transactional:
            raise TransactionUsageError("The destination is not transactional.")
        position = source.position(request.lookup_id)
        if position.state is PositionState.DELETED:
            raise MessageNotFoundError("No message of the source has this lookup identifier.")
        if position.state is not PositionState.AVAILABLE:
            raise MessageLockedUnderTransactionError("Somebody else has this message.")
        transaction = manager.transactions.find(uow) if in_transaction else None
        if transaction is not None and not manager.transactions.is_open(transaction):
            raise TransactionSequenceError("The transaction is ending.")
        manager.move_message(position, target, transaction)
        return self._once_durable(idl.Status(MQ_OK))

    def enlist_remote_transaction(self, call: Call, request: idl.EnlistRemoteTransaction) -> idl.Status:
        """R_QMEnlistRemoteTransaction (3.1.4.12). Enlisting again changes nothing."""
        uow = request.p_transaction_id
        if uow == idl.NO_TRANSACTION:
            raise InvalidParameterError("A transaction has an identifier.")
        if self.transaction_manager is None:
            raise TransactionEnlistError("No transaction manager is here to enlist with.")
        self.transaction_manager.enlist(uow, request.pb_propagation_token, self.resource)
        self.resource.enlist(uow)
        return idl.Status(MQ_OK)

    def set_user_acknowledgement_class(
        self, call: Call, request: idl.SetUserAcknowledgementClass
    ) -> idl.Status:
        """R_SetUserAcknowledgementClass (3.1.4.14): reject a message that a transaction has received, or that is
        pending in one."""
        handle = self.handles.find(call, request.ph_context)
        if request.us_class not in (0, idl.REJECTED_CLASS):
            raise InvalidParameterError("A message can be rejected, or left as it is.")
        queue = handle.descriptor.queue
        assert queue is not None
        if handle.descriptor.access_type is not QueueAccessType.RECEIVE:
            raise AccessDeniedError("Messages are rejected by those who may receive them.")
        if queue.position(request.lookup_id).state is PositionState.DELETED:
            raise MessageNotFoundError("No message of the queue has this lookup identifier.")
        for pending in handle.pending:
            if pending.transactional and pending.lookup_id == request.lookup_id:
                pending.rejected = pending.rejected or bool(request.us_class)
                return idl.Status(MQ_OK)
        if operation_on(queue, request.lookup_id, self.host.manager.transactions) is None:
            raise TransactionUsageError("The message is in no transaction.")
        if request.us_class:
            self._reject(queue, request.lookup_id)
        return idl.Status(MQ_OK)

    def _reject(self, queue: Queue, lookup_id: int) -> None:
        operation = operation_on(queue, lookup_id, self.host.manager.transactions)
        assert operation is not None
        operation.reasons[lookup_id] = idl.REJECTED_CLASS


def _name_of(form: QueueFormat) -> FormatName:
    """The name of the queue to open. A name that this protocol does not know is an invalid parameter (2.2.3)."""
    if form.type is QueueFormatType.UNKNOWN or not supported_by_remote_read(form):
        raise InvalidParameterError("Remote read opens public, private, direct, machine and subqueue names.")
    try:
        return form.to_name()
    except MQError as error:
        raise InvalidParameterError(str(error)) from error


def _related(source: Queue, target: Queue) -> bool:
    """Whether a message may be moved: between a queue and its subqueue, or between two subqueues of one queue."""
    if source is target or source.root is not target.root:
        return False
    return all(queue is queue.root or subqueue_name(queue) for queue in (source, target))


def no_message(status: int) -> idl.StartReceiveReply:
    """The answer of a read that failed: only the status."""
    return idl.StartReceiveReply(0, 0, 0, None, status)


def _with_status(
    failed: Callable[[int], Parameters], method: Callable[[Call, Q], Answer | Exception]
) -> Handler:
    """Make a handler of a method that answers its failures with an HRESULT; methods without one fail with a fault."""

    def answer(call: Call, request: Q) -> Answer:
        try:
            found = method(call, request)
        except MQError as error:
            return failed(error.answer_code)
        if isinstance(found, Exception):
            raise found
        return found

    return answer


def _first_with_status(
    failed: Callable[[int], Parameters], method: Callable[[Call, Sequence[Q]], Sequence[Answer | Exception]]
) -> Callable[[Call, Sequence[Q]], Sequence[Answer | Exception]]:
    """Like `_with_status`, for methods that take several calls: a failure answers the first of them."""

    def answer(call: Call, requests: Sequence[Q]) -> Sequence[Answer | Exception]:
        try:
            return method(call, requests)
        except MQError as error:
            return (failed(error.answer_code),)

    return answer

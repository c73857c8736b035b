"""The quick way of the two calls that a receive is: from stub to stub (MS-MQRR 3.1.4.7, 3.1.4.9).

Nearly every R_StartReceive asks for the first message, or for the next one behind a place, finds it at once and is sent
all of it; nearly every R_EndReceive says that the client has it. `QuickReads` does what `msmq.remote_read.service` does
in these cases, in fewer steps. In every other case it has done nothing, and the methods of the service are asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from msmq.errors import MQError
from msmq.manager.mailbox.positions import START
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.queues.queue import Queue
from msmq.remote_read import interface as idl
from msmq.remote_read.actions import SEQUENCE_MASK, Action
from msmq.remote_read.handles import Request
from msmq.remote_read.one_section import write_whole_packet
from msmq.remote_read.receive import SMALL, Receiving
from msmq.remote_read.sections import has_past, usual_parts
from msmq.rpc.interface import Call, Promise
from msmq.rpc.ndr import Parameters

_RECEIVE: Final = int(Action.RECEIVE)
_PEEK_CURRENT: Final = int(Action.PEEK_CURRENT)
_LOOKUP_PEEK_NEXT: Final = int(Action.LOOKUP_PEEK_NEXT)
_OK: Final = idl.Status(0)
_log = logging.getLogger(__name__)


class QuickReads:
    """Given to the RPC server beside the methods."""

    def __init__(
        self, receiving: Receiving, once_durable: Callable[[Parameters], Parameters | Promise]
    ) -> None:
        self._receiving = receiving
        self._handles = receiving.handles
        self._now = receiving.now
        self._when_durable = receiving.when_durable
        self._once_durable = once_durable
        self._durable = False

    def start(self, call: Call, stub: bytes) -> bytes | Parameters | Promise | None:
        """R_StartReceive without a cursor."""
        if len(stub) != idl.START_RECEIVE_SIZE:
            return None
        values = idl.read_start_receive(stub)
        context, lookup_id, cursor, action, timeout_ms, request_id, max_body, max_compound = values
        if cursor or (
            (action != _LOOKUP_PEEK_NEXT or timeout_ms)
            if lookup_id
            else action not in (_RECEIVE, _PEEK_CURRENT)
        ):
            return None
        receives = action == _RECEIVE
        try:
            handle = self._handles.find(call, context)
            if not self._handles.has_room(handle, request_id):
                return None
            descriptor, receiving = handle.descriptor, self._receiving
            message = (
                receiving.first(descriptor) if receives else receiving.next(descriptor, lookup_id or START)
            )
        except MQError:
            return None  # the method says why
        if message is None:
            return None
        reply = self._whole(descriptor.queue, message, max_body, max_compound, ndr64=call.ndr64)
        if reply is None:
            return self._receiving.has(idl.StartReceive(*values), handle, message, receives=receives)
        if receives:
            kept = message if len(reply) <= SMALL else None
            request = Request(request_id, self._now(), True, lookup_id=message.lookup_id, message=kept)
            handle.requests[request_id] = request
            self._handles.start_cleanup(handle, request)
        return reply

    def _whole(
        self, queue: Queue | None, message: StoredMessage, max_body: int, max_compound: int, *, ndr64: bool
    ) -> bytes | None:
        """The answer with all of a message, if that is what it is to be and it may leave now."""
        if queue is None or has_past(queue):
            return None
        self._durable = False
        self._when_durable(self._note)
        if not self._durable:
            return None
        arrival, sequence = message.arrival_time, message.lookup_id & SEQUENCE_MASK
        try:
            parts, size = usual_parts(message)
            if max_body >= size <= max_compound:  # nothing in it can be larger
                return write_whole_packet(arrival, sequence, parts, size, ndr64)
        except Exception:  # whoever finds the same on the other way gives the message back, and says why
            _log.debug("message %#x cannot be sent quickly", message.lookup_id, exc_info=True)
        return None

    def end(self, call: Call, stub: bytes) -> bytes | Parameters | Promise | None:
        """R_EndReceive of a message that the client keeps."""
        if len(stub) != idl.END_RECEIVE_SIZE:
            return None
        context, ack, request_id = idl.read_end_receive(stub)
        if ack != idl.RR_ACK:
            return None
        try:
            handle = self._handles.find(call, context)
            pending = handle.requests.get(request_id)
            if pending is None or not pending.lookup_id or pending.transactional:
                return None
            if not self._receiving.keep(handle, pending):
                return None
        except MQError:
            return None  # nothing has happened; the method says why
        self._handles.forget(handle, pending)
        answer = self._once_durable(_OK)
        return idl.OK_STUB if answer is _OK else answer

    def _note(self) -> None:
        """Everything done so far will survive. When it comes later nobody looks any more."""
        self._durable = True

"""The RemoteRead interface as the IDL has it (MS-MQRR 6), for both ends.

``handle_t hBind`` has no bytes, and neither has a top-level pointer, which is a reference pointer. Embedded pointers
are unique. The two void methods answer with their handle only and fail with faults; all others end with an HRESULT.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from msmq.errors import DecodeError
from msmq.rpc.interface import Interface, Operation
from msmq.rpc.ndr import (
    Array,
    Custom,
    FixedOctets,
    Octets,
    Parameters,
    Range,
    Struct,
    Unique,
    context_handle,
    declare,
    enum16,
    guid,
    i32,
    u8,
    u16,
    u32,
    u64,
)
from msmq.rpc.pdu import Syntax
from msmq.wire.guid import guid_from_text
from msmq.wire.queue_format import QueueFormat
from msmq.wire.queue_format_ndr import read_queue_format, write_queue_format
from msmq.wire.sections import Section

RR_NACK: Final = 1
RR_ACK: Final = 2
RECEIVE_ACCESS: Final = 0x01
MOVE_ACCESS: Final = 0x04
PEEK_ACCESS: Final = 0x20
DENY_NONE: Final = 0
DENY_SHARE: Final = 1
MAX_PROPAGATION_TOKEN: Final = 131_072
MAX_SECTIONS: Final = 2
NO_TRANSACTION: Final = bytes(16)
"""Stands for a transaction id of NULL, which a reference pointer cannot have."""
REJECTED_CLASS: Final = 0xC004
"""MQMSG_CLASS_NACK_RECEIVE_REJECTED."""

queue_format = Annotated[QueueFormat, Custom(read_queue_format, write_queue_format)]
xactuow = Annotated[bytes, FixedOctets(16)]
acknowledgment = Annotated[int, Range(u32, RR_NACK, RR_ACK)]


@declare
class SectionBuffer(Struct):
    """A part of a message packet (2.2.6)."""

    section_buffer_type: enum16
    section_size_alloc: u32
    section_size: u32
    p_section_buffer: Annotated[bytes | None, Unique(Octets(size_is="section_size"))]


packet_sections = Annotated[
    list[SectionBuffer] | None,
    Unique(Array(SectionBuffer, size_is="pdw_number_of_sections", max_count=MAX_SECTIONS)),
]


@declare
class Nothing(Parameters):
    """A request without arguments."""


@declare
class Status(Parameters):
    """An answer with only a number: an HRESULT or a port."""

    status: u32


@declare
class OpenQueue(Parameters):
    """R_OpenQueue (3.1.4.2) and R_OpenQueueForMove (3.1.4.11)."""

    p_queue_format: queue_format
    dw_access: u32
    dw_share_mode: u32
    p_client_id: guid
    f_non_routing_server: i32
    major: u8
    minor: u8
    build_number: u16
    f_workgroup: i32


@declare
class OpenQueueReply(Parameters):
    pph_context: context_handle


@declare
class OpenQueueForMoveReply(Parameters):
    p_move_context: u64
    pph_context: context_handle


@declare
class OnHandle(Parameters):
    """The arguments of R_CloseQueue, R_CreateCursor and R_PurgeQueue: only a handle."""

    ph_context: context_handle


@declare
class CloseQueueReply(Parameters):
    pph_context: context_handle
    status: u32


@declare
class CreateCursorReply(Parameters):
    ph_cursor: u32
    status: u32


@declare
class CloseCursor(Parameters):
    ph_context: context_handle
    h_cursor: u32


@declare
class StartReceive(Parameters):
    """R_StartReceive (3.1.4.7)."""

    ph_context: context_handle
    lookup_id: u64
    h_cursor: u32
    ul_action: u32
    ul_timeout: u32
    dw_request_id: u32
    dw_max_body_size: u32
    dw_max_compound_message_size: u32


@declare
class StartTransactionalReceive(Parameters):
    """R_StartTransactionalReceive (3.1.4.13): `StartReceive` with a transaction."""

    ph_context: context_handle
    lookup_id: u64
    h_cursor: u32
    ul_action: u32
    ul_timeout: u32
    dw_request_id: u32
    dw_max_body_size: u32
    dw_max_compound_message_size: u32
    p_transaction_id: xactuow


@declare
class StartReceiveReply(Parameters):
    pdw_arrive_time: u32
    p_sequence_id: u64
    pdw_number_of_sections: u32
    pp_packet_sections: packet_sections
    status: u32

    @classmethod
    def of(cls, arrival_time: int, sequence_id: int, sections: Sequence[Section]) -> StartReceiveReply:
        """The answer of a read that has found a message."""
        buffers = [SectionBuffer(kind, alloc, len(data), data) for kind, alloc, data in sections]
        return cls(arrival_time, sequence_id, len(buffers), buffers, 0)

    @property
    def sections(self) -> list[Section]:
        """The sections of the packet. Raises DecodeError for a section without its bytes."""
        found = []
        for buffer in self.pp_packet_sections or ():
            data = buffer.p_section_buffer or b""
            if len(data) != buffer.section_size:
                raise DecodeError(f"a section of {buffer.section_size} bytes without its bytes")
            found.append(Section(buffer.section_buffer_type, buffer.section_size_alloc, data))
        return found


@declare
class CancelReceive(Parameters):
    ph_context: context_handle
    dw_request_id: u32


@declare
class EndReceive(Parameters):
    """R_EndReceive (3.1.4.9) and R_EndTransactionalReceive (3.1.4.15)."""

    ph_context: context_handle
    dw_ack: acknowledgment
    dw_request_id: u32


@declare
class MoveMessage(Parameters):
    ph_context_from: context_handle
    ull_context_to: u64
    lookup_id: u64
    p_transaction_id: xactuow


@declare
class EnlistRemoteTransaction(Parameters):
    p_transaction_id: xactuow
    cb_propagation_token: Annotated[int, Range(u32, 0, MAX_PROPAGATION_TOKEN)]
    pb_propagation_token: Annotated[bytes, Octets(size_is="cb_propagation_token")]
    p_queue_format: queue_format


@declare
class SetUserAcknowledgementClass(Parameters):
    ph_context: context_handle
    lookup_id: u64
    us_class: u16


R_GET_SERVER_PORT = Operation(0, "R_GetServerPort", Nothing, Status)
R_OPEN_QUEUE = Operation(2, "R_OpenQueue", OpenQueue, OpenQueueReply)
R_CLOSE_QUEUE = Operation(3, "R_CloseQueue", OnHandle, CloseQueueReply)
R_CREATE_CURSOR = Operation(4, "R_CreateCursor", OnHandle, CreateCursorReply)
R_CLOSE_CURSOR = Operation(5, "R_CloseCursor", CloseCursor, Status)
R_PURGE_QUEUE = Operation(6, "R_PurgeQueue", OnHandle, Status)
R_START_RECEIVE = Operation(7, "R_StartReceive", StartReceive, StartReceiveReply)
R_CANCEL_RECEIVE = Operation(8, "R_CancelReceive", CancelReceive, Status)
R_END_RECEIVE = Operation(9, "R_EndReceive", EndReceive, Status)
R_MOVE_MESSAGE = Operation(10, "R_MoveMessage", MoveMessage, Status)
R_OPEN_QUEUE_FOR_MOVE = Operation(11, "R_OpenQueueForMove", OpenQueue, OpenQueueForMoveReply)
R_ENLIST_REMOTE_TRANSACTION = Operation(12, "R_QMEnlistRemoteTransaction", EnlistRemoteTransaction, Status)
R_START_TRANSACTIONAL_RECEIVE = Operation(
    13, "R_StartTransactionalReceive", StartTransactionalReceive, StartReceiveReply
)
R_SET_USER_ACKNOWLEDGEMENT_CLASS = Operation(
    14, "R_SetUserAcknowledgementClass", SetUserAcknowledgementClass, Status
)
R_END_TRANSACTIONAL_RECEIVE = Operation(15, "R_EndTransactionalReceive", EndReceive, Status)

REMOTE_READ: Final = Interface(
    "RemoteRead",
    Syntax(guid_from_text("1a9134dd-7b39-45ba-ad88-44d01ca47f28"), 1, 0),
    (
        R_GET_SERVER_PORT,
        R_OPEN_QUEUE,
        R_CLOSE_QUEUE,
        R_CREATE_CURSOR,
        R_CLOSE_CURSOR,
        R_PURGE_QUEUE,
        R_START_RECEIVE,
        R_CANCEL_RECEIVE,
        R_END_RECEIVE,
        R_MOVE_MESSAGE,
        R_OPEN_QUEUE_FOR_MOVE,
        R_ENLIST_REMOTE_TRANSACTION,
        R_START_TRANSACTIONAL_RECEIVE,
        R_SET_USER_ACKNOWLEDGEMENT_CLASS,
        R_END_TRANSACTIONAL_RECEIVE,
    ),
)

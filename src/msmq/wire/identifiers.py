"""Identifiers of messages, objects and sequences (MS-MQMQ 2.2.5, 2.2.8, 2.2.18.1.2, 2.2.18.1.3)."""

from __future__ import annotations

from typing import NamedTuple

from msmq.wire.declare import Wire, guid, i64, u32, wire


@wire("MS-MQMQ 2.2.18.1.3", size=20)
class MessageIdentifier(Wire):
    """The identifier of a message: the queue manager that sent it and its number there."""

    queue_manager_guid: guid
    ordinal: u32


@wire("MS-MQMQ 2.2.5.1", size=16, names={"seq_id": "SeqID", "seq_no": "SeqNo", "prev_no": "PrevNo"})
class SequenceInfo(Wire):
    """SEQUENCE_INFO: a place in a sequence of transactional messages and the number before it."""

    seq_id: i64
    seq_no: u32
    prev_no: u32


class TxSequenceID(NamedTuple):
    """A sequence of transactional messages (MS-MQMQ 2.2.18.1.2).

    Headers hold it as an unsigned 64-bit number, by which sequences are compared: the time stamp is the high half, the
    ordinal the low one. The tuple's order is the same, so tuples compare like the numbers.
    """

    time_stamp: int
    ordinal: int

    @classmethod
    def from_number(cls, number: int) -> TxSequenceID:
        return cls(number >> 32, number & 0xFFFFFFFF)

    @property
    def number(self) -> int:
        return self.time_stamp << 32 | self.ordinal

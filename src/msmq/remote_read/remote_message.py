"""A message that came by remote read, reassembled and checked."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msmq.remote_read.actions import SEQUENCE_MASK
from msmq.remote_read.interface import StartReceiveReply
from msmq.wire.headers import USER_TH
from msmq.wire.message import UserMessage
from msmq.wire.sections import join_sections
from msmq.wire.trailers import MessagePacket, read_trailers

WHOLE: Final = 0xFFFFFFFF
"""No limit to the part of the body that is read."""
_USUAL_TRAILERS: Final = 1_024


class RemoteMessage:
    """A message that was read. If its body was not read whole, it is zero bytes from ``body_read`` on."""

    __slots__ = ("arrival_time", "body_read", "data", "lookup_id", "packet")

    def __init__(self, data: bytes, arrival_time: int, sequence_id: int, max_body: int = WHOLE) -> None:
        """Raises DecodeError for bytes that are no message."""
        self.data = data
        """The packet and the trailing headers."""
        self.packet = packet = UserMessage.decode(data, trailing=True)
        """The decoded message, for properties that have no name here."""
        if len(data) > packet.size:
            _check_trailers(data[packet.size :])
        self.arrival_time = arrival_time
        self.lookup_id = full_lookup_id(packet, sequence_id)
        self.body_read = min(packet.properties.message_size, max_body)

    @property
    def trailers(self) -> MessagePacket | None:
        """The headers behind the packet, or None: old systems send none."""
        return MessagePacket.decode(self.data) if len(self.data) > self.packet.size else None

    @property
    def body(self) -> bytes:
        start = self.packet.body_offset
        return self.data[start : start + self.body_read]

    @property
    def body_size(self) -> int:
        """The size of the whole body, even if less of it was read."""
        return self.packet.properties.message_size

    @property
    def label(self) -> str:
        return self.packet.label

    @property
    def subqueue(self) -> str:
        """The name of the subqueue that holds the message, or ""."""
        trailers = self.trailers
        header = trailers.in_subqueue if trailers is not None else None
        return header.subqueue if header is not None else ""


def read_message(reply: StartReceiveReply, max_body: int = WHOLE) -> RemoteMessage:
    """Reassemble a message from its sections. Raises DecodeError if that cannot be done."""
    data = join_sections(reply.sections)
    return RemoteMessage(data, reply.pdw_arrive_time, reply.p_sequence_id, max_body)


_sound_trailers = lru_cache(maxsize=64)(read_trailers)


def _check_trailers(trailers: bytes) -> None:
    """Check the trailing headers. Nearly all messages of one sender have the same, so results for usual sizes are
    cached."""
    (_sound_trailers if len(trailers) <= _USUAL_TRAILERS else read_trailers)(trailers)


def full_lookup_id(packet: UserMessage, sequence_id: int) -> int:
    """The whole lookup identifier. Its highest byte is not sent: it is 7 less the priority, and 0 for a transactional
    message (MS-MQDMPR 3.1.7.1.9, ruling RR5)."""
    lane = 0 if packet.user.flags & USER_TH else 7 - (packet.base.flags & 7)
    return lane << 56 | sequence_id & SEQUENCE_MASK

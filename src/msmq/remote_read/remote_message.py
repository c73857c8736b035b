"""A message as a remote read brought it, put together and checked.

Whether a packet can be taken apart depends on few of its bytes: versions, flags, lengths, names. Messages of one sender
to one queue have these in common, so what was found out about one of them (`Layout`) holds for the next, and its
headers are read only when somebody asks for them. A packet that is laid out in a new way is read whole first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msmq.remote_read.actions import SEQUENCE_MASK
from msmq.remote_read.interface import StartReceiveReply
from msmq.wire.headers import BASE_DH, BASE_IN, BASE_SH, BASE_TR, USER_AH, USER_HH, USER_MQ, USER_SH, USER_TH
from msmq.wire.message import UserMessage
from msmq.wire.sections import join_sections
from msmq.wire.trailers import MessagePacket, read_trailers

WHOLE: Final = 0xFFFFFFFF
"""No limit to what is wanted of a body."""
_USUAL_TRAILERS: Final = 1_024
_BASE_RARE: Final = BASE_DH | BASE_IN | BASE_SH | BASE_TR
_USER_RARE: Final = USER_AH | USER_HH | USER_MQ | USER_SH | USER_TH
_SIZES: Final = 12
"""Version, flags, signature and PacketSize: what a BaseHeader begins with, before a time."""
_FLAGS: Final = 60
"""UserHeader.Flags; between the two are identifiers and times only."""
_KNOWN_LAYOUTS: Final = 64


class Layout:
    """Where things are in a packet with its trailers, and all the bytes of it that this depends on. DecodeError for one
    that cannot be taken apart."""

    __slots__ = (
        "_body_sizes", "_flags", "_label_end", "_label_stop", "_properties", "_sizes", "_trailers",
        "body_size", "body_start", "lane", "size", "usual",
    )  # fmt: skip

    def __init__(self, data: bytes) -> None:
        packet = UserMessage.decode(data, trailing=True)
        base, user, properties = packet.base, packet.user, packet.properties
        self.size = packet.size
        if len(data) > packet.size:
            _check_trailers(data[packet.size :])
        self.body_start = packet.body_offset
        self.body_size = properties.message_size
        self.lane = full_lookup_id(packet, 0)
        self.usual = not (base.flags & _BASE_RARE or user.flags & _USER_RARE)
        """Whether there is nothing but the three headers every message has, so that another packet can be compared."""
        self._properties = start = packet.properties_offset
        self._sizes = data[:_SIZES]
        self._flags = data[_FLAGS : start + 4]  # and names; flags, label and class
        self._body_sizes = data[start + 32 : start + 56]
        self._label_end = end = packet.extension_offset
        self._label_stop = data[end - 2 : end] if properties.label_length else None
        self._trailers = data[packet.size :]

    def fits(self, data: bytes) -> bool:
        """Whether another packet is laid out like this, and is sound because this one is."""
        start, end = self._properties, self._label_end
        return (
            data[:_SIZES] == self._sizes
            and data[_FLAGS : start + 4] == self._flags
            and data[start + 32 : start + 56] == self._body_sizes
            and data[self.size :] == self._trailers
            and (self._label_stop is None or data[end - 2 : end] == self._label_stop)
            and len(data) >= self.size
        )


class Layouts:
    """The layouts of packets that came lately."""

    def __init__(self) -> None:
        self._known: dict[bytes, Layout] = {}

    def of(self, data: bytes) -> Layout:
        known = self._known.get(data[:_SIZES])
        if known is not None and known.fits(data):
            return known
        layout = Layout(data)
        if layout.usual:
            if len(self._known) >= _KNOWN_LAYOUTS:
                self._known.clear()
            self._known[data[:_SIZES]] = layout
        return layout


class RemoteMessage:
    """A message as it was read. A body that was not wanted whole is zero bytes from ``body_read`` on."""

    __slots__ = ("_layout", "_packet", "arrival_time", "body_read", "data", "lookup_id")

    def __init__(
        self, data: bytes, layout: Layout, arrival_time: int, sequence_id: int, max_body: int = WHOLE
    ) -> None:
        self.data = data
        """The packet, and the headers behind it."""
        self._layout = layout
        self._packet: UserMessage | None = None
        self.arrival_time = arrival_time
        self.lookup_id = layout.lane | sequence_id & SEQUENCE_MASK
        size = layout.body_size
        self.body_read = size if size <= max_body else max_body

    @property
    def packet(self) -> UserMessage:
        """The message, for all that is not asked for often enough to have a name here."""
        if self._packet is None:
            self._packet = UserMessage.decode(self.data, trailing=True)
        return self._packet

    @property
    def trailers(self) -> MessagePacket | None:
        """The headers behind the packet; old systems send none."""
        return MessagePacket.decode(self.data) if len(self.data) > self._layout.size else None

    @property
    def body(self) -> bytes:
        start = self._layout.body_start
        return self.data[start : start + self.body_read]

    @property
    def body_size(self) -> int:
        """The size of the body, whether it was wanted whole or not."""
        return self._layout.body_size

    @property
    def label(self) -> str:
        return self.packet.label

    @property
    def subqueue(self) -> str:
        """The subqueue it lies in, if any."""
        trailers = self.trailers
        header = trailers.in_subqueue if trailers is not None else None
        return header.subqueue if header is not None else ""


def read_message(reply: StartReceiveReply, max_body: int = WHOLE) -> RemoteMessage:
    """Put a message together from its sections; DecodeError if that cannot be done."""
    data = join_sections(reply.pp_packet_sections or ())
    return RemoteMessage(data, Layout(data), reply.pdw_arrive_time, reply.p_sequence_id, max_body)


_sound_trailers = lru_cache(maxsize=64)(read_trailers)


def _check_trailers(trailers: bytes) -> None:
    """Nearly all messages of one sender have the same; what is unusually long is not remembered."""
    (_sound_trailers if len(trailers) <= _USUAL_TRAILERS else read_trailers)(trailers)


def full_lookup_id(packet: UserMessage, sequence_id: int) -> int:
    """The whole lookup identifier. Its highest byte is not sent: 7 less the priority, and 0 for a message of a
    transaction (MS-MQDMPR 3.1.7.1.9, ruling RR5)."""
    lane = 0 if packet.user.flags & USER_TH else 7 - (packet.base.flags & 7)
    return lane << 56 | sequence_id & SEQUENCE_MASK

"""Cut a byte stream (TCP 1801) into packets.

A stream reader takes chunks as they come and returns whole packets, each as its own ``bytes``. It checks a packet's
first twenty bytes as soon as they are there and refuses what can never become a packet, so a stranger cannot make it
buffer more than one packet of the largest legal size. The first refusal is final: the stream is out of step, and every
later ``feed`` raises the same error again.
"""

from __future__ import annotations

from typing import Final

from msmq.errors import DecodeError
from msmq.wire.headers import BASE_IN, BASE_SH, MAX_PACKET_SIZE, SIGNATURE, USER_AH, VERSION, BaseHeader
from msmq.wire.landing import LARGE, Landing
from msmq.wire.layout import BASE, USER, offsets, reader, user_flags
from msmq.wire.message import MIN_SIZE as MIN_USER_MESSAGE
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import SessionHeader
from msmq.wire.packets import (
    SESSION_ACK_SIZES,
    ConnectionParameters,
    EstablishConnection,
    InternalHeader,
    PacketType,
    SessionAck,
)

_read_base: Final = reader((BaseHeader, {"version_number", "flags", "signature", "packet_size"}))
_HEAD: Final = BaseHeader.SIZE + InternalHeader.SIZE
"""Size of the BaseHeader and the InternalHeader, which gives the kind of an internal packet."""
_BASE_FLAGS: Final = BASE["flags"]
_PACKET_SIZE: Final = BASE["packet_size"]
_KIND: Final = offsets(InternalHeader, BaseHeader.SIZE)["flags"]
_KINDS: Final = dict(InternalHeader.BITS)["packet_type"].mask
MAX_WIRE_SIZE: Final = MAX_PACKET_SIZE + SessionHeader.SIZE

_INTERNAL_SIZES: Final[dict[int, tuple[int, ...]]] = {
    PacketType.SESSION_ACK: SESSION_ACK_SIZES,
    PacketType.ESTABLISH_CONNECTION: (EstablishConnection.SIZE,),
    PacketType.CONNECTION_PARAMETERS: (ConnectionParameters.SIZE,),
}

Packet = UserMessage | SessionAck | EstablishConnection | ConnectionParameters


def packet_length(data: bytes | bytearray, offset: int = 0) -> int:
    """Return how many bytes the packet that begins at ``offset`` takes on the wire, as its first twenty bytes tell."""
    if len(data) - offset < BaseHeader.SIZE:
        raise DecodeError("the packet ends inside its BaseHeader", len(data))
    version, flags, signature, size = _read_base(data, offset)
    if version != VERSION or signature != SIGNATURE or size > MAX_PACKET_SIZE:
        BaseHeader.decode(bytes(data[offset : offset + BaseHeader.SIZE])).check()  # which says what is wrong
    if not flags & BASE_IN:
        if size < MIN_USER_MESSAGE:
            message = f"PacketSize {size} is below the {MIN_USER_MESSAGE} bytes of a UserMessage"
            raise DecodeError(message, _PACKET_SIZE)
        length: int = size + SessionHeader.SIZE if flags & BASE_SH else size
        return length
    if len(data) - offset < _HEAD:
        raise DecodeError("an internal packet ends inside its InternalHeader", BaseHeader.SIZE)
    kind = data[offset + _KIND] & _KINDS
    sizes = _INTERNAL_SIZES.get(kind)
    if sizes is None:
        raise DecodeError(f"Flags.PT is {kind}, which is no internal packet", _KIND)
    if size not in sizes:
        raise DecodeError(f"PacketSize {size} does not fit an internal packet of type {kind}", _PACKET_SIZE)
    return sizes[0]


def decode_packet(data: bytes) -> Packet:
    """Decode one whole packet of a session with all the checks that a receiver must make.

    A message that claims to have come over HTTP (UserHeader.Flags.AH) is refused: the binary protocol carries none.
    """
    if len(data) < _HEAD:
        raise DecodeError(f"no packet is {len(data)} bytes long")
    length = packet_length(data)
    if length != len(data):
        raise DecodeError(f"the packet says {length} bytes and has {len(data)}", _PACKET_SIZE)
    if not data[_BASE_FLAGS] & BASE_IN:
        if user_flags(data)[0] & USER_AH:
            raise DecodeError("Flags.AH marks a message of another protocol", USER["flags"])
        return UserMessage.decode(data)
    kind = data[_KIND] & _KINDS
    if kind == PacketType.SESSION_ACK:
        return SessionAck.decode(data)
    if kind == PacketType.ESTABLISH_CONNECTION:
        return EstablishConnection.decode(data)
    return ConnectionParameters.decode(data)


class StreamReader:
    """Cuts a growing stream into packets for :func:`decode_packet` or :meth:`UserMessage.route`. A large packet is put
    together in a :class:`Landing`, to which the owner of the stream may read the bytes that come next."""

    __slots__ = ("_begun", "_error", "_wanted", "finished", "landing")

    def __init__(self) -> None:
        self.finished = 0
        """The number of complete packets so far."""
        self.landing: Landing | None = None
        """The large packet that is incomplete."""
        self._begun = bytearray()
        """The beginning of any other."""
        self._wanted = _HEAD
        self._error: DecodeError | None = None

    @property
    def buffered(self) -> int:
        """Bytes that wait for the rest of their packet."""
        return len(self._begun) if self.landing is None else self.landing.filled

    @property
    def missing(self) -> int:
        """The number of bytes that the next packet still lacks, as far as is known."""
        return max(self._wanted - self.buffered, 0)

    @property
    def broken(self) -> bool:
        return self._error is not None

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes of the stream. Returns the packets that they complete.

        Packets before a refused one are returned first; the error is raised by the next call.
        """
        if self._error is not None:
            raise self._error
        found: list[bytes] = []
        start = 0
        if self.landing is not None:
            start = min(self.landing.missing, len(chunk))
            self.landing.put(memoryview(chunk)[:start])
            if self.landing.missing:
                return found
            found.append(self.landing.whole())
            self.landing = None
        elif self._begun:
            if len(self._begun) + len(chunk) < self._wanted:
                self._begun += chunk
                return found
            begun = bytes(self._begun)
            self._begun.clear()
            if self._wanted == _HEAD:  # only now the packet's length can be read
                chunk = begun + chunk
            else:
                start = self._wanted - len(begun)
                found.append(begun + chunk[:start])
        start = self._cut(chunk, start, found)
        self.finished += len(found)
        if start < len(chunk):
            self._keep(memoryview(chunk)[start:])
        return found

    def _keep(self, piece: memoryview) -> None:
        """Keep the beginning of a packet until the rest comes."""
        if self._wanted < LARGE:
            self._begun += piece
        else:
            self.landing = Landing(self._wanted)
            self.landing.put(piece)

    def _cut(self, data: bytes, start: int, found: list[bytes]) -> int:
        """Cut packets out of ``data``. Returns where the first incomplete packet begins."""
        available = len(data)
        try:
            while available - start >= _HEAD:
                length = packet_length(data, start)
                end = start + length
                if end > available:
                    self._wanted = length
                    return start
                found.append(data[start:end])
                start = end
            self._wanted = _HEAD
        except DecodeError as error:
            self._error = error
            if not found:
                raise
            return available  # the bytes after the refused packet are useless
        return start

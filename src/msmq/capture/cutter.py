"""Packets out of bytes that may be damaged, for people who want to see what can still be read of a capture.

A receiver gives a stream up at the first wrong byte (:class:`msmq.wire.framing.StreamReader`). Here the damage is
reported and the next packet is searched for: a version byte and a signature with plausible sizes. A packet with
correct framing but malformed contents keeps its size, so no search is needed behind it. When bytes are missing inside
a packet whose size is known, the next one begins at its end.

At most one packet of the largest legal size is kept in memory.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msmq.errors import DecodeError
from msmq.wire.framing import packet_length
from msmq.wire.headers import SIGNATURE, VERSION
from msmq.wire.packets import PING_SIGNATURE, Ping

_HEAD: Final = 20
_MARK: Final = SIGNATURE.to_bytes(4, "little")
_MARK_AT: Final = 4
_PING_MARK: Final = PING_SIGNATURE.to_bytes(2, "little")


class Whole(NamedTuple):
    """The bytes of a framed packet, and their offset."""

    offset: int
    data: bytes


class Damage(NamedTuple):
    """Bytes that are no packet. Those of a ``Malformed`` one are in the input, those of a ``Gap`` are missing."""

    packet: str
    offset: int
    size: int
    reason: str


Cut = Whole | Damage


def begins_packet(data: bytes | bytearray, offset: int = 0) -> bool:
    """Whether a session packet's version and signature are at ``offset``."""
    mark = offset + _MARK_AT
    return len(data) >= mark + 4 and data[offset] == VERSION and data[mark : mark + 4] == _MARK


def begins_ping(data: bytes | bytearray, offset: int = 0) -> bool:
    """Whether the signature of a Ping is at ``offset``; the longer signature of a session packet takes precedence."""
    return data[offset + 2 : offset + 4] == _PING_MARK and not begins_packet(data, offset)


class Cutter:
    """Cuts one direction of a stream, or a file, into packets, and reports damage.

    ``pings`` allows Pings between the packets, as in files that people put together. ``midway`` means that the first
    bytes may be inside a packet.
    """

    def __init__(self, *, pings: bool = False, midway: bool = False) -> None:
        self._pings = pings
        self._buffer = bytearray()
        self._base = 0  # offset of the buffer's first byte
        self._wanted = 0  # with fewer bytes in the buffer nothing can be decided
        self._skip = 0  # bytes to drop: the rest of a packet with a gap in it
        self._lost: tuple[int, str] | None = (0, "the capture begins inside a packet") if midway else None

    @property
    def pending(self) -> int:
        """The number of bytes that wait for the rest of their packet."""
        return len(self._buffer)

    def feed(self, chunk: bytes) -> list[Cut]:
        if self._skip:
            dropped = min(self._skip, len(chunk))
            self._skip -= dropped
            self._base += dropped
            chunk = chunk[dropped:]
        if not self._buffer and self._lost is None and (whole := self._whole(chunk)) is not None:
            return [whole]
        self._buffer += chunk
        return [] if len(self._buffer) < self._wanted else self._cut(final=False)

    def _whole(self, chunk: bytes) -> Whole | None:
        """The packet in a chunk, if the chunk is exactly one packet."""
        if len(chunk) < _HEAD or chunk[_MARK_AT : _MARK_AT + 4] != _MARK:
            return None
        try:
            if packet_length(chunk) != len(chunk):
                return None
        except DecodeError:
            return None
        whole = Whole(self._base, chunk)
        self._base += len(chunk)
        self._wanted = 0
        return whole

    def gap(self, size: int) -> list[Cut]:
        """Note that ``size`` bytes of the stream are missing here."""
        cuts = self._give_up()
        start = self._base + len(self._buffer)
        end = start + size
        length = self._length(0, final=False) if self._buffer else None
        known_end = (
            start + self._skip if self._skip else self._base + length if isinstance(length, int) else 0
        )
        inside = f", inside the packet at offset {self._base}" if self._buffer else ""
        cuts.append(Damage("Gap", start, size, f"the capture lacks {size} bytes{inside}"))
        self._skip = max(known_end - end, 0)
        if known_end < end:
            self._lost = (end, "no packet begins after the gap")
        self._buffer.clear()
        self._wanted = 0
        self._base = end
        return cuts

    def finish(self) -> list[Cut]:
        """Take the end of the stream. The rest is damage, but whole packets in it are still found."""
        cuts = self._cut(final=True)
        return cuts + self._give_up()

    def _give_up(self) -> list[Cut]:
        """Report the bytes that were skipped in search of a packet, and empty the buffer."""
        if self._lost is None:
            return []
        offset, reason = self._lost
        self._lost = None
        end = self._base + len(self._buffer)
        self._buffer.clear()
        self._base = end
        return [Damage("Malformed", offset, end - offset, reason)] if end > offset else []

    def _cut(self, *, final: bool) -> list[Cut]:
        cuts: list[Cut] = []
        buffer = self._buffer
        at = 0
        while at < len(buffer):
            if self._lost is not None:
                found = self._search(at, final=final)
                if found is None:
                    at = max(at, len(buffer) - _HEAD + 1)  # the head of a packet may be split here
                    break
                offset, reason = self._lost
                self._lost = None
                if self._base + found > offset:
                    cuts.append(Damage("Malformed", offset, self._base + found - offset, reason))
                at = found
            length = self._length(at, final=final)
            if isinstance(length, str):
                self._lost = (self._base + at, length)
                at += 1
            elif length is None or at + length > len(buffer):
                self._wanted = length or _HEAD
                break
            else:
                cuts.append(Whole(self._base + at, bytes(buffer[at : at + length])))
                at += length
        else:
            self._wanted = 0
        del buffer[:at]
        self._base += at
        if self._lost is not None:
            self._wanted = 0
        return cuts

    def _length(self, at: int, *, final: bool) -> int | str | None:
        """The size of the packet at ``at``, or why it is no packet, or None if more bytes are needed to tell."""
        buffer = self._buffer
        available = len(buffer) - at
        if self._pings and available >= 8 and begins_ping(buffer, at):
            length = Ping.SIZE
        elif available >= _HEAD or (available >= 8 and not begins_packet(buffer, at)):
            try:
                head = buffer if available >= _HEAD else bytes(buffer[at:]).ljust(_HEAD, b"\0")
                length = packet_length(head, at if head is buffer else 0)
            except DecodeError as error:
                return error.reason
        elif final:
            return f"{available} bytes are too few for a packet"
        else:
            return None
        if final and length > available:
            return f"the packet says {length} bytes and ends after {available}"
        return length

    def _search(self, start: int, *, final: bool) -> int | None:
        """The offset where the next packet may begin; at the end of the stream only a whole packet counts."""
        buffer = self._buffer
        mark = buffer.find(_MARK, start + _MARK_AT)
        while mark != -1:
            at = mark - _MARK_AT
            if buffer[at] == VERSION and not isinstance(self._length(at, final=final), str):
                return at
            mark = buffer.find(_MARK, mark + 1)
        return None

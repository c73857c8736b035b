"""Packets out of bytes that may be damaged: a person looking at a capture wants what can still be read.

A receiver gives a stream up at the first wrong byte (:class:`msmq.wire.framing.StreamReader`). Here the
damage is reported and the search goes on for the next packet: a version byte and a signature whose sizes make
sense. A packet that is framed well but malformed inside keeps its size, so what follows it is found without a
search. When bytes are missing inside a packet whose size is known, the next one begins at its end.

At most one packet of the largest legal size is held.
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
    """The bytes of one framed packet and where they began."""

    offset: int
    data: bytes


class Damage(NamedTuple):
    """Bytes that are no packet: ``Malformed`` ones are there, those of a ``Gap`` are not."""

    packet: str
    offset: int
    size: int
    reason: str


Cut = Whole | Damage


def begins_packet(data: bytes | bytearray, offset: int = 0) -> bool:
    """Whether version and signature of a session packet stand at ``offset``."""
    mark = offset + _MARK_AT
    return len(data) >= mark + 4 and data[offset] == VERSION and data[mark : mark + 4] == _MARK


def begins_ping(data: bytes | bytearray, offset: int = 0) -> bool:
    """Whether the signature of a Ping stands at ``offset``; a session packet's is longer and goes first."""
    return data[offset + 2 : offset + 4] == _PING_MARK and not begins_packet(data, offset)


class Cutter:
    """Cuts one direction of a stream, or a file, into packets and reports what is none.

    ``pings`` lets Pings stand between the packets, as they do in files people put together. ``midway`` means
    that the first bytes need not begin a packet.
    """

    def __init__(self, *, pings: bool = False, midway: bool = False) -> None:
        self._pings = pings
        self._buffer = bytearray()
        self._base = 0  # where the buffer begins
        self._wanted = 0  # below this many bytes there is nothing to decide
        self._skip = 0  # bytes to drop: the rest of a packet with a gap in it
        self._lost: tuple[int, str] | None = (0, "the capture begins inside a packet") if midway else None

    @property
    def pending(self) -> int:
        """Bytes that wait for the rest of their packet."""
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
        """The packet that a chunk is, if it is neither more nor less than one."""
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
        """``size`` bytes of the stream are missing here."""
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
        """The stream is over: what is left is damage, but whole packets inside it are still found."""
        cuts = self._cut(final=True)
        return cuts + self._give_up()

    def _give_up(self) -> list[Cut]:
        """Report what was passed over while lost; nothing is kept."""
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
                    at = max(at, len(buffer) - _HEAD + 1)  # a head may be cut in two here
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
        """The size of the packet at ``at``, why there is none, or None when more bytes must come to tell."""
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
        """Where the next packet may begin; at the end of the stream only one that is whole counts."""
        buffer = self._buffer
        mark = buffer.find(_MARK, start + _MARK_AT)
        while mark != -1:
            at = mark - _MARK_AT
            if buffer[at] == VERSION and not isinstance(self._length(at, final=final), str):
                return at
            mark = buffer.find(_MARK, mark + 1)
        return None

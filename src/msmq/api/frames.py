"""The short line: all calls of a client on one connection, in frames and without HTTP/2.

gRPC for Python takes longer for its own part of a round trip than the queue manager for the rest, and a process that
has used it cannot fork. So every address also accepts calls in another way, with the same messages of ``msmq.proto``,
and within TLS where gRPC would be. Both sides begin with the line ``msmq-line/2``, and then send frames: a length of
four bytes, one byte for the kind of the frame, eight bytes for the number of the call, all little-endian, and a
payload of that length.

========  ======================================================================================================
OPEN      The client begins a call; the payload is the name of the method. Numbers increase.
MESSAGE   A request or a reply.
END       The last frame of a side. The client's is empty; the server's has an ``Error`` in it if the call failed.
CANCEL    The client cancels the call, or it ended with an internal error of the server.
WINDOW    The reader has used that many bytes (a number of eight bytes); as many more may be sent.
PING      Asks the other side for a PONG, which it sends however busy its calls are.
PONG      The answer to PING.
SPEAK     The client names the one for whom it opens calls from now on: ``Bearer TOKEN``, or, for a process of an
          administrator at the unix socket, a SID.
========  ======================================================================================================

END for call 0 is the server's last frame: the connection is refused, and the ``Error`` says why.

The calls of a connection do not wait for each other: each side of a call may have :data:`WINDOW_BYTES` under way, and
the last message may exceed them. How much of the window a message takes is its :func:`cost`.

Clients of HTTP/2 begin with ``PRI``, by which :mod:`msmq.api.relay` tells the two apart.
"""

from __future__ import annotations

import struct
from typing import Final

from msmq.api import rpc
from msmq.errors import DecodeError
from msmq.wire.landing import LARGE, Landing

LINE: Final = "msmq-line/2"
"""The name of this protocol in the handshake of TLS (ALPN)."""
GREETING: Final = f"{LINE}\n".encode()
OPEN: Final = 0
MESSAGE: Final = 1
END: Final = 2
CANCEL: Final = 3
WINDOW: Final = 4
PING: Final = 5
PONG: Final = 6
SPEAK: Final = 7
WINDOW_BYTES: Final = 1 << 20
_HEAD: Final = struct.Struct("<IBQ")
_BYTES: Final = struct.Struct("<Q")
_LARGEST: Final = {MESSAGE: rpc.MAX_MESSAGE_BYTES, END: rpc.MAX_MESSAGE_BYTES, SPEAK: 1 << 13}
_SMALL: Final = 64
"""The largest payload of the other frames."""
_SELF_COST: Final = 64
METHODS: Final = {method.name: method for method in rpc.methods()}
"""The methods by name."""


def frame(kind: int, number: int, *payload: bytes) -> tuple[bytes, ...]:
    """A frame in parts that are written one after the other, as the payload is given."""
    return _HEAD.pack(sum(map(len, payload)), kind, number), *payload


def window(number: int, size: int) -> bytes:
    """The frame that lets the other side of a call send ``size`` more bytes."""
    return _HEAD.pack(_BYTES.size, WINDOW, number) + _BYTES.pack(size)


def window_size(payload: bytes) -> int:
    """The number of bytes in the payload of a WINDOW."""
    if len(payload) != _BYTES.size:
        raise DecodeError(f"a WINDOW of {len(payload)} bytes")
    size: int = _BYTES.unpack(payload)[0]
    return size


def cost(*payload: bytes) -> int:
    """How much of the window a message takes: its bytes, and a fixed amount for each message."""
    return sum(map(len, payload)) + _SELF_COST


class Frames:
    """Cuts the received bytes into frames. A large one is put together in a :class:`Landing`, to which the owner of
    the line may read the bytes that come next."""

    def __init__(self, believed: int = 0) -> None:
        """``believed`` is the size of a payload for which memory is taken before its bytes come."""
        self.landing: Landing | None = None
        """The payload of the large frame that is incomplete."""
        self._believed = believed
        self._begun: tuple[int, int] = 0, 0
        """Its kind and number."""
        self._rest = b""
        """The received part of any other incomplete frame."""

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """Take received bytes. Returns the frames they complete, as kind, number and payload."""
        frames: list[tuple[int, int, bytes]] = []
        start, head = 0, _HEAD.size
        if self.landing is not None:
            start = min(self.landing.missing, len(data))
            self.landing.put(memoryview(data)[:start])
            if self.landing.missing:
                return frames
            frames.append((*self._begun, self.landing.whole()))
            self.landing = None
        elif len(self._rest) < head:
            data = self._rest + data
        else:
            size, kind, number = _HEAD.unpack_from(self._rest)
            start = head + size - len(self._rest)
            if len(data) < start:
                self._rest += data
                return frames
            frames.append((kind, number, self._rest[head:] + data[:start]))
        end = len(data)
        while end - start >= head:
            size, kind, number = _HEAD.unpack_from(data, start)
            if kind > SPEAK or size > _LARGEST.get(kind, _SMALL):
                raise DecodeError(f"no frame of the line: kind {kind}, {size} bytes", start)
            stop = start + head + size
            if stop <= end:
                frames.append((kind, number, data[start + head : stop]))
                start = stop
            elif size < LARGE:
                break
            else:
                self._begun, self.landing = (kind, number), Landing(size, self._believed)
                self.landing.put(memoryview(data)[start + head :])
                start = end
        self._rest = data[start:]
        return frames


class Inflow:
    """The window of the reading side of a call, and when to enlarge it."""

    def __init__(self) -> None:
        self._left = WINDOW_BYTES
        self._used = 0

    def widen(self, size: int) -> None:
        """Count ``size`` more bytes that the other side was let send from the beginning."""
        self._left += size

    def take(self, size: int) -> None:
        """Count a message that was received; raises DecodeError if the window was used up."""
        if self._left <= 0:
            raise DecodeError("more than the window has room for")
        self._left -= size

    def use(self, size: int) -> int:
        """Count a message that was read. Returns how many more bytes the other side may send, 0 if it is not worth
        telling yet."""
        self._used += size
        if self._used < WINDOW_BYTES // 2:
            return 0
        granted, self._used = self._used, 0
        self._left += granted
        return granted

"""The short line: all calls of a client on one connection, in frames and without HTTP/2.

gRPC for Python takes longer for its own part of a round trip than the queue manager for all of its, and a process that
has used it cannot fork. So at every address calls can be made in another way too, with the same messages of
``msmq.proto``; within TLS where gRPC would be. Both sides begin with the line ``msmq-line/2``, and then send frames:
four bytes of length, one byte that says what the frame is, eight bytes with the number of the call, all little-endian,
and as many bytes as the length says.

========  ======================================================================================================
OPEN      The client begins a call; the payload is the name of the method. Numbers only ever rise.
MESSAGE   A request or a reply.
END       The last frame of a side. The client's is empty; the server's has an ``Error`` in it if the call failed.
CANCEL    The client gives the call up, or the server could not carry it through for a reason of its own.
WINDOW    The reader has used up so many bytes (a number of eight bytes), and so many more may be sent.
PING      Is anybody there? The other side answers with PONG, whatever its calls are busy with.
PONG      The answer.
SPEAK     The client says for whom the calls speak that it opens from now on: ``Bearer TOKEN``, or, a process of an
          administrator at the unix socket, a SID.
========  ======================================================================================================

END for call 0 is the server's last word: there is no room for this connection, and the ``Error`` says why.

The calls of a connection do not wait for each other: each side of a call may have :data:`WINDOW_BYTES` under way, and
the last message that begins within them may go beyond. What a message counts for is :func:`cost`.

Nothing that begins like this is HTTP/2, whose clients begin with ``PRI``; :mod:`msmq.api.relay` tells them apart.
"""

from __future__ import annotations

import struct
from typing import Final

from msmq.api import rpc
from msmq.errors import DecodeError

LINE: Final = "msmq-line/2"
"""How TLS calls this protocol where it is to be chosen."""
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
"""How long all other frames may be."""
_SELF_COST: Final = 64
METHODS: Final = {method.name: method for method in rpc.methods()}
"""The calls by name."""


def frame(kind: int, number: int, *payload: bytes) -> tuple[bytes, ...]:
    """A frame in parts that are written one after the other, as the payload is given."""
    return _HEAD.pack(sum(map(len, payload)), kind, number), *payload


def window(number: int, size: int) -> bytes:
    """The frame that lets the other side of a call send so much more."""
    return _HEAD.pack(_BYTES.size, WINDOW, number) + _BYTES.pack(size)


def window_size(payload: bytes) -> int:
    """What a WINDOW says."""
    if len(payload) != _BYTES.size:
        raise DecodeError(f"a WINDOW of {len(payload)} bytes")
    size: int = _BYTES.unpack(payload)[0]
    return size


def cost(*payload: bytes) -> int:
    """How much of its window a message takes: its bytes, and something for being there at all."""
    return sum(map(len, payload)) + _SELF_COST


class Frames:
    """Cuts what arrives into frames. Memory follows what has come, not what a length claims, and the pieces of a large
    frame are put together once."""

    def __init__(self) -> None:
        self._rest = b""
        """The beginning of a head."""
        self._begun: tuple[int, int] = 0, 0
        """Kind and number of the frame whose payload is not whole."""
        self._pieces: list[bytes] = []
        self._missing = 0

    def feed(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """The frames that are whole now, as kind, number and payload."""
        frames: list[tuple[int, int, bytes]] = []
        start, end, head = 0, len(data), _HEAD.size
        if self._missing:
            piece = data if end <= self._missing else data[: self._missing]
            self._pieces.append(piece)
            self._missing -= len(piece)
            if self._missing:
                return frames
            frames.append((*self._begun, b"".join(self._pieces)))
            self._pieces.clear()
            start = len(piece)
        elif self._rest:
            data = self._rest + data
            end = len(data)
        while end - start >= head:
            size, kind, number = _HEAD.unpack_from(data, start)
            if kind > SPEAK or size > _LARGEST.get(kind, _SMALL):
                raise DecodeError(f"no frame of the line: kind {kind}, {size} bytes", start)
            start += head
            if start + size > end:
                self._begun = kind, number
                self._pieces.append(data[start:])
                self._missing = start + size - end
                start = end
            else:
                frames.append((kind, number, data[start : start + size]))
                start += size
        self._rest = data[start:]
        return frames


class Inflow:
    """What the reading side of a call lets come, and when it says so."""

    def __init__(self) -> None:
        self._left = WINDOW_BYTES
        self._used = 0

    def take(self, size: int) -> None:
        """A message has come; raises DecodeError if it was not allowed to."""
        if self._left <= 0:
            raise DecodeError("more than the window has room for")
        self._left -= size

    def use(self, size: int) -> int:
        """A message was read; gives how much more may come, if it is time to say so."""
        self._used += size
        if self._used < WINDOW_BYTES // 2:
            return 0
        granted, self._used = self._used, 0
        self._left += granted
        return granted

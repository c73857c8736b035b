"""The place where something large is put together while it is read from a stream.

Pieces of a packet that are kept until the last one has come have to be joined, and with megabytes a copy takes longer
than anything else that is done with them. So a protocol reads the bytes of a large packet directly to their place, if
its transport can do that (``asyncio.BufferedProtocol``).
"""

from __future__ import annotations

from io import BytesIO
from typing import Final

LARGE: Final = 1 << 16
"""From which size on something is read to its place."""
_GROWTH: Final = 4
_TAIL: Final = 1 << 10


class Landing:
    """Something large of which ``size`` bytes are expected. It takes memory as bytes come, and not for the size that
    somebody claims, but for ``believed`` bytes at once."""

    __slots__ = ("_bytes", "_size", "_view", "filled")

    def __init__(self, size: int, believed: int = 0) -> None:
        self._size = size
        self._bytes = BytesIO()
        self._view = memoryview(bytearray())
        self.filled = 0
        if believed:
            self._grow(believed)

    @property
    def missing(self) -> int:
        return self._size - self.filled

    @property
    def spot(self) -> memoryview:
        """The place for the next bytes; :meth:`landed` says how many were written there. The last bytes have none and
        must be :meth:`put`: a transport may hold on to the place until it has said what came."""
        end = self._size - _TAIL
        if self.filled >= end:
            return memoryview(b"")
        if self.filled == len(self._view):
            self._grow(max(_GROWTH * self.filled, LARGE))
        return self._view[self.filled : end]

    def landed(self, count: int) -> None:
        self.filled += count

    def put(self, data: bytes | memoryview) -> None:
        """Copy the next bytes to their place."""
        end = self.filled + len(data)
        if end > len(self._view):
            self._grow(max(_GROWTH * self.filled, end))
        self._view[self.filled : end] = data
        self.filled = end

    def _grow(self, size: int) -> None:
        larger = BytesIO()
        larger.seek(min(size, self._size) - 1)
        larger.write(b"\0")
        view = larger.getbuffer()
        view[: self.filled] = self._view[: self.filled]
        self._bytes, self._view = larger, view

    def whole(self) -> bytes:
        """All of it; the end."""
        self._view.release()
        return self._bytes.getvalue()  # which copies nothing, as long as nobody else has the view

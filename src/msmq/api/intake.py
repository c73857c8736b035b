"""Protocols that read what is large directly to its place, and everything else as it comes."""

from __future__ import annotations

import asyncio
import threading
from typing import Final

from msmq.wire.landing import Landing

_BUFFER_BYTES: Final = 1 << 18


class _Shared(threading.local):
    """Where all connections of a thread read to. What has come is copied before another of them reads; event loops of
    other threads, which read at the same time, have a buffer of their own."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(_BUFFER_BYTES))


_shared: Final = _Shared()


class Intake(asyncio.BufferedProtocol):
    """A protocol that gets bytes by :meth:`data_received`, unless they land in the packet under way."""

    _used: Landing | None = None

    @property
    def landing(self) -> Landing | None:
        """The large packet that is incomplete."""
        raise NotImplementedError

    def heard(self) -> None:
        """Note that something has come."""

    def data_received(self, data: bytes) -> None:
        raise NotImplementedError

    def get_buffer(self, sizehint: int) -> memoryview:
        landing = self.landing
        if landing is not None and (spot := landing.spot):
            self._used = landing
            return spot
        self._used = None
        return _shared.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._used is None:
            self.data_received(bytes(_shared.buffer[:nbytes]))
        else:
            self._used.landed(nbytes)
            self.heard()

"""Protocols that read what is large directly to its place, and everything else as it comes."""

from __future__ import annotations

import asyncio
from typing import Final

from msmq.wire.landing import Landing

_shared: Final = memoryview(bytearray(1 << 18))
"""Where all connections read to. What has come is copied before anybody else can read."""


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
        return _shared

    def buffer_updated(self, nbytes: int) -> None:
        if self._used is None:
            self.data_received(bytes(_shared[:nbytes]))
        else:
            self._used.landed(nbytes)
            self.heard()

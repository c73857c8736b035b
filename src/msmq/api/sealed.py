"""TLS on a connection that the gate has admitted.

An event loop that makes the handshake itself reports a connection only afterwards, so that slow handshakes would not
be counted. Here the protocol behind the seal is told at once: the gate sees a connection from its first moment, and
the certificates are those of that moment.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, cast

from msmq.api.line import farewell
from msmq.errors import InvalidParameterError

_RECORD_BYTES: Final = 1 << 14
"""The largest record of TLS, which decrypts one at a time."""
_HANDSHAKE: Final = b"\x16"
"""The first byte that a client of TLS sends."""


class Seal(asyncio.Protocol):
    """TLS between a connection and the protocol ``inner``, which reads and writes in the clear."""

    def __init__(self, context: ssl.SSLContext, inner: asyncio.BaseProtocol) -> None:
        self.inner = inner
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._raw: asyncio.Transport | None = None
        self._early: list[bytes] = []
        """What ``inner`` wrote before the handshake."""
        self._heard = self._agreed = self._failed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)
        self.inner.connection_made(SealedTransport(self, self._raw))

    def connection_lost(self, error: Exception | None) -> None:
        self.inner.connection_lost(error)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._failed:
            return
        if not self._heard and data[:1] != _HANDSHAKE:
            assert self._raw is not None
            told = InvalidParameterError("Only TLS is spoken here; write tls: before the address.")
            self._raw.write(farewell(told, greet=True))
            self._fail()
            return
        self._heard = True
        self._incoming.write(data)
        try:
            if not self._agreed:
                self.tls.do_handshake()
                self._agreed = True
                early, self._early = self._early, []
                for piece in early:
                    self._write(piece)
            while opened := self.tls.read(_RECORD_BYTES):
                cast(asyncio.Protocol, self.inner).data_received(opened)
            self.close()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError:
            self._fail()

    def write(self, data: bytes) -> None:
        if self._agreed:
            self._write(data)
            self._flush()
        else:
            self._early.append(data)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[self.tls.write(left) :]
        except ssl.SSLError:  # the other side has closed TLS
            self._fail()

    def _flush(self) -> None:
        assert self._raw is not None
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    def _fail(self) -> None:
        """Send what explains the failure, and wait for the other side to close: a connection that is cut may lose
        it."""
        assert self._raw is not None
        self._failed = True
        self._flush()
        if not self._raw.is_closing() and self._raw.can_write_eof():
            self._raw.write_eof()

    def close(self) -> None:
        assert self._raw is not None
        if self._agreed and not self._failed:
            with suppress(ssl.SSLError):  # the other side has not closed TLS yet, and need not
                self.tls.unwrap()
            self._flush()
        self._raw.close()


class SealedTransport(asyncio.Transport):
    """The transport of the protocol behind a seal."""

    def __init__(self, seal: Seal, raw: asyncio.Transport) -> None:
        super().__init__()
        self._seal = seal
        self._raw = raw

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._seal.tls if name == "ssl_object" else self._raw.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._seal.inner = protocol

    def is_closing(self) -> bool:
        return self._raw.is_closing()

    def is_reading(self) -> bool:
        return self._raw.is_reading()

    def pause_reading(self) -> None:
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._raw.resume_reading()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._seal.write(bytes(data))

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        self._seal.write(b"".join(parts))

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def close(self) -> None:
        self._seal.close()

    def abort(self) -> None:
        self._raw.abort()

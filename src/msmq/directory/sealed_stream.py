"""The byte stream of an LDAP connection, observed before it leaves, and signed and sealed if agreed (RFC 4422 3.7).

After a bind by GSS-SPNEGO that negotiated protection, every message travels as a length of four bytes and a token of
the security context. :class:`Channel` takes the place of ldap3's socket and translates.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable
from typing import Final

from spnego import ContextProxy

_LENGTH: Final = struct.Struct(">I")
MAX_TOKEN_BYTES: Final = 16 * 1024 * 1024
"""More than any page of an answer can need."""

Observer = Callable[[bytes], None]


class Channel:
    """A socket for ldap3. ``observe`` is called with each LDAP message before it is sealed."""

    def __init__(self, inner: socket.socket, observe: Observer | None) -> None:
        self.inner = inner
        self._observe = observe
        self._context: ContextProxy | None = None
        self._received = b""
        self.still_there: Callable[[], bool] = lambda: False
        """Called when the server is silent until the timeout; returns whether to go on waiting."""

    def seal(self, context: ContextProxy) -> None:
        """Make all further messages tokens of this security context."""
        self._context = context

    def sendall(self, data: bytes) -> None:
        if self._observe is not None:
            self._observe(data)
        if self._context is not None:
            try:
                token = self._context.wrap(data).data
            except Exception as error:  # Kerberos raises errors of its own, for example for an expired ticket
                raise OSError(f"a message could not be sealed: {error}") from error
            data = _LENGTH.pack(len(token)) + token
        self.inner.sendall(data)

    def recv(self, size: int) -> bytes:
        if self._context is None:
            return self._some(size)
        if not self._received:
            self._received = self._next_message(self._context)
        data, self._received = self._received[:size], self._received[size:]
        return data

    def _next_message(self, context: ContextProxy) -> bytes:
        head = self._exactly(_LENGTH.size, end_is_fine=True)
        if not head:
            return b""
        (length,) = _LENGTH.unpack(head)
        if length > MAX_TOKEN_BYTES:
            raise OSError(f"a sealed message claims {length} bytes")
        token = self._exactly(length)
        try:
            return bytes(context.unwrap(token).data)
        except Exception as error:
            raise OSError(f"a message is not what the server sealed: {error}") from error

    def _exactly(self, size: int, *, end_is_fine: bool = False) -> bytes:
        data = b""
        while len(data) < size:
            more = self._some(min(size - len(data), 65536))
            if not more:
                if end_is_fine and not data:
                    return b""
                raise OSError("the connection ended inside a sealed message")
            data += more
        return data

    def _some(self, size: int) -> bytes:
        while True:
            try:
                return self.inner.recv(size)
            except TimeoutError:
                if not self.still_there():
                    raise

    def is_alive(self) -> bool:
        """Whether the connection is still open and silent. Anything that comes unasked is the server hanging up."""
        timeout = self.inner.gettimeout()
        try:
            self.inner.settimeout(0)
            self.inner.recv(1)
            return False
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        finally:
            self.inner.settimeout(timeout)

    def settimeout(self, limit_s: float) -> None:
        self.inner.settimeout(limit_s)

    def shutdown(self, how: int) -> None:
        self.inner.shutdown(how)

    def close(self) -> None:
        self.inner.close()

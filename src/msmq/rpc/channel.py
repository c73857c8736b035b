"""What both ends of a connection share: cutting the stream into PDUs, fragments, protection (C706 12.6, 9.3).

A stub that is too long for one PDU goes out in fragments, each with its own signature; what comes in is put together
again, never beyond the limits. `Limits` says what a peer may cost, before and after it has proven who it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from msmq.errors import DecodeError
from msmq.rpc.pdu import (
    LITTLE_ENDIAN,
    MIN_FRAGMENT,
    STUB_START,
    VERSION,
    Fragment,
    PduFlags,
    PduType,
    SecTrailer,
    Syntax,
    pack_front,
    read_fragment,
    read_trailer,
)
from msmq.rpc.security import AuthenticationError, SecurityContext
from msmq.rpc.verification import Meant

READ_SIZE: Final = 64 << 10
"""The most that one read takes from a socket, into a buffer that is kept. Without such a buffer asyncio allocates one
of four times the size for each read, which costs several times as much as the reading."""
_STUB_ALIGNMENT: Final = 16
"""Fragments are cut at, and padded to, multiples of this, as in Windows."""
_PADDINGS: Final = tuple(bytes(size) for size in range(_STUB_ALIGNMENT))
_FIRST, _LAST = int(PduFlags.FIRST_FRAG), int(PduFlags.LAST_FRAG)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may cost. The limits with ``unknown`` hold for callers without an identity."""

    max_fragment: int = 5_840
    """The largest fragment we accept; a larger one closes the connection."""
    max_stub: int = 1 << 20
    """The longest request or response that is put together."""
    max_unknown_stub: int = 16 << 10
    max_partial: int = 4 << 20
    """The most bytes in all calls of a connection that are being put together."""
    max_calls: int = 256
    """The most calls of a connection that are being put together or executed."""
    max_unknown_calls: int = 8
    max_contexts: int = 64
    """The most presentation contexts of a connection."""
    max_security_contexts: int = 16


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The settings of an RPC server."""

    limits: Limits = field(default_factory=Limits)
    idle_timeout_s: float = 3_600
    """A connection without a call for this long is closed, unless its group holds context handles."""
    max_unread: int = 4 << 20
    max_unread_per_address: int = 32 << 20
    max_unread_in_all: int = 128 << 20
    announced_port: int | None = None
    """The port under which clients reach us, if something in front of us forwards another one."""


class Gathered:
    """The fragments of a stub received so far."""

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size = 0

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self.size += len(part)

    def whole(self) -> bytes:
        parts = self._parts
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def clear(self) -> None:
        self._parts.clear()
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._parts)


class Channel:
    """What the server's and the client's end of a connection have in common."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buffer = b""
        self._out: list[bytes] = []
        """PDUs that wait to be written."""
        self._max_xmit = MIN_FRAGMENT
        self._security: dict[int, SecurityContext] = {}
        self._meanings: dict[tuple[int, int, bool], Meant] = {}
        self.header_signing = False
        self.takes_many = False
        """Whether the peer has shown that it reads a stream, by making several calls with one write."""

    @property
    def pdus_waiting(self) -> int:
        """The number of PDUs that wait to be written."""
        return len(self._out)

    def data_to_send(self) -> bytes:
        """Take the bytes to write to the socket now."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def writes(self) -> list[bytes]:
        """Take the bytes to write to the socket now, one item for each write: everything together for a peer that
        `takes_many`, otherwise PDU by PDU, because some clients take what one read brings for one PDU."""
        if self.takes_many:
            return [self.data_to_send()]
        written, self._out = self._out, []
        return written

    def _take(self, data: bytes) -> None:
        """Process the PDUs in the bytes received so far; an incomplete one is kept for the next time."""
        if self._buffer:
            data = self._buffer + data
        offset, longest = 0, self._limits.max_fragment
        while (fragment := read_fragment(data, offset, longest)) is not None:
            offset += len(fragment.raw)
            self._receive(fragment)
        self._buffer = data[offset:]

    def _receive(self, fragment: Fragment) -> None:
        raise NotImplementedError

    def _send_stub(
        self,
        ptype: PduType,
        call_id: int,
        context_id: int,
        last: int,
        stub: bytes,
        security: SecurityContext | None,
        object_uuid: bytes = b"",
    ) -> None:
        """Queue a request or response in as many fragments as it needs. ``last`` is the opnum of a request, or the
        number of cancels of a response."""
        seal = security.seal if security is not None else None
        flags = _FIRST | (PduFlags.OBJECT_UUID if object_uuid else 0)
        overhead, signature_size = STUB_START + len(object_uuid), 0
        if seal is not None:
            signature_size = seal.signature_size
            overhead += SecTrailer.SIZE + signature_size
        room = (self._max_xmit - overhead) & -_STUB_ALIGNMENT
        offset, left = 0, len(stub)
        while True:
            part, size = stub, left
            if left <= room:
                flags |= _LAST
            else:
                size = room
            if offset or size < left:
                part = stub[offset : offset + size]
            padding = -size % _STUB_ALIGNMENT if seal is not None else 0
            length = overhead + size + padding
            # The hint counts the bytes still to come, including this fragment (C706 12.6.3.7).
            front = pack_front(
                VERSION, 0, ptype, flags, LITTLE_ENDIAN, length, signature_size, call_id, left, context_id, last
            )  # fmt: skip
            if object_uuid:
                front += object_uuid
            if seal is None:
                pdu = front + part
            else:
                assert security is not None
                pdu = seal.protect(front, part + _PADDINGS[padding], security.trailers[padding])
                if len(pdu) != length:
                    raise AuthenticationError(f"a signed PDU of {len(pdu)} bytes, {length} were announced")
            self._out.append(pdu)
            if flags & _LAST:
                return
            offset += size
            left -= size
            flags &= ~_FIRST

    def _opened(self, fragment: Fragment, start: int) -> tuple[SecurityContext | None, bytes]:
        """Verify and decrypt the stub of a request or response, which begins at ``start``. Returns its security
        context and the stub without padding.

        The context is the one that the verifier names. Requests at connect level carry no verifier: without one the
        context is the one at connect level if there is one, and otherwise None.
        """
        raw, end = fragment.raw, fragment.verifier
        if end == len(raw):
            return self._at_connect_level() if self._security else None, raw[start:]
        auth_type, auth_level, padding, context_id = read_trailer(raw, end)
        security = self._security.get(context_id)
        if security is None or not security.established:
            raise AuthenticationError("a verifier of a security context that is not there")
        if auth_type != security.auth_type or auth_level != security.level:
            raise AuthenticationError("a verifier of another provider or level than was agreed")
        if end - start < padding:
            raise DecodeError("the padding is longer than the stub", start)
        if security.seal is None:
            return security, raw[start : end - padding]
        try:
            stub = security.seal.unprotect(raw, start, end)
        except Exception as error:  # the libraries of the providers raise all sorts of errors
            raise AuthenticationError(f"{type(error).__name__}: {error}") from error
        return security, stub[:-padding] if padding else stub

    def _meant(self, context_id: int, opnum: int) -> Meant:
        """What a verification trailer should say about calls of this operation."""
        known = self._meanings.get((context_id, opnum, self.header_signing))
        if known is None:
            interface, transfer = self._syntaxes(context_id)
            known = Meant(interface, transfer, context_id, opnum, self.header_signing)
            self._meanings[context_id, opnum, self.header_signing] = known
        return known

    def _syntaxes(self, context_id: int) -> tuple[Syntax, Syntax]:
        """The interface and the transfer syntax of a presentation context."""
        raise NotImplementedError

    def _at_connect_level(self) -> SecurityContext | None:
        found = [one for one in self._security.values() if one.established and not one.signs]
        return found[0] if len(found) == 1 else None

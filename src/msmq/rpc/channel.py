"""What both ends of a connection share: cutting the stream, fragments out and in, protection (C706 12.6, 9.3).

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
"""What is read from a socket at a time, into a buffer that is kept. Where there is none asyncio has a new one of four
times the size made for each read, which costs several times as much as reading."""
_STUB_ALIGNMENT: Final = 16
"""Stubs of fragments are cut at, and padded to, multiples of this, as Windows does."""
_PADDINGS: Final = tuple(bytes(size) for size in range(_STUB_ALIGNMENT))
_FIRST, _LAST = int(PduFlags.FIRST_FRAG), int(PduFlags.LAST_FRAG)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may cost. ``unknown`` is about callers without an identity."""

    max_fragment: int = 5_840
    """What we announce to receive; a peer's larger fragment closes the connection."""
    max_stub: int = 1 << 20
    """The longest request or response that is put together."""
    max_unknown_stub: int = 16 << 10
    max_partial: int = 4 << 20
    """All calls of a connection that are being put together."""
    max_calls: int = 256
    """Calls of a connection that are being put together or executed."""
    max_unknown_calls: int = 8
    max_contexts: int = 64
    """Presentation contexts of a connection."""
    max_security_contexts: int = 16


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What an operator may decide about an RPC server."""

    limits: Limits = field(default_factory=Limits)
    idle_timeout_s: float = 3_600
    """A connection without a call for so long is closed, unless its group holds context handles."""
    max_unread: int = 4 << 20
    max_unread_per_address: int = 32 << 20
    max_unread_in_all: int = 128 << 20
    announced_port: int | None = None
    """The port that clients reach us at, when something in front of us forwards it to another."""


class Gathered:
    """The stub of a call, as far as its fragments have come."""

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
    """The part of a connection that does not care which end it is."""

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
        """Whether the peer has shown that it reads a stream: it makes several calls with one write."""

    @property
    def pdus_waiting(self) -> int:
        """How many PDUs wait to be written."""
        return len(self._out)

    def data_to_send(self) -> bytes:
        """What is to be written to the socket now."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def writes(self) -> list[bytes]:
        """What is to be written to the socket now, cut into what is written at a time: all of it for a peer that
        `takes_many`, otherwise PDU by PDU. There are clients that take what one read brings for one PDU."""
        if self.takes_many:
            return [self.data_to_send()]
        written, self._out = self._out, []
        return written

    def _take(self, data: bytes) -> None:
        """Take what has come since the last time, PDU by PDU; the beginning of one more is kept."""
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
        """Queue a request or response, in as many fragments as it takes. ``last`` is the opnum of a request, and how
        often the call of a response was cancelled."""
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
            # The hint is what is left to come, this fragment included (C706 12.6.3.7).
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
        """The security context a request or response is under, and its stub, which begins at ``start``: verified and
        opened, its padding taken off.

        The context is the one that the verifier names. Without a verifier it is the one at connect level, if there is
        one, for there requests carry none; otherwise nobody stands behind the fragment.
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
        except Exception as error:  # whatever the library of a provider raises
            raise AuthenticationError(f"{type(error).__name__}: {error}") from error
        return security, stub[:-padding] if padding else stub

    def _meant(self, context_id: int, opnum: int) -> Meant:
        """What the careful client of a call means by it."""
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

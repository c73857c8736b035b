"""What both ends of a connection share: cutting the stream, fragments out and in, protection (C706 12.6, 9.3).

A stub that is too long for one PDU goes out in fragments, each with its own signature; what comes in is put together
again, never beyond the limits. `Limits` says what a peer may cost, before and after it has proven who it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from msmq.errors import DecodeError
from msmq.rpc.pdu import (
    MIN_FRAGMENT,
    CommonHeader,
    Fragment,
    PduFlags,
    PduType,
    Response,
    SecTrailer,
    plain_beginning,
    read_fragment,
)
from msmq.rpc.security import AuthenticationError, SecurityContext

READ_SIZE: Final = 64 << 10
"""What is read from a socket at a time, into a buffer that is kept. Where there is none asyncio has a new one of four
times the size made for each read, which costs several times as much as reading."""
_STUB_ALIGNMENT: Final = 16
"""Stubs of fragments are cut at, and padded to, multiples of this, as Windows does."""


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


class Channel:
    """The part of a connection that does not care which end it is. ``received`` is what most PDUs will be."""

    def __init__(self, limits: Limits, received: PduType) -> None:
        self._limits = limits
        self._buffer = b""
        self._plain = plain_beginning(received)
        self._out: list[bytes] = []
        self._max_xmit = MIN_FRAGMENT
        self._security: dict[int, SecurityContext] = {}
        self.header_signing = False

    @property
    def parts_waiting(self) -> int:
        """How many pieces, none longer than a fragment, wait to be written."""
        return len(self._out)

    def data_to_send(self) -> bytes:
        """What is to be written to the socket now."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def _take(self, data: bytes) -> None:
        """Take what has come since the last time, PDU by PDU; the beginning of one more is kept."""
        if self._buffer:
            data = self._buffer + data
        plain, offset, end = self._plain, 0, len(data)
        while end - offset >= CommonHeader.SIZE:
            if data.startswith(plain, offset):
                before, offset = offset, self._take_plain(data, offset)
                if offset > before:
                    continue
            fragment = read_fragment(data, offset, self._limits.max_fragment)
            if fragment is None:
                break
            offset += len(fragment.raw)
            self._receive(fragment)
        self._buffer = data[offset:]

    def _take_plain(self, data: bytes, offset: int) -> int:
        """Take the plain PDUs (see `msmq.rpc.pdu`) that begin at ``offset`` and give where they end. The next one goes
        the long way, if it is whole and as soon as it is."""
        raise NotImplementedError

    def _receive(self, fragment: Fragment) -> None:
        raise NotImplementedError

    def _send_stub(
        self, ptype: PduType, call_id: int, head: bytes, stub: bytes, security: SecurityContext | None, flags: int = 0
    ) -> None:  # fmt: skip
        """Queue a request or response, in as many fragments as it takes."""
        protected = security is not None and security.signs
        overhead = CommonHeader.SIZE + len(head)
        if protected:
            assert security is not None
            overhead += SecTrailer.SIZE + security.signature_size
        room = (self._max_xmit - overhead) & -_STUB_ALIGNMENT
        first = int(PduFlags.FIRST_FRAG)
        offset = 0
        while True:
            part = stub[offset : offset + room]
            last = PduFlags.LAST_FRAG if offset + room >= len(stub) else 0
            # The hint is what is left to come, this fragment included (C706 12.6.3.7).
            hinted = (len(stub) - offset).to_bytes(4, "little") + head[4:]
            self._out.append(
                self._fragment(
                    ptype, call_id, hinted, part, security if protected else None, flags | first | last
                )
            )
            offset += room
            first = 0
            if last:
                return

    @staticmethod
    def _fragment(
        ptype: PduType, call_id: int, head: bytes, stub: bytes, security: SecurityContext | None, flags: int
    ) -> bytes:
        if security is None:
            length = CommonHeader.SIZE + len(head) + len(stub)
            header = CommonHeader(ptype=ptype, pfc_flags=int(flags), frag_length=length, call_id=call_id)
            return header.encode() + head + stub
        size = security.signature_size
        padding = -len(stub) % _STUB_ALIGNMENT
        length = CommonHeader.SIZE + len(head) + len(stub) + padding + SecTrailer.SIZE + size
        header = CommonHeader(
            ptype=ptype, pfc_flags=int(flags), frag_length=length, auth_length=size, call_id=call_id
        )
        trailer = SecTrailer(security.auth_type, security.level, padding, 0, security.context_id).encode()
        front = header.encode() + head
        stub, signature = security.protect(front, stub + bytes(padding), trailer)
        if len(signature) != size:
            raise AuthenticationError(f"a signature of {len(signature)} bytes, {size} were announced")
        return front + stub + trailer + signature

    def _stub_of(self, fragment: Fragment, head_size: int, security: SecurityContext | None) -> bytes:
        """The stub of a received fragment, verified and opened, its padding taken off.

        ``head_size`` is what of the body comes before it.
        """
        if len(fragment.body) < head_size + fragment.padding:
            raise DecodeError("the padding is longer than the stub", CommonHeader.SIZE + head_size)
        stub = fragment.body[head_size:]
        if security is not None and security.signs:
            trailer = fragment.trailer
            assert trailer is not None
            where = len(fragment.raw) - len(fragment.auth_value) - SecTrailer.SIZE
            stub = security.unprotect(
                fragment.raw[: CommonHeader.SIZE + head_size],
                stub,
                fragment.raw[where : where + SecTrailer.SIZE],
                fragment.auth_value,
            )
        return stub[: len(stub) - fragment.padding]

    def _security_of(self, fragment: Fragment) -> SecurityContext | None:
        """The context a request or response is under: the one its verifier names.

        Without a verifier it is the one at connect level, if there is one, for there requests carry none; otherwise
        nobody stands behind the fragment.
        """
        trailer = fragment.trailer
        if trailer is None:
            at_connect = [s for s in self._security.values() if s.established and not s.signs]
            return at_connect[0] if len(at_connect) == 1 else None
        security = self._security.get(trailer.auth_context_id)
        if security is None or not security.established:
            raise AuthenticationError("a verifier of a security context that is not there")
        if trailer.auth_type != security.auth_type or trailer.auth_level != security.level:
            raise AuthenticationError("a verifier of another provider or level than was agreed")
        return security


def response_head(context_id: int, cancel_count: int = 0) -> bytes:
    """The fixed part of a response; its hint is filled in with each fragment."""
    # Windows answers with the low byte of the number alone, so that is what every client copes with.
    return Response(0, context_id & 0xFF, cancel_count).encode()

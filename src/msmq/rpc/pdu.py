"""The protocol data units of connection-oriented RPC, version 5 (C706 12.6, MS-RPCE 2.2.2).

Every PDU has the same three parts: a common header, a body that depends on its type, and, when the connection is
authenticated, a verifier behind it: padding, `SecTrailer` and a token of the security provider. `read_fragment` cuts a
`Fragment` off a stream, and the body classes (`Bind`, `BindAck`, `Request`, ...) read and write what lies between.

Integers are little-endian. A peer may announce another representation in its header; no client of these interfaces
does, and we refuse it: otherwise there would be a second reader that only fuzzers run.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple, Self

from msmq.errors import DecodeError, EncodeError
from msmq.wire.declare import Wire, guid, octets3, octets4, rounded_up, u8, u16, u32, wire

VERSION: Final = 5
LITTLE_ENDIAN: Final = b"\x10\x00\x00\x00"
"""Little-endian integers, ASCII characters, IEEE floats (C706 14.1)."""
MIN_FRAGMENT: Final = 1432
"""The size of fragments that every implementation must accept (MustRecvFragSize, C706 12.6.3.3)."""
SMALLEST_AGREED: Final = 2_048
"""The smallest fragment size ever agreed on, whatever a client asks for, as in Windows."""
MAX_FRAGMENT: Final = 65_535
MAX_CONTEXTS: Final = 32
MAX_TRANSFER_SYNTAXES: Final = 16


class PduType(IntEnum):
    """The type of a PDU (C706 12.6.4, MS-RPCE 2.2.2.10 for AUTH3)."""

    REQUEST = 0
    RESPONSE = 2
    FAULT = 3
    BIND = 11
    BIND_ACK = 12
    BIND_NAK = 13
    ALTER_CONTEXT = 14
    ALTER_CONTEXT_RESP = 15
    AUTH3 = 16
    SHUTDOWN = 17
    CO_CANCEL = 18
    ORPHANED = 19


class PduFlags(IntEnum):
    """pfc_flags (C706 12.6.3.1, MS-RPCE 2.2.2.3). Combinations are plain integers: every PDU tests some, and an
    IntFlag would cost more than the rest of its header."""

    FIRST_FRAG = 0x01
    LAST_FRAG = 0x02
    SUPPORT_HEADER_SIGN = 0x04
    """Only in bind, alter_context and their answers; elsewhere the bit says that a cancel is pending."""
    CONC_MPX = 0x10
    DID_NOT_EXECUTE = 0x20
    MAYBE = 0x40
    OBJECT_UUID = 0x80


WHOLE: Final = int(PduFlags.FIRST_FRAG | PduFlags.LAST_FRAG)
_OBJECT_UUID: Final = int(PduFlags.OBJECT_UUID)


class AuthType(IntEnum):
    """Security providers (MS-RPCE 2.2.1.1.7)."""

    NONE = 0
    NEGOTIATE = 9
    NTLM = 10
    KERBEROS = 16


class AuthLevel(IntEnum):
    """How much is protected (MS-RPCE 2.2.1.1.8). CALL and PKT are raised to INTEGRITY by everyone."""

    NONE = 1
    CONNECT = 2
    CALL = 3
    PKT = 4
    INTEGRITY = 5
    PRIVACY = 6


class ContextResult(IntEnum):
    """p_cont_def_result_t (C706 12.6.3.1) and negotiate_ack (MS-RPCE 2.2.2.4)."""

    ACCEPTANCE = 0
    USER_REJECTION = 1
    PROVIDER_REJECTION = 2
    NEGOTIATE_ACK = 3


class ContextReason(IntEnum):
    """p_provider_reason_t (C706 12.6.3.1)."""

    NOT_SPECIFIED = 0
    ABSTRACT_SYNTAX_NOT_SUPPORTED = 1
    PROPOSED_TRANSFER_SYNTAXES_NOT_SUPPORTED = 2
    LOCAL_LIMIT_EXCEEDED = 3


class NakReason(IntEnum):
    """p_reject_reason_t (C706 12.6.4.5, MS-RPCE 2.2.2.5)."""

    NOT_SPECIFIED = 0
    TEMPORARY_CONGESTION = 1
    LOCAL_LIMIT_EXCEEDED = 2
    PROTOCOL_VERSION_NOT_SUPPORTED = 4
    AUTHENTICATION_TYPE_NOT_RECOGNIZED = 8
    INVALID_CHECKSUM = 9


@wire("C706 12.6.3.1", size=16)
class CommonHeader(Wire):
    rpc_vers: u8 = VERSION
    rpc_vers_minor: u8 = 0
    ptype: u8 = 0
    pfc_flags: u8 = int(WHOLE)
    packed_drep: octets4 = LITTLE_ENDIAN
    frag_length: u16 = 0
    auth_length: u16 = 0
    call_id: u32 = 0


@wire("MS-RPCE 2.2.2.11", size=8)
class SecTrailer(Wire):
    auth_type: u8 = 0
    auth_level: u8 = 0
    auth_pad_length: u8 = 0
    auth_reserved: u8 = 0
    auth_context_id: u32 = 0


@wire("C706 12.6.3.1 p_syntax_id_t", size=20)
class _SyntaxId(Wire):
    if_uuid: guid
    if_version: u32


class Syntax(NamedTuple):
    """An interface or a transfer syntax: its identifier and version (p_syntax_id_t)."""

    uuid: bytes
    major: int
    minor: int = 0

    @classmethod
    def decode(cls, data: bytes, offset: int = 0) -> Self:
        found = _SyntaxId.decode(data, offset)
        return cls(found.if_uuid, found.if_version & 0xFFFF, found.if_version >> 16)

    def encode(self) -> bytes:
        return _SyntaxId(self.uuid, self.minor << 16 | self.major).encode()


class Fragment:
    """One whole PDU whose lengths have been checked. Its parts are cut out on demand."""

    __slots__ = ("call_id", "flags", "ptype", "raw", "verifier")

    def __init__(self, raw: bytes, ptype: int, flags: int, call_id: int, verifier: int) -> None:
        self.raw = raw
        self.ptype = ptype
        self.flags = flags
        self.call_id = call_id
        self.verifier = verifier
        """Where the `SecTrailer` begins; the end of the PDU if it has none."""

    @property
    def header(self) -> CommonHeader:
        return CommonHeader.decode(self.raw)

    @property
    def body(self) -> bytes:
        """The bytes between the header and the verifier, including the padding before the verifier."""
        return self.raw[CommonHeader.SIZE : self.verifier]

    @property
    def trailer(self) -> SecTrailer | None:
        return SecTrailer.decode(self.raw, self.verifier) if self.verifier < len(self.raw) else None

    @property
    def auth_value(self) -> bytes:
        return self.raw[self.verifier + SecTrailer.SIZE :]


pack_front: Final = struct.Struct(f"<BBBB{len(LITTLE_ENDIAN)}sHHIIHH").pack
"""Packs everything in front of the stub of a request or response, which have the same form: the fields of
`CommonHeader`, then those of `Request`, or of `Response` with its last two as one number."""
_read_header: Final[Callable[[bytes, int], tuple[int, int, int, int, int, int, int, int]]] = struct.Struct(
    "<BBBBB3xHHI"
).unpack_from
read_trailer: Final[Callable[[bytes, int], tuple[int, int, int, int]]] = struct.Struct("<BBBxI").unpack_from
"""Reads the used fields of a `SecTrailer`: provider, level, length of the padding, security context."""
_read_request: Final[Callable[[bytes, int], tuple[int, int]]] = struct.Struct("<4xHH").unpack_from
_PADDING_PLACE: Final = 2
"""The offset in a `SecTrailer` of the length of the padding before it."""


def read_fragment(data: bytes, offset: int, max_fragment: int) -> Fragment | None:
    """Return the PDU that begins at ``offset``, or None if it is not complete yet.

    Raises DecodeError for another version, another byte order or impossible lengths, and as soon as the header is
    there for a PDU longer than ``max_fragment``.
    """
    if len(data) - offset < CommonHeader.SIZE:
        return None
    version, minor, ptype, flags, order, length, auth_length, call_id = _read_header(data, offset)
    if version != VERSION or minor > 1:
        raise BadFragmentError(ptype, call_id, f"RPC version {version}.{minor} is not spoken here")
    if order != LITTLE_ENDIAN[0]:
        raise DecodeError("only little-endian ASCII is spoken here", 4)
    if length < CommonHeader.SIZE:
        raise DecodeError(f"a PDU of {length} bytes has no room for its header", 8)
    if length > max_fragment:
        raise BadFragmentError(ptype, call_id, f"a fragment of {length} bytes, {max_fragment} are agreed")
    raw = data[offset : offset + length]
    if len(raw) < length:
        return None
    verifier = length
    if auth_length:
        verifier -= auth_length + SecTrailer.SIZE
        if verifier < CommonHeader.SIZE:
            raise BadFragmentError(ptype, call_id, "the verifier is larger than its PDU")
        if raw[verifier + _PADDING_PLACE] > verifier - CommonHeader.SIZE:
            raise BadFragmentError(ptype, call_id, "more padding than body")
    return Fragment(raw, ptype, flags, call_id, verifier)


class BadFragmentError(DecodeError):
    """A PDU cannot be decoded. Its type and call say how to tell the sender."""

    def __init__(self, ptype: int, call_id: int, reason: str) -> None:
        super().__init__(reason)
        self.ptype = ptype
        self.call_id = call_id


def build(
    ptype: PduType, call_id: int, body: bytes, *, flags: int = WHOLE, trailer: SecTrailer | None = None,
    token: bytes = b"",
) -> bytes:  # fmt: skip
    """Build a PDU without a stub. Its verifier, if there is one, is a token of a handshake and protects nothing."""
    behind = b""
    if trailer is not None:
        trailer.auth_pad_length = -len(body) % 4
        behind = bytes(trailer.auth_pad_length) + trailer.encode() + token
    length = CommonHeader.SIZE + len(body) + len(behind)
    if length > MAX_FRAGMENT:
        raise EncodeError(f"a PDU of {length} bytes does not fit its length field")
    header = CommonHeader(
        ptype=ptype, pfc_flags=int(flags), frag_length=length, auth_length=len(token), call_id=call_id
    )
    return header.encode() + body + behind


# --- bodies ------------------------------------------------------------------------------------------


class ContextElement(NamedTuple):
    """A presentation context that is offered (p_cont_elem_t, C706 12.6.3.1)."""

    context_id: int
    abstract: Syntax
    transfers: tuple[Syntax, ...]


@wire("C706 12.6.3.1 p_cont_elem_t", size=4)
class _ContextHead(Wire):
    p_cont_id: u16
    n_transfer_syn: u8
    reserved: u8 = 0


@wire("C706 12.6.4.3", size=12)
class Bind(Wire):
    """The body of bind and alter_context."""

    max_xmit_frag: u16 = 0
    max_recv_frag: u16 = 0
    assoc_group_id: u32 = 0
    n_context_elem: u8 = 0
    reserved: octets3 = bytes(3)
    contexts: tuple[ContextElement, ...] = ()

    @classmethod
    def read_body(cls, body: bytes) -> Bind:
        bind = cls.decode(body)
        if bind.n_context_elem > MAX_CONTEXTS:
            raise DecodeError(f"{bind.n_context_elem} presentation contexts are offered at once", 8)
        offset = cls.SIZE
        found = []
        for _ in range(bind.n_context_elem):
            head = _ContextHead.decode(body, offset)
            offset += head.SIZE
            if head.n_transfer_syn > MAX_TRANSFER_SYNTAXES:
                raise DecodeError(f"{head.n_transfer_syn} transfer syntaxes are offered at once", offset)
            abstract = Syntax.decode(body, offset)
            transfers = tuple(
                Syntax.decode(body, offset + _SyntaxId.SIZE * (index + 1))
                for index in range(head.n_transfer_syn)
            )
            offset += _SyntaxId.SIZE * (head.n_transfer_syn + 1)
            found.append(ContextElement(head.p_cont_id, abstract, transfers))
        bind.contexts = tuple(found)
        return bind

    def write_body(self) -> bytes:
        self.n_context_elem = len(self.contexts)
        parts = [self.encode()]
        for context_id, abstract, transfers in self.contexts:
            parts.append(_ContextHead(context_id, len(transfers)).encode() + abstract.encode())
            parts.extend(transfer.encode() for transfer in transfers)
        return b"".join(parts)


NO_SYNTAX: Final = Syntax(bytes(16), 0, 0)


class ContextAnswer(NamedTuple):
    """The answer to an offered context (p_result_t, C706 12.6.3.1).

    In a negotiate_ack the reason is the mask of features that both sides have (MS-RPCE 2.2.2.14).
    """

    result: int
    reason: int = 0
    transfer: Syntax = NO_SYNTAX


@wire("C706 12.6.3.1 p_result_t", size=4)
class _ResultHead(Wire):
    result: u16
    reason: u16


@wire("C706 12.6.4.4", size=8)
class BindAck(Wire):
    """The body of bind_ack and alter_context_resp."""

    max_xmit_frag: u16 = 0
    max_recv_frag: u16 = 0
    assoc_group_id: u32 = 0
    secondary_address: bytes = b""
    """The port as text; the terminating null is added. Empty in an alter_context_resp."""
    answers: tuple[ContextAnswer, ...] = ()

    @classmethod
    def read_body(cls, body: bytes) -> BindAck:
        ack = cls.decode(body)
        if len(body) < cls.SIZE + 2:
            raise DecodeError("the secondary address is missing", cls.SIZE)
        length = int.from_bytes(body[cls.SIZE : cls.SIZE + 2], "little")
        end = cls.SIZE + 2 + length
        # Alignment counts from the start of the PDU; the header of 16 bytes makes no difference.
        offset = rounded_up(end)
        if len(body) < offset + 4:
            raise DecodeError("the result list is missing", cls.SIZE)
        ack.secondary_address = body[cls.SIZE + 2 : end].rstrip(b"\0")
        count = body[offset]
        offset += 4
        found = []
        for _ in range(count):
            head = _ResultHead.decode(body, offset)
            found.append(ContextAnswer(head.result, head.reason, Syntax.decode(body, offset + head.SIZE)))
            offset += head.SIZE + _SyntaxId.SIZE
        ack.answers = tuple(found)
        return ack

    def write_body(self) -> bytes:
        address = self.secondary_address + b"\0" if self.secondary_address else b""
        head = self.encode() + len(address).to_bytes(2, "little") + address
        parts = [head, bytes(-len(head) % 4), bytes((len(self.answers), 0, 0, 0))]
        for result, reason, transfer in self.answers:
            parts.append(_ResultHead(result, reason).encode() + transfer.encode())
        return b"".join(parts)


@wire("C706 12.6.4.5", size=2)
class BindNak(Wire):
    """The body of a bind_nak, which names our version and ends in padding."""

    provider_reject_reason: u16 = 0

    def write_body(self) -> bytes:
        return self.encode() + bytes((1, VERSION, 0, 0, 0, 0))


@wire("C706 12.6.4.9", size=8)
class Request(Wire):
    alloc_hint: u32 = 0
    p_cont_id: u16 = 0
    opnum: u16 = 0
    object: bytes | None = None

    def write_body(self) -> bytes:
        return self.encode() + (self.object or b"")


@wire("C706 12.6.4.10", size=8)
class Response(Wire):
    alloc_hint: u32 = 0
    p_cont_id: u16 = 0
    cancel_count: u8 = 0
    reserved: u8 = 0


STUB_START: Final = CommonHeader.SIZE + Request.SIZE
"""Where the stub begins in a response, and in a request without an object."""
assert Request.SIZE == Response.SIZE


def read_request(fragment: Fragment) -> tuple[int, int, bytes | None, int]:
    """Return the presentation context, the opnum and the object of a request, and the offset of its stub. The
    allocation hint is not trusted and therefore not read."""
    raw, start, target = fragment.raw, STUB_START, None
    if fragment.flags & _OBJECT_UUID:
        start += 16
        target = raw[STUB_START:start]
    if fragment.verifier < start:
        raise DecodeError("the head of a request is cut off", CommonHeader.SIZE)
    context_id, opnum = _read_request(raw, CommonHeader.SIZE)
    return context_id, opnum, target, start


@wire("C706 12.6.4.7, MS-RPCE 2.2.2.8", size=16)
class Fault(Wire):
    alloc_hint: u32 = 0
    p_cont_id: u16 = 0
    cancel_count: u8 = 0
    fault_flags: u8 = 0
    status: u32 = 0
    reserved: u32 = 0

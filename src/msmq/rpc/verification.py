"""The verification trailer: what a client signed about its own request (MS-RPCE 2.2.2.13).

The headers of a PDU are not covered by every signature. A careful client therefore repeats, at the end of the stub
where they are, which interface, syntax, call and operation it means. `check_trailer` compares; a difference means
that someone in between changed a header.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from msmq.errors import DecodeError
from msmq.rpc.pdu import LITTLE_ENDIAN, PduType, Syntax

SIGNATURE: Final = bytes.fromhex("8ae3137102f43671")
BITMASK_1: Final = 1
PCONTEXT: Final = 2
HEADER_2: Final = 3
COMMAND_END: Final = 0x4000
MUST_PROCESS: Final = 0x8000
CLIENT_SUPPORTS_HEADER_SIGNING: Final = 1
_COMMAND_MASK: Final = 0x3FFF
_COMMAND: Final = struct.Struct("<HH")
_HEADER_2: Final = struct.Struct("<BBH4sIHH")
_CALL_ID: Final = slice(8, 12)
"""The place of the call's number, the only part in which calls of one operation differ."""


@dataclass(frozen=True)
class Meant:
    """What the verification trailer of an operation's requests must say, by their headers and by what was agreed in
    the bind. Made once for all requests."""

    interface: Syntax
    transfer: Syntax
    context_id: int
    opnum: int
    header_signing: bool = False
    context: bytes = field(init=False)
    """The value of the command about the contexts."""
    _before: bytes = field(init=False)
    _behind: bytes = field(init=False)

    def __post_init__(self) -> None:
        context = self.interface.encode() + self.transfer.encode()
        header = self.header(0)
        bits = int(self.header_signing and CLIENT_SUPPORTS_HEADER_SIGNING).to_bytes(4, "little")
        before = (
            SIGNATURE,
            _COMMAND.pack(BITMASK_1, len(bits)) + bits,
            _COMMAND.pack(PCONTEXT, len(context)) + context,
            _COMMAND.pack(HEADER_2 | COMMAND_END, len(header)) + header[: _CALL_ID.start],
        )
        object.__setattr__(self, "context", context)
        object.__setattr__(self, "_before", b"".join(before))
        object.__setattr__(self, "_behind", header[_CALL_ID.stop :])

    def header(self, call_id: int) -> bytes:
        """The value of the command about the header of one call."""
        return _HEADER_2.pack(
            PduType.REQUEST, 0, 0, LITTLE_ENDIAN, call_id, self.context_id, self.opnum
        )  # fmt: skip

    def trailer(self, call_id: int) -> bytes:
        """The whole trailer of one call, as we write it."""
        return self._before + call_id.to_bytes(4, "little") + self._behind


def check_trailer(stub: bytes, end: int, meant: Meant, call_id: int) -> None:
    """Check the bytes behind the arguments of a request, which end at ``end``.

    Raises DecodeError if there is a trailer that does not agree with ``meant``. Any other bytes are ignored, as in
    Windows: clients pad. A trailer that differs from the one we would write is checked command by command.
    """
    start = end + -end % 4
    if stub.startswith(meant.trailer(call_id), start):
        return
    if stub[start : start + len(SIGNATURE)] != SIGNATURE:
        return
    offset = start + len(SIGNATURE)
    while True:
        if len(stub) - offset < _COMMAND.size:
            raise DecodeError("the verification trailer has no end", offset)
        command, length = _COMMAND.unpack_from(stub, offset)
        offset += _COMMAND.size
        value = stub[offset : offset + length]
        if len(value) < length:
            raise DecodeError("a verification command is cut off", offset)
        _check_command(command, value, meant, call_id, offset)
        offset += length
        if command & COMMAND_END:
            return


def _check_command(command: int, value: bytes, meant: Meant, call_id: int, offset: int) -> None:
    kind = command & _COMMAND_MASK
    if kind == PCONTEXT:
        expected = meant.context
    elif kind == HEADER_2:
        expected = meant.header(call_id)
    elif kind == BITMASK_1:
        if len(value) != 4:
            raise DecodeError("a bit mask has four bytes", offset)
        bits = int.from_bytes(value, "little")
        if bits & CLIENT_SUPPORTS_HEADER_SIGNING and not meant.header_signing:
            # The client has set the bit in its bind; someone has removed it on the way.
            raise DecodeError("header signing was meant and did not arrive", offset)
        return
    elif command & MUST_PROCESS:
        raise DecodeError(f"verification command {kind} is not known and must be", offset)
    else:
        return
    if value != expected:
        raise DecodeError("the request is not what its sender meant", offset)


def append_trailer(stub: bytes, meant: Meant, call_id: int) -> bytes:
    """Append a verification trailer to ``stub``."""
    return b"".join((stub, bytes(-len(stub) % 4), meant.trailer(call_id)))

"""The verification trailer: what a client signed about its own request (MS-RPCE 2.2.2.13).

The headers of a PDU are not covered by every signature. A careful client therefore repeats, at the end of the stub
where they are, which interface, syntax, call and operation it means. `check_trailer` compares; a difference means
that someone in between changed a header.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Meant:
    """What a request says it is, by its headers and by what was agreed when the connection was bound."""

    interface: Syntax
    transfer: Syntax
    call_id: int
    context_id: int
    opnum: int
    header_signing: bool = False


def check_trailer(stub: bytes, end: int, meant: Meant) -> None:
    """Look at what follows the arguments of a request, which end at ``end``.

    A trailer must agree with ``meant``, or DecodeError is raised. Other bytes may follow and mean nothing: clients
    pad, and Windows does not mind.
    """
    start = end + -end % 4
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
        _check_command(command, value, meant, offset)
        offset += length
        if command & COMMAND_END:
            return


def _check_command(command: int, value: bytes, meant: Meant, offset: int) -> None:
    kind = command & _COMMAND_MASK
    if kind == PCONTEXT:
        expected = meant.interface.encode() + meant.transfer.encode()
    elif kind == HEADER_2:
        expected = _header_2(meant)
    elif kind == BITMASK_1:
        if len(value) != 4:
            raise DecodeError("a bit mask has four bytes", offset)
        bits = int.from_bytes(value, "little")
        if bits & CLIENT_SUPPORTS_HEADER_SIGNING and not meant.header_signing:
            # The client would have asked for it; someone took the bit out of its bind.
            raise DecodeError("header signing was meant and did not arrive", offset)
        return
    elif command & MUST_PROCESS:
        raise DecodeError(f"verification command {kind} is not known and must be", offset)
    else:
        return
    if value != expected:
        raise DecodeError("the request is not what its sender meant", offset)


def _header_2(meant: Meant) -> bytes:
    return _HEADER_2.pack(PduType.REQUEST, 0, 0, LITTLE_ENDIAN, meant.call_id, meant.context_id, meant.opnum)


def append_trailer(stub: bytes, meant: Meant) -> bytes:
    """``stub`` with the trailer of a careful client behind it."""
    context = meant.interface.encode() + meant.transfer.encode()
    bits = int(meant.header_signing and CLIENT_SUPPORTS_HEADER_SIGNING).to_bytes(4, "little")
    header = _header_2(meant)
    return b"".join(
        (
            stub,
            bytes(-len(stub) % 4),
            SIGNATURE,
            _COMMAND.pack(BITMASK_1, len(bits)) + bits,
            _COMMAND.pack(PCONTEXT, len(context)) + context,
            _COMMAND.pack(HEADER_2 | COMMAND_END, len(header)) + header,
        )
    )

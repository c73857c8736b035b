"""How calls fail: the statuses of fault PDUs (C706 appendix E, MS-RPCE 3, MS-ERREF 2.2) and our exceptions.

A handler raises `RpcFault` to answer with a status, and the client's call raises it when such an answer comes.
`RpcConnectionError` says that there is no answer at all: the connection could not be made, was refused or broke.
"""

from __future__ import annotations

from enum import IntEnum

from msmq.errors import MsmqError


class FaultStatus(IntEnum):
    """The statuses with which the runtime itself answers."""

    ACCESS_DENIED = 0x00000005
    BAD_STUB_DATA = 0x000006F7
    CALL_CANCELLED = 0x0000071A
    SEC_PKG_ERROR = 0x00000721
    NCA_FAULT_CANCEL = 0x1C00000D
    NCA_FAULT_UNSPECIFIED = 0x1C000012
    NCA_FAULT_CONTEXT_MISMATCH = 0x1C00001A
    NCA_FAULT_REMOTE_NO_MEMORY = 0x1C00001B
    NCA_OP_RANGE_ERROR = 0x1C010002
    NCA_UNKNOWN_INTERFACE = 0x1C010003
    NCA_PROTOCOL_ERROR = 0x1C01000B
    NCA_SERVER_TOO_BUSY = 0x1C010014


class RpcError(MsmqError):
    """A call did not succeed."""


class RpcFault(RpcError):  # noqa: N818 - the protocol calls it a fault
    """The server answered with a fault: ``status`` is its number, ``did_not_execute`` whether nothing happened."""

    def __init__(self, status: int, did_not_execute: bool = False) -> None:
        try:
            name = FaultStatus(status).name
        except ValueError:
            name = "status"
        super().__init__(f"{name} 0x{status:08X}")
        self.status = status
        self.did_not_execute = did_not_execute


class RpcConnectionError(RpcError, ConnectionError):
    """The connection cannot be made, was refused, or is gone; whether a pending call was executed is unknown."""


class RpcBindError(RpcConnectionError):
    """The server refused the bind: wrong interface, wrong syntax or wrong credentials."""


class NotServedError(RpcBindError):
    """The server does not have the interface, or none of its transfer syntaxes."""

"""The RemoteRead interface in the words of impacket: written from the IDL for an RPC client that we did not write."""

from __future__ import annotations

from typing import Any

from impacket.dcerpc.v5 import transport
from impacket.dcerpc.v5.dtypes import GUID, LONG, LPWSTR, UCHAR, ULONG, ULONGLONG, USHORT
from impacket.dcerpc.v5.ndr import (
    NDRCALL,
    NDRPOINTER,
    NDRSTRUCT,
    NDRUNION,
    NDRUniConformantArray,
)
from impacket.dcerpc.v5.rpcrt import (
    RPC_C_AUTHN_LEVEL_CONNECT,
    RPC_C_AUTHN_LEVEL_NONE,
    RPC_C_AUTHN_LEVEL_PKT_INTEGRITY,
    RPC_C_AUTHN_LEVEL_PKT_PRIVACY,
)
from impacket.uuid import uuidtup_to_bin

from tests.rpc.support import HOST, PASSWORD

MSRPC_UUID_REMOTE_READ = uuidtup_to_bin(("1a9134dd-7b39-45ba-ad88-44d01ca47f28", "1.0"))
NDR = ("8a885d04-1ceb-11c9-9fe8-08002b104860", "2.0")
NDR64 = ("71710533-beba-4937-8319-b5dbef9ccc36", "1.0")
LEVELS = {
    "none": RPC_C_AUTHN_LEVEL_NONE,
    "connect": RPC_C_AUTHN_LEVEL_CONNECT,
    "integrity": RPC_C_AUTHN_LEVEL_PKT_INTEGRITY,
    "privacy": RPC_C_AUTHN_LEVEL_PKT_PRIVACY,
}


class CONTEXT_HANDLE(NDRSTRUCT):  # type: ignore[misc]  # noqa: N801
    structure = (("Data", '20s=b""'),)

    def getAlignment(self) -> int:  # noqa: N802
        return 4


class OBJECTID(NDRSTRUCT):  # type: ignore[misc]
    structure = (("Lineage", GUID), ("Uniquifier", ULONG))


class QUEUE_FORMAT_ARM(NDRUNION):  # type: ignore[misc]  # noqa: N801
    commonHdr = (("tag", UCHAR),)  # noqa: N815
    union = {  # noqa: RUF012
        1: ("m_gPublicID", GUID),
        2: ("m_oPrivateID", OBJECTID),
        3: ("m_pDirectID", LPWSTR),
        4: ("m_gMachineID", GUID),
        8: ("m_pDirectSubqueueID", LPWSTR),
    }


class QUEUE_FORMAT(NDRSTRUCT):  # type: ignore[misc]  # noqa: N801
    structure = (
        ("m_qft", UCHAR),
        ("m_SuffixAndFlags", UCHAR),
        ("m_reserved", USHORT),
        ("arm", QUEUE_FORMAT_ARM),
    )


class XACTUOW(NDRSTRUCT):  # type: ignore[misc]
    structure = (("rgb", '16s=b""'),)

    def getAlignment(self) -> int:  # noqa: N802
        return 1


class BYTES(NDRUniConformantArray):  # type: ignore[misc]
    item = "c"


class PBYTES(NDRPOINTER):  # type: ignore[misc]
    referent = (("Data", BYTES),)


class SectionBuffer(NDRSTRUCT):  # type: ignore[misc]
    structure = (
        ("SectionBufferType", USHORT),
        ("SectionSizeAlloc", ULONG),
        ("SectionSize", ULONG),
        ("pSectionBuffer", PBYTES),
    )


class SECTIONS(NDRUniConformantArray):  # type: ignore[misc]
    item = SectionBuffer


class PSECTIONS(NDRPOINTER):  # type: ignore[misc]
    referent = (("Data", SECTIONS),)


class R_GetServerPort(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 0
    structure = ()


class R_GetServerPortResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = (("ErrorCode", ULONG),)


_OPEN = (
    ("pQueueFormat", QUEUE_FORMAT),
    ("dwAccess", ULONG),
    ("dwShareMode", ULONG),
    ("pClientId", GUID),
    ("fNonRoutingServer", LONG),
    ("Major", UCHAR),
    ("Minor", UCHAR),
    ("BuildNumber", USHORT),
    ("fWorkgroup", LONG),
)


class R_OpenQueue(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 2
    structure = _OPEN


class R_OpenQueueResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = (("pphContext", CONTEXT_HANDLE),)


class R_CloseQueue(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 3
    structure = (("pphContext", CONTEXT_HANDLE),)


class R_CloseQueueResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = (("pphContext", CONTEXT_HANDLE), ("ErrorCode", ULONG))


class R_CreateCursor(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 4
    structure = (("phContext", CONTEXT_HANDLE),)


class R_CreateCursorResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = (("phCursor", ULONG), ("ErrorCode", ULONG))


class R_CloseCursor(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 5
    structure = (("phContext", CONTEXT_HANDLE), ("hCursor", ULONG))


class R_CloseCursorResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = (("ErrorCode", ULONG),)


class R_PurgeQueue(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 6
    structure = (("phContext", CONTEXT_HANDLE),)


class R_PurgeQueueResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = (("ErrorCode", ULONG),)


_START = (
    ("phContext", CONTEXT_HANDLE),
    ("LookupId", ULONGLONG),
    ("hCursor", ULONG),
    ("ulAction", ULONG),
    ("ulTimeout", ULONG),
    ("dwRequestId", ULONG),
    ("dwMaxBodySize", ULONG),
    ("dwMaxCompoundMessageSize", ULONG),
)
_STARTED = (
    ("pdwArriveTime", ULONG),
    ("pSequenceId", ULONGLONG),
    ("pdwNumberOfSections", ULONG),
    ("ppPacketSections", PSECTIONS),
    ("ErrorCode", ULONG),
)


class R_StartReceive(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 7
    structure = _START


class R_StartReceiveResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = _STARTED


class R_CancelReceive(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 8
    structure = (("phContext", CONTEXT_HANDLE), ("dwRequestId", ULONG))


class R_CancelReceiveResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = (("ErrorCode", ULONG),)


class R_EndReceive(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 9
    structure = (("phContext", CONTEXT_HANDLE), ("dwAck", ULONG), ("dwRequestId", ULONG))


class R_EndReceiveResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = (("ErrorCode", ULONG),)


class R_MoveMessage(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 10
    structure = (
        ("phContextFrom", CONTEXT_HANDLE),
        ("ullContextTo", ULONGLONG),
        ("LookupId", ULONGLONG),
        ("pTransactionId", XACTUOW),
    )


class R_MoveMessageResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = (("ErrorCode", ULONG),)


class R_OpenQueueForMove(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 11
    structure = _OPEN


class R_OpenQueueForMoveResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = (("pMoveContext", ULONGLONG), ("pphContext", CONTEXT_HANDLE))


class R_QMEnlistRemoteTransaction(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 12
    structure = (
        ("pTransactionId", XACTUOW),
        ("cbPropagationToken", ULONG),
        ("pbPropagationToken", BYTES),
        ("pQueueFormat", QUEUE_FORMAT),
    )


class R_QMEnlistRemoteTransactionResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = (("ErrorCode", ULONG),)


class R_StartTransactionalReceive(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 13
    structure = (*_START, ("pTransactionId", XACTUOW))


class R_StartTransactionalReceiveResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = _STARTED


class R_SetUserAcknowledgementClass(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 14
    structure = (("phContext", CONTEXT_HANDLE), ("LookupId", ULONGLONG), ("usClass", USHORT))


class R_SetUserAcknowledgementClassResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = (("ErrorCode", ULONG),)


class R_EndTransactionalReceive(NDRCALL):  # type: ignore[misc]  # noqa: N801
    opnum = 15
    structure = (("phContext", CONTEXT_HANDLE), ("dwAck", ULONG), ("dwRequestId", ULONG))


class R_EndTransactionalReceiveResponse(NDRCALL):  # type: ignore[misc]  # noqa: N801
    structure = (("ErrorCode", ULONG),)


def connect(
    port: int,
    level: str = "none",
    *,
    ndr64: bool = False,
    user: str = "alice",
    bind: Any = MSRPC_UUID_REMOTE_READ,
    group: int = 0,
    host: str = HOST,
) -> Any:
    """A connection with the interface bound, in an association group of its own or in that of another one, which
    impacket does not know how to ask for."""
    rpc = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:{host}[{port}]")
    rpc.set_credentials(user, PASSWORD)
    rpc.set_connect_timeout(60)
    dce = rpc.get_dce_rpc()
    dce.set_auth_level(LEVELS[level])
    dce.connect()
    if group:
        send = rpc.send

        def in_group(data: bytes, *rest: Any, **options: Any) -> Any:
            is_bind = data[2] == 11
            return send(
                data[:20] + group.to_bytes(4, "little") + data[24:] if is_bind else data, *rest, **options
            )

        rpc.send = in_group
    try:
        dce.bind(bind, transfer_syntax=NDR64 if ndr64 else NDR)
    except Exception:
        dce.disconnect()
        raise
    return dce


def fill_direct(form: Any, name: str, qft: int = 3) -> None:
    """Make a QUEUE_FORMAT name a queue by its direct name."""
    form["m_qft"] = qft
    form["m_SuffixAndFlags"] = 5 if qft == 8 else 0
    form["m_reserved"] = 0
    form["arm"]["tag"] = qft
    form["arm"]["m_pDirectID" if qft == 3 else "m_pDirectSubqueueID"] = name + "\0"


def open_request(call: Any, name: str, access: int, qft: int = 3) -> Any:
    fill_direct(call["pQueueFormat"], name, qft)
    call["dwAccess"] = access
    call["dwShareMode"] = 0
    call["pClientId"] = bytes(range(16))
    call["fNonRoutingServer"] = 1
    call["Major"] = 6
    call["Minor"] = 1
    call["BuildNumber"] = 7601
    call["fWorkgroup"] = 1
    return call


def start_request(call: Any, handle: Any, action: int, **values: int) -> Any:
    call["phContext"] = handle
    defaults = {
        "LookupId": 0, "hCursor": 0, "ulTimeout": 0, "dwRequestId": 1, "dwMaxBodySize": 1 << 22,
        "dwMaxCompoundMessageSize": 1 << 22,
    }  # fmt: skip
    for name, value in (defaults | values).items():
        call[name] = value
    call["ulAction"] = action
    return call


def sections(answer: Any) -> list[bytes]:
    return [b"".join(each["pSectionBuffer"]) for each in answer["ppPacketSections"]]

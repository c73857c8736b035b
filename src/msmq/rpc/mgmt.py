"""The remote management interface, which every RPC server has (C706 appendix Q).

It tells which interfaces are served, how many calls came, whether the server listens and under which name. Stopping
the server from afar is refused to everyone. Some clients bind it first, authenticated, to find out whether a server
is there at all.
"""

from __future__ import annotations

from typing import Annotated, Final

from msmq.rpc.interface import Call, Interface, Operation
from msmq.rpc.ndr import Array, Parameters, Struct, Unique, cstring, declare, guid, u16, u32
from msmq.rpc.pdu import AuthType, Syntax
from msmq.rpc.server import RpcServer
from msmq.rpc.status import FaultStatus
from msmq.wire.guid import guid_from_text

UNKNOWN_AUTHN_SERVICE: Final = 0x000006D3
"""RPC_S_UNKNOWN_AUTHN_SERVICE (MS-ERREF 2.2)."""


@declare
class IfId(Struct):
    """rpc_if_id_t."""

    uuid: guid
    vers_major: u16
    vers_minor: u16


@declare
class IfIdVector(Struct):
    """rpc_if_id_vector_t."""

    count: u32
    if_id: Annotated[list[IfId | None], Array(Unique(IfId), size_is="count")]


@declare
class Nothing(Parameters):
    """The request of an operation without parameters."""


@declare
class InqIfIdsReply(Parameters):
    if_id_vector: Annotated[IfIdVector | None, Unique(IfIdVector)]
    status: u32


@declare
class InqStats(Parameters):
    count: u32


@declare
class InqStatsReply(Parameters):
    count: u32
    statistics: Annotated[list[int], Array(u32, size_is="count")]
    status: u32


@declare
class IsServerListeningReply(Parameters):
    status: u32
    listening: u32


@declare
class StatusReply(Parameters):
    status: u32


@declare
class InqPrincName(Parameters):
    authn_proto: u32
    princ_name_size: u32


@declare
class InqPrincNameReply(Parameters):
    princ_name: cstring
    status: u32


INQ_IF_IDS = Operation(0, "rpc__mgmt_inq_if_ids", Nothing, InqIfIdsReply)
INQ_STATS = Operation(1, "rpc__mgmt_inq_stats", InqStats, InqStatsReply)
IS_SERVER_LISTENING = Operation(2, "rpc__mgmt_is_server_listening", Nothing, IsServerListeningReply)
STOP_SERVER_LISTENING = Operation(3, "rpc__mgmt_stop_server_listening", Nothing, StatusReply)
INQ_PRINC_NAME = Operation(4, "rpc__mgmt_inq_princ_name", InqPrincName, InqPrincNameReply)

MGMT: Final = Interface(
    "mgmt",
    Syntax(guid_from_text("afa8bd80-7d8a-11c9-bef4-08002b102989"), 1, 0),
    (INQ_IF_IDS, INQ_STATS, IS_SERVER_LISTENING, STOP_SERVER_LISTENING, INQ_PRINC_NAME),
)


def register_management(server: RpcServer, principal: str = "") -> None:
    """Serve the management interface on ``server``; ``principal`` is the Kerberos name of the service."""

    async def inq_if_ids(call: Call, request: Nothing) -> InqIfIdsReply:
        found: list[IfId | None] = [IfId(*interface.syntax) for interface in server.interfaces]
        return InqIfIdsReply(IfIdVector(len(found), found), 0)

    async def inq_stats(call: Call, request: InqStats) -> InqStatsReply:
        counts = server.statistics
        known = [counts.calls_in, counts.calls_out, counts.packets_in, counts.packets_out]
        told = [count & 0xFFFFFFFF for count in known[: request.count]]
        return InqStatsReply(len(told), told, 0)

    async def is_server_listening(call: Call, request: Nothing) -> IsServerListeningReply:
        return IsServerListeningReply(0, 1)

    async def stop_server_listening(call: Call, request: Nothing) -> StatusReply:
        return StatusReply(FaultStatus.ACCESS_DENIED)

    async def inq_princ_name(call: Call, request: InqPrincName) -> InqPrincNameReply:
        provided = request.authn_proto in (AuthType.NONE, *server.authentication.auth_types)
        name = principal.encode("utf-8", "replace")
        if not provided or len(name) >= request.princ_name_size:
            return InqPrincNameReply(b"", UNKNOWN_AUTHN_SERVICE)
        return InqPrincNameReply(name, 0)

    server.register(
        MGMT,
        {
            INQ_IF_IDS.opnum: inq_if_ids,
            INQ_STATS.opnum: inq_stats,
            IS_SERVER_LISTENING.opnum: is_server_listening,
            STOP_SERVER_LISTENING.opnum: stop_server_listening,
            INQ_PRINC_NAME.opnum: inq_princ_name,
        },
    )

"""Connection-oriented DCE/RPC over TCP: a runtime for the remote read protocol (C706, MS-RPCE).

===============  =======================================================================================
module           what it holds
===============  =======================================================================================
`interface`      how an interface, its operations and a call look to those who serve and use them
`ndr`            how parameters and structures are declared and marshalled, in NDR and NDR64
`ndr_scalars`    the simple types of both
`server`         the server on asyncio: listen, register, limits
`client`         the client on asyncio: connect, bind, many calls at once
`association`    association groups, context handles and their rundown
`security`       who the peer is
`seals`          the protection of fragments once that is known
`ntlm`           the accepting half of NTLM
`accounts`       local accounts for hosts without a domain
`epm`, `mgmt`    the endpoint mapper and the management interface
`ports`          which port to listen on
`acceptor`       the server's end of a connection as a machine without I/O
`initiator`      the client's end
`channel`        what both ends share: fragments, protection, limits
`pdu`            the protocol data units, byte by byte
`syntaxes`       transfer syntaxes, and how one is agreed on
`verification`   the trailer in which a careful client repeats what it means
`status`         the statuses of faults, and the exceptions
===============  =======================================================================================

To serve: declare an `Interface`, ``RpcServer.register`` it with its handlers, ``listen``. To call:
``RpcClient.connect``, ``call``. To test without sockets: feed `acceptor.ServerConnection` and
`initiator.ClientConnection` with each other's bytes.
"""

from __future__ import annotations

from msmq.rpc.accounts import AccountFile, AccountsError
from msmq.rpc.channel import Limits
from msmq.rpc.client import RpcClient
from msmq.rpc.interface import Answer, Call, Handler, Interface, Operation, Promise, Together
from msmq.rpc.pdu import AuthLevel, AuthType, Syntax
from msmq.rpc.security import Authentication, Credentials
from msmq.rpc.server import RpcServer, ServerConfig
from msmq.rpc.status import FaultStatus, RpcBindError, RpcConnectionError, RpcError, RpcFault

__all__ = [
    "AccountFile",
    "AccountsError",
    "Answer",
    "AuthLevel",
    "AuthType",
    "Authentication",
    "Call",
    "Credentials",
    "FaultStatus",
    "Handler",
    "Interface",
    "Limits",
    "Operation",
    "Promise",
    "RpcBindError",
    "RpcClient",
    "RpcConnectionError",
    "RpcError",
    "RpcFault",
    "RpcServer",
    "ServerConfig",
    "Syntax",
    "Together",
]

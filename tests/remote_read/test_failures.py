"""How calls fail: every fault becomes the error of its status."""

from __future__ import annotations

import pytest

from msmq.errors import (
    AccessDeniedError,
    InvalidHandleError,
    MQError,
    OperationNotSupportedByRemoteComputerError,
    OtherStatusError,
    QueueNotFoundError,
    RemoteMachineNotAvailableError,
)
from msmq.remote_read import interface as idl
from msmq.remote_read.failures import call, check_status
from msmq.rpc.interface import Call
from msmq.rpc.status import RpcFault
from tests.remote_read.support import on_loop, serving


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (0xC00E0003, QueueNotFoundError),
        (0xC00E0067, MQError),
        (5, AccessDeniedError),
        (0x1C010002, OperationNotSupportedByRemoteComputerError),
        (0x1C00001A, InvalidHandleError),
        (0x1C010014, RemoteMachineNotAvailableError),
        (0x6F7, RemoteMachineNotAvailableError),
        (0xC0000022, OtherStatusError),
    ],
    ids=str,
)
@pytest.mark.spec("MQRR-3.1.4.2-n", "MQRR-7-h")
@on_loop
async def test_faults(status: int, error: type[MQError]) -> None:
    async def refuse(_: Call, request: idl.Nothing) -> idl.Status:
        raise RpcFault(status)

    async with serving() as served:
        served.door.server.register(idl.REMOTE_READ, {0: refuse})
        async with await served.connect() as peer:
            with pytest.raises(error):
                await call(peer.client, idl.R_GET_SERVER_PORT, idl.Nothing())


def test_statuses() -> None:
    check_status(0)
    check_status(0x400E0001)  # information is no failure
    with pytest.raises(QueueNotFoundError):
        check_status(0xC00E0003)

"""The management interface by our own client."""

from __future__ import annotations

import asyncio

import pytest

from msmq.rpc.client import RpcClient
from msmq.rpc.mgmt import (
    INQ_IF_IDS,
    INQ_PRINC_NAME,
    INQ_STATS,
    IS_SERVER_LISTENING,
    MGMT,
    STOP_SERVER_LISTENING,
    UNKNOWN_AUTHN_SERVICE,
    InqPrincName,
    InqStats,
    Nothing,
)
from tests.rpc.echo import ECHOES
from tests.rpc.support import HOST, serving


@pytest.mark.parametrize("ndr64", [False, True], ids=["ndr", "ndr64"])
def test_management(ndr64: bool) -> None:
    async def run() -> None:
        async with (
            serving() as running,
            await RpcClient.connect(HOST, running.port, MGMT, ndr64=ndr64) as client,
        ):
            told = (await client.call(INQ_IF_IDS, Nothing())).if_id_vector
            assert told is not None
            found = [
                (entry.uuid, entry.vers_major, entry.vers_minor) for entry in told.if_id if entry is not None
            ]
            assert tuple(ECHOES.syntax) in found
            assert told.count == len(found) == 4
            counts = (await client.call(INQ_STATS, InqStats(2))).statistics
            assert counts == [2, 0]
            listening = await client.call(IS_SERVER_LISTENING, Nothing())
            assert (listening.status, listening.listening) == (0, 1)
            assert (await client.call(STOP_SERVER_LISTENING, Nothing())).status == 5
            for protocol, size, name in ((10, 64, b"host/test"), (10, 9, b""), (77, 64, b"")):
                reply = await client.call(INQ_PRINC_NAME, InqPrincName(protocol, size))
                assert reply.princ_name == name
                assert reply.status == (0 if name else UNKNOWN_AUTHN_SERVICE)

    asyncio.run(asyncio.wait_for(run(), 240))

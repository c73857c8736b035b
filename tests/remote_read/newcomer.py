"""Honest remote readers, one after the other: each connects, logs in, reads a message and leaves. A program of its own,
so that what it measures is the queue manager, not its neighbours in a test.

``python -m tests.remote_read.newcomer HOST PORT QUEUE`` writes a line for each: the seconds it took, or what was wrong.
It goes on until its standard input ends.
"""

from __future__ import annotations

import asyncio
import select
import sys
import time
from itertools import count

from msmq.errors import MsmqError
from msmq.remote_read import interface as idl
from msmq.remote_read.session import Caller, RemoteHost
from msmq.rpc.client import RpcClient
from msmq.rpc.security import Credentials
from tests.rpc.support import PASSWORD

PAUSE_S = 0.05


async def come_and_go(host: str, port: int, queue: str, source: str) -> None:
    who = Credentials("alice", PASSWORD)
    client = await RpcClient.connect(host, port, idl.REMOTE_READ, who, local_address=source)
    async with RemoteHost(client, Caller(), 30) as there:
        assert (await (await there.open(queue)).peek()).body == b"fine"


def main(host: str, port: str, queue: str) -> None:
    for number in count():
        if number and select.select([sys.stdin], [], [], PAUSE_S)[0]:
            return
        begin_s = time.monotonic()
        try:
            asyncio.run(come_and_go(host, int(port), queue, f"127.0.8.{number % 250 + 1}"))
        except (MsmqError, OSError, AssertionError) as error:
            print(f"failed: {error!r}", flush=True)
        else:
            print(f"{time.monotonic() - begin_s:.4f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

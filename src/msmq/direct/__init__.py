"""Read and send without a local queue manager, directly at the host that has the queue.

::

    from msmq import direct

    who = direct.Credentials("alice", "secret")
    async with direct.reading("DIRECT=OS:server\\\\private$\\\\orders", credentials=who) as queue:
        async for pending in direct.receive(queue):
            work_on(pending.message.body)
            await pending.acknowledge()

    await direct.send("DIRECT=TCP:10.0.0.7\\\\private$\\\\orders", b"body")

Reading is MS-MQRR (`msmq.remote_read`), sending is MS-MQQB (`msmq.transfer`). Any MSMQ host understands both.
"""

from __future__ import annotations

from msmq.direct.reader import host_of, reading
from msmq.direct.sender import Outcome, send, sending
from msmq.remote_read.actions import Action
from msmq.remote_read.reader import browse, receive, remove
from msmq.remote_read.remote_message import RemoteMessage
from msmq.remote_read.remote_queue import PendingMessage, RemoteCursor, RemoteQueue
from msmq.remote_read.session import Access, Caller, RemoteHost, Share
from msmq.rpc.pdu import AuthLevel, AuthType
from msmq.rpc.security import Credentials

__all__ = [
    "Access",
    "Action",
    "AuthLevel",
    "AuthType",
    "Caller",
    "Credentials",
    "Outcome",
    "PendingMessage",
    "RemoteCursor",
    "RemoteHost",
    "RemoteMessage",
    "RemoteQueue",
    "Share",
    "browse",
    "host_of",
    "reading",
    "receive",
    "remove",
    "send",
    "sending",
]

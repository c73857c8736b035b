"""Send and read messages in columns, as they cross the channel. For other rooms of this package; not part of the public
client.

Spark writes and reads columns itself. Making a message object of every row would cost more than all the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from msmq.api.generated import msmq_pb2 as pb
from msmq.api.packet_columns import PacketColumns
from msmq.client.connection import Connection
from msmq.client.message import Receipt
from msmq.client.transaction import Transaction
from msmq.errors import MQError


def send_columns(
    mq: Connection, queue: str, columns: bytes, count: int, transaction: Transaction | None = None
) -> asyncio.Future[list[Receipt | MQError]]:
    """Send ``count`` messages whose `pb.Columns` are written already. The future is done when they are safe, and has
    the outcome of each."""
    named = transaction.identifier if transaction is not None else b""
    return mq.sender(queue).send_columns(columns, count, named)


def read_columns(mq: Connection, queue: str, after: int, upto: int) -> AsyncIterator[PacketColumns]:
    """Yield batches of the messages whose lookup identifiers are greater than ``after`` and at most ``upto``, in order,
    and leave them in the queue."""
    span = pb.Span(after=after, upto=upto)
    return mq.server_stream("ReadSpan", pb.ReadSpanRequest(queue=queue, span=span, form=pb.PACKET))

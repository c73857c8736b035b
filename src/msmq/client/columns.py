"""Messages in columns, as they cross the channel: for other rooms of this package, no part of the public client.

Spark writes and reads columns itself. Making a message object of every row in between would cost more than the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.connection import Connection
from msmq.client.message import Receipt
from msmq.client.transaction import Transaction
from msmq.errors import MQError


def send_columns(
    mq: Connection, queue: str, columns: bytes, count: int, transaction: Transaction | None = None
) -> asyncio.Future[list[Receipt | MQError]]:
    """Put ``count`` messages on their way whose `pb.Columns` are written already. The future is done when they are
    safe, and has the outcome of each."""
    named = transaction.identifier if transaction is not None else b""
    return mq.sender(queue).send_columns(columns, count, named)


def read_columns(mq: Connection, queue: str, after: int, upto: int) -> AsyncIterator[pb.Deliveries]:
    """The messages behind one lookup identifier up to and with another, in order and in batches. They stay."""
    span = pb.Span(after=after, upto=upto)
    return mq.server_stream("ReadSpan", pb.ReadSpanRequest(queue=queue, span=span, form=pb.PACKET))

"""The call Transact: a transaction that lives as long as its stream, and ends with it."""

from __future__ import annotations

import grpc

from msmq.api.desk import Desk, Outbox
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.line import Conversation
from msmq.errors import InvalidParameterError
from msmq.security.access import Token


class TransactCalls:
    """The call Transact."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def transact(self, context: Conversation, outbox: Outbox, caller: Token) -> None:
        first = await context.read()
        if first is grpc.aio.EOF:
            return
        if first.WhichOneof("request") != "begin":
            raise InvalidParameterError("The first message of the stream begins the transaction.")
        transaction = self._desk.begin(caller)
        try:
            outbox.put(pb.TransactReply(transaction=transaction.identifier))
            request = await context.read()
            if request is grpc.aio.EOF:
                return
            if request.WhichOneof("request") == "commit":
                self._desk.commit(transaction)
                reply = pb.TransactReply(committed=pb.Done())
            else:
                self._desk.abort(transaction)
                reply = pb.TransactReply(aborted=pb.Done())
            await self._desk.durable()
            outbox.put(reply)
        finally:
            self._desk.abort(transaction)

"""The call SendOnce: rows of messages that are sent a part at a time, each message once.

The number of messages sent of a row is a named value of the ledger, written in the event that sends the messages: both
are on disk or neither. So a sender that was interrupted, or did not get the answer, sends its part again, and messages
that were sent already are skipped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from msmq.api.desk import Desk
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.send import Sender
from msmq.errors import InvalidParameterError
from msmq.security.access import Token

KEY: Final = "row/"
_MOST_BYTES: Final = 1 << 20
_RECORD_BYTES: Final = 1024
"""A generous size for a message without its body, label and extension."""
_LONGEST_NAME: Final = 64
_MOST_ROWS: Final = 1_000
"""How many rows are remembered. A new one replaces the one that was unused for longest."""


class RowCalls:
    """The calls about rows."""

    def __init__(self, desk: Desk, recovered: Mapping[str, Any]) -> None:
        self._desk = desk
        self._sent = OrderedDict((key, int(value)) for key, value in recovered.items() if key.startswith(KEY))

    async def send_once(self, request: pb.SendOnceRequest, caller: Token) -> pb.SendOnceReply:
        key = self._key(request.row, caller)
        sender = await self._desk.host.ask(lambda: Sender(self._desk, request.queue, caller))
        try:
            reply = self._send(key, request, sender)
        finally:
            sender.close()
        await self._desk.durable()
        return reply

    def _send(self, key: str, request: pb.SendOnceRequest, sender: Sender) -> pb.SendOnceReply:
        sent, messages = self._sent.get(key, 0), list(request.messages)
        if not messages:
            return pb.SendOnceReply(sent=sent)
        if not request.place <= sent <= request.place + len(messages):
            raise InvalidParameterError(f"{sent} messages of this row were sent; this part does not follow.")
        size = sum(len(each.body) + len(each.extension) + _RECORD_BYTES for each in messages)
        if len(messages) > 1 and size > _MOST_BYTES:
            raise InvalidParameterError("A part of a row has one message or a megabyte at most.")
        error: pb.Error | None = None
        with self._desk.manager.core.event(size, 4 * len(messages) + 2):
            for message in messages[sent - request.place :]:
                failures = sender.send(pb.SendRequest(messages=[message]), None).failures
                if failures:
                    error = failures[0].error
                    break
                sent += 1
            self._keep(key, sent)
        return pb.SendOnceReply(sent=sent, error=error)

    def _keep(self, key: str, sent: int) -> None:
        ledger = self._desk.manager.core.ledger
        if self._sent.get(key, 0) != sent:
            ledger.put_value(key, sent)
            self._sent[key] = sent
            self._sent.move_to_end(key)
            if len(self._sent) > _MOST_ROWS:
                ledger.drop_value(self._sent.popitem(last=False)[0])

    async def forget_row(self, request: pb.ForgetRowRequest, caller: Token) -> pb.Done:
        key = self._key(request.row, caller)
        if self._sent.pop(key, None) is not None:
            self._desk.manager.core.ledger.drop_value(key)
            await self._desk.durable()
        return pb.Done()

    @staticmethod
    def _key(row: str, caller: Token) -> str:
        if not 0 < len(row) <= _LONGEST_NAME:
            raise InvalidParameterError(f"The name of a row has 1 to {_LONGEST_NAME} characters.")
        return f"{KEY}{caller.user}/{row}"

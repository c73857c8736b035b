"""The calls that send messages, a batch at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import grpc

from msmq.api.desk import Desk, Outbox
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.line import Conversation
from msmq.api.packets import Columns, local_of, to_message
from msmq.api.rpc import Sent
from msmq.api.status import to_message as error_message
from msmq.api.status import to_mq_error
from msmq.errors import InvalidParameterError, MQError, MsmqError, QueueNotAvailableError
from msmq.manager.mailbox.batch import RECOVERABLE
from msmq.manager.mailbox.mailbox import is_destination
from msmq.manager.mailbox.stored import LARGEST_ENVELOPE, LocalAttributes
from msmq.manager.messages.drafts import Drafts, Posted
from msmq.manager.messages.template import HIGHEST_PRIORITY, Form, Template, options, write_packets
from msmq.manager.messages.transactions import Transaction
from msmq.manager.model import QueueAccessType
from msmq.manager.queues.queue import Queue
from msmq.security.access import Token
from msmq.security.outbound import Signer
from msmq.security.sid import Sid

_MOST_TEMPLATES: Final = 256
_MOST_TOKENS: Final = 1_000
MOST_BATCHES: Final = 64
"""How many batches of a token are remembered; a client may have no more of them under way."""
_LONGEST_TOKEN: Final = 64
_JOURNALING: Final = {
    (dead_letter, journal): options(
        recoverable=False, negative_journaling=dead_letter, positive_journaling=journal
    )
    for dead_letter in (False, True)
    for journal in (False, True)
}
_BLANK: Final = Template(Form(lambda *fields: b"", 0, 0, b"", b"", b"", None, b"", (0, 0, 0)), 0, 0)
"""Stands in for a template where there is none."""
_RECORD_BYTES: Final = 1024
"""A generous size for a message without its body, label and extension."""


class Sender:
    """A queue that is open for sending."""

    def __init__(self, desk: Desk, queue: str, caller: Token) -> None:
        self._desk = desk
        self._caller = caller
        self._manager = manager = desk.manager
        self._computer = manager.core.record.computer_name
        name = desk.names.destination(queue)
        self.descriptor = manager.queues.open(name, QueueAccessType.SEND, caller=caller)
        self._known: dict[tuple[object, ...], tuple[Template | None, LocalAttributes]] = {}
        """Templates, and what no packet says, by what they depend on: the names of queues, the sender and the
        security."""

    def close(self) -> None:
        self._manager.queues.close(self.descriptor)

    @property
    def transactional(self) -> bool:
        queue = self.descriptor.queue
        return queue is not None and is_destination(queue) and queue.transactional

    def send(
        self,
        request: pb.SendRequest | pb.SendBatch,
        transaction: Transaction | None,
        bodies: Sequence[memoryview] = (),
    ) -> pb.SendReply:
        """Send a batch in one event, so that it is on disk as a whole or not at all. ``bodies`` are large ones that are
        not in its columns."""
        sheet = _Sheet()
        if self.descriptor.multiple:
            self._send_copies(sheet, _messages(request, bodies), transaction)
            return sheet.reply(self._manager.core.record.identifier)
        self._queue()
        if request.HasField("columns"):
            self._draft_columns(sheet, Columns(request.columns, bodies), transaction)
        else:
            for message in request.messages:
                self._draft(sheet, message, transaction)
        drafts = sheet.drafts
        if drafts.packets:
            size = sum(map(len, drafts.packets)) + _RECORD_BYTES * len(drafts.packets)
            if 0 in drafts.to_be_received_s:  # they are dead letters at once
                size = 2 * size + LARGEST_ENVELOPE * len(drafts.packets)
            with self._manager.core.event(size, 4 * len(drafts.packets)):
                posted = self._manager.posting.post(self.descriptor, drafts, transaction, self._caller)
            sheet.posted(posted)
        return sheet.reply(self._manager.core.record.identifier)

    def _queue(self) -> Queue:
        if self.descriptor.queue is None:
            raise QueueNotAvailableError(f"{self.descriptor.format_name} was deleted.")
        return self.descriptor.queue

    def _is_alone(self, delivery: int, transaction: Transaction | None) -> bool:
        """Whether a message is sent in a transaction of its own."""
        return transaction is None and (
            delivery == pb.TRANSACTIONAL or (delivery == pb.DELIVERY_DEFAULT and self.transactional)
        )

    @property
    def _signer(self) -> Signer | None:
        return self._desk.signers.get(self._caller.user)

    def _send_copies(
        self, sheet: _Sheet, messages: Iterable[pb.Message], transaction: Transaction | None
    ) -> None:
        """Send messages to several queues one by one: if one copy is refused, the message's other copies are not
        sent."""
        posting = self._manager.posting
        for given in messages:
            alone = self._is_alone(given.delivery, transaction)
            try:
                message = to_message(given, self._computer)
                first, *_ = posting.send(
                    self.descriptor, message, transaction, self._caller, self._signer, alone=alone
                )
            except MsmqError as error:
                sheet.failed(error)
            else:
                sheet.sent(first.packet.user.message_id, first.lookup_id)

    def _draft(self, sheet: _Sheet, given: pb.Message, transaction: Transaction | None) -> None:
        """Add a message with all its properties."""
        try:
            ordinal = self._draft_one(sheet.drafts, given, transaction)
        except MsmqError as error:
            sheet.failed(error)
        else:
            sheet.ordinals.append(ordinal)

    def _draft_one(self, drafts: Drafts, given: pb.Message, transaction: Transaction | None) -> int:
        return self._manager.posting.draft(
            drafts,
            self.descriptor,
            to_message(given, self._computer),
            transaction,
            self._caller,
            self._signer,
            alone=self._is_alone(given.delivery, transaction),
        )

    def _draft_columns(self, sheet: _Sheet, columns: Columns, transaction: Transaction | None) -> None:
        """Add messages that come in columns. Those without a template, and those of which a packet cannot say
        something, are drafted by themselves afterwards, or told what is wrong with them."""
        core = self._manager.core
        templates, local = self._templates(columns, transaction)
        journaled = zip(columns.dead_letters, columns.journals, strict=True)
        recoverable = map((pb.EXPRESS).__ne__, columns.deliveries)
        drafts = Drafts(
            user_flags=[
                each.user_flags | _JOURNALING[both] | RECOVERABLE * (kept or each.covered)
                for each, both, kept in zip(templates, journaled, recoverable, strict=True)
            ],
            base_flags=[
                each.base_flags | (0 if each.covered else priority)
                for each, priority in zip(templates, columns.priorities, strict=True)
            ],
            to_reach_s=core.times_to_reach_queue_s(columns.times_to_reach_queue_s),
            to_be_received_s=list(columns.times_to_be_received_s),
            asks=columns.acknowledgements,
            local=local,
        )
        ordinals = core.next_message_ordinals(len(columns))
        number_of = self._manager.transactions.number_of
        rows = zip(
            [each.form for each in templates],
            ordinals,
            [number_of(transaction) if each.covered else 0 for each in templates],
            drafts.user_flags,
            drafts.base_flags,
            drafts.to_reach_s,
            drafts.to_be_received_s,
            drafts.asks,
            *columns.properties,
            strict=True,
        )
        failures: dict[int, MsmqError] = {}
        drafts.packets = write_packets(rows, core.now_s, failures.__setitem__)
        for index, (template, priority) in enumerate(zip(templates, columns.priorities, strict=True)):
            if template is not _BLANK and priority <= HIGHEST_PRIORITY:
                continue
            alone = Drafts()
            try:
                ordinals[index] = self._draft_one(alone, columns.message(index), transaction)
                drafts.replace(index, alone)
                failures.pop(index, None)
            except MsmqError as error:
                failures[index] = error
        sheet.drafted(drafts, ordinals, failures)

    def _templates(
        self, columns: Columns, transaction: Transaction | None
    ) -> tuple[list[Template], dict[int, LocalAttributes]]:
        """The template of each message, a blank one where there is none; and, by index, what no packet says."""
        variants = list(zip(columns.kind, columns.deliveries, strict=True))
        made: dict[tuple[int, int], Template] = {}
        local: dict[int, LocalAttributes] = {}
        for number, delivery in set(variants):
            kind, template = columns.kinds[number], None
            alone = self._is_alone(delivery, transaction)
            with suppress(MsmqError):
                template, attributes = self._template(kind, alone or transaction is not None, alone)
                if attributes.has_any:
                    local[number] = attributes
            made[number, delivery] = template or _BLANK
        templates = list(map(made.__getitem__, variants))
        if not local:
            return templates, {}
        return templates, {
            index: local[number] for index, number in enumerate(columns.kind) if number in local
        }

    def _template(
        self, kind: pb.Message, covered: bool, alone: bool
    ) -> tuple[Template | None, LocalAttributes]:
        """The template of a kind, None for one that has none; and what no packet says."""
        key = (
            kind.admin_queue, kind.response_queue, kind.connector_type, kind.sender_certificate, kind.trace,
            kind.authenticate, kind.privacy_level, kind.dead_letter_queue, kind.peekable_when_locked, covered, alone,
        )  # fmt: skip
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_TEMPLATES:
                self._known.clear()
            message = to_message(kind, self._computer)
            template = self._manager.posting.template(
                self.descriptor, message, self._caller, covered=covered, alone=alone
            )
            known = self._known[key] = template, local_of(kind, self._computer)
        return known


class _Sheet:
    """A batch while it is sent: the drafts of its messages, and the result of each."""

    def __init__(self) -> None:
        self.drafts = Drafts()
        self.ordinals: list[int] = []
        """The numbers of the messages, 0 for those that failed."""
        self._lookup_ids: list[int] = []
        self._failures: dict[int, MsmqError] = {}

    def sent(self, ordinal: int, lookup_id: int) -> None:
        self.ordinals.append(ordinal)
        self._lookup_ids.append(lookup_id)

    def failed(self, error: MsmqError) -> None:
        self._failures[len(self.ordinals)] = error
        self.sent(0, 0)

    def drafted(self, drafts: Drafts, ordinals: list[int], failures: dict[int, MsmqError]) -> None:
        """All of the batch, and which of it has failed."""
        self.drafts, self.ordinals, self._failures = drafts, ordinals, failures
        if failures:
            self.drafts = drafts.without(failures)
            for index in failures:
                ordinals[index] = 0
        self._lookup_ids = [0] * len(ordinals)

    def posted(self, posted: Posted) -> None:
        """Add the results of the drafts, which are the messages that had not failed before."""
        if not self._failures and not posted.errors:
            self._lookup_ids = posted.lookup_ids
            return
        drafted = [index for index in range(len(self.ordinals)) if index not in self._failures]
        self._lookup_ids = [0] * len(self.ordinals)
        for index, lookup_id in zip(drafted, posted.lookup_ids, strict=True):
            self._lookup_ids[index] = lookup_id
        for index, error in posted.errors.items():
            self._failures[drafted[index]] = error
            self.ordinals[drafted[index]] = 0

    def reply(self, queue_manager: bytes) -> pb.SendReply:
        return pb.SendReply(
            queue_manager=queue_manager,
            ordinals=self.ordinals,
            lookup_ids=self._lookup_ids,
            failures=[
                pb.SendFailure(index=index, error=error_message(to_mq_error(error)))
                for index, error in sorted(self._failures.items())
            ],
        )


def _messages(request: pb.SendRequest | pb.SendBatch, bodies: Sequence[memoryview]) -> Iterable[pb.Message]:
    if not request.HasField("columns"):
        return request.messages
    columns = Columns(request.columns, bodies)
    return map(columns.message, range(len(columns)))


class Resumed:
    """The last batches of each resume token, for clients that reconnect and do not know whether the batches were
    accepted."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[tuple[Sid, bytes], OrderedDict[int, pb.SendReply]] = OrderedDict()

    def of(self, caller: Token, token: bytes) -> OrderedDict[int, pb.SendReply]:
        """The results of the last batches, by number. Without a token nothing is remembered."""
        if not token:
            return OrderedDict()
        if len(token) > _LONGEST_TOKEN:
            raise InvalidParameterError(f"A resume_token has {_LONGEST_TOKEN} bytes at most.")
        key = caller.user, token
        batches = self._tokens.setdefault(key, OrderedDict())
        self._tokens.move_to_end(key)
        if len(self._tokens) > _MOST_TOKENS:
            self._tokens.popitem(last=False)
        return batches

    def forget(self, caller: Token, token: bytes) -> None:
        self._tokens.pop((caller.user, token), None)


class SendCalls:
    """The calls that send messages."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._resumed = Resumed()

    async def send(self, request: pb.SendRequest, caller: Token) -> pb.SendReply:
        sender = await self._desk.host.ask(lambda: Sender(self._desk, request.queue, caller))
        try:
            transaction = self._desk.transaction(request.transaction, caller)
            reply = sender.send(request, transaction)
        finally:
            sender.close()
        await self._desk.durable()
        return reply

    async def send_stream(self, context: Conversation, outbox: Outbox, caller: Token) -> None:
        sent = await context.read()
        if sent is grpc.aio.EOF:
            return
        first = sent.request
        if first.WhichOneof("request") != "open":
            raise InvalidParameterError("The first message of a stream opens the queue.")
        sender = await self._desk.host.ask(lambda: Sender(self._desk, first.open.queue, caller))
        try:
            token = first.open.resume_token
            taken = self._resumed.of(caller, token)
            opened = pb.Opened(
                format_name=sender.descriptor.format_name,
                last_batch=max(taken, default=0),
                transactional=sender.transactional,
                incarnation=self._desk.incarnation,
            )
            self._put_when_durable(outbox, pb.SendStreamReply(opened=opened))
            while (sent := await context.read()) is not grpc.aio.EOF:
                if sent.request.WhichOneof("request") == "leave":
                    self._resumed.forget(caller, token)
                    continue
                self._take(sent, sender, taken, outbox, caller)
                del sent  # its bodies, which are large, are in packets by now
                await outbox.room()
            await self._desk.durable()  # the answers to all requests read are in the outbox then
        finally:
            sender.close()

    def _take(
        self,
        sent: Sent,
        sender: Sender,
        taken: OrderedDict[int, pb.SendReply],
        outbox: Outbox,
        caller: Token,
    ) -> None:
        batch = sent.request.batch
        reply = taken.get(batch.number)
        if reply is None:
            reply = self._send(batch, sent.bodies, sender, caller)
            taken[batch.number] = reply
            if len(taken) > MOST_BATCHES:
                taken.popitem(last=False)
        confirmed = pb.BatchConfirmed(number=batch.number, result=reply)
        self._put_when_durable(outbox, pb.SendStreamReply(confirmed=confirmed))

    def _send(
        self, batch: pb.SendBatch, bodies: Sequence[memoryview], sender: Sender, caller: Token
    ) -> pb.SendReply:
        try:
            transaction = self._desk.transaction(batch.transaction, caller)
            return sender.send(batch, transaction, bodies)
        except MQError as error:  # it concerns the whole batch, of which nothing was sent
            failed = error_message(error)
            count = len(bodies) or _count(batch)
            return pb.SendReply(
                ordinals=[0] * count,
                lookup_ids=[0] * count,
                failures=[pb.SendFailure(index=index, error=failed) for index in range(count)],
            )

    def _put_when_durable(self, outbox: Outbox, reply: pb.SendStreamReply) -> None:
        self._desk.host.when_durable(lambda: outbox.put(reply))


def _count(batch: pb.SendBatch) -> int:
    """The number of messages in a batch."""
    return len(batch.columns.bodies) if batch.HasField("columns") else len(batch.messages)

"""Send: messages into queues, a batch at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, Final

import google.protobuf.message
import grpc

from msmq.api.desk import Desk, Outbox
from msmq.api.generated import msmq_pb2 as pb
from msmq.api.line import Conversation
from msmq.api.packing import columns_of, fill, kind_of, messages_of, packet_of, to_message
from msmq.api.status import to_message as error_message
from msmq.api.status import to_mq_error
from msmq.errors import InvalidParameterError, MQError, MsmqError, QueueNotAvailableError
from msmq.manager.model import QueueAccessType
from msmq.manager.outgoing_queues import queue_manager_of
from msmq.manager.placing import is_destination
from msmq.manager.queue import Queue
from msmq.manager.stored import StoredMessage
from msmq.manager.template import Template
from msmq.manager.transactions import Transaction
from msmq.security.access import Token
from msmq.security.leaving import Signer
from msmq.security.sid import Sid

_MOST_TEMPLATES: Final = 64
_MOST_TOKENS: Final = 1_000
MOST_BATCHES: Final = 64
"""How many batches of a token are remembered: the most that may be under way."""
_LONGEST_TOKEN: Final = 64
_EVENT_BYTES: Final = 1 << 20
_RECORD_BYTES: Final = 1024
"""What a message may take beside its body, label and extension, generously."""


class Sender:
    """A queue that is open for sending."""

    def __init__(self, desk: Desk, queue: str, caller: Token) -> None:
        self._desk = desk
        self._caller = caller
        self._manager = manager = desk.manager
        self._computer = manager.core.record.computer_name
        name = desk.names.format_name(queue)
        self.descriptor = manager.queues.open(name, QueueAccessType.SEND, caller=caller)
        self._templates: dict[tuple[object, ...], Template] = {}
        self._granted = b""
        """The security descriptor that was last seen to let the caller send."""

    def close(self) -> None:
        self._manager.queues.close(self.descriptor)

    @property
    def transactional(self) -> bool:
        queue = self.descriptor.queue
        return queue is not None and is_destination(queue) and queue.transactional

    def send(self, messages: Iterable[pb.Message], transaction: Transaction | None) -> pb.SendReply:
        """Send a batch. It is one event, so that it is on disk whole or not at all, unless it is too large for one."""
        batch = list(messages)
        size = sum(len(member.body) + len(member.extension) for member in batch) + _RECORD_BYTES * len(batch)
        if size > _EVENT_BYTES or len(batch) < 2:
            return self._send(batch, transaction)
        with self._manager.core.event(size, 4 * len(batch)):
            if (reply := self._send_alike(batch, transaction)) is not None:
                return reply
            return self._send(batch, transaction)

    def _send_alike(self, batch: list[pb.Message], transaction: Transaction | None) -> pb.SendReply | None:
        """Send a batch of plain messages that say the same but for their properties; None, and nothing was sent, when
        it is no such batch or something is wrong with it."""
        queue, first = self.descriptor.queue, batch[0]
        if queue is None or self.descriptor.multiple or not self._is_quick(first, transaction):
            return None
        kind = kind_of(first)
        core, bulk = self._manager.core, self._manager.bulk
        now_s, next_ordinal = core.now_s, core.next_message_ordinal
        ordinals, packets = [], []
        number = 0 if transaction is None else transaction.number
        try:
            template = self._template_of(kind, first, queue, transaction)
            if not bulk.takes(queue, template, transaction):
                return None
            self._check_access(queue)
            for given in batch:
                if given.acknowledgements or given.trace or kind_of(given) != kind:
                    return None
                ordinal = next_ordinal()
                packets.append(packet_of(template, given, ordinal, now_s, number))
                ordinals.append(ordinal)
        except MsmqError:
            return None  # each message is told its own
        lookup_ids = bulk.place(queue, template, packets, transaction)
        if lookup_ids is None:
            return None
        return pb.SendReply(queue_manager=core.record.identifier, ordinals=ordinals, lookup_ids=lookup_ids)

    def send_columns(self, written: bytes, transaction: Transaction | None) -> pb.SendReply:
        """Send an Alike, as :meth:`send` sends its messages."""
        try:
            alike = pb.Alike.FromString(written)
        except google.protobuf.message.DecodeError as error:
            raise InvalidParameterError("An Alike could not be read.") from error
        columns = columns_of(alike)
        count = len(alike.bodies)
        size = sum(map(len, alike.bodies)) + sum(map(len, alike.extensions)) + _RECORD_BYTES * count
        if count > 1 and size <= _EVENT_BYTES and not alike.common.acknowledgements:
            with self._manager.core.event(size, 4 * count):
                if (reply := self._send_columns(alike.common, columns, transaction)) is not None:
                    return reply
        return self.send(messages_of(alike), transaction)

    def _send_columns(
        self, common: pb.Message, columns: list[Sequence[Any]], transaction: Transaction | None
    ) -> pb.SendReply | None:
        """As :meth:`_send_alike`, of messages that are known to be alike."""
        queue = self.descriptor.queue
        if queue is None or self.descriptor.multiple or not self._is_quick(common, transaction):
            return None
        core, bulk = self._manager.core, self._manager.bulk
        number = 0 if transaction is None else transaction.number
        try:
            template = self._template_of(kind_of(common), common, queue, transaction)
            if not bulk.takes(queue, template, transaction):
                return None
            self._check_access(queue)
            packet, now_s = template.packet, core.now_s
            ordinals = [core.next_message_ordinal() for _ in columns[0]]
            packets = list(map(packet, ordinals, repeat(now_s), *columns, repeat(0), repeat(number)))
        except MsmqError:
            return None
        lookup_ids = bulk.place(queue, template, packets, transaction)
        if lookup_ids is None:
            return None
        return pb.SendReply(queue_manager=core.record.identifier, ordinals=ordinals, lookup_ids=lookup_ids)

    def _is_quick(self, given: pb.Message, transaction: Transaction | None = None) -> bool:
        """Whether the packet of a message can be made from a template, and it needs no transaction of its own."""
        delivery = given.delivery
        alone = transaction is None and (
            delivery == pb.TRANSACTIONAL or (delivery == pb.DELIVERY_DEFAULT and self.transactional)
        )
        return not (alone or given.trace or given.privacy_level or given.authenticate)

    def _send(self, batch: list[pb.Message], transaction: Transaction | None) -> pb.SendReply:
        ordinals: list[int] = []
        lookup_ids: list[int] = []
        failures: list[pb.SendFailure] = []
        for index, given in enumerate(batch):
            try:
                stored = self._send_one(given, transaction)
            except MsmqError as error:
                failures.append(pb.SendFailure(index=index, error=error_message(to_mq_error(error))))
                ordinals.append(0)
                lookup_ids.append(0)
            else:
                ordinals.append(stored.packet.user.message_id)
                lookup_ids.append(stored.lookup_id)
        return pb.SendReply(
            queue_manager=self._manager.core.record.identifier,
            ordinals=ordinals,
            lookup_ids=lookup_ids,
            failures=failures,
        )

    def _send_one(self, given: pb.Message, transaction: Transaction | None) -> StoredMessage:
        descriptor = self.descriptor
        delivery = given.delivery
        if transaction is None and (
            delivery == pb.TRANSACTIONAL or (delivery == pb.DELIVERY_DEFAULT and self.transactional)
        ):
            return self._send_alone(given)
        if transaction is None and not descriptor.multiple and self._is_quick(given):
            return self._send_quickly(given)
        message = to_message(given, self._computer)
        return self._manager.posting.send(descriptor, message, transaction, self._caller, self._signer)[0]

    @property
    def _signer(self) -> Signer | None:
        return self._desk.signers.get(self._caller.user)

    def _send_alone(self, given: pb.Message) -> StoredMessage:
        """In a transaction of its own."""
        transactions = self._manager.transactions
        transaction = transactions.create()
        try:
            message = to_message(given, self._computer)
            posting, caller = self._manager.posting, self._caller
            stored = posting.send(self.descriptor, message, transaction, caller, self._signer)[0]
            transactions.commit(transaction.identifier)
        except MsmqError:
            if transaction.identifier in transactions.collection:
                transactions.abort(transaction.identifier)
            raise
        return stored

    def _send_quickly(self, given: pb.Message) -> StoredMessage:
        """The usual case: one destination, no transaction. What posting.send does, with a template."""
        queue = self.descriptor.queue
        if queue is None:
            raise QueueNotAvailableError(f"{self.descriptor.format_name} was deleted.")
        kind = kind_of(given)
        template = self._template_of(kind, given, queue, None)
        core = self._manager.core
        stored = fill(template, given, core.next_message_ordinal(), core.now_s)
        self._check_access(queue)
        self._manager.posting.place(self.descriptor.format_name, queue, stored, unsigned=True)
        return stored

    def _template_of(
        self, kind: tuple[object, ...], given: pb.Message, queue: Queue, transaction: Transaction | None
    ) -> Template:
        key = transaction is None, kind
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = self._template(given, queue, transaction)
        return template

    def _template(self, given: pb.Message, queue: Queue, transaction: Transaction | None) -> Template:
        posting = self._manager.posting
        message = to_message(given, self._computer)
        message.check()
        message.label, message.body, message.extension = "", b"", b""
        address = queue_manager_of(self._manager.core, queue)
        complete = posting.complete(message, self.descriptor.format_name, address, transaction, self._caller)
        if len(self._templates) >= _MOST_TEMPLATES:
            self._templates.clear()
        return Template(complete, posting.local(complete))

    def _check_access(self, queue: Queue) -> None:
        """Each message is sent with the caller's rights of that moment; they change with the queue's descriptor."""
        security = queue.root.security
        if security is not self._granted:
            self._manager.guard.check_open(self._caller, queue, QueueAccessType.SEND)
            self._granted = security


class Resumed:
    """The last batches of each resume token, for clients that come back and do not know whether they were taken."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[tuple[Sid, bytes], OrderedDict[int, pb.SendReply]] = OrderedDict()

    def of(self, caller: Token, token: bytes) -> OrderedDict[int, pb.SendReply]:
        """What became of the last batches, by number. Without a token nothing is remembered."""
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
    """The calls that send."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._resumed = Resumed()

    async def send(self, request: pb.SendRequest, caller: Token) -> pb.SendReply:
        sender = await self._desk.host.ask(lambda: Sender(self._desk, request.queue, caller))
        try:
            transaction = self._desk.transaction(request.transaction, caller)
            if request.alike:
                reply = sender.send_columns(request.alike, transaction)
            else:
                reply = sender.send(request.messages, transaction)
        finally:
            sender.close()
        await self._desk.durable()
        return reply

    async def send_stream(self, context: Conversation, outbox: Outbox, caller: Token) -> None:
        first = await context.read()
        if first is grpc.aio.EOF:
            return
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
            while (request := await context.read()) is not grpc.aio.EOF:
                if request.WhichOneof("request") == "leave":
                    self._resumed.forget(caller, token)
                    continue
                self._take(request.batch, sender, taken, outbox, caller)
                await outbox.room()
            await self._desk.durable()  # the answers to what was read are in the outbox then
        finally:
            sender.close()

    def _take(
        self,
        batch: pb.SendBatch,
        sender: Sender,
        taken: OrderedDict[int, pb.SendReply],
        outbox: Outbox,
        caller: Token,
    ) -> None:
        reply = taken.get(batch.number)
        if reply is None:
            reply = self._send(batch, sender, caller)
            taken[batch.number] = reply
            if len(taken) > MOST_BATCHES:
                taken.popitem(last=False)
        confirmed = pb.BatchConfirmed(number=batch.number, result=reply)
        self._put_when_durable(outbox, pb.SendStreamReply(confirmed=confirmed))

    def _send(self, batch: pb.SendBatch, sender: Sender, caller: Token) -> pb.SendReply:
        try:
            transaction = self._desk.transaction(batch.transaction, caller)
            if batch.alike:
                return sender.send_columns(batch.alike, transaction)
            return sender.send(batch.messages, transaction)
        except MQError as error:  # of the batch as a whole: none of it was sent
            failed = error_message(error)
            count = _count(batch)
            return pb.SendReply(
                ordinals=[0] * count,
                lookup_ids=[0] * count,
                failures=[pb.SendFailure(index=index, error=failed) for index in range(count)],
            )

    def _put_when_durable(self, outbox: Outbox, reply: pb.SendStreamReply) -> None:
        self._desk.host.when_durable(lambda: outbox.put(reply))


def _count(batch: pb.SendBatch) -> int:
    """How many messages there are in a batch, as far as it can be read."""
    if not batch.alike:
        return len(batch.messages)
    try:
        return len(pb.Alike.FromString(batch.alike).bodies)
    except google.protobuf.message.DecodeError:
        return 1

"""Steps of the manager's simulator in which applications and other hosts send, and what must follow from that.

Messages come from :mod:`msmq.testing.traffic`: most are ordinary, some have anything that a message may have.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from random import Random
from typing import Any, Final

from msmq.api.generated.msmq_pb2 import SendReply
from msmq.errors import InsufficientResourcesError
from msmq.manager.mailbox.batch import Batch
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.messages.message import DeliveryGuarantee
from msmq.manager.messages.serialize import serialize
from msmq.manager.model import UNLIMITED, OperationType, QueueAccessType
from msmq.testing.manager_follow import ARRIVED, LATE, NO_ROOM, Due, Wishes, admin_queues
from msmq.testing.manager_host import SimulatedHost
from msmq.testing.manager_model import Item, Operation, Put, Work, number_of
from msmq.testing.traffic import (
    Delivery,
    Door,
    Draft,
    Surroundings,
    Traffic,
    WireSender,
    client_message,
    properties_of,
)
from msmq.wire.classes import MessageClass
from msmq.wire.headers import INFINITE
from msmq.wire.identifiers import MessageIdentifier, TxSequenceID

ENQUEUE = OperationType.ENQUEUE
LARGEST_BODY: Final = 7_000
ODD: Final = 0.25
"""The share of messages that are drawn without regard to what is usual."""


class Senders(SimulatedHost):
    """A queue manager and the applications that send to its queues."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self._texts = count(1)
        self._expiries: set[int] = set()
        self._stranger = WireSender(
            Surroundings(rng.randbytes(16), rng.randbytes(16)), lambda: int(self.now), TxSequenceID(1, 1)
        )

    # --- messages -------------------------------------------------------------------------------------------

    def _draft(self, path: str, door: Door = Door.MANAGER, **given: Any) -> Draft:
        """Draw a message that an application on this host, or another host, sends to a queue."""
        here = self.manager.core.record.identifier
        source = self._stranger.surroundings.source if door & Door.WIRE else here
        queues = self.current.queues
        listeners = [each for each, traits in queues.items() if not traits.transactional]
        world = Surroundings(
            here,
            source,
            listeners=tuple(f"DIRECT=OS:{each}" for each in listeners),
            dead_letter_queues=tuple(queues),
            largest_body=LARGEST_BODY,
        )
        traffic = Traffic(self.rng, world, door, everything=self.rng.random() < ODD)
        draft = traffic.draft(destination=f"DIRECT=OS:{path}", **given)
        # No zeros: damage in the last batch is told from a torn write by sectors that were never written.
        body = b"%d:" % next(self._texts) + b"." * len(draft.body)
        return draft.changed(body=body, time_to_be_received_s=self._life_s(draft))

    def _life_s(self, draft: Draft) -> int | None:
        """Choose a lifetime so that no two messages expire in the same second: then it is known which one does
        first.
        """
        life_s = draft.time_to_be_received_s
        if not life_s or life_s == INFINITE:
            return life_s
        while int(self.now) + life_s in self._expiries:
            life_s += 1
        self._expiries.add(int(self.now) + life_s)
        return life_s

    def _item_of(self, path: str, draft: Draft, transactional: bool) -> Item:
        """Return what a queue must hold of a draft that is sent now."""
        here = self.manager.core.record.identifier
        said = replace(
            properties_of(draft),
            destination_queue_format_name=draft.destination,
            identifier=MessageIdentifier(here, 1),
            transaction_identifier=1 if transactional else None,
        )
        if transactional:
            said.delivery_guarantee = DeliveryGuarantee.RECOVERABLE
        life_s = said.time_to_be_received_s
        admin = draft.admin_queue
        return Item(
            path,
            draft.body,
            serialize(said).size,
            None if life_s == INFINITE else int(self.now) + life_s,
            bool(said.delivery_guarantee),
            Wishes(
                acknowledgements=draft.acknowledgements,
                admin=admin_queues(bool(admin or draft.numbers[0]), admin, draft.admin_list),
                journal=draft.journal,
                dead_letter=draft.dead_letter,
                grave=draft.dead_letter_queue.lower(),
                transactional=transactional,
                peekable=draft.peekable_when_locked,
            ),
        )

    # --- sending --------------------------------------------------------------------------------------------

    def send(self) -> None:
        path = self._any_queue(transactional=False)
        if path is not None:
            delivery = self.rng.choice((Delivery.EXPRESS, Delivery.RECOVERABLE, Delivery.RECOVERABLE))
            with self._perhaps_full():
                self._post(path, self._draft(path, delivery=delivery))

    def _post(self, path: str, draft: Draft, work: Work | None = None) -> None:
        """Send a message, and check the quota, the number, and what its sender is told."""
        item = self._item_of(path, draft, work is not None)
        quota_kb = self.current.queues[path].quota_kb
        fits = quota_kb == UNLIMITED or self._used(path) + item.size <= 1024 * quota_kb
        transaction = None if work is None else self.manager.transactions.find(work.identifier)
        descriptor = self.manager.queues.open(draft.destination, QueueAccessType.SEND)
        try:
            (copy,) = self.manager.posting.send(descriptor, properties_of(draft), transaction)
        except InsufficientResourcesError:
            assert not fits, "there was room"
            self._refused(item)
            return
        finally:
            self.manager.queues.close(descriptor)
        assert fits, "there was no room"
        identifier = copy.packet.identifier.encode()
        item = item._replace(wishes=item.wishes._replace(identifier=identifier))
        self._saw(copy.lookup_id)
        if work is not None:
            work.operations.append(Operation(ENQUEUE, copy.lookup_id, item))
            self._see_all()
            self._happened([])
        else:
            self._arrived([(copy.lookup_id, item)])

    def arrive(self) -> None:
        """Let a packet from another host arrive, which may name queues in every way that packets can."""
        path = self._any_queue(transactional=False)
        if path is not None:
            delivery = self.rng.choice((Delivery.EXPRESS, Delivery.RECOVERABLE))
            with self._perhaps_full():
                self._take_packet(path, self._draft(path, Door.WIRE, delivery=delivery))

    def _take_packet(self, path: str, draft: Draft) -> None:
        packet = self._stranger.packet(draft)
        item = self._item_of(path, draft, transactional=False)
        item = item._replace(
            size=packet.size, wishes=item.wishes._replace(identifier=packet.identifier.encode())
        )
        quota_kb = self.current.queues[path].quota_kb
        fits = quota_kb == UNLIMITED or self._used(path) + item.size <= 1024 * quota_kb
        core = self.manager.core
        batch = Batch.of([StoredMessage(packet, LocalAttributes())], core.record.identifier)
        delivery = self.manager.sending.deliver(core.by_path[path], batch, None)
        if delivery.fates == [MessageClass.NACK_Q_EXCEED_QUOTA]:
            assert not fits, "there was room"
            self._refused(item)
            return
        assert delivery.fates == [MessageClass.ACK_REACH_QUEUE]
        assert fits, "there was no room"
        self._saw(delivery.lookup_ids[0])
        self._arrived([(delivery.lookup_ids[0], item)])

    def _refused(self, item: Item) -> None:
        """Check that the sender of a message without room is told, and may get it back. Nobody knows its identifier."""
        dues = self._acknowledgments(item, NO_ROOM) + self._graves(item, NO_ROOM)
        self._happened(*([change] for change in self._follow(dues)))

    def _arrived(self, sent: list[tuple[int, Item]]) -> None:
        """Put messages into their queue, with what follows from it, also for those whose time is up already."""
        dues: list[Due] = []
        for lookup_id, item in sent:
            if item.expiry is not None and item.expiry <= self.now:
                dues += self._acknowledgments(item, LATE)
                grave = self._stands_in_a_grave(lookup_id, item)
                if grave is None:
                    dues += self._graves(item, LATE)
                elif item.recoverable:
                    self._happened([Put(lookup_id, item._replace(place=grave))])
                else:
                    self.express[lookup_id] = item._replace(place=grave)
            elif item.recoverable:
                self._happened([Put(lookup_id, item)])
            else:
                self.express[lookup_id] = item
            dues += self._acknowledgments(item, ARRIVED) + self._sent_copy(item)
        self._happened([], *([change] for change in self._follow(dues)))

    def send_batch(self) -> None:
        """Send several messages at once as a client does, some of them alike."""
        unlimited = [path for path, traits in self.current.queues.items() if traits.quota_kb == UNLIMITED]
        if not unlimited:
            return
        path = self.rng.choice(unlimited)
        transactional = self.current.queues[path].transactional
        delivery = Delivery.TRANSACTIONAL if transactional else Delivery.RECOVERABLE
        drafts = [self._draft(path, Door.CLIENT, delivery=delivery) for _ in range(self.rng.randint(1, 6))]
        for _ in range(self.rng.choice((0, 0, 6))):
            body = b"%d:" % next(self._texts) + b"." * self.rng.randint(0, 300)
            drafts.append(drafts[-1].changed(body=body, time_to_be_received_s=None))
        with self._perhaps_full():
            self._send_batch(path, drafts, transactional)

    def _send_batch(self, path: str, drafts: list[Draft], transactional: bool) -> None:
        reply = self.channel.send(path, [client_message(draft).to_proto() for draft in drafts])
        sent: list[tuple[int, Item]] = []
        failed = {failure.index for failure in reply.failures}
        assert not failed or self.disk.capacity is not None, reply.failures
        for index, draft in enumerate(drafts):
            if index not in failed:
                sent.append(
                    (reply.lookup_ids[index], self._sent_item(path, draft, reply, index, transactional))
                )
        for lookup_id, _ in sent:
            self._saw(lookup_id)
        self._arrived(sent)

    def _sent_item(self, path: str, draft: Draft, reply: SendReply, index: int, transactional: bool) -> Item:
        item = self._item_of(path, draft, transactional)
        places = (queue.positions.get(reply.lookup_ids[index]) for queue in self._all_queues().values())
        entry = next((entry for entry in places if entry is not None), None)
        if entry is not None:
            item = item._replace(size=entry.size)  # with the SID of its sender
        wishes = item.wishes._replace(
            identifier=reply.queue_manager + reply.ordinals[index].to_bytes(4, "little"),
            grave=item.wishes.grave.replace(".\\", "host\\"),
        )
        return item._replace(wishes=wishes)

    def _saw(self, lookup_id: int) -> None:
        assert number_of(lookup_id) > self.highest, "an arrival number came again"
        self._explained.add(lookup_id)

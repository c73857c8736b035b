"""Exactly once, in order, over a link that loses, doubles and shuffles, between hosts that may crash at any step.

What survives a crash is what a host made durable, in the order in which it did: the sender its messages with their
places, the last place and the last id; the receiver its queue together with its progress. Everything else is gone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.transfer.events import MessagesReceived
from msmq.transfer.final_ack import Fate, FinalAcks, Settled
from msmq.transfer.order_receiver import OrderReceiver, Progress, Stream, order_acknowledgment
from msmq.transfer.order_sender import OrderSender, Released, Sequences, first_sequence_id, placed
from msmq.transfer.timers import TimerSettings
from msmq.wire.classes import MessageClass
from msmq.wire.message import UserMessage
from msmq.wire.optional_headers import TransactionHeader
from msmq.wire.packets import FinalAckBody, OrderAckBody, build_order_message
from tests.transfer import support
from tests.transfer.support import OURS, START_MS, THEIRS

TIMERS = TimerSettings()
STREAM: Stream = (OURS, "queue")


@dataclass
class SenderDisk:
    """Messages still to be delivered with their places, None while they have none."""

    messages: dict[int, tuple[int, int] | None] = field(default_factory=dict)
    last_place: tuple[int, int] = (0, 0)
    last_id: int = first_sequence_id(7)


@dataclass
class ReceiverDisk:
    queue: list[int] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)


class SenderHost:
    def __init__(self) -> None:
        self.disk = SenderDisk()
        self.submitted = 0
        self.removed: set[int] = set()
        self.start(START_MS)

    def start(self, now_ms: int) -> None:
        self.ids: Sequences[int] = Sequences(self.disk.last_id)
        self.stream = OrderSender(self.ids, TIMERS.resend_timer_table_s, now_ms, self.disk.last_place)
        self.numbers: dict[int, int] = {}
        self.uncommitted: list[tuple[int, tuple[int, int]]] = []
        for message, place in list(self.disk.messages.items()):
            if place is None:
                continue
            released = self.stream.readmit(message, place)
            if released is None:
                self.numbers[message] = place[1]
            else:
                self.forget(released)

    def submit(self) -> None:
        self.disk.messages[self.submitted] = None
        self.submitted += 1

    def assign(self) -> None:
        """Give the next message its place; durable only with commit."""
        assigned = {message for message, _ in self.uncommitted}
        for message, place in self.disk.messages.items():
            if place is None and message not in assigned:
                given = self.stream.assign(message)
                assert given is not None
                self.uncommitted.append((message, given[:2]))
                return

    def commit(self) -> None:
        for message, place in self.uncommitted:
            self.disk.messages[message] = place
            self.disk.last_place = place
            self.disk.last_id = max(self.disk.last_id, place[0])
            self.numbers[message] = place[1]
        self.uncommitted.clear()

    def packet(self, message: int, now_ms: int) -> tuple[TransactionHeader, int]:
        place = self.stream.place(self.numbers[message])
        self.stream.sent(self.numbers[message], now_ms)
        return TransactionHeader(0, *place), message

    def sendable(self) -> list[int]:
        return list(self.numbers)

    def forget(self, released: Released[int], *, durable: bool = True) -> None:
        for message in released.done:
            self.numbers.pop(message, None)
            if durable:
                del self.disk.messages[message]

    def expire(self, message: int) -> None:
        self.stream.remove(self.numbers.pop(message))
        self.removed.add(message)
        del self.disk.messages[message]


class ReceiverHost:
    def __init__(self) -> None:
        self.disk = ReceiverDisk()
        self.start(START_MS)

    def start(self, now_ms: int) -> None:
        stored = {STREAM: self.disk.progress} if self.disk.progress.tx_sequence_number else {}
        self.order: OrderReceiver[str] = OrderReceiver(TIMERS, stored, now_ms)
        self.batch: list[tuple[int, Progress]] = []

    def arrive(self, header: TransactionHeader, message: int, now_ms: int) -> None:
        if self.order.judge_all(STREAM, [header], "link", now_ms, 0):
            progress = self.order.advance(STREAM, header, "link", now_ms, 0)
            self.batch.append((message, progress))

    def commit(self) -> None:
        for message, progress in self.batch:
            self.disk.queue.append(message)
            self.disk.progress = progress
        for _, progress in self.batch:
            self.order.durable(STREAM, progress)
        self.batch.clear()


class World:
    """Both hosts and the link. Every action takes a number that decides what it is free to decide."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.sender = SenderHost()
        self.receiver = ReceiverHost()
        self.packets: list[tuple[TransactionHeader, int]] = []
        self.acks: list[OrderAckBody] = []

    # The sender

    def submit(self, n: int) -> None:
        for _ in range(1 + n % 4):
            self.sender.submit()
            self.sender.assign()

    def commit_places(self, n: int) -> None:
        self.sender.commit()

    def send(self, n: int) -> None:
        """Any run of messages that have durable places; a real sender keeps their order, this one need not."""
        sendable = self.sender.sendable()
        first = n % (len(sendable) + 1)
        for message in sendable[first : first + 3]:
            self.packets.append(self.sender.packet(message, self.now_ms))

    def session_ack(self, n: int) -> None:
        for number in list(self.sender.numbers.values())[n % 3 :: 2]:
            self.sender.forget(self.sender.stream.received_session_ack(number))

    def expire(self, n: int) -> None:
        sendable = self.sender.sendable()
        if sendable:
            self.sender.expire(sendable[n % len(sendable)])

    def lose_session(self, n: int) -> None:
        released, again = self.sender.stream.session_lost()
        self.sender.forget(released)
        for message in again:
            if message in self.sender.numbers:
                self.packets.append(self.sender.packet(message, self.now_ms))

    def wait(self, n: int) -> None:
        self.now_ms += (1_000, 30_000, 300_000)[n % 3]
        for message in self.sender.stream.handle_timer(self.now_ms):
            self.packets.append(self.sender.packet(message, self.now_ms))
        self.acks += [due.body for due in self.receiver.order.handle_timer(self.now_ms)]

    def crash_sender(self, n: int) -> None:
        self.sender.start(self.now_ms)
        self.sender_catches_up()

    def sender_catches_up(self) -> None:
        for place in list(self.sender.disk.messages.values()):
            if place is None:
                self.sender.assign()

    # The link

    def deliver(self, n: int) -> None:
        """One packet, not always the oldest; sometimes it stays to be delivered again."""
        if self.packets:
            place = n // 2 % len(self.packets)
            header, message = self.packets[place] if n % 2 else self.packets.pop(place)
            self.receiver.arrive(header, message, self.now_ms)

    def deliver_all(self, n: int) -> None:
        for header, message in self.packets:
            self.receiver.arrive(header, message, self.now_ms)
        self.packets.clear()

    def lose(self, n: int) -> None:
        del self.packets[n % 3 :: 2]

    def acknowledge(self, n: int) -> None:
        """What the sender forgets may not reach its disk before a crash."""
        if self.acks:
            place = n // 4 % len(self.acks)
            body = self.acks[place] if n % 2 else self.acks.pop(place)
            self._take(body, durable=bool(n & 2))

    def _take(self, body: OrderAckBody, *, durable: bool) -> None:
        answer = self.sender.ids.order_ack(body, self.now_ms)
        if answer is not None:
            self.sender.forget(answer[1], durable=durable)

    def good_moment(self, n: int) -> None:
        """Everything goes well for once, so that sequences end and new ones begin."""
        self.sender.commit()
        for message in self.sender.sendable():
            header, body = self.sender.packet(message, self.now_ms)
            self.receiver.arrive(header, body, self.now_ms)
            self.sender.forget(self.sender.stream.received_session_ack(header.tx_sequence_number))
        self.receiver.commit()
        self.now_ms += 11_000
        for due in self.receiver.order.handle_timer(self.now_ms):
            self._take(due.body, durable=bool(n & 1))

    # The receiver

    def commit_messages(self, n: int) -> None:
        self.receiver.commit()

    def crash_receiver(self, n: int) -> None:
        self.receiver.start(self.now_ms)

    # What must hold

    def check(self) -> None:
        queue = self.receiver.disk.queue
        assert all(a < b for a, b in pairwise(queue)), "twice, or out of order"
        known = {*queue, *self.sender.disk.messages, *self.sender.removed}
        assert known >= set(range(self.sender.submitted)), "forgotten before it arrived"

    def heal(self) -> None:
        """When the link is good again, everything arrives."""
        self.packets.clear()
        self.acks.clear()
        self.sender_catches_up()
        for _ in range(3):
            self.good_moment(1)
        self.check()
        assert self.sender.sendable() == []
        assert set(self.receiver.disk.queue) >= set(range(self.sender.submitted)) - self.sender.removed
        assert len(self.sender.stream) == 0


Action = Callable[[World, int], None]
ACTIONS: dict[Action, int] = {
    World.submit: 6,
    World.commit_places: 6,
    World.send: 8,
    World.session_ack: 4,
    World.expire: 1,
    World.lose_session: 1,
    World.wait: 4,
    World.crash_sender: 1,
    World.deliver: 8,
    World.deliver_all: 2,
    World.lose: 2,
    World.acknowledge: 4,
    World.good_moment: 1,
    World.commit_messages: 4,
    World.crash_receiver: 1,
}
"""What may happen, and how often."""
DECK = [action for action, weight in ACTIONS.items() for _ in range(weight)]


def play(steps: Iterable[tuple[Action, int]]) -> World:
    world = World()
    for action, n in steps:
        action(world, n)
        world.check()
    world.heal()
    return world


@pytest.mark.spec("MQQB-3.1.3.2-e")
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(DECK), st.integers(0, 15)), max_size=80))
def test_exactly_once_in_order(steps: list[tuple[Action, int]]) -> None:
    play(steps)


@pytest.mark.parametrize("seed", range(20))
def test_exactly_once_in_order_for_long(seed: int) -> None:
    """Long walks; a failure replays from its seed."""
    dice = random.Random(seed)
    sequences = set()
    for _ in range(10):
        world = play((dice.choice(DECK), dice.randrange(16)) for _ in range(300))
        sequences.add(world.sender.disk.last_id)
    assert max(sequences) > first_sequence_id(7) + 3  # sequences did end and begin


@pytest.mark.spec("MQQB-3.1.1.7.3-a")
def test_the_published_exchange() -> None:
    """Two messages with positive journaling, each with its OrderAck; one SessionAck for both; two FinalAcks when
    they are read, and a SessionAck for these; then silence until the session ends."""
    pair = support.Pair()
    pair.now_ms += (
        500  # a round trip that leaves time for the OrderAcks: recoverables are acknowledged after 4 s
    )
    pair.run()
    del pair.trace[:]
    final: FinalAcks[int] = FinalAcks(OURS)
    ids: Sequences[int] = Sequences(first_sequence_id(7))
    stream = OrderSender(ids, TIMERS.resend_timer_table_s, pair.now_ms)
    receiver: OrderReceiver[str] = OrderReceiver(TIMERS, {}, pair.now_ms)

    def answer(body: OrderAckBody | FinalAckBody, message_class: int) -> None:
        packet = build_order_message(
            body, message_class, source=THEIRS, destination=OURS, message_id=1, sent_time=0
        )
        pair.right.send(packet.data, "answer", pair.now_ms)
        pair.run()
        (arrived,) = support.found(pair.events["left"], MessagesReceived)[-1].messages.messages
        assert order_acknowledgment(arrived) == body

    for number in (1, 2):
        message = support.journaled(number, positive=True)
        place = stream.assign(number, final.track(message, number))
        assert place is not None
        pair.left.send(placed(message.data, place), number, pair.now_ms)
        stream.sent(number, pair.now_ms)
        pair.run()
        header = support.found(pair.events["right"], MessagesReceived)[-1].messages.message(0).transaction
        assert header is not None
        assert receiver.judge_all(STREAM, [header], "link", pair.now_ms, 0) == [0]
        receiver.durable(STREAM, receiver.advance(STREAM, header, "link", pair.now_ms, 0))
        pair.wait(500)
        (due,) = receiver.handle_timer(pair.now_ms)
        answer(due.body, MessageClass.ORDER_ACK)
        assert ids.order_ack(due.body, pair.now_ms) is not None
    pair.wait(4_000)
    assert support.settled(pair.events["left"]) == [1, 2]
    for number in (1, 2):
        assert stream.received_session_ack(number) == Released([], [number])
        body = FinalAckBody(stream.sequence_id, number, number - 1, OURS, number)
        answer(body, MessageClass.ACK_RECEIVE)
        assert final.receive(body, MessageClass.ACK_RECEIVE) == Settled(number, Fate.JOURNAL, True)
    pair.wait(700_000)
    assert [f"{side} {_name(packet)}" for side, packet in pair.trace] == [
        "left message",
        "right OrderAck",
        "left message",
        "right OrderAck",
        "right SessionAck",
        "right FinalAck",
        "right FinalAck",
        "left SessionAck",
    ]
    assert len(final) == len(stream) == 0
    for name in ("left", "right"):
        support.only_closing(pair.events[name])


def _name(packet: object) -> str:
    if not isinstance(packet, UserMessage):
        return type(packet).__name__
    return {0: "message", 0xFF: "OrderAck", 0x4000: "FinalAck"}[packet.properties.message_class]

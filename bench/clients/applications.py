"""Producer and consumer of ``bench/paths.py``: applications that use the Python client over a unix socket.

Each is a job of a process of its own (:mod:`clients.actor`). Both first let some messages through that are not
measured, so that connections and sessions stand; then the producer waits until it is told to go. Messages are
numbered, and the consumer raises an exception unless each number comes exactly once and nothing is left over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from random import Random
from typing import Any

import msmq
from msmq.client import Acknowledge, Delivery, Message, ReceivedMessage
from msmq.errors import IoTimeoutError

BODY_BYTES = 1024
LARGE_BYTES = 3_900_000
NUMBER_BYTES = 8
QUEUE, ADMIN, ANSWERS, DEAD = (f"private$\\{name}" for name in ("bench", "admin", "answers", "dead"))
POLL_S = 0.05
SETTLE_S = 60.0
LEFT_OVER_S = 0.2
LONG_S = 3600


@dataclass(frozen=True)
class Load:
    """What a producer sends and a consumer expects."""

    kind: str
    """plain, asks, mix or large."""
    count: int
    warm: int
    window: int
    transactional: bool = False
    tasks: bool = False
    """One task for each message under way, instead of one call that sends all of them."""

    @property
    def total(self) -> int:
        return self.warm + self.count


@dataclass(frozen=True)
class Place:
    """A host as its applications see it: where they connect, and how others name its queues."""

    api: str
    names: str = ".\\"
    """What stands in front of the path of a queue."""


# --- messages -----------------------------------------------------------------------------------------------------


def numbered(numbers: range, size: int) -> Iterator[bytes]:
    """Bodies that begin with their numbers."""
    rest = (bytes(range(256)) * (size // 256 + 1))[: size - NUMBER_BYTES]
    return (number.to_bytes(NUMBER_BYTES, "little") + rest for number in numbers)


def number_of(message: ReceivedMessage) -> int:
    """The number of a message; one with a short body has it as its application tag."""
    body = message.body
    if len(body) >= NUMBER_BYTES:
        return int.from_bytes(body[:NUMBER_BYTES], "little")
    return message.application_tag


def mixed(numbers: range, place: Place) -> list[Message]:
    """Messages that differ in everything an application may say of them and that still arrive: the time limits are
    long, and nothing is signed or encrypted."""
    rng = Random(numbers.start)
    return [_mixed(number, rng, place.names) for number in numbers]


def _mixed(number: int, rng: Random, names: str) -> Message:
    size = rng.choice((0, rng.randrange(8), rng.randrange(256), rng.randrange(2048), rng.randrange(8193)))
    body = (number.to_bytes(NUMBER_BYTES, "little") + rng.randbytes(16) * (size // 16 + 1))[:size]
    message = Message(body, application_tag=number)
    message.delivery = rng.choice((Delivery.DEFAULT, Delivery.EXPRESS, Delivery.RECOVERABLE))
    message.dead_letter = rng.random() < 0.5
    if rng.random() < 0.5:
        message.priority = rng.randrange(8)
    if rng.random() < 0.5:
        message.label = rng.choice(("order", "größer", "注文 📦", "x" * rng.randrange(1, 250)))
    if rng.random() < 0.2:
        message.extension = rng.randbytes(rng.randrange(1, 200))
    if rng.random() < 0.3:
        message.correlation_id = rng.randbytes(20)
    if rng.random() < 0.3:
        message.response_queue = f"{names}{ANSWERS}"
    if rng.random() < 0.3:
        message.time_to_reach_queue = rng.randrange(LONG_S, 10 * LONG_S)
    if rng.random() < 0.3:
        message.time_to_be_received = rng.randrange(LONG_S, 10 * LONG_S)
    if rng.random() < 0.2:
        message.journal = True
    if rng.random() < 0.2:
        message.dead_letter_queue = f".\\{DEAD}"
    if rng.random() < 0.4:
        message.admin_queue = f"{names}{ADMIN}"
        message.acknowledgements = rng.choice(
            (
                Acknowledge.FULL_REACH_QUEUE,
                Acknowledge.FULL_RECEIVE,
                Acknowledge.NACK_REACH_QUEUE,
                Acknowledge.NACK_RECEIVE,
                Acknowledge.FULL_REACH_QUEUE | Acknowledge.FULL_RECEIVE,
            )
        )
    return message


def _made(load: Load, numbers: range, place: Place) -> tuple[Iterable[Any], dict[str, Any], int]:
    """Bodies or messages, the properties they have in common, and how many acknowledgments they will have."""
    common: dict[str, Any] = {}
    if load.transactional and place.names != ".\\":
        common["delivery"] = Delivery.TRANSACTIONAL
    if load.kind == "mix":
        messages = mixed(numbers, place)
        asked = [message.acknowledgements for message in messages]
        return messages, common, sum(bool(each & 1) + bool(each & 2) for each in asked)
    if load.kind == "large":
        return list(numbered(numbers, LARGE_BYTES)), common, 0
    if load.kind == "asks":
        common["admin_queue"] = f"{place.names}{ADMIN}"
        common["acknowledgements"] = Acknowledge.FULL_REACH_QUEUE
        common["time_to_be_received"] = LONG_S
        return numbered(numbers, BODY_BYTES), common, len(numbers)
    return numbered(numbers, BODY_BYTES), common, 0


# --- jobs -----------------------------------------------------------------------------------------------------------


async def create(pipe: Pipe, place: Place, transactional: bool) -> None:
    """Make every queue that a load may name."""
    async with msmq.connect(place.api) as mq:
        await mq.create_queue(f".\\{QUEUE}", transactional=transactional)
        for path in (ADMIN, ANSWERS):
            await mq.create_queue(f".\\{path}")
        await mq.create_queue(f".\\{DEAD}", transactional=transactional)


async def produce(pipe: Pipe, place: Place, target: str, load: Load) -> None:
    """Send; says when the first message left and when the last one was confirmed. It returns when the outgoing queues
    are empty and all acknowledgments that were asked for are there."""
    async with msmq.connect(place.api, window=load.window) as mq:
        queue = mq.queue(f"{target}{QUEUE}")
        messages, common, early = _made(load, range(load.warm), place)
        await _send(queue, messages, common, load)
        await _settled(mq, early)
        messages, common, acknowledgments = _made(load, range(load.warm, load.total), place)
        pipe.send("warm")
        await asyncio.to_thread(pipe.recv)
        began = time.monotonic()
        await _send(queue, messages, common, load)
        pipe.send((began, time.monotonic()))
        await _settled(mq, early + acknowledgments)


async def _send(queue: msmq.Queue, messages: Iterable[Any], common: dict[str, Any], load: Load) -> None:
    if not load.tasks:
        await queue.send_many(messages, **common)
        return
    waiting = iter(messages)

    async def send() -> None:
        for message in waiting:
            await queue.send(message, **common)

    await asyncio.gather(*(send() for _ in range(load.window)))


async def await_settled(pipe: Pipe, place: Place, acknowledgments: int) -> None:
    """Wait until so many acknowledgments stand in the administration queue."""
    async with msmq.connect(place.api) as mq:
        await _settled(mq, acknowledgments)


async def _settled(mq: msmq.Connection, acknowledgments: int) -> None:
    give_up_s = time.monotonic() + SETTLE_S
    while True:
        found = (await mq.queue_info(f".\\{ADMIN}")).messages
        left = sum(queue.messages for queue in await mq.outgoing_queues())
        if found >= acknowledgments and not left:
            break
        if time.monotonic() > give_up_s:
            raise AssertionError(
                f"{found} of {acknowledgments} acknowledgments came, {left} messages never left"
            )
        await asyncio.sleep(POLL_S)


async def consume(pipe: Pipe, place: Place, load: Load) -> tuple[float, float]:
    """Receive; gives when it began and when the last acknowledgement was confirmed."""
    seen = bytearray(load.total)
    async with msmq.connect(place.api) as mq:
        queue = mq.queue(f".\\{QUEUE}")
        async with queue.receiver(prefetch=load.window) as receiver:
            pipe.send("open")
            await _receive(receiver, load.warm, load.window, seen)
            pipe.send("warm")
            began = time.monotonic()
            await _receive(receiver, load.count, load.window, seen)
            ended = time.monotonic()
            try:
                more = await receiver.receive(LEFT_OVER_S)
            except IoTimeoutError:
                pass
            else:
                raise AssertionError(f"number {number_of(more)} came in addition")
    assert all(seen), f"{seen.count(0)} messages did not come"
    return began, ended


async def _receive(receiver: msmq.Receiver, count: int, window: int, seen: bytearray) -> None:
    group: list[ReceivedMessage] = []
    pending: list[asyncio.Future[None]] = []
    together = max(window // 4, 1)
    for left in range(count - 1, -1, -1):
        message = await receiver.receive()
        number = number_of(message)
        assert not seen[number], f"number {number} came twice"
        seen[number] = 1
        group.append(message)
        if len(group) == together or not left:
            pending.append(receiver.acknowledge(*group))
            group = []
    await asyncio.gather(*pending)

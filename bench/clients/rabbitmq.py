"""What the Python clients of RabbitMQ do in the same time: run by ``bench/client.py`` in an environment of their own.

``python rabbitmq.py CLIENT KIND PORT MESSAGES WINDOW LATENCIES`` makes a durable queue of that kind, does with it what
``bench/client.py`` does with ours, deletes it, and prints messages per second and latencies as JSON. Nothing of this
project is imported. A send counts when it is confirmed. RabbitMQ does not confirm acknowledgements: an answer to a
question that was asked after the last of them tells that the broker has read them.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

BODY = bytes(range(256)) * 4
GROUP = 64
"""Messages that one acknowledgement is for, where they are grouped."""


class Plan:
    """What to do."""

    def __init__(self, kind: str, port: int, messages: int, window: int, latencies: int) -> None:
        self.queue = f"bench-{time.monotonic_ns()}"
        self.arguments = {"x-queue-type": kind}
        self.port = port
        self.messages = messages // window * window
        self.window = window
        self.latencies = latencies


# --- aio-pika -----------------------------------------------------------------------------------------------------


class AioPika:
    """aio-pika, used as its documentation does: tasks that publish, a callback that is given messages."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def run(self) -> dict[str, Any]:
        import uvloop

        result: dict[str, Any] = uvloop.run(self._run())
        return result

    async def _run(self) -> dict[str, Any]:
        import aio_pika

        plan = self._plan
        connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{plan.port}/")
        async with connection:
            self._channel = await connection.channel(publisher_confirms=True)
            await self._channel.set_qos(prefetch_count=plan.window)
            self._queue = await self._channel.declare_queue(
                plan.queue, durable=True, arguments=plan.arguments
            )
            sends = [await self._send()]
            grouped = await self._receive(GROUP)
            sends.append(await self._send())
            each = await self._receive(1)
            latencies = []
            for _ in range(plan.latencies):
                began = time.perf_counter()
                await self._publish()
                latencies.append(time.perf_counter() - began)
            await self._queue.delete(if_unused=False, if_empty=False)
        return {"send": sends, "receive grouped": [grouped], "receive each": [each], "latencies": latencies}

    async def _publish(self) -> None:
        import aio_pika

        message = aio_pika.Message(BODY, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await self._channel.default_exchange.publish(message, self._plan.queue)

    async def _send(self) -> float:
        plan = self._plan

        async def sender() -> None:
            for _ in range(plan.messages // plan.window):
                await self._publish()

        began = time.perf_counter()
        await asyncio.gather(*(sender() for _ in range(plan.window)))
        return plan.messages / (time.perf_counter() - began)

    async def _receive(self, group: int) -> float:
        done = asyncio.Event()
        received = 0

        async def take(message: Any) -> None:
            nonlocal received
            received += 1
            assert len(message.body) == len(BODY)
            if group == 1:
                await message.ack()
            elif received % group == 0 or received == self._plan.messages:
                await message.ack(multiple=True)
            if received == self._plan.messages:
                done.set()

        began = time.perf_counter()
        tag = await self._queue.consume(take)
        await done.wait()
        await self._channel.declare_queue(self._plan.queue, passive=True)
        taken = time.perf_counter() - began
        await self._queue.cancel(tag)
        return self._plan.messages / taken


# --- pika ---------------------------------------------------------------------------------------------------------


class Pika:
    """pika's SelectConnection: callbacks all the way, one step after the other."""

    def __init__(self, plan: Plan) -> None:
        import pika

        self._plan = plan
        self._found: dict[str, list[float]] = {
            "send": [],
            "receive grouped": [],
            "receive each": [],
            "latencies": [],
        }
        self._properties = pika.BasicProperties(delivery_mode=2)
        self._steps: list[Callable[[], None]] = [
            lambda: self._send(plan.messages, plan.window, "send"),
            lambda: self._receive(GROUP, "receive grouped"),
            lambda: self._send(plan.messages, plan.window, "send"),
            lambda: self._receive(1, "receive each"),
            lambda: self._send(plan.latencies, 1, "latencies"),
        ]
        parameters = pika.ConnectionParameters("127.0.0.1", plan.port)
        self._connection = pika.SelectConnection(
            parameters, on_open_callback=self._opened, on_open_error_callback=self._failed
        )

    def run(self) -> dict[str, Any]:
        self._connection.ioloop.start()
        return self._found

    def _failed(self, _: Any, error: Any) -> None:
        raise SystemExit(f"RabbitMQ does not answer: {error}")

    def _opened(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._channel_opened)

    def _channel_opened(self, channel: Any) -> None:
        plan = self._plan
        self._channel = channel
        channel.confirm_delivery(self._confirmed)
        channel.basic_qos(prefetch_count=plan.window)
        channel.queue_declare(plan.queue, durable=True, arguments=plan.arguments, callback=self._next)
        self._published = 0

    def _next(self, _: Any = None) -> None:
        if self._steps:
            self._steps.pop(0)()
        else:
            self._channel.queue_delete(self._plan.queue, callback=self._deleted)

    def _deleted(self, _: Any) -> None:
        self._connection.add_on_close_callback(lambda *_: self._connection.ioloop.stop())
        self._connection.close()

    def _send(self, count: int, window: int, what: str) -> None:
        self._what = what
        self._last = self._published + count
        self._acknowledged = self._published
        self._singles: set[int] = set()
        self._window = window
        self._began = time.perf_counter()
        self._fill()

    def _fill(self) -> None:
        publish, queue = self._channel.basic_publish, self._plan.queue
        done = self._acknowledged + len(self._singles)
        while self._published < self._last and self._published - done < self._window:
            self._published += 1
            self._one_began = time.perf_counter()
            publish("", queue, BODY, self._properties)

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        assert method.NAME == "Basic.Ack", method
        if self._window == 1:
            self._found["latencies"].append(time.perf_counter() - self._one_began)
        if method.multiple:
            self._acknowledged = max(self._acknowledged, method.delivery_tag)
            self._singles = {tag for tag in self._singles if tag > self._acknowledged}
        else:
            self._singles.add(method.delivery_tag)
        while self._acknowledged + 1 in self._singles:
            self._acknowledged += 1
            self._singles.remove(self._acknowledged)
        if self._acknowledged < self._last:
            self._fill()
            return
        if self._what == "send":
            self._found["send"].append(self._plan.messages / (time.perf_counter() - self._began))
        self._next()

    def _receive(self, group: int, what: str) -> None:
        count = self._plan.messages
        received = 0
        began = time.perf_counter()

        def take(channel: Any, method: Any, _: Any, body: bytes) -> None:
            nonlocal received
            received += 1
            assert len(body) == len(BODY)
            if group == 1:
                channel.basic_ack(method.delivery_tag)
            elif received % group == 0 or received == count:
                channel.basic_ack(method.delivery_tag, multiple=True)
            if received == count:
                channel.queue_declare(self._plan.queue, passive=True, callback=finished)

        def finished(_: Any) -> None:
            self._found[what].append(count / (time.perf_counter() - began))
            self._channel.basic_cancel(tag, callback=self._next)

        tag = self._channel.basic_consume(self._plan.queue, take)


def main(client: str, kind: str, *numbers: str) -> None:
    plan = Plan(kind, *map(int, numbers))
    made = AioPika(plan) if client == "aio-pika" else Pika(plan)
    print(json.dumps(made.run()))


if __name__ == "__main__":
    main(*sys.argv[1:])

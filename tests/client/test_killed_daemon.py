"""A transaction over three queues, and a daemon that is killed at every step of it: all or nothing.

The daemon is a real process, killed with SIGKILL: what it had not written is gone. The client goes on with the next
one, which finds what the last one left.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

import msmq
from msmq.testing.traffic import client_message
from tests import ready
from tests.client.support import mail_to, messages_of
from tests.mail import Mail
from tests.ready import AwaitedFork

NAMES = ("in", "left", "right")
STEPS = ("begun", "received", "sent left", "sent right", "committing", "committed")
ROUNDS = 4
PATIENCE_S = 60


class Process:
    """``msmq serve`` in a process of its own."""

    def __init__(self, directory: Path) -> None:
        self.address = f"unix:{directory / 'api'}"
        self._arguments = ["--data", str(directory / "data"), "--name", "HOST", "--listen", "127.0.0.1"]
        self._arguments += ["--port", "0", "--ping-port", "0", "--api", self.address]
        self._fork: AwaitedFork | None = None

    async def start(self) -> None:
        self._fork = AwaitedFork(ready.start("msmq", "serve", *self._arguments))
        async with asyncio.timeout(PATIENCE_S):
            assert (await self._fork.readline()).startswith(b"ready")

    def send_signal(self, number: int) -> None:
        assert self._fork is not None
        self._fork.send_signal(number)

    async def restart(self) -> None:
        """Killed, and there again: a client that waits for an answer need not wait for its time-out."""
        await self.kill()
        await self.start()

    async def kill(self) -> None:
        fork, self._fork = self._fork, None
        if fork is not None:
            fork.kill()
            await fork.wait()


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[Process]:
    process = Process(directory)
    await process.start()
    try:
        yield process
    finally:
        await process.kill()


def queues(mq: msmq.Connection) -> list[msmq.Queue]:
    return [mq.queue(f".\\private$\\{name}") for name in NAMES]


async def state(mq: msmq.Connection) -> list[list[bytes]]:
    return [[message.body async for message in queue.browse()] for queue in queues(mq)]


class Victim:
    """One transaction that somebody kills the daemon under."""

    def __init__(self, process: Process, mail: Mail, step: str, delay_s: float) -> None:
        self._process = process
        self._mail = mail
        self._step = step
        self._delay_s = delay_s
        self.committed = False

    async def run(self) -> None:
        async with msmq.connect(self._process.address, timeout=PATIENCE_S) as mq:
            source, left, right = queues(mq)
            transaction = mq.transaction()
            await transaction.begin()
            await self._reached("begun")
            message = await transaction.receive(source, timeout=PATIENCE_S)
            await self._reached("received")
            await transaction.send(left, self._copy(message))
            await self._reached("sent left")
            await transaction.send(right, self._copy(message))
            await self._reached("sent right")
            if self._step == "committing":
                killing = asyncio.ensure_future(self._kill_soon())
                try:
                    await transaction.commit()
                    self.committed = True
                finally:
                    await killing
                return
            await transaction.commit()
            self.committed = True
            await self._reached("committed")

    def _copy(self, message: msmq.ReceivedMessage) -> msmq.Message:
        """The body goes on, in a message of any kind."""
        return client_message(self._mail.draft(message.body, True))

    async def _reached(self, step: str) -> None:
        if step == self._step:
            await self._process.restart()

    async def _kill_soon(self) -> None:
        await asyncio.sleep(self._delay_s)
        await self._process.restart()


async def test_all_or_nothing_however_the_daemon_dies(tmp_path: Path) -> None:
    random = Random(5)
    mail = mail_to("in")
    async with serving(tmp_path) as process:
        async with msmq.connect(process.address) as mq:
            for name in NAMES:
                await mq.create_queue(f".\\private$\\{name}", transactional=True)
            await queues(mq)[0].send_many(messages_of([mail.numbered(True) for _ in range(100)]))
        for step in [step for _ in range(ROUNDS) for step in STEPS]:
            async with msmq.connect(process.address, timeout=PATIENCE_S) as mq:
                before = await state(mq)
            victim = Victim(process, mail, step, random.uniform(0, 0.004))
            try:
                await victim.run()
            except msmq.ClientError:
                assert step != "committed"
            async with msmq.connect(process.address, timeout=PATIENCE_S) as mq:
                after = await state(mq)
            first, *rest = before[0]
            done = [rest, [*before[1], first], [*before[2], first]]
            assert after in (
                (before, done) if step == "committing" else ((done,) if victim.committed else (before,))
            )
            if victim.committed:
                assert after == done, "a commit that was confirmed is kept"


async def test_an_unanswered_commit_is_said_to_be_unknown(tmp_path: Path) -> None:
    async with serving(tmp_path) as process, msmq.connect(process.address, timeout=PATIENCE_S) as mq:
        queue = await mq.create_queue(".\\private$\\q", transactional=True)
        transaction = mq.transaction()
        await transaction.begin()
        await transaction.send(queue, "x")
        process.send_signal(signal.SIGSTOP)
        committing = asyncio.ensure_future(transaction.commit())
        await asyncio.sleep(0.05)
        await process.kill()
        with pytest.raises(msmq.OutcomeUnknownError):
            await committing


async def test_poison_is_in_one_place_however_the_daemon_dies(tmp_path: Path) -> None:
    """Rejected for the last time, with the daemon killed under it: in its queue or in the subqueue, and once."""
    random = Random(7)
    async with serving(tmp_path) as process:
        async with msmq.connect(process.address) as mq:
            queue = await mq.create_queue(
                ".\\private$\\in", transactional=True, max_deliveries=1, poison_subqueue="poison"
            )
            await queue.send_many(str(number) for number in range(8))
        for number in range(8):
            async with msmq.connect(process.address, timeout=PATIENCE_S) as mq:
                transaction = await mq.transaction().begin()
                await transaction.receive(mq.queue(".\\private$\\in"), timeout=PATIENCE_S)
                aborting = asyncio.ensure_future(transaction.abort())
                await asyncio.sleep(random.uniform(0, 0.004))
                await process.restart()
                await asyncio.gather(aborting, return_exceptions=True)
            async with msmq.connect(process.address, timeout=PATIENCE_S) as mq:
                left = [message.text async for message in mq.queue(".\\private$\\in").browse()]
                poison = [message.text async for message in mq.queue(".\\private$\\in;poison").browse()]
            assert sorted(left + poison) == [str(each) for each in range(8)], number

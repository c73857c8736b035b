"""Queues whose messages are not alike, read as applications read: ahead and in groups."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msmq
from msmq.wire.classes import MessageClass
from tests.client.support import QUEUE, Restartable
from tests.server.support import PATIENCE_S

ADMIN = ".\\private$\\admin"
ASKED = msmq.Acknowledge.FULL_RECEIVE | msmq.Acknowledge.ARRIVAL
GROUP = 50


def mixed(count: int) -> list[msmq.Message]:
    """Every fifth message asks to be told of its arrival and of its receipt."""
    return [
        msmq.Message(b"%d" % number, admin_queue=ADMIN, acknowledgements=ASKED)
        if number % 5 == 0
        else msmq.Message(b"%d" % number)
        for number in range(count)
    ]


async def test_groups_of_mixed_messages_are_acknowledged_whole(tmp_path: Path) -> None:
    async with Restartable(tmp_path) as host:
        async with msmq.connect(host.address) as mq:
            await mq.create_queue(QUEUE)
            await mq.create_queue(ADMIN)
            queue = mq.queue(QUEUE)
            await queue.send_many(mixed(1_000))
            read = 0
            async with queue.receiver(prefetch=256) as receiver:
                while read < 500:
                    group = [await receiver.receive(timeout=PATIENCE_S) for _ in range(GROUP)]
                    assert [message.body for message in group] == [
                        b"%d" % number for number in range(read, read + GROUP)
                    ]
                    await receiver.acknowledge(*group)
                    read += GROUP
        await host.stop()
        await host.start()
        async with msmq.connect(host.address) as mq:
            left = [message.body async for message in mq.queue(QUEUE).browse()]
            assert left == [b"%d" % number for number in range(500, 1_000)]
            told = Counter([message.message_class async for message in mq.queue(ADMIN).browse()])
            assert told == {MessageClass.ACK_REACH_QUEUE: 200, MessageClass.ACK_RECEIVE: 100}

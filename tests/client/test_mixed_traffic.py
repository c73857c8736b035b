"""Queues whose messages are not alike, read as applications read: ahead and in groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msmq
from msmq.testing.traffic import Delivery, Draft
from msmq.wire.classes import MessageClass
from tests.client.support import ADMIN, QUEUE, Restartable, mail_to, messages_of
from tests.mail import in_order
from tests.server.support import PATIENCE_S

GROUP = 50


def asking(drafts: Iterable[Draft], flag: msmq.Acknowledge) -> int:
    """How many of them ask for an acknowledgment in our administration queue."""
    return sum(
        draft.admin_queue.endswith("admin") and bool(draft.acknowledgements & flag) for draft in drafts
    )


def due(sent: list[Draft], read: list[Draft]) -> dict[int, int]:
    return {
        MessageClass.ACK_REACH_QUEUE: asking(sent, msmq.Acknowledge.ARRIVAL),
        MessageClass.ACK_RECEIVE: asking(read, msmq.Acknowledge.RECEIVE),
    }


async def told(mq: msmq.Connection) -> Counter[int]:
    return Counter([message.message_class async for message in mq.queue(ADMIN).browse()])


async def test_groups_of_mixed_messages_are_acknowledged_whole(tmp_path: Path) -> None:
    mail = mail_to(everything=False)
    sent = [mail.numbered() for _ in range(1_000)]
    standing = in_order(sent)
    taken, rest = standing[:500], standing[500:]
    async with Restartable(tmp_path) as host:
        async with msmq.connect(host.address) as mq:
            await mq.create_queue(QUEUE)
            await mq.create_queue(ADMIN)
            queue = mq.queue(QUEUE)
            await queue.send_many(messages_of(sent))
            async with queue.receiver(prefetch=256) as receiver:
                for start in range(0, len(taken), GROUP):
                    group = [await receiver.receive(timeout=PATIENCE_S) for _ in range(GROUP)]
                    assert [message.body for message in group] == [
                        draft.body for draft in taken[start : start + GROUP]
                    ]
                    await receiver.acknowledge(*group)
            expected = due(sent, taken)
            assert min(expected.values()) > 20
            assert await told(mq) == expected
        await host.stop()
        await host.start()
        async with msmq.connect(host.address) as mq:
            left = [message.body async for message in mq.queue(QUEUE).browse()]
            assert left == [draft.body for draft in rest if draft.delivery is not Delivery.EXPRESS]
            kept = [
                [each for each in drafts if each.delivery is not Delivery.EXPRESS] for drafts in (sent, taken)
            ]
            assert await told(mq) == due(*kept)

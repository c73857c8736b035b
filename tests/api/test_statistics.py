"""Live figures."""

from __future__ import annotations

from pathlib import Path

from msmq.api.generated import msmq_pb2 as pb
from msmq.api.statistics import Counting
from msmq.manager.model import QueueType
from msmq.manager.queues.queue import Queue
from tests.api.support import QUEUE, address, calling, daemon
from tests.api.test_receive import fill


async def test_figures_follow_what_happens(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        await call("CreateQueue", pb.CreateQueueRequest(path=QUEUE))
        await call("CreateQueue", pb.CreateQueueRequest(path=".\\private$\\t", transactional=True))
        await fill(call, 1)
        watching = call.stream("WatchStatistics", pb.WatchStatisticsRequest(interval_ms=100))
        first = await watching.read()
        assert (first.messages, first.arrived_total, first.removed_total) == (1, 1, 0)
        await fill(call, 4)
        await fill(call, 2, ".\\private$\\t")
        await call("Send", pb.SendRequest(queue="FAR\\private$\\q", messages=[pb.Message(body=b"x")]))
        await call("Lookup", pb.LookupRequest(queue=QUEUE, seek=pb.SEEK_FIRST, receive=True))
        while (report := await watching.read()).removed_total == 0:
            pass
        watching.cancel()
        by_path = {queue.path: queue for queue in report.queues}
        queue = by_path["HOST\\private$\\q"]
        assert (queue.messages, queue.arrived_total, queue.removed_total) == (4, 5, 1)
        assert by_path["HOST\\private$\\t"].arrived_total == 2
        assert [outgoing.messages for outgoing in report.outgoing] == [1]
        assert report.time_ms > first.time_ms
        assert report.started_ms == first.started_ms
        limited = call.stream("WatchStatistics", pb.WatchStatisticsRequest(interval_ms=1, count=2))
        assert len([report async for report in limited]) == 2


def test_deleted_queues_are_not_counted_for_ever() -> None:
    queues = {0: Queue(0, "steady", QueueType.PRIVATE)}
    counting = Counting(queues)
    for number in range(1_000):
        counting.messages_removed(Queue(number, "passing", QueueType.PRIVATE), [1])
    assert len(counting.removed) < 100
    assert counting.removed[0] == 1

"""Parts of a queue: which messages stand there, reading them, and taking them out."""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

import msmq
from msmq.api import spans
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import InvalidParameterError, QueueNotFoundError
from msmq.manager.mailbox.positions import Positions
from msmq.manager.queues.queue import OpenQueueDescriptor
from tests.api.support import QUEUE, address, daemon
from tests.client.support import connected
from tests.server.support import PATIENCE_S

ALL = [(0, (1 << 64) - 1)]


async def test_a_survey_tells_what_stands_in_spans_and_stops_at_limits(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        ids = [(await queue.send(bytes(100), priority=place % 2)).lookup_id for place in range(10)]
        low, high = sorted(ids[::2]), sorted(ids[1::2])
        assert list((await queue.survey(ALL)).lookup_ids) == high + low
        assert list((await queue.survey([(high[1], high[3])])).lookup_ids) == high[2:4]
        parts = [(low[0], low[-1]), (high[2], high[-1])]
        assert list((await queue.survey(parts)).lookup_ids) == low[1:] + high[3:]
        assert list((await queue.survey(parts, most_messages=5)).lookup_ids) == [*low[1:], high[3]]
        assert list((await queue.survey(ALL, most_bytes=1)).lookup_ids) == high[:1], "but never nothing"


async def test_a_span_ends_before_a_message_that_somebody_holds(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE, transactional=True)
        first = await queue.send(b"first")
        transaction = await mq.transaction().begin()
        open_one = await queue.send(b"not yet", transaction=transaction)
        last = await queue.send(b"last")
        survey = await queue.survey(ALL)
        assert (list(survey.lookup_ids), list(survey.held)) == ([first.lookup_id], [open_one.lookup_id])
        removal = await queue.remove([first.lookup_id, open_one.lookup_id, 12345])
        assert removal.removed == 1
        assert (list(removal.held), list(removal.not_found)) == ([open_one.lookup_id], [12345])
        await transaction.commit()
        survey = await queue.survey(ALL)
        assert list(survey.lookup_ids) == [open_one.lookup_id, last.lookup_id]
        assert not survey.held


@pytest.mark.parametrize("places", [1, 2, 3, 4, 100])
async def test_a_survey_leaves_others_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: int
) -> None:
    """It tells the same, wherever it pauses."""
    monkeypatch.setattr(spans, "_PLACES_PER_TURN", places)
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE, transactional=True)
        ids = [(await queue.send(b"one", priority=number % 2)).lookup_id for number in range(8)]
        free = sorted(ids)
        assert list((await queue.survey(ALL)).lookup_ids) == free
        assert list((await queue.survey([(free[0], free[5])])).lookup_ids) == free[1:6]
        waiting = await queue.waiting([(0, free[2]), (free[2], free[7]), (free[7], ALL[0][1])])
        assert (waiting.messages, list(waiting.ends)) == (8, [free[2], free[7]])
        async with queue.receiver(prefetch=1) as taken:
            assert (await taken.receive(PATIENCE_S)).lookup_id == free[0]
            survey = await queue.survey([(0, free[3]), (free[3], ALL[0][1])])
            assert (list(survey.lookup_ids), list(survey.held)) == (free[4:], [free[0]])


async def test_a_queue_is_deleted_during_a_survey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found is told, as if the queue had been deleted right after it."""
    monkeypatch.setattr(spans, "_PLACES_PER_TURN", 2)
    async with daemon(tmp_path) as running, msmq.connect(address(running)) as mq:
        queue = await mq.create_queue(QUEUE)
        ids = [each.lookup_id for each in await queue.send_many("abcdefgh")]
        begun = spans._places

        async def deleting(
            descriptor: OpenQueueDescriptor, span: pb.Span, held: list[int]
        ) -> AsyncIterator[Positions]:
            async for part in begun(descriptor, span, held):
                yield part
                if descriptor.queue is not None:
                    running.manager.queues.delete(descriptor.queue)

        monkeypatch.setattr(spans, "_places", deleting)
        assert list((await queue.survey(ALL)).lookup_ids) == ids[:2]


async def test_messages_that_expire_during_a_survey_are_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads them afterwards must know why they are not there."""
    monkeypatch.setattr(spans, "_PLACES_PER_TURN", 2)
    async with daemon(tmp_path) as running, msmq.connect(address(running)) as mq:
        queue = await mq.create_queue(QUEUE)
        stays = [each.lookup_id for each in await queue.send_many("ab")]
        ids = [each.lookup_id for each in await queue.send_many("cdef", time_to_be_received=1000)]
        expiries, begun, turns = running.manager.mailbox.expiries, spans._places, []

        async def expiring(
            descriptor: OpenQueueDescriptor, span: pb.Span, held: list[int]
        ) -> AsyncIterator[Positions]:
            async for part in begun(descriptor, span, held):
                yield part
                turns.append(part)
                if len(turns) == 2:
                    assert descriptor.queue is not None
                    expiries._now = lambda: time.time() + 2000
                    expiries._run(descriptor.queue)

        monkeypatch.setattr(spans, "_places", expiring)
        found = await queue.survey(ALL)
        assert list(found.lookup_ids) == [*stays, *ids[:2]]
        assert found.expiring == set(ids[:2])
        assert [message.text async for message in queue.browse()] == ["a", "b"]


async def test_spans_that_do_not_ascend_tell_all_that_expire(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        ids = [each.lookup_id for each in await queue.send_many("abcdef", time_to_be_received=1000)]
        found = await queue.survey([(ids[3], ids[5]), (0, ids[1])])
        assert list(found.lookup_ids) == [*ids[4:], *ids[:2]]
        assert found.expiring == {*ids[4:], *ids[:2]}


async def test_a_span_is_read_in_batches_and_stays(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        receipts = await queue.send_many(f"{number}" for number in range(1500))
        ids = [receipt.lookup_id for receipt in receipts]
        batches = [batch async for batch in queue.span(ids[99], ids[-1])]
        assert [message.text for batch in batches for message in batch] == [str(n) for n in range(100, 1500)]
        assert len(batches) > 1
        assert (await queue.remove(ids[:500])).removed == 500
        assert (await queue.remove(ids[:500])).removed == 0, "asking twice does no harm"
        assert [message.text async for message in queue.browse()] == [str(n) for n in range(500, 1500)]
        assert [batch async for batch in queue.span(ids[0], ids[10])] == []


async def test_nothing_is_removed_from_another_queue_of_that_name(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        sent = (await queue.send(b"first")).lookup_id
        identity = (await queue.survey([])).identity
        info = await mq.queue_info(QUEUE)
        assert identity[:2] == ((await mq.manager()).identifier, info.identifier)
        assert (await queue.journal.survey([])).identity == identity
        elsewhere = await queue.remove([sent], identity._replace(queue_manager=str(uuid4())))
        assert (elsewhere.removed, elsewhere.elsewhere) == (0, True)
        missing = mq.queue(f"{QUEUE}-missing")
        assert (await missing.remove([sent], identity._replace(queue_manager=str(uuid4())))).elsewhere
        with pytest.raises(QueueNotFoundError):
            await missing.remove([sent], identity)
        replaced = await queue.remove([sent], identity._replace(queue=str(uuid4())))
        assert (replaced.removed, list(replaced.not_found), replaced.elsewhere) == (0, [sent], False)
        assert [message.body async for message in queue.browse()] == [b"first"]
        assert (await queue.remove([sent], identity)).removed == 1


async def test_what_is_known_of_a_queue_holds_until_an_older_copy_is_put_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with daemon(data) as running, msmq.connect(address(running)) as mq:
        await mq.create_queue(QUEUE)
    shutil.copytree(data, tmp_path / "copy")
    async with daemon(data) as running, msmq.connect(address(running)) as mq:
        sent = (await mq.queue(QUEUE).send(b"first")).lookup_id
        known = (await mq.queue(QUEUE).survey(ALL)).identity
    seen = sent & (1 << 56) - 1
    async with daemon(data) as running, msmq.connect(address(running)) as mq:
        found = await mq.queue(QUEUE).survey(ALL, known=known, seen=seen)
        assert (found.restored, list(found.lookup_ids)) == (False, [sent])
        assert known != found.identity
        assert known.is_same(found.identity)
    shutil.rmtree(data)
    shutil.copytree(tmp_path / "copy", data)
    async with daemon(data) as running, msmq.connect(address(running)) as mq:
        queue = mq.queue(QUEUE)
        assert (await queue.send(b"another")).lookup_id == sent, "the number is given again"
        found = await queue.survey(ALL, known=known, seen=seen)
        assert (found.restored, known.is_same(found.identity)) == (True, True)
        assert list((await queue.remove([sent], known)).not_found) == [sent]
        assert (await queue.remove([sent], found.identity)).removed == 1


async def test_how_much_waits_and_what_may_expire(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        assert (await queue.waiting(ALL))[:3] == (0, 0, 0)
        low = [each.lookup_id for each in await queue.send_many(["a", "b"], priority=1)]
        high = [each.lookup_id for each in await queue.send_many(["c"], priority=5, time_to_be_received=1000)]
        found = await queue.survey(ALL)
        assert found.expiring == set(high)
        lanes = [(lane << 56, (lane + 1 << 56) - 1) for lane in range(8)]
        waiting = await queue.waiting(lanes)
        assert (waiting.messages, waiting.bytes) == (3, found.bytes)
        assert list(waiting.ends) == [high[0], low[1]]
        assert 0 <= time.time() - waiting.oldest_time < 600
        assert (await queue.waiting([(low[0], low[1])])).messages == 1


async def test_what_was_removed_is_gone_after_a_restart(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, msmq.connect(address(running)) as mq:
        queue = await mq.create_queue(QUEUE)
        receipts = await queue.send_many(["a", "b", "c"])
        await queue.remove([receipts[1].lookup_id])
    async with daemon(tmp_path) as running, msmq.connect(address(running)) as mq:
        assert [message.text async for message in mq.queue(QUEUE).browse()] == ["a", "c"]


async def test_spans_are_of_this_computer(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        with pytest.raises(msmq.errors.MQError):
            await mq.queue("DIRECT=TCP:127.0.0.9\\private$\\q").survey(ALL)
        queue = await mq.create_queue(QUEUE)
        request = pb.RemoveRequest(queue=QUEUE, lookup_ids=range(10_001))
        with pytest.raises(InvalidParameterError):
            await mq.call("Remove", request)
        assert (await queue.survey([])).lookup_ids.tolist() == []

"""Parts of a queue: which messages stand there, reading them, and taking them out."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

import msmq
from msmq.errors import InvalidParameterError, QueueNotFoundError
from tests.api.support import QUEUE, address, daemon
from tests.client.support import connected
from tests.server.support import run

ALL = [(0, (1 << 64) - 1)]


def test_a_survey_tells_what_stands_in_spans_and_stops_at_limits(tmp_path: Path) -> None:
    async def test() -> None:
        async with connected(tmp_path) as mq:
            queue = await mq.create_queue(QUEUE)
            ids = [(await queue.send(bytes(100), priority=place % 2)).lookup_id for place in range(10)]
            low, high = sorted(ids[::2]), sorted(ids[1::2])
            assert list((await queue.survey(ALL)).lookup_ids) == high + low
            assert list((await queue.survey([(high[1], high[3])])).lookup_ids) == high[2:4]
            spans = [(low[0], low[-1]), (high[2], high[-1])]
            assert list((await queue.survey(spans)).lookup_ids) == low[1:] + high[3:]
            assert list((await queue.survey(spans, most_messages=5)).lookup_ids) == [*low[1:], high[3]]
            assert list((await queue.survey(ALL, most_bytes=1)).lookup_ids) == high[:1], "but never nothing"

    run(test)


def test_a_span_ends_before_a_message_that_somebody_holds(tmp_path: Path) -> None:
    async def test() -> None:
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

    run(test)


def test_a_span_is_read_in_batches_and_stays(tmp_path: Path) -> None:
    async def test() -> None:
        async with connected(tmp_path) as mq:
            queue = await mq.create_queue(QUEUE)
            receipts = await queue.send_many(f"{number}" for number in range(1000))
            ids = [receipt.lookup_id for receipt in receipts]
            batches = [batch async for batch in queue.span(ids[99], ids[-1])]
            assert [message.text for batch in batches for message in batch] == [
                str(n) for n in range(100, 1000)
            ]
            assert len(batches) > 1
            assert (await queue.remove(ids[:500])).removed == 500
            assert (await queue.remove(ids[:500])).removed == 0, "asking twice does no harm"
            assert [message.text async for message in queue.browse()] == [str(n) for n in range(500, 1000)]
            assert [batch async for batch in queue.span(ids[0], ids[10])] == []

    run(test)


def test_nothing_is_removed_from_another_queue_of_that_name(tmp_path: Path) -> None:
    async def test() -> None:
        async with connected(tmp_path) as mq:
            queue = await mq.create_queue(QUEUE)
            sent = (await queue.send(b"first")).lookup_id
            identity = (await queue.survey([])).identity
            info = await mq.queue_info(QUEUE)
            assert identity == ((await mq.manager()).identifier, info.identifier)
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

    run(test)


def test_what_was_removed_is_gone_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with daemon(tmp_path) as running, msmq.connect(address(running)) as mq:
            queue = await mq.create_queue(QUEUE)
            receipts = await queue.send_many(["a", "b", "c"])
            await queue.remove([receipts[1].lookup_id])
        async with daemon(tmp_path) as running, msmq.connect(address(running)) as mq:
            assert [message.text async for message in mq.queue(QUEUE).browse()] == ["a", "c"]

    run(test)


def test_spans_are_of_this_computer(tmp_path: Path) -> None:
    async def test() -> None:
        async with connected(tmp_path) as mq:
            with pytest.raises(msmq.errors.MQError):
                await mq.queue("DIRECT=TCP:127.0.0.9\\private$\\q").survey(ALL)
            queue = await mq.create_queue(QUEUE)
            request = msmq.api.generated.msmq_pb2.RemoveRequest(queue=QUEUE, lookup_ids=range(10_001))
            with pytest.raises(InvalidParameterError):
                await mq.call("Remove", request)
            assert (await queue.survey([])).lookup_ids.tolist() == []

    run(test)

"""The door by the channel: a connection that breaks, and a queue manager that is restarted, are no end."""

from __future__ import annotations

import threading
from array import array

import pytest

from msmq.client.problems import ServerNotAvailableError
from msmq.spark import doors
from msmq.spark.doors import ConsumedError, open_door
from msmq.spark.options import Access
from tests.spark.support import ORDERS, Server, eventually

ALL = [(0, (1 << 64) - 1)]


def test_a_restart_in_the_midst_of_it(server: Server) -> None:
    server.create(ORDERS)
    server.send([f"{number}" for number in range(1000)])
    with open_door(Access(server.address)) as door:
        ids = door.survey(ORDERS, ALL).lookup_ids
        assert len(ids) == 1000
        batches = door.read(ORDERS, 0, ids[-1])
        found = list(next(batches).lookup_ids)
        server.kill()
        later = threading.Timer(0.5, server.start)
        later.start()
        found += [lookup_id for batch in batches for lookup_id in batch.lookup_ids]
        later.join()
        assert array("Q", found) == ids, "each once, in order"
        server.kill()
        server.start()
        assert door.survey(ORDERS, ALL).lookup_ids == ids
        assert door.remove(ORDERS, ids[:10]).removed == 10


def test_which_queues_a_pattern_means(server: Server) -> None:
    server.create(ORDERS)
    server.create(".\\private$\\spark-of-its-own")
    with open_door(Access(server.address)) as door:
        assert door.queues(r".*orders") == [ORDERS]
        assert door.queues(r".*orders;journal") == [f"{ORDERS};JOURNAL"]
        assert door.queues(r".*") == [ORDERS], "dead letters are not meant by everything"
        assert door.queues(r".*letter\$") == [".\\deadletter$", ".\\xactdeadletter$"]
        assert door.queues(r"nothing") == []
        assert door.queues(r"HOST\\private\$\\orders") == door.queues(r"\.\\private\$\\orders") == [ORDERS]


def test_a_queue_has_one_spelling(server: Server) -> None:
    server.create(ORDERS)
    with open_door(Access(server.address)) as door, server.connect() as mq:
        for name in (
            ORDERS,
            ".\\PRIVATE$\\Orders",
            "host\\private$\\orders",
            mq.queue_info(ORDERS).format_name,
        ):
            assert door.spelt(name) == ORDERS
        assert door.spelt("Host\\private$\\none") == ".\\private$\\none", "there is none yet"
        assert door.spelt("HOST\\private$\\orders;journal").lower() == f"{ORDERS};journal"
        assert door.spelt("HOST\\deadletter$") == door.spelt(".\\deadletter$") == ".\\deadletter$"


def test_only_one_consumes_a_queue(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is told who the first is; when that one is gone, or its queue manager was restarted, it may."""
    monkeypatch.setattr(doors, "_LEASE_PATIENCE_S", 0.3)
    server.create(ORDERS)
    server.create(".\\private$\\other")
    with open_door(Access(server.address)) as first, open_door(Access(server.address)) as second:
        first.hold(ORDERS, "the first")
        second.hold(".\\private$\\other", "the second")
        with pytest.raises(ConsumedError, match=r"orders of HOST is consumed already, by the first\."):
            second.hold(ORDERS, "the second")
        server.kill()
        server.start()
        first.hold(ORDERS, "the first")
        with pytest.raises(ConsumedError):
            second.hold(ORDERS, "the second")
        first.__exit__(None, None, None)
        eventually(lambda: held(second))


def held(door: doors.Door) -> bool:
    """Whether a queue may be consumed; who had it may not be gone yet."""
    try:
        door.hold(ORDERS, "the second")
    except ConsumedError:
        return False
    return True


def test_nobody_is_there(server: Server) -> None:
    with pytest.raises(ServerNotAvailableError), open_door(Access(f"{server.address}-not", timeout_s=0.2)):
        pass

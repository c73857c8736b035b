"""The door by the channel: a connection that breaks, and a queue manager that is restarted, are no end."""

from __future__ import annotations

import threading
from array import array

import pytest

from msmq.client.problems import ServerNotAvailableError
from msmq.spark.doors import open_door
from msmq.spark.options import Access
from tests.spark.support import ORDERS, Server

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
        assert door.queues(r".*orders") == ["HOST\\private$\\orders"]
        assert door.queues(r".*orders;journal") == ["HOST\\private$\\orders;JOURNAL"]
        assert door.queues(r".*") == ["HOST\\private$\\orders"], "dead letters are not meant by everything"
        assert door.queues(r".*letter\$") == [".\\deadletter$", ".\\xactdeadletter$"]
        assert door.queues(r"nothing") == []


def test_nobody_is_there(server: Server) -> None:
    with pytest.raises(ServerNotAvailableError), open_door(Access(f"{server.address}-not", timeout_s=0.2)):
        pass

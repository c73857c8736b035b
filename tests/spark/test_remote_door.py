"""The door by remote read: a real queue manager read with the protocol that Windows machines speak."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from msmq.errors import MsmqError
from msmq.spark.doors import open_door
from msmq.spark.options import Access, OptionError
from msmq.spark.packets import Packets
from tests.server.support import free_port
from tests.spark.support import ORDERS, Server

EVERYBODY = "D:(A;;0x10000000;;;WD)(A;;0x10000000;;;AN)"
"""Generic all for everyone, anonymous callers among them."""
ALL = [(lane << 56, ((lane + 1) << 56) - 1) for lane in range(8)]


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[tuple[Server, str]]:
    """A queue manager, and how it is named for remote read."""
    port = free_port()
    config = tmp_path / "msmq.toml"
    config.write_text('[rpc]\nendpoint_mapper_port = 0\nminimum_level = "none"\n', encoding="utf-8")
    server = Server(tmp_path, "--config", str(config), "--rpc-port", str(port))
    server.start()
    server.create(ORDERS, sddl=EVERYBODY)
    yield server, f"mqrr:127.0.0.1:{port}"
    server.kill()


def test_survey_read_and_remove(remote: tuple[Server, str]) -> None:
    server, name = remote
    for priority in (2, 5):
        server.send([f"{priority}: {number}" for number in range(300)], priority=priority)
    with open_door(Access(server.address)) as channel, open_door(Access(name)) as door:
        ids = channel.survey(ORDERS, ALL).lookup_ids
        assert door.survey(ORDERS, ALL).lookup_ids == ids
        assert door.survey(ORDERS, ALL, most_messages=7).lookup_ids == ids[:7]
        assert door.survey(ORDERS, ALL, most_bytes=1).lookup_ids == ids[:1]
        batches = list(door.read(ORDERS, ids[9], ids[299]))
        assert array("Q", (each for batch in batches for each in batch.lookup_ids)) == ids[10:300]
        by_channel, remotely = next(channel.read(ORDERS, 0, ids[5])), next(door.read(ORDERS, 0, ids[5]))
        bodies = [Packets(found.packets).bodies.to_pylist() for found in (by_channel, remotely)]
        assert bodies[0] == bodies[1]
        removal = door.remove(ORDERS, [*ids[:5], 12345])
        assert (removal.removed, list(removal.not_found)) == (5, [12345])
        server.kill()
        server.start()
        assert door.survey(ORDERS, ALL).lookup_ids == ids[5:], "a restart is no end"


def test_what_goes_wrong_is_told(remote: tuple[Server, str]) -> None:
    with pytest.raises(OptionError, match="mqrr:HOST"):
        open_door(Access("mqrr:"))
    with open_door(Access(remote[1])) as door, pytest.raises(OptionError, match="name them"):
        door.queues(".*")
    with pytest.raises((MsmqError, OSError)), open_door(Access("mqrr:127.0.0.1:1", timeout_s=0.2)):
        pass


def test_spark_reads_by_it(spark: SparkSession, remote: tuple[Server, str]) -> None:
    server, name = remote
    server.send([f"order {number}" for number in range(20)])
    read = spark.read.format("msmq").option("server", name).option("queue", ORDERS).option("body", "activex")
    assert [row.body for row in read.load().select("body").collect()] == [f"order {n}" for n in range(20)]

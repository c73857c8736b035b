"""A real Spark on this computer, started once for all tests of a worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from pyspark.sql import SparkSession

from tests.spark.support import Server, environment


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("msmq tests")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .config("spark.sql.session.timeZone", "UTC")
    )
    with mock.patch.dict(os.environ, environment()):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A queue manager in a process of its own."""
    made = Server(tmp_path)
    made.start()
    yield made
    made.kill()

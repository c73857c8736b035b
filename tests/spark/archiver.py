"""``msmq pipeline`` with places to halt, for tests that kill it: arguments are those of the command, or of several that
``--then`` divides."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from itertools import groupby

from pyspark.sql import DataFrame, SparkSession

from msmq.cli import app
from msmq.spark import archive
from tests.spark.halting import HaltingSource, pause

SETTINGS = "MSMQ_TEST_SPARK"
"""In the environment: settings of Spark, as JSON."""


class ArchivedSource(HaltingSource):
    """It stands in for the real one."""

    @classmethod
    def name(cls) -> str:
        return "msmq"


class HaltingArchive(archive.Archive):
    _compacts = False

    def fill(self, first: int, last: int, write: Callable[[str], None]) -> str:
        self._compacts = last > first
        return super().fill(first, last, write)

    def _delete(self, name: str) -> None:
        super()._delete(name)
        if self._compacts:
            pause("half-deleted")


def main(arguments: list[str]) -> None:
    write = archive._write_parquet

    def halting(place: archive.Archive, batch: DataFrame, number: int) -> None:
        write(place, batch, number)
        pause("written")

    archive._write_parquet = halting
    archive.Archive = HaltingArchive  # type: ignore[misc]
    builder = SparkSession.builder.master("local[2]")  # which the command finds and takes
    for name, value in json.loads(os.environ.get(SETTINGS, "{}")).items():
        builder = builder.config(name, value)
    builder.getOrCreate().dataSource.register(ArchivedSource)
    for then, command in groupby(arguments, lambda argument: argument == "--then"):
        if not then and (status := app(["pipeline", *command], standalone_mode=False)):
            sys.exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])

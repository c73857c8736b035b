"""``msmq pipeline archive`` with places to halt, for tests that kill it: arguments are those of the command."""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession

from msmq.cli import app
from msmq.spark import archive
from tests.spark.halting import HaltingSource, pause
from tests.spark.support import QUICK


class ArchivedSource(HaltingSource):
    """It stands in for the real one."""

    @classmethod
    def name(cls) -> str:
        return "msmq"


class HaltingArchive(archive.Archive):
    def _delete(self, *names: str) -> None:
        super()._delete(*names)
        if names[0] == archive.MESSAGES:
            pause("half-deleted")


def main(arguments: list[str]) -> None:
    write = archive._write_parquet

    def halting(place: archive.Archive, batch: DataFrame, number: int) -> None:
        write(place, batch, number)
        pause("written")

    archive._write_parquet = halting
    archive.Archive = HaltingArchive  # type: ignore[misc]
    spark = (
        SparkSession.builder.master("local[2]")  # which the command finds and takes
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", QUICK)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.dataSource.register(ArchivedSource)
    app(["pipeline", "archive", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])

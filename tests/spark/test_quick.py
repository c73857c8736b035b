"""A Spark of the tests begins with classes that are loaded already (tests/spark/quick.py)."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession


def test_a_virtual_machine_takes_the_archive_that_it_is_given(spark: SparkSession) -> None:
    """It says little when it does not, and is only slower. The first of all may be there before the archive is."""
    options = spark.conf.get("spark.driver.extraJavaOptions") or ""
    given = re.findall(r"-XX:SharedArchiveFile=(\S+)", options)
    process = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    mapped = Path(f"/proc/{process}/maps").read_text(encoding="utf-8")
    assert all(archive in mapped for archive in given), (
        "the class path is another than the archive was made with"
    )

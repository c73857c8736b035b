"""An object store and an HDFS of a test's own, and what a Spark is told that uses them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.fs as files
import pyspark

from tests.spark.support import ROOT, eventually

BUCKET = "messages"
_KEY = "test"


def _jars() -> list[str]:
    """What Spark needs for the one, and what is the other."""
    made = subprocess.run([ROOT / "scripts" / "spark_jars.sh"], stdout=subprocess.PIPE, check=True, text=True)
    return made.stdout.strip().split(",")


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        run = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True, cwd=log.parent)
    try:
        yield run
    finally:
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def _said(run: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    found: list[str] = []

    def looked() -> bool:
        text = log.read_text(encoding="utf-8", errors="replace")
        assert run.poll() is None, text
        found[:] = re.findall(pattern, text)
        return bool(found)

    eventually(looked, 300)
    return found[0]


class ObjectStore:
    """Amazon's protocol, with one bucket; a file is there when it was uploaded, and nothing is ever renamed."""

    def __init__(self, port: str) -> None:
        self.system = files.S3FileSystem(
            access_key=_KEY,
            secret_key=_KEY,
            endpoint_override=f"127.0.0.1:{port}",
            scheme="http",
            allow_bucket_creation=True,
        )
        self.system.create_dir(BUCKET)
        self.settings = {
            # as they are: others would be copied for each start
            "spark.jars": ",".join(f"local:{jar}" for jar in _jars() if "minicluster" not in jar),
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": _KEY,
            "spark.hadoop.fs.s3a.secret.key": _KEY,
        }

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[ObjectStore]:
        python = subprocess.run(
            [ROOT / "scripts" / "s3.sh"],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            env=os.environ | {"PYTHON": sys.executable},
        )
        log = folder / "s3.log"
        command = [python.stdout.strip(), "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        with _running(command, log) as run:
            yield cls(_said(run, log, r"Running on http://127\.0\.0\.1:(\d+)"))


class Hdfs:
    """Hadoop's own file system, of one node, which every Spark can reach."""

    def __init__(self, address: str) -> None:
        self.address = address

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[Hdfs]:
        log = folder / "hdfs.log"
        path = f"{':'.join(_jars())}:{Path(pyspark.__file__).parent / 'jars'}/*"
        manager = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
        options = ["-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
        command = [
            "java",
            *options,
            "-cp",
            path,
            manager,
            "-nomr",
            "-format",
            "-writeDetails",
            "details.json",
        ]
        with _running(command, log) as run:
            details = folder / "details.json"
            eventually(lambda: run.poll() is not None or (details.exists() and details.stat().st_size), 300)
            assert run.poll() is None, log.read_text(encoding="utf-8", errors="replace")
            yield cls("hdfs://localhost:" + _said(run, details, r'"namenode_port"\s*:\s*(\d+)'))

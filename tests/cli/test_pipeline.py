"""``msmq pipeline``: what it says about itself, and each command from end to end."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from click.testing import Result
from py4j.protocol import Py4JError
from pyspark.sql import DataFrameWriter, SparkSession
from typer.testing import CliRunner

from msmq.cli import app
from msmq.cli.pipeline import _use_this_python
from tests.spark.conftest import server, spark
from tests.spark.quick import configuration
from tests.spark.support import LEDGER, ORDERS, Server, environment
from tests.test_docs import BLOCKS

__all__ = ["server", "spark"]  # fixtures
SAMPLE = Path(__file__).parents[2] / "samples" / "session.pcap"
PAGE = "docs/pipelines.md"
COMMANDS = ("archive", "replay", "report", "decode")


def run(*arguments: object, status: int = 0) -> Result:
    done = CliRunner().invoke(app, ["pipeline", *map(str, arguments)])
    assert done.exit_code == status, done.output
    return done


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str) -> None:
    done = run(command, "--help")
    assert "--master" in done.output
    assert f"msmq pipeline {command}" in done.output, "an example"


def test_the_commands_are_listed() -> None:
    done = run("--help")
    for command in COMMANDS:
        assert command in done.output
    assert "spark-submit" in done.output


def test_from_a_queue_to_a_report_and_back(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    server.create(ORDERS)
    server.create(LEDGER, transactional=True)
    server.send(["a", "b", "c"], label="wanted")
    server.send(["d"], label="unwanted")
    place, where = tmp_path / "archive", ("--server", server.address)
    done = run("archive", place, "--queue", ORDERS, "--consume", *where)
    assert done.stdout == f"4 messages in {place}\n"
    assert "batch 0: 4 messages" in done.stderr
    assert server.bodies(ORDERS) == []
    assert run("archive", place, "--queue", ORDERS, "--consume", "--compact", *where).stdout.startswith("4 ")

    done = run("replay", place, "--where", "label = 'wanted'", "--queue", LEDGER, *where)
    assert done.stdout == "3 messages sent\n"
    assert done.stderr.splitlines() == ["0 of 3", "3 of 3"]
    assert server.bodies(LEDGER) == ["a", "b", "c"]
    for same in (f"{place}/", place.as_uri(), os.path.relpath(place)):
        done = run("replay", same, "--where", "label = 'wanted'", "--queue", LEDGER, *where)
        assert done.stdout == "0 messages sent\n", f"{same} is the archive that was replayed"
    assert server.bodies(LEDGER) == ["a", "b", "c"]

    found = json.loads(run("report", place).stdout)
    assert [(row["queue"], row["messages"]) for row in found["queues"]] == [(ORDERS, 4)]
    page = tmp_path / "report.html"
    run("report", place, "--where", "label = 'wanted'", "--page", page)
    assert '<td class="number">3</td>' in page.read_text(encoding="utf-8")

    again = json.loads(run("archive", place, "--queue", ORDERS, "--consume", "--json", *where).stdout)
    assert again == {"archive": str(place), "messages": 4, "added": 0, "compacted_folders": 0}
    chosen = ("--where", "label = 'unwanted'", "--queue", LEDGER)
    sent = json.loads(run("replay", place, *chosen, "--json", *where).stdout)
    assert sent == {"archive": str(place), "messages": 1, "sent": 1}
    page.unlink()
    line = run("report", place, "--page", page, "--json").stdout
    assert page.exists()
    assert line.count("\n") == 1
    assert [row["messages"] for row in json.loads(line)["queues"]] == [4]

    server.kill()
    done = run("decode", server.directory / "data", SAMPLE, "--to", tmp_path / "decoded", "--body", "activex")
    assert f"messages in {tmp_path}/decoded/messages" in done.stdout
    standing = spark.read.parquet(f"{tmp_path}/decoded/messages").where("state = 'standing'")
    assert {row.body for row in standing.select("body").collect()} >= {"a", "b", "c"}
    packets = spark.read.parquet(f"{tmp_path}/decoded/packets")
    assert {row.file for row in packets.select("file").distinct().collect()} == {str(SAMPLE)}


ENDLESS = ("--every",)


def test_the_commands_of_the_page(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    """All that docs/pipelines.md has for a shell, in order; what has no end is left out, and spark-submit has a test of
    its own."""
    places = {
        "/data/": f"{tmp_path}/lake/",
        "/backup/msmq-data": str(tmp_path / "copy"),
        "monday.pcapng": str(SAMPLE),
        "tuesday.pcapng": str(SAMPLE),
        "report.html": f"{tmp_path}/report.html",
    }
    server.create(ORDERS)
    server.create(".\\private$\\again")
    server.send(["coffee", "tea"], label="invoice")
    stopped = Server(tmp_path / "stopped")
    stopped.start()
    stopped.create(ORDERS)
    stopped.send(["found"])
    stopped.kill()
    shutil.copytree(stopped.directory / "data", tmp_path / "copy")
    done = 0
    for line in (
        line for block in BLOCKS if block.page == PAGE and block.language == "sh" for line in block.lines
    ):
        for old, new in places.items():
            line = line.replace(old, new)
        words = shlex.split(line.partition(" | ")[0])
        if words[0] == "msmq" and not any(word in ENDLESS for word in words):
            where = ("--server", server.address) if words[2] in ("archive", "replay") else ()
            run(*words[2:], *where)
            done += 1
    assert done == 10
    assert sorted(server.bodies(ORDERS)) == [
        "coffee",
        "coffee",
        "tea",
        "tea",
    ]  # replayed to where they came from
    assert ORDERS in (tmp_path / "report.html").read_text("utf-8")
    assert (tmp_path / "lake" / "found" / "messages").is_dir()


def test_what_was_decoded_as_json(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "cut.pcap").write_bytes(SAMPLE.read_bytes()[:-7])
    to = f"{tmp_path}/decoded"
    whole, cut = (
        json.loads(run("decode", path, "--to", to, "--json").stdout)
        for path in (SAMPLE, tmp_path / "cut.pcap")
    )
    assert whole == {"table": f"{to}/packets", "packets": whole["packets"], "errors": 0}
    assert whole["packets"] > 0
    assert cut["errors"] == 1


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("report", "/nowhere"), 1, "no archive"),
        (("decode", "/nowhere.pcap", "--to", "/nowhere"), 1, "nowhere.pcap"),
        (("archive", "/nowhere", "--option", "novalue"), 2, "NAME=VALUE"),
        (("archive", "/dev/null/x", "--queue", "q", "--format", "delta"), 1, "Delta Lake"),
    ],
    ids=["no archive", "no capture", "no option", "no delta"],
)
def test_errors_are_one_line(spark: SparkSession, arguments: tuple[str, ...], status: int, said: str) -> None:
    done = run(*arguments, status=status)
    assert said in done.stderr
    assert "Traceback" not in done.output


def test_all_of_an_error_is_shown_to_those_who_want_it(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    arguments = ("decode", SAMPLE, "--to", tmp_path / "taken" / "folder")
    *_, short, hint = run(*arguments, status=1).stderr.splitlines()
    assert short.startswith("msmq: ")
    assert "Parent path is not a directory" in short
    assert "--verbose" in hint
    said = run(*arguments, "--verbose", status=1).stderr
    assert "Traceback" in said
    assert "at org.apache.spark" in said
    assert said.splitlines()[-1] == short


def test_the_cause_of_a_write_that_fails_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """Nobody can write there, whoever runs the command."""
    *_, said, hint = run("decode", SAMPLE, "--to", "/proc/nowhere", status=1).stderr.splitlines()
    assert "Mkdirs failed to create file:/proc/nowhere" in said
    assert "An error occurred while calling" not in said
    assert "--verbose" in hint


def test_a_call_that_is_broken_off_tells_what_is_known(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of the virtual machine that served the call has ended, and the machine goes on."""

    def broken(writer: DataFrameWriter, *values: object) -> None:
        raise Py4JError("An error occurred while calling o246.parquet")

    monkeypatch.setattr(DataFrameWriter, "parquet", broken)
    monkeypatch.setattr("msmq.cli.pipeline._ENDING_S", 0.1)
    *_, said, hint = run("decode", SAMPLE, "--to", tmp_path / "x", status=1).stderr.splitlines()
    assert said.startswith("msmq: Spark broke off the call parquet")
    assert "spark.driver.memory" in said
    assert "o246" not in said
    assert "--verbose" in hint


def test_what_pyspark_logs_is_for_those_who_want_it(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    server.create(ORDERS)
    server.send(["a"])
    run("archive", tmp_path / "archive", "--queue", ORDERS, "--server", server.address)
    wrong = ("report", tmp_path / "archive", "--where", "nothing = 1")
    said, hint = run(*wrong, status=1).stderr.splitlines()
    assert said.startswith("msmq: [UNRESOLVED_COLUMN")
    assert "--verbose" in hint
    assert "SQLQueryContextLogger" in run(*wrong, "--verbose", status=1).stderr


@pytest.mark.parametrize("arguments", [("decode", SAMPLE, "--to", ""), ("archive", "", "--queue", "q")])
def test_a_folder_without_a_name_is_wrong_use(arguments: tuple[object, ...]) -> None:
    """It would be the root of the disk, or wherever the command was given."""
    assert "folder" in run(*arguments, status=2).stderr


def test_spark_submit(tmp_path: Path) -> None:
    """The script, as spark-submit runs it."""
    script = run("script").stdout.strip()
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    to = tmp_path / "decoded"
    local = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(tmp_path / "spark")}
    command = [
        submit,
        "--properties-file",
        configuration(),
        "--master",
        "local[1]",
        script,
        "decode",
        SAMPLE,
        "--to",
        to,
    ]
    done = subprocess.run(
        [*map(str, command)],
        env=environment() | local,
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert f"packets in {to}/packets" in done.stdout
    assert os.listdir(to / "packets")


def test_a_python_without_the_package_is_told_in_one_line() -> None:
    """As spark-submit runs it where it finds another Python first."""
    script = run("script").stdout.strip()
    done = subprocess.run([sys.executable, "-I", "-S", script, "report", "x"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"msmq: {sys.executable}, which spark-submit runs, lacks what is needed")
    assert "PYSPARK_PYTHON" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("master", "given", "expected"),
    [
        (None, {}, sys.executable),
        ("local[2]", {}, sys.executable),
        ("spark://host:7077", {}, None),
        (None, {"PYSPARK_PYTHON": "another"}, "another"),
        (None, {"PYSPARK_GATEWAY_PORT": "1"}, None),
    ],
)
def test_an_environment_that_is_not_activated(
    monkeypatch: pytest.MonkeyPatch, master: str | None, given: dict[str, str], expected: str | None
) -> None:
    monkeypatch.setattr(os, "environ", dict(given))
    _use_this_python(master)
    assert os.environ.get("PYSPARK_PYTHON") == expected

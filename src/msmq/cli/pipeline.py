"""``msmq pipeline``: work on queues with Spark. Help needs only this module; the work is imported when it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from msmq.cli.calls import MISUSED, REFUSED, Json
from msmq.cli.output import print_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

HELP = (
    "Archive, replay, report on and decode messages with Spark. Needs the extra spark: see docs/how-to/spark.md.\n\n"
    "A first round, with a queue manager on this computer:\n\n"
    "  msmq pipeline archive /data/orders --queue '.\\private$\\orders'\n\n"
    "  msmq pipeline report /data/orders --page report.html\n\n"
    "  msmq pipeline replay /data/orders --where \"label = 'invoice'\" --queue '.\\private$\\again'\n\n"
    "Spark runs on this computer unless --master names a cluster, whose computers need it too. The same under "
    "spark-submit, with whatever it is told about the cluster:\n\n"
    '  spark-submit --master yarn "$(msmq pipeline script)" archive hdfs:///orders --queue ...\n\n'
    "What it does is told on standard error, the result on standard output, with --json as JSON. If Spark fails, its "
    "cause is told in one line; --verbose shows all that Spark has to say.\n\n"
    "Status: 0 done, 1 it could not be done, 2 wrong use."
)
ARCHIVE_HELP = (
    "Write queues into an archive of Parquet files, each message exactly once.\n\n"
    "It ends when everything is written that was there; with --every it goes on until Ctrl-C. Run it again to add what "
    "has come since: it knows what it has, whatever ended it before. With --consume messages leave their queue when "
    "they are safe in the archive; let nobody else receive from it meanwhile. Journals and dead-letter queues are "
    "named like any queue: '.\\private$\\orders;journal', '.\\deadletter$'.\n\n"
    "  msmq pipeline archive /data/orders --queue '.\\private$\\orders'\n\n"
    "  msmq pipeline archive /data/all --pattern '.*\\\\private\\$\\\\.*' --every '1 minute'\n\n"
    "  msmq pipeline archive /data/dead --queue '.\\deadletter$' --consume --compact"
)
REPLAY_HELP = (
    "Send messages of an archive again, in the order in which they had arrived.\n\n"
    "A replay that was stopped, by whatever, goes on where it was when the same command is given again; one that is "
    "done does nothing. Into transactional queues each message goes exactly once; into others the last 500 before an "
    "interruption may come twice.\n\n"
    "  msmq pipeline replay /data/orders --where \"label = 'invoice' AND date = '2026-11-15'\" --rate 100"
)
REPORT_HELP = (
    "Traffic, latency, sizes and failures of an archive by queue and time: a page for a browser, or tables as JSON.\n\n"
    "  msmq pipeline report /data/orders --page report.html\n\n"
    "  msmq pipeline report /data/orders --where \"date >= '2026-11-01'\" | jq .queues"
)
DECODE_HELP = (
    "Decode captures into Parquet: a row for each packet, with the properties of those that are messages.\n\n"
    "INPUT is a pcap or pcapng file, or the data directory of a queue manager that does not run: then there is a row "
    "for each message in its store, those too that were removed and whose place was not used again. Captures go into "
    "TO/packets, messages of stores into TO/messages. Inputs must be readable by the same path wherever Spark runs.\n\n"
    "  msmq pipeline decode --to /data/packets monday.pcapng tuesday.pcapng\n\n"
    "  msmq pipeline decode --to /data/found /backup/msmq-data --body activex"
)
SCRIPT_HELP = (
    "Print the path of the script for spark-submit, which takes the same commands and options.\n\n"
    '  spark-submit --master spark://HOST:7077 "$(msmq pipeline script)" report /data/orders'
)

app = typer.Typer(name="pipeline", help=HELP, no_args_is_help=True)


class Body(StrEnum):
    """The ways to show a body."""

    BYTES = "bytes"
    TEXT = "text"
    UTF_16 = "utf-16"
    ACTIVEX = "activex"
    VALUE = "value"


class Form(StrEnum):
    """The formats of an archive."""

    PARQUET = "parquet"
    DELTA = "delta"


Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Where Spark runs: local[*], spark://HOST:7077, yarn ...",
        show_default="this computer",
    ),
]
Server = Annotated[
    str | None,
    typer.Option("--server", help="The queue manager: unix:PATH or HOST:PORT.", show_default=False),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="NAME=VALUE", help="An option of the data source msmq, such as tokenFile."
    ),
]


def _folder(given: str) -> str:
    if not given.strip():
        raise typer.BadParameter("a folder needs a name")
    return given


Folder = Annotated[
    str,
    typer.Argument(metavar="ARCHIVE", help="Folder of the archive, a path or a URI.", callback=_folder),
]
Where = Annotated[str, typer.Option("--where", help="Which messages: a condition of SQL on the columns.")]

Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show Spark's log, and its whole trace if it fails.")
]

_APP_NAME: Final = "msmq pipeline"
_CONTEXT_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of PySpark, which write an error that they have raised, with its whole trace, to standard error."""
_ENDING_S: Final = 2.0
"""How long to wait for a virtual machine that no longer answers to end."""


def _use_this_python(master: str | None) -> None:
    """Have Spark on this computer use this Python: the ``python3`` that it would look for may lack the package. On a
    cluster, and where the user has chosen, another one is right."""
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted and (master is None or master.startswith("local")):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


@contextmanager
def _working(master: str | None, verbose: bool) -> Iterator[SparkSession]:
    """Open a Spark session, and report errors in one line."""
    try:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.logger import PySparkLogger
        from pyspark.sql import SparkSession
    except ImportError:
        print("msmq: this needs Spark: pip install 'msmq[spark]'", file=sys.stderr)
        raise typer.Exit(MISUSED) from None
    from msmq.errors import MsmqError
    from msmq.spark.telling import said_by_spark
    from msmq.store import StoreError

    builder = SparkSession.builder.appName(_APP_NAME).config("spark.sql.session.timeZone", "UTC")
    builder = builder.config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    if master is not None:
        builder = builder.master(master)
    _use_this_python(master)
    try:
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("WARN" if verbose else "OFF")
        for name in _CONTEXT_LOGGERS:
            PySparkLogger.getLogger(name).disabled = not verbose
        yield spark
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except (MsmqError, StoreError, PySparkException, Py4JError, OSError, ValueError) as error:
        unanswered = isinstance(error, Py4JError | ConnectionError)
        ended = _ended() if unanswered else None
        said = ended or said_by_spark(error)
        if verbose:
            traceback.print_exception(error)
            print(getattr(error, "_stackTrace", ""), file=sys.stderr)  # of Java, which Spark hides
        elif ended is None and isinstance(error, PySparkException | Py4JError):
            said += "\nmsmq: With --verbose the command shows all that Spark has to say about it."
        print(f"msmq: {said}", file=sys.stderr)
        raise typer.Exit(REFUSED) from None


def _ended() -> str | None:
    """The message if Spark's virtual machine has ended, or None while it runs. It is only known that the machine does
    not answer, and it may have ended without a word."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    try:
        status = process.wait(_ENDING_S)
    except subprocess.TimeoutExpired:
        return None
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    return (
        f"Spark's virtual machine ended {how}. Most often it, or this computer, has run out of memory: give it more "
        "(spark.driver.memory, for spark-submit --driver-memory), or batches fewer bytes "
        "(--option maxBytesPerTrigger=33554432). What it was doing is done when the command is given again."
    )


def _options(
    ctx: typer.Context, server: str | None, given: list[str] | None, **others: Any
) -> dict[str, str]:
    """The options of the data source; those that have an option of their own here take precedence."""
    found: dict[str, str] = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        if not sign:
            raise typer.BadParameter(f"{text!r} is no NAME=VALUE", param_hint="--option")
        found[name] = value
    server = server or ctx.find_root().params.get("server")
    named = {"server": server, **others}
    return found | {name: str(value) for name, value in named.items() if value is not None}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@app.command(help=ARCHIVE_HELP, short_help="Write queues into Parquet, exactly once.")
def archive(
    ctx: typer.Context,
    folder: Folder,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", help="A queue; may be given several times.")
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--pattern", help="All queues whose whole path it matches.", show_default=False),
    ] = None,
    consume: Annotated[
        bool, typer.Option("--consume", help="Remove messages that are safe in the archive.")
    ] = False,
    every: Annotated[
        str | None, typer.Option("--every", help="Go on, in intervals like '1 minute'.", show_default=False)
    ] = None,
    compact: Annotated[bool, typer.Option("--compact", help="Make few large files of many small.")] = False,
    form: Annotated[
        Form, typer.Option("--format", help="Of the archive; delta where Spark has it.")
    ] = Form.PARQUET,
    as_json: Json = False,
    option: Options = None,
    server: Server = None,
    master: Master = None,
    verbose: Verbose = False,
) -> None:
    from msmq.spark import archive as work

    queues = ",".join(queue) if queue else None
    mode = "consume" if consume else "browse"
    options = _options(ctx, server, option, queues=queues, queuePattern=pattern, mode=mode)
    with _working(master, verbose) as spark:
        added = _follow(work.archive(spark, folder, options, interval=every, format=form.value))
        if consume:
            work.settle_archive(folder, options, spark)
        compacted = work.compact(spark, folder) if compact else 0
        if compact:
            _say(f"compacted {compacted} folders")
        count = work.read_archive(spark, folder).count()
        if as_json:
            print_json({"archive": folder, "messages": count, "added": added, "compacted_folders": compacted})
        else:
            print(f"{count} messages in {folder}")


def _follow(query: StreamingQuery) -> int:
    """Report each batch until the query ends or Ctrl-C stops it. Returns how many messages there were."""
    rows, seen = 0, -1
    try:
        while True:
            ended = query.awaitTermination(1)
            for progress in query.recentProgress:
                if progress.batchId > seen and progress.numInputRows:
                    seen, rows = progress.batchId, rows + progress.numInputRows
                    _say(f"batch {seen}: {progress.numInputRows:,} messages, {rows:,} in this run")
            if ended:
                return rows
    except KeyboardInterrupt:
        query.stop()
        return rows


@app.command(help=REPLAY_HELP, short_help="Send messages of an archive again.")
def replay(
    ctx: typer.Context,
    folder: Folder,
    where: Where = "true",
    queue: Annotated[
        str | None, typer.Option("--queue", help="Where to; else to the queue of each.", show_default=False)
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", help="Messages per second at most.", show_default=False, min=0.001),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Begin anew, even if it was done.")] = False,
    as_json: Json = False,
    option: Options = None,
    server: Server = None,
    master: Master = None,
    verbose: Verbose = False,
) -> None:
    from msmq.spark.archive import Archive, read_archive
    from msmq.spark.replay import replay as work

    options = _options(ctx, server, option, queue=queue)
    with _working(master, verbose) as spark:
        messages = read_archive(spark, folder).where(where)
        total = messages.count()
        sent = work(
            messages,
            options,
            name=json.dumps([Archive(folder, spark).identifier, where, queue]),  # the same for any path
            rate=rate,
            again=again,
            progress=lambda done: _say(f"{done:,} of {total:,}"),
        )
        if as_json:
            print_json({"archive": folder, "messages": total, "sent": sent})
        else:
            print(f"{sent} messages sent")


@app.command(help=REPORT_HELP, short_help="Traffic, latency, sizes and failures.")
def report(
    folder: Folder,
    where: Where = "true",
    page: Annotated[
        Path | None, typer.Option("--page", help="Write a page of HTML there.", show_default=False)
    ] = None,
    as_json: Json = False,
    master: Master = None,
    verbose: Verbose = False,
) -> None:
    import dataclasses

    from msmq.spark import report as work
    from msmq.spark.archive import read_archive
    from msmq.spark.page import page as page_of

    with _working(master, verbose) as spark:
        found = work.report(read_archive(spark, folder).where(where))
        if page is not None:
            page.write_text(page_of(found, archive=folder, where=where), encoding="utf-8")
        if as_json:
            print_json(dataclasses.asdict(found))
        elif page is not None:
            print(f"wrote {page}")
        else:
            print(json.dumps(dataclasses.asdict(found), default=str, indent=2))


@app.command(help=DECODE_HELP, short_help="Decode captures and stores into Parquet.")
def decode(
    inputs: Annotated[list[Path], typer.Argument(metavar="INPUT...", help="Captures and data directories.")],
    to: Annotated[str, typer.Option("--to", help="Folder for the tables.", callback=_folder)],
    body: Annotated[Body, typer.Option("--body", help="How bodies are shown.")] = Body.BYTES,
    port: Annotated[int, typer.Option("--port", help="TCP port of the queue managers.")] = 1801,
    as_json: Json = False,
    master: Master = None,
    verbose: Verbose = False,
) -> None:
    from msmq.spark.decode import decode as decode_captures
    from msmq.spark.decode import plan
    from msmq.spark.stored import decode_stores, is_store

    stores = [path for path in inputs if is_store(path)]
    captures = [path for path in inputs if path not in stores]
    with _working(master, verbose) as spark:
        if captures:
            size = sum(path.stat().st_size for path in captures)
            _say(f"{len(captures):,} captures, {size:,} bytes, in {len(plan(captures)):,} tasks")
            packets = decode_captures(spark, captures, body=body.value, port=port)
            _keep(packets, f"{to}/packets", "packets", as_json)
        if stores:
            _say(f"{len(stores):,} stores")
            _keep(decode_stores(spark, stores, body=body.value), f"{to}/messages", "messages", as_json)


def _keep(table: DataFrame, path: str, what: str, as_json: bool) -> None:
    """Write a table and print its size."""
    table.write.mode("overwrite").parquet(path)
    counts = table.sparkSession.read.parquet(path).selectExpr("count(*)", "count(error)").first()
    assert counts is not None
    rows, errors = counts
    if as_json:
        print_json({"table": path, what: rows, "errors": errors})
        return
    print(f"{rows} {what} in {path}")


@app.command(help=SCRIPT_HELP, short_help="Print the path of the script for spark-submit.")
def script() -> None:
    from importlib.util import find_spec

    found = find_spec("pyspark_msmq")  # not imported, which would need Spark
    assert found is not None
    assert found.origin is not None
    print(Path(found.origin).with_name("submit.py"))

"""``msmq pipeline``: work on queues with Spark. Help needs only this module; the work is imported when it runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HELP = "Archive, replay, report on and decode messages with Spark. Needs the extra msmq[spark]."
ARCHIVE_HELP = (
    "Write queues into an archive of Parquet files, each message exactly once.\n\n"
    "It ends when everything is written that was there; with --every it goes on. Run it again to add what has come "
    "since. With --consume messages leave their queue when they are safe in the archive.\n\n"
    "  msmq pipeline archive /data/orders --queue '.\\private$\\orders'\n\n"
    "  msmq pipeline archive /data/dead --queue '.\\deadletter$' --consume --every '1 minute'"
)
REPLAY_HELP = (
    "Send messages of an archive again, in the order in which they had arrived.\n\n"
    "A replay that was stopped goes on where it was when the same command is given again.\n\n"
    "  msmq pipeline replay /data/orders --where \"label = 'invoice' AND date = '2026-11-15'\" --rate 100"
)
REPORT_HELP = (
    "Traffic, latency, sizes and failures of an archive: a page for a browser, or tables as JSON.\n\n"
    "  msmq pipeline report /data/orders --page report.html"
)
DECODE_HELP = (
    "Decode captures into Parquet: a row for each packet, with the properties of those that are messages.\n\n"
    "  msmq pipeline decode --to /data/packets monday.pcapng tuesday.pcapng"
)

app = typer.Typer(name="pipeline", help=HELP, no_args_is_help=True)

Master = Annotated[
    str, typer.Option("--master", help="Where Spark runs: local[*], spark://HOST:7077, yarn ...")
]
Server = Annotated[
    str | None,
    typer.Option("--server", help="The queue manager: unix:PATH or HOST:PORT.", show_default=False),
]
Folder = Annotated[str, typer.Argument(metavar="ARCHIVE", help="Folder of the archive, a path or a URI.")]


def _session(master: str) -> SparkSession:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        print("msmq: this needs Spark: pip install 'msmq[spark]'", file=sys.stderr)
        raise typer.Exit(2) from None
    builder = SparkSession.builder.appName("msmq pipeline").master(master)
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _options(server: str | None, **others: str | None) -> dict[str, str]:
    given = {"server": server, **others}
    return {name: value for name, value in given.items() if value is not None}


@app.command(help=ARCHIVE_HELP, short_help="Write queues into Parquet, exactly once.")
def archive(
    folder: Folder,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", help="A queue; may be given several times.")
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", help="All queues whose path it matches.", show_default=False)
    ] = None,
    consume: Annotated[
        bool, typer.Option("--consume", help="Remove messages that are safe in the archive.")
    ] = False,
    every: Annotated[
        str | None, typer.Option("--every", help="Go on, in intervals like '1 minute'.", show_default=False)
    ] = None,
    compact: Annotated[bool, typer.Option("--compact", help="Make few large files of many small.")] = False,
    server: Server = None,
    master: Master = "local[*]",
) -> None:
    from msmq.spark import archive as work

    spark = _session(master)
    queues = ",".join(queue) if queue else None
    mode = "consume" if consume else "browse"
    options = _options(server, queues=queues, queuePattern=pattern, mode=mode)
    query = work.archive(spark, folder, options, interval=every)
    rows, seen = 0, -1
    while not query.awaitTermination(1) or seen < 0:
        last = query.lastProgress
        if last is not None and last.batchId != seen:
            seen, rows = last.batchId, rows + last.numInputRows
            print(f"batch {seen}: {rows} messages", file=sys.stderr)
        if not query.isActive:
            break
    if consume:
        work.settle_archive(folder, options)
    if compact:
        print(f"compacted {work.compact(spark, folder)} folders", file=sys.stderr)
    print(f"{work.read_archive(spark, folder).count()} messages in {folder}")


@app.command(help=REPLAY_HELP, short_help="Send messages of an archive again.")
def replay(
    folder: Folder,
    where: Annotated[str, typer.Option("--where", help="Which: a condition of SQL on the columns.")] = "true",
    queue: Annotated[
        str | None, typer.Option("--queue", help="Where to; else to the queue of each.", show_default=False)
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Messages per second at most.", show_default=False)
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Begin anew, even if it was done.")] = False,
    server: Server = None,
    master: Master = "local[*]",
) -> None:
    from msmq.spark.archive import read_archive
    from msmq.spark.replay import replay as work

    messages = read_archive(_session(master), folder).where(where)
    total = messages.count()
    sent = work(
        messages,
        _options(server, queue=queue),
        name=json.dumps([folder, where, queue]),
        rate=rate,
        again=again,
        progress=lambda done: print(f"{done} of {total}", file=sys.stderr),
    )
    print(f"{sent} messages sent")


@app.command(help=REPORT_HELP, short_help="Traffic, latency, sizes and failures.")
def report(
    folder: Folder,
    page: Annotated[
        Path | None, typer.Option("--page", help="Write a page of HTML there.", show_default=False)
    ] = None,
    master: Master = "local[*]",
) -> None:
    import dataclasses

    from msmq.spark import report as work
    from msmq.spark.archive import read_archive

    found = work.report(read_archive(_session(master), folder))
    if page is not None:
        page.write_text(work.page(found), encoding="utf-8")
        print(f"wrote {page}")
        return
    print(json.dumps(dataclasses.asdict(found), default=str, indent=2))


@app.command(help=DECODE_HELP, short_help="Decode captures into Parquet.")
def decode(
    captures: Annotated[list[Path], typer.Argument(metavar="CAPTURE...", help="pcap and pcapng files.")],
    to: Annotated[str, typer.Option("--to", help="Folder for the tables.")],
    master: Master = "local[*]",
) -> None:
    from msmq.spark.decode import decode as work

    spark = _session(master)
    work(spark, list(captures)).write.mode("overwrite").parquet(to)
    print(f"{spark.read.parquet(to).count()} packets in {to}")

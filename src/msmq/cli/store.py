"""``msmq store``: inspect, check and compact the store of a queue manager. The work is imported when it runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

if TYPE_CHECKING:
    from msmq.store.inspection import Inspection

DAMAGED = 1
UNREADABLE = 2

HELP = "Look after the durable store of a queue manager."
INFO_HELP = (
    "Show what a store holds: its format, its segments oldest first, and the number of the last batch.\n\n"
    "Standing bytes are those of messages and values, passing ones those of records that say something about "
    "others, for example that a message is gone. How many of the standing bytes are still needed only the "
    "queue manager knows.\n\n"
    "Nothing is changed. The queue manager must not run.\n\n"
    "Status: 0, or 2 when DIRECTORY could not be read as a store.\n\n"
    "Examples:\n\n  msmq store info /var/lib/msmq/store"
)
CHECK_HELP = (
    "Read a whole store and check every checksum.\n\n"
    "Damage is told with its file and offset. A batch that was being written when the power went is no damage: "
    "nobody was told that it was stored, and the next start drops it.\n\n"
    "Nothing is changed. The queue manager must not run.\n\n"
    "Status: 0 when everything is sound, 1 when something is damaged, 2 when DIRECTORY could not be read as a "
    "store.\n\n"
    "Examples:\n\n  msmq store check /var/lib/msmq/store"
)
COMPACT_HELP = (
    "Rewrite a store so that it holds only what is still needed.\n\n"
    "A running queue manager gives space back by itself; this does all of it at once. It needs room for a copy of "
    "what is needed, and whatever ends it half way leaves a sound store. Transactions that had not been committed "
    "are undone, as at any start. Records that turn out to be damaged are told and left out: copy the directory "
    "first when 'msmq store check' finds damage.\n\n"
    "The queue manager must not run.\n\n"
    "Status: 0, 1 when something damaged was left out, 2 when DIRECTORY could not be opened as the store of a queue "
    "manager or the disk has no room.\n\n"
    "Examples:\n\n  msmq store compact /var/lib/msmq/store"
)
_Directory = Annotated[
    Path, typer.Argument(metavar="DIRECTORY", help="The directory of the store.", show_default=False)
]
_Json = Annotated[bool, typer.Option("--json", help="One JSON object.")]

app = typer.Typer(help=HELP, no_args_is_help=True)


@app.command(help=INFO_HELP, short_help="Show what a store holds.")
def info(directory: _Directory, as_json: _Json = False) -> None:
    found = _inspect(directory, thorough=False)
    if as_json:
        _print_json(found)
    else:
        _print_info(found)


@app.command(help=CHECK_HELP, short_help="Check every checksum of a store.")
def check(directory: _Directory, as_json: _Json = False) -> None:
    found = _inspect(directory, thorough=True)
    if as_json:
        _print_json(found)
        raise typer.Exit(DAMAGED if found.damaged else 0)
    for damage in found.damaged:
        print(f"damaged: {damage}")
    for torn in found.torn:
        print(f"torn: {torn.file} at offset {torn.offset}: the last batch is incomplete")
    records = sum(segment.records for segment in found.segments)
    print(f"{records:,} records in {len(found.segments):,} segments: ", end="")
    print(f"damage in {len(found.damaged):,} places" if found.damaged else "all sound")
    raise typer.Exit(DAMAGED if found.damaged else 0)


@app.command(help=COMPACT_HELP, short_help="Rewrite a store without what is not needed any more.")
def compact(directory: _Directory, as_json: _Json = False) -> None:
    from msmq.cli.output import print_json

    with _plain_errors(directory):
        before = _log_bytes(directory)
        lost = _compact(directory, sys.stderr if as_json else sys.stdout)
        after = _log_bytes(directory)
        if as_json:
            print_json(
                {"where": str(directory), "bytes_before": before, "bytes_after": after, "damaged": lost}
            )
        else:
            print(f"{directory}: {before:,} bytes before, {after:,} bytes after")
    raise typer.Exit(DAMAGED if lost else 0)


def _compact(directory: Path, told: TextIO) -> int:
    """Start the queue manager of a store, which alone knows what is still needed, and rewrite the log. Returns the
    number of damaged places."""
    from msmq.manager.core import Environment
    from msmq.manager.initialization import Identity
    from msmq.manager.queue_manager import QueueManager
    from msmq.store import NotAStoreError, RealDisk, Store

    disk = RealDisk(directory, create=False)
    if "FORMAT" not in disk.names():
        raise NotAStoreError(f"{directory} is not a store: it has no FORMAT file.")

    def identity() -> Identity:
        """The identity that the store's queue manager had."""
        core, record = manager.core, manager.core.record
        if not record.computer_name:
            raise NotAStoreError(f"{directory} holds no queue manager.")
        domain = record.qualified_computer_name.removeprefix(record.computer_name).lstrip(".")
        version = record.operating_system_version
        return Identity(record.computer_name, domain, core.last_domain or bytes(16), version)

    store = Store.open(disk)
    manager = QueueManager(store, Environment(time.time, os.urandom), identity)
    try:
        manager.start()
        with _progress(f"compacting {directory}", shown=True) as progress:
            store.compact(manager.cleaning, progress)
        manager.stop()
    finally:
        store.close()
    damaged = [*map(str, store.report.damaged), *(lost.reason for lost in manager.core.lost_records)]
    for place in damaged:
        print(f"damaged: {place}", file=told)
    return len(damaged)


def _log_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.log"))


@contextmanager
def _plain_errors(directory: Path) -> Iterator[None]:
    from msmq.errors import MsmqError

    try:
        if not directory.is_dir():
            raise NotADirectoryError(f"{directory} is no directory.")
        yield
    except (OSError, MsmqError) as error:
        print(f"msmq store: {error}", file=sys.stderr)
        raise typer.Exit(UNREADABLE) from error


def _inspect(directory: Path, *, thorough: bool) -> Inspection:
    from msmq.store import RealDisk
    from msmq.store.inspection import inspect

    with _plain_errors(directory), _progress(f"checking {directory}", shown=thorough) as progress:
        return inspect(RealDisk(directory, create=False), thorough=thorough, progress=progress)


@contextmanager
def _progress(what: str, *, shown: bool) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn()
    )  # fmt: skip
    console = Console(stderr=True)
    disabled = not shown or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=disabled) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _print_json(found: Inspection) -> None:
    from msmq.cli.output import plain, print_json

    shown = plain(found)
    print_json({**shown, "sound": not found.damaged})


def _print_info(found: Inspection) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("segment", "state", box=None, pad_edge=False)
    for title in ("batches", "records", "standing bytes", "passing bytes", "file bytes"):
        table.add_column(title, justify="right")
    for segment in found.segments:
        state = "sealed" if segment.sealed else "open" if segment.records else "empty"
        numbers = (
            segment.batches,
            segment.records,
            segment.standing_bytes,
            segment.passing_bytes,
            segment.file_bytes,
        )
        table.add_row(segment.name, state, *(f"{number:,}" for number in numbers))
    print(f"store {found.store_id.hex()} in {found.where}")
    print(f"format {found.format_version}, last batch {found.last_sequence:,}")
    if found.segments:
        Console(width=None if sys.stdout.isatty() else 120).print(table)
    for name, places in (("torn", found.torn), ("damaged", found.damaged)):
        for place in places:
            print(f"{name}: {place}")

"""``msmq store``: look at the durable store of a queue manager. The work is imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from msmq.store.inspection import Inspection

DAMAGED = 1
UNREADABLE = 2

HELP = "Look at the durable store of a queue manager."
INFO_HELP = (
    "Show what a store holds: its format, its segments oldest first, and the number of the last batch.\n\n"
    "Standing bytes are those of messages and values, passing ones those of records that say something about "
    "others, for example that a message is gone. How many of the standing bytes are still needed only the "
    "queue manager knows.\n\n"
    "Nothing is changed. The queue manager must not run.\n\n"
    "Status: 0, or 2 when DIRECTORY could not be read as a store."
)
CHECK_HELP = (
    "Read a whole store and check every checksum.\n\n"
    "Damage is told with its file and offset. A batch that was being written when the power went is no damage: "
    "nobody was told that it was stored, and the next start drops it.\n\n"
    "Nothing is changed. The queue manager must not run.\n\n"
    "Status: 0 when everything is sound, 1 when something is damaged, 2 when DIRECTORY could not be read as a "
    "store."
)
_Directory = Annotated[
    Path, typer.Argument(metavar="DIRECTORY", help="The directory of the store.", show_default=False)
]

app = typer.Typer(help=HELP, no_args_is_help=True)


@app.command(help=INFO_HELP, short_help="Show what a store holds.")
def info(directory: _Directory) -> None:
    _print_info(_inspect(directory, thorough=False))


@app.command(help=CHECK_HELP, short_help="Check every checksum of a store.")
def check(directory: _Directory) -> None:
    found = _inspect(directory, thorough=True)
    for damage in found.damaged:
        print(f"damaged: {damage}")
    for torn in found.torn:
        print(f"torn: {torn.file} at offset {torn.offset}: the last batch is incomplete")
    records = sum(segment.records for segment in found.segments)
    print(f"{records:,} records in {len(found.segments):,} segments: ", end="")
    print(f"damage in {len(found.damaged):,} places" if found.damaged else "all sound")
    raise typer.Exit(DAMAGED if found.damaged else 0)


def _inspect(directory: Path, *, thorough: bool) -> Inspection:
    from msmq.store import RealDisk, StoreError
    from msmq.store.inspection import inspect

    try:
        if not directory.is_dir():
            raise NotADirectoryError(f"{directory} is no directory.")
        with _progress(directory, shown=thorough) as progress:
            return inspect(RealDisk(directory, create=False), thorough=thorough, progress=progress)
    except (OSError, StoreError) as error:
        print(f"msmq store: {error}", file=sys.stderr)
        raise typer.Exit(UNREADABLE) from error


@contextmanager
def _progress(directory: Path, *, shown: bool) -> Iterator[Callable[[int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn()
    )  # fmt: skip
    console = Console(stderr=True)
    disabled = not shown or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=disabled) as bar:
        task = bar.add_task(f"checking {directory}", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


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

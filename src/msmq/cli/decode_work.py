"""The work behind ``msmq decode``: decoding the packets of an input, printing them, and the summary."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from msmq.capture.cutter import Damage
from msmq.capture.format import Format
from msmq.capture.inputs import Found, Source, Tally, find_packets
from msmq.capture.problems import UnreadableError
from msmq.cli.as_checklist import ChecklistWriter
from msmq.cli.as_json import JsonWriter
from msmq.cli.as_text import TextWriter
from msmq.cli.decode import DAMAGED, UNREADABLE
from msmq.cli.story import Story
from msmq.errors import DecodeError
from msmq.wire.describe import Description, describe, describe_ping
from msmq.wire.explain import Role

_WORTH_A_BAR: Final = 1 << 24
_PIPED_COLUMNS: Final = 120


class Writer(Protocol):
    """An output, which is given each packet or damage as it is found, and then the summary."""

    def packet(
        self, number: int, found: Found, offset: int, description: Description, role: Role
    ) -> None: ...

    def damage(self, number: int, found: Found, damage: Damage, at: int | None) -> None: ...

    def end(self, words: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Options:
    """The user's options, as ``msmq decode --help`` explains them."""

    as_json: bool
    checklist: bool
    brief: bool
    offsets: bool
    max_body: int
    port: int
    ping_port: int


def run(path: str, form: Format, options: Options) -> int:
    """Decode one input to standard output. Returns the exit status."""
    # Text from strangers may not fit the terminal's encoding.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if path == "-" and sys.stdin.isatty():
        print("msmq decode: reading hexadecimal from the terminal; end with Ctrl-D", file=sys.stderr)
    name = "standard input" if path == "-" else path
    tally = Tally()
    plain = JsonWriter(sys.stdout, offsets=options.offsets) if options.as_json else _text_writer(options)
    checklist = ChecklistWriter(plain) if options.checklist else None
    writer: Writer = checklist or plain
    decoding = Decoding(writer)
    try:
        with Source.open(path) as source:
            for found in _followed(
                find_packets(source, form, options.port, options.ping_port, tally), source
            ):
                decoding.take(found)
    except UnreadableError as error:
        print(f"msmq decode: {name}: {error}", file=sys.stderr)
        return UNREADABLE
    if decoding.counts:
        writer.end(_summary(decoding.counts, tally))
    else:
        where = f"TCP port {options.port} or UDP port {options.ping_port}"
        words = f"{name}: nothing on {where} in {_count(tally.frames, 'captured frame')}; see --port"
        print(f"msmq decode: {words}", file=sys.stderr)
    failed = checklist is not None and checklist.failed
    return DAMAGED if failed or decoding.counts["Malformed"] or decoding.counts["Gap"] else 0


class Decoding:
    """Describes packets and damage and passes them to the writer."""

    def __init__(self, writer: Writer) -> None:
        self.counts: Counter[str] = Counter()
        self._writer = writer
        self._story = Story()
        self._number = 0

    def take(self, found: Found) -> None:
        self._number += 1
        cut = found.cut
        if isinstance(cut, Damage):
            self._damage(found, cut, None)
            return
        try:
            description = describe_ping(cut.data) if found.is_ping else describe(cut.data)
        except DecodeError as error:
            self._damage(found, Damage("Malformed", cut.offset, len(cut.data), error.reason), error.offset)
            return
        self.counts[description.packet] += 1
        role = self._story.role(description, found.origin)
        self._writer.packet(self._number, found, cut.offset, description, role)

    def _damage(self, found: Found, damage: Damage, at: int | None) -> None:
        self.counts[damage.packet] += 1
        self._writer.damage(self._number, found, damage, at)


def _text_writer(options: Options) -> TextWriter:
    from rich.console import Console

    # A pipe has no width, and eighty columns would break the tables.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED_COLUMNS
    console = Console(width=width, highlight=False, emoji=False, markup=False)
    return TextWriter(console, offsets=options.offsets, brief=options.brief, max_body=options.max_body)


def _followed(packets: Iterator[Found], source: Source) -> Iterator[Found]:
    """Pass packets on, with a progress bar on the terminal while a large file is decoded into another file."""
    if not sys.stderr.isatty() or sys.stdout.isatty() or (source.size or 0) < _WORTH_A_BAR:
        yield from packets
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=source.size)
        for found in packets:
            progress.update(task, completed=source.consumed)
            yield found


def _summary(counts: Counter[str], tally: Tally) -> str:
    """``8 packets: 2 Ping, ...``; damage and connections come last."""
    damaged = counts["Malformed"] + counts["Gap"]
    kinds = ", ".join(f"{count} {name}" for name, count in counts.items() if name not in ("Malformed", "Gap"))
    total = counts.total() - damaged
    words = f"{_count(total, 'packet')}{': ' if kinds else ''}{kinds}."
    if tally.streams:
        words += f" {_count(tally.streams, 'connection')} in {_count(tally.frames, 'captured frame')}."
    if damaged:
        words += f" Not decoded: {counts['Malformed']} malformed, {_count(counts['Gap'], 'gap')}."
    return words


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"

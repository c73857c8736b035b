"""From a file to packets: detecting the kind of input, and finding the packets in it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, cast

from msmq.capture.cutter import Cut, Cutter, Damage, Whole, begins_packet, begins_ping
from msmq.capture.format import Format
from msmq.capture.frames import Datagram, read_packet
from msmq.capture.hextext import looks_like_text, read_blocks
from msmq.capture.problems import UnreadableError
from msmq.capture.records import Readable, TruncatedCaptureError, is_capture, read_frames
from msmq.capture.streams import Endpoint, StreamCut, Streams

_CHUNK: Final = 1 << 16
_SAMPLE: Final = 1 << 12


class Source:
    """A file or standard input whose beginning can be looked at before it is read."""

    def __init__(self, file: Readable, size: int | None = None) -> None:
        self._file = file
        self.size = size
        """The number of bytes, or None if that is not known in advance."""
        self.consumed = 0
        # Four bytes identify a capture; asking a pipe for more could wait for packets not captured yet.
        self.head = self._fetch(4)
        if len(self.head) == 4 and not is_capture(self.head):
            self.head += self._fetch(_SAMPLE)
        self._unread = self.head

    @classmethod
    @contextmanager
    def open(cls, path: str) -> Iterator[Source]:
        """Open the file of that name, or standard input for ``-``."""
        if path == "-":
            # Standard input is buffered, although its type does not say so.
            yield cls(cast("Readable", sys.stdin.buffer))
            return
        try:
            file = Path(path).open("rb")  # noqa: SIM115  # closed below, with errors of its own
            size = Path(path).stat().st_size
        except OSError as error:
            raise UnreadableError(error.strerror) from None
        with file:
            yield cls(file, size)

    def _fetch(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except OSError as error:
            raise UnreadableError(error.strerror) from None

    def read(self, size: int) -> bytes:
        data, self._unread = self._unread[:size], self._unread[size:]
        if len(data) < size:
            data += self._fetch(size - len(data))
        self.consumed += len(data)
        return data

    def read1(self, size: int) -> bytes:
        """Read what is available without waiting, b"" at the end. May return less or more than ``size`` bytes."""
        data, self._unread = self._unread, b""
        try:
            data = data or self._file.read1(size)
        except OSError as error:
            raise UnreadableError(error.strerror) from None
        self.consumed += len(data)
        return data

    def detect(self) -> Format:
        if not self.head:
            raise UnreadableError("the input is empty")
        if is_capture(self.head):
            return Format.PCAP
        return Format.HEX if looks_like_text(self.head) else Format.RAW


class Origin(NamedTuple):
    """Where and when a packet was captured. ``from_initiator`` is true towards the queue manager that was called."""

    time: float
    source: Endpoint
    destination: Endpoint
    stream: int | None
    from_initiator: bool


class Found(NamedTuple):
    """A packet or damage, with its origin in a capture."""

    cut: Cut
    is_ping: bool = False
    origin: Origin | None = None


class Tally:
    """Counts of a capture's contents, for the summary."""

    def __init__(self) -> None:
        self.frames = 0
        self.streams = 0


Wanted = Callable[[Endpoint, Endpoint], bool]
"""Whether traffic between two endpoints, in either direction, is of interest."""


def find_packets(
    source: Source, form: Format, port: int, ping_port: int, tally: Tally, wanted: Wanted | None = None
) -> Iterator[Found]:
    """All packets of the input in order, and the damage between them; of a capture only the ``wanted`` ones."""
    if form is Format.AUTO:
        form = source.detect()
    elif not source.head:
        raise UnreadableError("the input is empty")
    if form is Format.PCAP:
        yield from _from_capture(source, port, ping_port, tally, wanted)
    else:
        for cut in _from_hex(source) if form is Format.HEX else _from_raw(source):
            yield Found(cut, isinstance(cut, Whole) and begins_ping(cut.data))


def _from_raw(source: Source) -> Iterator[Cut]:
    cutter = Cutter(pings=True)
    while chunk := source.read(_CHUNK):
        yield from cutter.feed(chunk)
    yield from cutter.finish()


def _from_hex(source: Source) -> Iterator[Cut]:
    """Read one stream of bytes. A blank line ends a packet if the bytes after it begin like a packet.

    So a truncated packet does not swallow the next one, and a packet may still have blank lines inside.
    """
    cutter = Cutter(pings=True)
    position = 0  # offset of the cutter's first byte in the whole input
    held = b""  # the first bytes after a blank line, until there are enough to decide
    judging = False
    count = 0
    for piece in read_blocks(source, source.head):
        if piece is None:
            judging = True
            continue
        count += len(piece)
        held += piece
        if judging and len(held) < 8:
            continue
        if judging and cutter.pending and (begins_packet(held) or begins_ping(held)):
            yield from _moved(cutter.finish(), position)
            position = count - len(held)
            cutter = Cutter(pings=True)
        judging = False
        yield from _moved(cutter.feed(held), position)
        held = b""
    if not count:
        raise UnreadableError("there are no hexadecimal digits in it")
    yield from _moved([*cutter.feed(held), *cutter.finish()], position)


def _moved(cuts: list[Cut], by: int) -> Iterator[Cut]:
    for cut in cuts:
        if isinstance(cut, Whole):
            yield Whole(cut.offset + by, cut.data)
        else:
            yield Damage(cut.packet, cut.offset + by, cut.size, cut.reason)


def _from_capture(
    source: Source, port: int, ping_port: int, tally: Tally, wanted: Wanted | None
) -> Iterator[Found]:
    streams = Streams()
    time = 0.0
    problem: UnreadableError | None = None
    cut_short = False
    try:
        for time, link, frame in read_frames(source, source.head):
            tally.frames += 1
            packet = read_packet(link, frame)
            if packet is None or (wanted is not None and not wanted(packet.source, packet.destination)):
                continue
            from_port, to_port = packet.source[1], packet.destination[1]
            if isinstance(packet, Datagram):
                if ping_port in (from_port, to_port):
                    origin = Origin(time, packet.source, packet.destination, None, to_port == ping_port)
                    yield Found(Whole(0, packet.data), True, origin)
            elif port in (from_port, to_port):
                for found in streams.take(packet):
                    yield _in_stream(found, time, port)
                tally.streams = streams.count
    except TruncatedCaptureError:
        cut_short = True
    except UnreadableError as error:
        problem = error
    for found in streams.close():
        yield _in_stream(found, time, port)
    if cut_short:
        yield Found(Damage("Malformed", source.consumed, 0, "the capture file ends inside a record"))
    if problem is not None:
        raise problem


def _in_stream(found: StreamCut, time: float, port: int) -> Found:
    cut, source, destination, stream = found
    return Found(cut, False, Origin(time, source, destination, stream, destination[1] == port))

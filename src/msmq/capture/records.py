"""Reading the frames of capture files (pcap and pcapng).

The writer of the file may be hostile or was killed while writing: records are accepted up to :data:`MAX_RECORD_BYTES`,
and a file that ends inside one still gives those before it. Files are read in large pieces, but from a pipe never more
than is there, so that a live capture can be followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, Literal, NamedTuple, Protocol

from msmq.capture.problems import UnreadableError

MAX_RECORD_BYTES: Final = 1 << 24
_PIECE_BYTES: Final = 1 << 18

ByteOrder = Literal["little", "big"]


class _Kind(NamedTuple):
    """A kind of pcap file. ``modified`` ones have eight more bytes before each frame."""

    order: ByteOrder
    units: float = 1e6
    modified: bool = False


_PCAP: Final = {
    bytes.fromhex("a1b2c3d4"): _Kind("big"),
    bytes.fromhex("d4c3b2a1"): _Kind("little"),
    bytes.fromhex("a1b23c4d"): _Kind("big", 1e9),
    bytes.fromhex("4d3cb2a1"): _Kind("little", 1e9),
    bytes.fromhex("a1b2cd34"): _Kind("big", modified=True),
    bytes.fromhex("34cdb2a1"): _Kind("little", modified=True),
}
PCAPNG_MAGIC: Final = bytes.fromhex("0a0d0d0a")
_PCAP_HEADER_SIZE: Final = 24
_SIGN: Final[dict[ByteOrder, str]] = {"little": "<", "big": ">"}

_SECTION, _INTERFACE, _SIMPLE_PACKET, _PACKET = 0x0A0D0D0A, 1, 3, 6
_LEAST_BLOCK: Final = 12  # type and size, and the size again at the end
_PACKET_HEAD: Final = 28

Frame = tuple[float, int, bytes]
"""The time of the capture, the link type, and the bytes."""


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def read1(self, size: int, /) -> bytes:
        """Read what is available without waiting for more, at least one byte; b"" at the end."""
        ...


class TruncatedCaptureError(Exception):
    """The file ends inside a record, as it does when the capturing program was killed."""


def is_capture(head: bytes) -> bool:
    return head[:4] in _PCAP or head[:4] == PCAPNG_MAGIC


def read_frames(file: Readable, head: bytes) -> Iterator[Frame]:
    """All captured frames. ``head`` is the beginning of the file, which has not been consumed."""
    try:
        import dpkt  # type: ignore[import-untyped]
    except ImportError:
        raise UnreadableError(
            "reading captures needs dpkt, which is not installed; try: pip install 'msmq[capture]'"
        ) from None
    window = _Window(file)
    try:
        yield from _pcapng_frames(window, dpkt) if head[:4] == PCAPNG_MAGIC else _pcap_frames(window)
    except (UnreadableError, TruncatedCaptureError):
        raise
    except Exception as error:  # dpkt lets errors of struct, index, key and value escape
        raise UnreadableError(f"the capture is damaged ({type(error).__name__})") from error


class _Window:
    """The part of a file in memory; ``data`` from ``at`` on is still to be read."""

    __slots__ = ("_file", "at", "data")

    def __init__(self, file: Readable) -> None:
        self._file = file
        self.data = b""
        self.at = 0

    def has(self, size: int) -> bool:
        """Whether this many bytes lie ahead; reads more if necessary."""
        missing = self.at + size - len(self.data)
        while missing > 0:
            read = self._file.read if missing > _PIECE_BYTES else self._file.read1
            piece = read(max(missing, _PIECE_BYTES))
            if not piece:
                return False
            self.data = self.data[self.at :] + piece
            self.at = 0
            missing = size - len(self.data)
        return True

    def need(self, size: int) -> None:
        """Raise unless a whole record of this size lies ahead."""
        if size > MAX_RECORD_BYTES:
            raise UnreadableError(f"the capture has a record of {size} bytes")
        if not self.has(size):
            raise TruncatedCaptureError

    def end(self) -> None:
        """Raise if bytes are left."""
        if self.at < len(self.data):
            raise TruncatedCaptureError


def _pcap_frames(window: _Window) -> Iterator[Frame]:
    if not window.has(_PCAP_HEADER_SIZE):
        raise UnreadableError("the capture ends inside its header")
    kind = _PCAP.get(window.data[:4])
    if kind is None:
        raise UnreadableError("it does not begin like a capture")
    sign, units = _SIGN[kind.order], kind.units
    link = int.from_bytes(window.data[20:24], kind.order) & 0xFFFF  # above: frame check sequences
    window.at = _PCAP_HEADER_SIZE
    record = Struct(sign + ("IIII8x" if kind.modified else "IIII"))
    unpack, head = record.unpack_from, record.size
    while window.has(head):
        seconds, fraction, size, _ = unpack(window.data, window.at)
        if size > MAX_RECORD_BYTES:
            raise UnreadableError(f"the capture has a record of {size} bytes")
        window.need(head + size)
        start = window.at + head
        window.at = end = start + size
        yield seconds + fraction / units, link, window.data[start:end]
    window.end()


def _pcapng_frames(window: _Window, dpkt: Any) -> Iterator[Frame]:
    """The frames of all interfaces in all sections. dpkt decodes the descriptions of interfaces; its own reader knows
    only one."""
    order: ByteOrder = "little"
    interfaces: list[tuple[int, float, int]] = []  # link type, units of a second, offset in seconds
    numbers = Struct("<5I").unpack_from
    while window.has(8):
        kind = int.from_bytes(window.data[window.at : window.at + 4], order)
        if kind == _SECTION:
            window.need(_LEAST_BLOCK)
            mark = window.data[window.at + 8 : window.at + 12]
            order = "little" if mark == bytes.fromhex("4d3c2b1a") else "big"
            numbers = Struct(_SIGN[order] + "5I").unpack_from
            interfaces = []
        size = int.from_bytes(window.data[window.at + 4 : window.at + 8], order)
        if size < _LEAST_BLOCK:
            raise UnreadableError(f"the capture has a record of {size} bytes")
        window.need(size)
        start = window.at
        window.at = end = start + size
        if kind == _PACKET:
            interface, high, low, length, _ = numbers(window.data, start + 8)
            if _PACKET_HEAD + length > size:
                raise UnreadableError(f"the capture has a frame of {length} bytes in a record of {size}")
            link, units, offset_s = interfaces[interface]
            frame = window.data[start + _PACKET_HEAD : start + _PACKET_HEAD + length]
            yield offset_s + ((high << 32) | low) / units, link, frame
        elif kind == _INTERFACE:
            suffix = "LE" if order == "little" else ""
            block = getattr(dpkt.pcapng, "InterfaceDescriptionBlock" + suffix)(window.data[start:end])
            interfaces.append(_interface(block, order))
        elif kind == _SIMPLE_PACKET:
            length = int.from_bytes(window.data[start + 8 : start + 12], order)
            yield 0.0, interfaces[0][0], window.data[start + 12 : end - 4][:length]
    window.end()


def _interface(block: Any, order: ByteOrder) -> tuple[int, float, int]:
    units, offset_s = 1e6, 0
    for option in block.opts:
        if option.code == 9 and option.data:  # if_tsresol: a power of ten, or of two with the top bit set
            power = option.data[0]
            units = 2.0 ** (power & 0x7F) if power & 0x80 else 10.0 ** min(power, 64)
        elif option.code == 14:  # if_tsoffset
            offset_s = int.from_bytes(option.data, order, signed=True)
    return block.linktype & 0xFFFF, units, offset_s

"""Capture files (pcap and pcapng, by way of dpkt) to TCP segments and UDP datagrams.

The file format and the link layers are dpkt's business. What it reads is hostile input like any other: every
read is bounded here, and whatever dpkt raises on a frame means that the frame is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from struct import Struct
from typing import Any, Final, Literal, Protocol

from msmq.capture.problems import UnreadableError
from msmq.capture.streams import Endpoint, Segment

MAX_RECORD_BYTES: Final = 1 << 24

PCAP_MAGICS: Final = frozenset(
    bytes.fromhex(text) for text in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "a1b2cd34", "34cdb2a1")
)
PCAPNG_MAGIC: Final = bytes.fromhex("0a0d0d0a")

_FIN, _SYN, _RST = 0x01, 0x02, 0x04

_ETHERNET: Final = 1
_ETHERNET_IPV4: Final = bytes.fromhex("080045")
"""EtherType, then version and header length of an IPv4 header without options."""
_ETHERNET_SIZE, _IPV4_SIZE, _TCP = 14, 20, 6
_FRAGMENTED: Final = 0x3FFF  # of flags and offset: more fragments, or not the first
_IPV4_TCP: Final = Struct("!12x2x2xH2xHxB2x4s4s HHI4xBB2x4x")
"""TotalLength, fragment, protocol and addresses; ports, sequence number, data offset and flags."""


ByteOrder = Literal["little", "big"]


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Datagram:
    """One captured UDP datagram."""

    source: Endpoint
    destination: Endpoint
    data: bytes


class TruncatedCaptureError(Exception):
    """The file ends inside a record, as it does when the capturing program was killed."""


class _Bounded:
    """A file dpkt may read from: never more than one sane record at once, never half of one."""

    def __init__(self, file: Readable) -> None:
        self._file = file

    def read(self, size: int) -> bytes:
        if not 0 <= size <= MAX_RECORD_BYTES:
            raise UnreadableError(f"the capture has a record of {size} bytes")
        data = self._file.read(size)
        if data and len(data) < size:
            raise TruncatedCaptureError
        return data

    def whole(self, size: int) -> bytes:
        """Exactly ``size`` bytes, where the end of the file is no answer."""
        data = self.read(size)
        if len(data) < size:
            raise TruncatedCaptureError
        return data


def is_capture(head: bytes) -> bool:
    return head[:4] in PCAP_MAGICS or head[:4] == PCAPNG_MAGIC


def read_frames(file: Readable, head: bytes) -> Iterator[tuple[float, int, bytes]]:
    """Time, link type and bytes of every captured frame; ``head`` is how the file begins, still unread."""
    try:
        import dpkt  # type: ignore[import-untyped]
    except ImportError:
        raise UnreadableError(
            "reading captures needs dpkt, which is not installed; try: pip install 'msmq[capture]'"
        ) from None
    bounded = _Bounded(file)
    frames = _pcapng_frames(bounded, dpkt) if head[:4] == PCAPNG_MAGIC else _pcap_frames(bounded, dpkt)
    try:
        yield from frames
    except (UnreadableError, TruncatedCaptureError):
        raise
    except Exception as error:  # dpkt lets struct, index, key and value errors escape as they come
        raise UnreadableError(f"the capture is damaged ({type(error).__name__})") from error


def _pcap_frames(file: _Bounded, dpkt: Any) -> Iterator[tuple[float, int, bytes]]:
    try:
        reader = dpkt.pcap.Reader(file)
    except TruncatedCaptureError:
        raise UnreadableError("the capture ends inside its header") from None
    link = reader.datalink() & 0xFFFF  # the upper half tells about frame check sequences
    for time, frame in reader:
        yield float(time), link, frame


_SECTION, _INTERFACE, _SIMPLE_PACKET, _PACKET = 0x0A0D0D0A, 1, 3, 6


def _pcapng_frames(file: _Bounded, dpkt: Any) -> Iterator[tuple[float, int, bytes]]:
    """All interfaces of all sections: dpkt's own reader knows one, so its blocks are read here one by one."""
    order: ByteOrder = "little"
    interfaces: list[tuple[int, float, int]] = []  # link type, units of a second, offset in seconds
    while head := file.read(8):
        kind = int.from_bytes(head[:4], order)
        if kind == _SECTION:
            head += file.whole(4)
            order = "little" if head[8:] == bytes.fromhex("4d3c2b1a") else "big"
            interfaces = []
        size = int.from_bytes(head[4:8], order)
        block = head + file.whole(size - len(head))
        suffix = "LE" if order == "little" else ""
        if kind == _INTERFACE:
            interface = getattr(dpkt.pcapng, "InterfaceDescriptionBlock" + suffix)(block)
            interfaces.append(_interface(interface, order))
        elif kind == _PACKET:
            packet = getattr(dpkt.pcapng, "EnhancedPacketBlock" + suffix)(block)
            link, units, offset_s = interfaces[packet.iface_id]
            yield offset_s + ((packet.ts_high << 32) | packet.ts_low) / units, link, packet.pkt_data
        elif kind == _SIMPLE_PACKET:
            length = int.from_bytes(block[8:12], order)
            yield 0.0, interfaces[0][0], block[12:-4][:length]


def _interface(block: Any, order: ByteOrder) -> tuple[int, float, int]:
    units, offset_s = 1e6, 0
    for option in block.opts:
        if option.code == 9 and option.data:  # if_tsresol: a power of ten, or of two with the top bit set
            power = option.data[0]
            units = 2.0 ** (power & 0x7F) if power & 0x80 else 10.0 ** min(power, 64)
        elif option.code == 14:  # if_tsoffset
            offset_s = int.from_bytes(option.data, order, signed=True)
    return block.linktype & 0xFFFF, units, offset_s


def read_packet(link: int, frame: bytes) -> Segment | Datagram | None:
    """The TCP segment or UDP datagram in a frame; None when it carries something else or cannot be read."""
    segment = _usual(frame) if link == _ETHERNET else None
    if segment is not None:
        return segment
    import dpkt

    unwrap = _LINKS.get(link)
    if unwrap is None:
        raise UnreadableError(f"captures of link type {link} are not supported")
    try:
        packet = unwrap(dpkt, frame)
        if not isinstance(packet, dpkt.ip.IP | dpkt.ip6.IP6):
            return None
        return _transport(dpkt, packet)
    except Exception:  # a frame dpkt cannot read is none of ours
        return None


def _usual(frame: bytes) -> Segment | None:
    """What nearly every frame is: a whole TCP segment in IPv4 without options on Ethernet. None for all others, which
    dpkt reads, at many times the cost."""
    if frame[12:15] != _ETHERNET_IPV4 or len(frame) < _IPV4_TCP.size:
        return None
    length, fragment, protocol, source, destination, *ports, sequence, offset, flags = _IPV4_TCP.unpack_from(
        frame
    )
    start, end = _ETHERNET_SIZE + _IPV4_SIZE + (offset >> 4) * 4, _ETHERNET_SIZE + length
    whole = _IPV4_TCP.size <= start <= end <= len(frame) and not fragment & _FRAGMENTED
    if protocol != _TCP or not whole:
        return None
    return Segment(
        (_ipv4(source), ports[0]),
        (_ipv4(destination), ports[1]),
        sequence,
        frame[start:end],  # behind it an Ethernet frame may be padded
        bool(flags & _SYN),
        bool(flags & _FIN),
        bool(flags & _RST),
    )


@lru_cache(maxsize=1 << 12)
def _ipv4(address: bytes) -> str:
    return str(IPv4Address(address))


def _transport(dpkt: Any, packet: Any) -> Segment | Datagram | None:
    inner = packet.data
    address = IPv4Address if isinstance(packet, dpkt.ip.IP) else IPv6Address
    source, destination = str(address(packet.src)), str(address(packet.dst))
    if isinstance(inner, dpkt.udp.UDP):
        return Datagram((source, inner.sport), (destination, inner.dport), bytes(inner.data))
    if not isinstance(inner, dpkt.tcp.TCP):
        return None
    flags = inner.flags
    return Segment(
        (source, inner.sport),
        (destination, inner.dport),
        inner.seq,
        bytes(inner.data),
        bool(flags & _SYN),
        bool(flags & _FIN),
        bool(flags & _RST),
    )


def _raw_ip(dpkt: Any, frame: bytes) -> Any:
    return dpkt.ip6.IP6(frame) if frame[0] >> 4 == 6 else dpkt.ip.IP(frame)


_LINKS: Final[dict[int, Callable[[Any, bytes], Any]]] = {
    0: lambda dpkt, frame: dpkt.loopback.Loopback(frame).data,  # BSD loopback
    1: lambda dpkt, frame: dpkt.ethernet.Ethernet(frame).data,
    12: _raw_ip,
    14: _raw_ip,
    101: _raw_ip,
    108: lambda dpkt, frame: dpkt.loopback.Loopback(frame).data,  # OpenBSD loopback
    113: lambda dpkt, frame: dpkt.sll.SLL(frame).data,  # Linux cooked
    228: _raw_ip,
    229: _raw_ip,
    276: lambda dpkt, frame: dpkt.sll2.SLL2(frame).data,  # Linux cooked, version 2
}

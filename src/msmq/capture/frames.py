"""Conversion of captured frames to TCP segments and UDP datagrams.

dpkt decodes the link layers, except for the most common kind of frame. Its input may be hostile: when dpkt raises an
exception, whichever it is, the frame is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from struct import Struct
from typing import Any, Final, NamedTuple

from msmq.capture.problems import UnreadableError
from msmq.capture.streams import Endpoint, Segment

_FIN, _SYN, _RST = 0x01, 0x02, 0x04

_ETHERNET: Final = 1
_ETHERNET_IPV4: Final = bytes.fromhex("080045")
"""EtherType, and version and header length of an IPv4 header without options."""
_ETHERNET_SIZE, _IPV4_SIZE, _TCP = 14, 20, 6
_FRAGMENTED: Final = 0x3FFF  # of flags and offset: more fragments, or not the first
_IPV4_TCP: Final = Struct("!12x2x2xH2xHxB2x12sI4xBB2x4x")
"""TotalLength, fragment, protocol, addresses and ports; sequence number, data offset and flags."""


class Datagram(NamedTuple):
    """One captured UDP datagram."""

    source: Endpoint
    destination: Endpoint
    data: bytes


def read_packet(link: int, frame: bytes) -> Segment | Datagram | None:
    """The TCP segment or UDP datagram in a frame, or None if the frame has none or cannot be read."""
    segment = _usual(frame) if link == _ETHERNET else None
    if segment is not None:
        return segment
    import dpkt  # type: ignore[import-untyped]

    unwrap = _LINKS.get(link)
    if unwrap is None:
        raise UnreadableError(f"captures of link type {link} are not supported")
    try:
        packet = unwrap(dpkt, frame)
        if not isinstance(packet, dpkt.ip.IP | dpkt.ip6.IP6):
            return None
        return _transport(dpkt, packet)
    except Exception:  # skip a frame that dpkt cannot read
        return None


def _usual(frame: bytes) -> Segment | None:
    """Decode the most common kind of frame: a whole TCP segment in IPv4 without options on Ethernet. Returns None for
    any other, which dpkt decodes at many times the cost."""
    if frame[12:15] != _ETHERNET_IPV4 or len(frame) < _IPV4_TCP.size:
        return None
    length, fragment, protocol, ends, sequence, offset, flags = _IPV4_TCP.unpack_from(frame)
    start, end = _ETHERNET_SIZE + _IPV4_SIZE + (offset >> 4) * 4, _ETHERNET_SIZE + length
    whole = _IPV4_TCP.size <= start <= end <= len(frame) and not fragment & _FRAGMENTED
    if protocol != _TCP or not whole:
        return None
    source, destination = _ends(ends)
    data = frame[start:end]  # an Ethernet frame may be padded behind it
    if not flags & (_SYN | _FIN | _RST):
        return Segment(source, destination, sequence, data)
    return Segment(
        source, destination, sequence, data, bool(flags & _SYN), bool(flags & _FIN), bool(flags & _RST)
    )


@lru_cache(maxsize=1 << 14)
def _ends(data: bytes) -> tuple[Endpoint, Endpoint]:
    """The endpoints of a segment from two IPv4 addresses and two ports. Cached, since few endpoints have many
    segments."""
    source, destination = str(IPv4Address(data[:4])), str(IPv4Address(data[4:8]))
    return (source, int.from_bytes(data[8:10], "big")), (destination, int.from_bytes(data[10:12], "big"))


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

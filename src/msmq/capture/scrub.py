"""A capture without its secrets, which people may send to somebody for an analysis of the protocol.

Nothing is copied that is not understood. MSMQ packets are found and decoded as in ``msmq decode``, and only these are
written to a new capture: one connection for each original one, with addresses replaced in the order in which they
appear. In messages, the body, the label, the extension, envelopes, keys, signatures and certificates are overwritten;
sizes, flags, identifiers and the order of everything stay, since they are the protocol. So do acknowledgments between
queue managers, and the labels by which the page "Try it against Windows" knows its messages. Packets that cannot be
decoded, before or after, are left out and counted.

Names of computers and queues, GUIDs and SIDs stay: they are part of the protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple, Protocol

from msmq.capture.checklist import LABEL
from msmq.capture.cutter import Damage
from msmq.capture.inputs import Found, Origin
from msmq.capture.streams import Endpoint
from msmq.errors import DecodeError
from msmq.wire.describe import Description, Node, describe, describe_ping

SECRETS: Final = {
    "MessagePropertiesHeader": {"Label", "ExtensionData", "MessageBody"},
    "SecurityHeader": {"EncryptionKey", "Signature", "SenderCert"},
    "MultiQueueFormatHeader": {"Signature"},
    "SRMPEnvelopeHeader": {"Data"},
    "CompoundMessageHeader": {"Data"},
    "SoapHeader": {"Header", "Body"},
}
"""The fields to overwrite, by header."""
_OF_QUEUE_MANAGERS: Final = {"OrderAck", "FinalAck"}
"""Messages that applications do not see: what their bodies say is the protocol."""
_TEXTS: Final = {"Label", "Header", "Body"}
"""Fields of UTF-16 text that ends with a zero character, which stays."""

_FILE: Final = Struct("<IHHiIII").pack(0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1)
_RECORD: Final = Struct("<IIII")
_IPV4: Final = Struct(">BBHHHBBH4s4s")
_TCP: Final = Struct(">HHIIBBHHH")
_UDP: Final = Struct(">HHHH")
_ETHERNET: Final = bytes(12) + b"\x08\x00"
_SYN, _ACK = 0x02, 0x10
_PIECE_BYTES: Final = 1 << 15


class Writable(Protocol):
    def write(self, data: bytes, /) -> object: ...


class Scrubbed(NamedTuple):
    """How many packets of each kind were written, how many bytes overwritten, and how many packets left out."""

    packets: Counter[str]
    overwritten: int
    left_out: int


def without_secrets(data: bytes, description: Description) -> tuple[bytes, int]:
    """Overwrite the secrets of a packet. Returns the packet and how many bytes were overwritten."""
    clean = bytearray(data)
    overwritten = 0
    if description.packet in _OF_QUEUE_MANAGERS:
        return data, 0
    for header in description.headers:
        for node in _leaves(header):
            if node.derived or node.name not in SECRETS.get(header.name, ()) or not node.size:
                continue
            if node.name == "Label" and LABEL.fullmatch(str(node.value)):
                continue
            if node.name in _TEXTS:
                size = max(node.size - 2, 0)
                clean[node.offset : node.offset + size] = (b"x\0" * size)[:size]
            else:
                clean[node.offset : node.end] = bytes(node.size)
            overwritten += node.size
    return bytes(clean), overwritten


def _leaves(node: Node) -> Iterator[Node]:
    if not node.children:
        yield node
    for child in node.children:
        yield from _leaves(child)


def scrub(found: Iterable[Found], out: Writable) -> Scrubbed:
    """Write the packets that were found, without secrets, to a capture."""
    writer = _Capture(out)
    packets: Counter[str] = Counter()
    overwritten = left_out = 0
    for each in found:
        cut, origin = each.cut, each.origin
        if isinstance(cut, Damage) or origin is None:
            left_out += 1
            continue
        read = describe_ping if each.is_ping else describe
        try:
            description = read(cut.data)
            data, count = without_secrets(cut.data, description)
            read(data)
        except DecodeError:
            left_out += 1
            continue
        writer.packet(data, origin)
        packets[description.packet] += 1
        overwritten += count
    return Scrubbed(packets, overwritten, left_out)


class _Capture:
    """A pcap file that packets are written to, each in its own TCP segments or datagram."""

    def __init__(self, out: Writable) -> None:
        self._out = out
        self._addresses: dict[str, bytes] = {}
        self._sent: dict[tuple[int, bool], int] = {}
        out.write(_FILE)

    def packet(self, data: bytes, origin: Origin) -> None:
        if origin.stream is None:
            head = _UDP.pack(origin.source[1], origin.destination[1], _UDP.size + len(data), 0)
            self._frame(17, head + data, origin)
            return
        direction = (origin.stream, origin.from_initiator)
        if direction not in self._sent:
            self._segment(b"", 0, _SYN, origin)
            self._sent[direction] = 1
        for start in range(0, len(data), _PIECE_BYTES):
            piece = data[start : start + _PIECE_BYTES]
            self._segment(piece, self._sent[direction], _ACK, origin)
            self._sent[direction] += len(piece)

    def _segment(self, data: bytes, sequence: int, flags: int, origin: Origin) -> None:
        ports = origin.source[1], origin.destination[1]
        self._frame(6, _TCP.pack(*ports, sequence & 0xFFFFFFFF, 0, 5 << 4, flags, 65535, 0, 0) + data, origin)

    def _frame(self, protocol: int, payload: bytes, origin: Origin) -> None:
        source, destination = self._address(origin.source), self._address(origin.destination)
        size = _IPV4.size + len(payload)
        frame = _ETHERNET + _IPV4.pack(0x45, 0, size, 0, 0, 64, protocol, 0, source, destination) + payload
        seconds, micros = divmod(int(origin.time * 1_000_000), 1_000_000)
        self._out.write(_RECORD.pack(seconds & 0xFFFFFFFF, micros, len(frame), len(frame)) + frame)

    def _address(self, endpoint: Endpoint) -> bytes:
        """The replacement of an address, from the block for tests: 198.18.0.1 for the first one, and so on."""
        number = len(self._addresses) + 1
        fresh = bytes((198, 18, number >> 8 & 0xFF, number & 0xFF))
        return self._addresses.setdefault(str(endpoint[0]), fresh)

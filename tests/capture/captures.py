"""Captures for tests, written with dpkt: any link type, any order of segments."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import dpkt
from typer.testing import CliRunner, Result

from msmq.cli import app
from tests.wire import vectors

CLIENT, SERVER = "10.0.0.2", "10.0.0.1"
CLIENT_PORT, PORT, PING_PORT = 49759, 1801, 3527
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
START_S = 1_700_000_000

ETHERNET, NULL, RAW, SLL, SLL2 = 1, 0, 101, 113, 276

REQUESTS = [vectors.ESTABLISH_REQUEST.data, vectors.PARAMETERS_REQUEST.data, vectors.USER_MESSAGE.data]
ANSWERS = [vectors.ESTABLISH_RESPONSE.data, vectors.PARAMETERS_RESPONSE.data, vectors.SESSION_ACK.data]


def decode(*arguments: str, given: bytes | None = None, columns: int = 120) -> Result:
    """Run ``msmq decode`` in this process, as on a terminal of so many columns whatever the tests run in."""
    return CliRunner().invoke(app, ["decode", *arguments], input=given, env={"COLUMNS": str(columns)})


def decode_json(*arguments: str, given: bytes | None = None) -> tuple[int, list[dict[str, Any]]]:
    """The exit status and the objects of ``msmq decode --json``."""
    result = decode("--json", *arguments, given=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def kinds(objects: list[dict[str, Any]]) -> list[str]:
    return [found["packet"] for found in objects]


@dataclass
class Capture:
    """Frames on their way into a capture file."""

    link: int = ETHERNET
    client: str = CLIENT
    server: str = SERVER
    frames: list[bytes] = field(default_factory=list)

    def tcp(
        self,
        sequence: int,
        data: bytes = b"",
        *,
        flags: int = ACK,
        from_client: bool = True,
        client_port: int = CLIENT_PORT,
        port: int = PORT,
    ) -> None:
        ports = (client_port, port) if from_client else (port, client_port)
        segment = dpkt.tcp.TCP(
            sport=ports[0], dport=ports[1], seq=sequence % (1 << 32), flags=flags, data=data
        )
        self._ip(from_client, segment, dpkt.ip.IP_PROTO_TCP)

    def udp(self, data: bytes, *, from_client: bool = True, port: int = PING_PORT) -> None:
        ports = (4057, port) if from_client else (port, 4057)
        datagram = dpkt.udp.UDP(sport=ports[0], dport=ports[1], data=data)
        datagram.ulen = len(datagram)
        self._ip(from_client, datagram, dpkt.ip.IP_PROTO_UDP)

    def stream(self, data: bytes, step: int, *, sequence: int = 1000, from_client: bool = True) -> None:
        """A whole direction: SYN, ``data`` in segments of ``step`` bytes, FIN."""
        self.tcp(sequence, flags=SYN, from_client=from_client)
        for start in range(0, len(data), step):
            self.tcp(sequence + 1 + start, data[start : start + step], from_client=from_client)
        self.tcp(sequence + 1 + len(data), flags=FIN | ACK, from_client=from_client)

    def _ip(self, from_client: bool, inner: dpkt.Packet, protocol: int) -> None:
        ends = (self.client, self.server) if from_client else (self.server, self.client)
        source, destination = (ip_address(end) for end in ends)
        if source.version == 4:
            packet = dpkt.ip.IP(src=source.packed, dst=destination.packed, p=protocol, data=inner)
            packet.len = len(packet)
        else:
            packet = dpkt.ip6.IP6(
                src=source.packed, dst=destination.packed, nxt=protocol, hlim=64, data=inner
            )
            packet.extension_hdrs = {}
            packet.plen = len(inner)
        self.frames.append(self._framed(bytes(packet), source.version == 6))

    def _framed(self, packet: bytes, wide: bool) -> bytes:
        kind = (0x86DD if wide else 0x0800).to_bytes(2, "big")
        if self.link == ETHERNET:
            return bytes(12) + kind + packet
        if self.link == NULL:
            return (30 if wide else 2).to_bytes(4, "little") + packet
        if self.link == SLL:
            return bytes(14) + kind + packet
        if self.link == SLL2:
            return kind + bytes(18) + packet
        return packet

    def pcap(self) -> bytes:
        file = io.BytesIO()
        writer = dpkt.pcap.Writer(file, snaplen=65535, linktype=self.link)
        for number, frame in enumerate(self.frames):
            writer.writepkt(frame, START_S + number)
        return file.getvalue()

    def pcapng(self) -> bytes:
        file = io.BytesIO()
        writer = dpkt.pcapng.Writer(file, snaplen=65535, linktype=self.link)
        for number, frame in enumerate(self.frames):
            writer.writepkt(frame, START_S + number)
        return file.getvalue()

    def decode(self, tmp_path: Path, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
        path = tmp_path / "test.pcap"
        path.write_bytes(self.pcap())
        return decode_json(*arguments, str(path))

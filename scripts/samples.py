"""Write samples/session.hex and samples/session.pcap: the example session of MS-MQQB 4.1, on loopback.

The frames are the vectors of the tests. The seventh is published incomplete, so its completed form is used;
the capture around the frames (addresses, times, TCP itself) is made up.
"""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path

import dpkt  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
VECTORS = ROOT / "tests" / "vectors"
SAMPLES = ROOT / "samples"

CLIENT = bytes((127, 0, 0, 2))
SERVER = bytes((127, 0, 0, 1))
CLIENT_PORT, SERVER_PORT = 49759, 1801
CLIENT_PING_PORT, SERVER_PING_PORT = 4057, 3527
START_S = 1380927820  # the SentTime of the message in the seventh frame
STEP_S = 1 / 512  # exact in binary
MSS = 1460

FIN, SYN, PUSH, ACK = 0x01, 0x02, 0x08, 0x10


@dataclass(frozen=True)
class Frame:
    """One frame of the session: its vector, its title, and who sends it."""

    vector: str
    title: str
    from_client: bool


FRAMES = (
    Frame("frame01_ping_request", "Ping request, a UDP datagram to port 3527", True),
    Frame("frame02_ping_response", "Ping response", False),
    Frame("frame03_establish_connection_request", "EstablishConnection request, on TCP port 1801", True),
    Frame("frame04_establish_connection_response", "EstablishConnection response", False),
    Frame("frame05_connection_parameters_request", "ConnectionParameters request", True),
    Frame("frame06_connection_parameters_response", "ConnectionParameters response", False),
    Frame("frame07_user_message_completed", "UserMessage, the one message of this session", True),
    Frame("frame08_session_ack", "SessionAck, which confirms it", False),
)


def read_vector(name: str) -> bytes:
    return bytes.fromhex((VECTORS / f"{name}.hex").read_text())


def session_hex() -> str:
    parts = ["# An MSMQ session, the example of MS-MQQB 4.1. Read it with: msmq decode samples/session.hex\n"]
    for number, frame in enumerate(FRAMES, 1):
        who = "client to server" if frame.from_client else "server to client"
        data = read_vector(frame.vector)
        lines = [data[start : start + 32].hex() for start in range(0, len(data), 32)]
        parts.append(f"# {number}. {frame.title}, {who}\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


class Talk:
    """Two hosts whose frames go into one capture."""

    def __init__(self, file: io.BytesIO) -> None:
        self._writer = dpkt.pcap.Writer(file, snaplen=65535)
        self._frames = 0
        self._next = {True: 1000, False: 2000}  # sequence numbers, by whether the client sends

    def datagram(self, from_client: bool, data: bytes) -> None:
        ports = (CLIENT_PING_PORT, SERVER_PING_PORT) if from_client else (SERVER_PING_PORT, CLIENT_PING_PORT)
        udp = dpkt.udp.UDP(sport=ports[0], dport=ports[1], data=data)
        udp.ulen = len(udp)
        self._frame(from_client, udp, dpkt.ip.IP_PROTO_UDP)

    def segment(self, from_client: bool, flags: int, data: bytes = b"") -> None:
        ports = (CLIENT_PORT, SERVER_PORT) if from_client else (SERVER_PORT, CLIENT_PORT)
        tcp = dpkt.tcp.TCP(
            sport=ports[0],
            dport=ports[1],
            seq=self._next[from_client],
            ack=self._next[not from_client] if flags & ACK else 0,
            flags=flags,
            data=data,
        )
        self._next[from_client] += len(data) + bool(flags & (SYN | FIN))
        self._frame(from_client, tcp, dpkt.ip.IP_PROTO_TCP)

    def _frame(self, from_client: bool, inner: dpkt.Packet, protocol: int) -> None:
        ends = (CLIENT, SERVER) if from_client else (SERVER, CLIENT)
        packet = dpkt.ip.IP(src=ends[0], dst=ends[1], p=protocol, data=inner)
        packet.len = len(packet)
        frame = dpkt.ethernet.Ethernet(
            src=bytes(6), dst=bytes(6), type=dpkt.ethernet.ETH_TYPE_IP, data=packet
        )
        self._writer.writepkt(bytes(frame), START_S + self._frames * STEP_S)
        self._frames += 1


def session_pcap() -> bytes:
    file = io.BytesIO()
    talk = Talk(file)
    for frame in FRAMES[:2]:
        talk.datagram(frame.from_client, read_vector(frame.vector))
    talk.segment(True, SYN)
    talk.segment(False, SYN | ACK)
    talk.segment(True, ACK)
    for frame in FRAMES[2:]:
        data = read_vector(frame.vector)
        for start in range(0, len(data), MSS):
            talk.segment(frame.from_client, PUSH | ACK, data[start : start + MSS])
        talk.segment(not frame.from_client, ACK)
    talk.segment(True, FIN | ACK)
    talk.segment(False, FIN | ACK)
    talk.segment(True, ACK)
    return file.getvalue()


def main() -> None:
    SAMPLES.mkdir(exist_ok=True)
    (SAMPLES / "session.hex").write_text(session_hex())
    (SAMPLES / "session.pcap").write_bytes(session_pcap())
    print(f"wrote {SAMPLES / 'session.hex'} and {SAMPLES / 'session.pcap'}", file=sys.stderr)


if __name__ == "__main__":
    main()

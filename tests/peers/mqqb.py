"""A small queue manager's two ends of MS-MQQB, over plain sockets: one opens sessions, the other accepts them.

Nothing of this project is imported. There are no timers: whoever waits gets what comes, or a time-out of the socket.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

from tests.peers.packets import NULL, PREFIX, SESSION, base, read_message

SESSION_ACK, ESTABLISH, PARAMETERS = 1, 2, 3
INTERNAL, WITH_SESSION = 0x8, 0x10
TIMEOUT_S = 120
WINDOW = 64
ORDER_ACK = 0xFF


def internal(kind: int, body: bytes, flags: int = 0) -> bytes:
    return base(INTERNAL | flags | 3, 20 + len(body)) + struct.pack("<HH", 0, kind) + body


def ping(host: str, port: int, cookie: int) -> tuple[int, int, bytes]:
    """Ask whether a queue manager is there (2.2.7); gives flags, cookie and GUID of the answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.settimeout(TIMEOUT_S)
        datagrams.sendto(struct.pack("<HHI16s", 0, 0x5548, cookie, NULL), (host, port))
        flags, signature, echoed, guid = struct.unpack("<HHI16s", datagrams.recv(100))
    assert signature == 0x5548
    return flags, echoed, guid


class Session:
    """What both ends do once they are connected: count, send, receive, acknowledge."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.connection.settimeout(TIMEOUT_S)
        self.sent = self.sent_recoverable = 0
        self.received = self.received_recoverable = 0
        self.acknowledged = self.stored = 0
        """How many of our messages the other end has got, and how many recoverable ones it has on disk."""
        self.messages: list[dict[str, Any]] = []
        self._stored: set[int] = set()

    def close(self) -> None:
        self.connection.close()

    def packet(self) -> bytes:
        """The next packet: PacketSize leaves out the SessionHeader, except in a SessionAck."""
        data = self._exactly(PREFIX.size)
        _, _, flags, signature, size, _ = PREFIX.unpack(data)
        assert signature == 0x524F494C
        data += self._exactly(size - len(data))
        acknowledges = flags & INTERNAL and data[18] & 15 == SESSION_ACK
        if flags & WITH_SESSION and not (acknowledges and size == 36):
            data += self._exactly(SESSION.size)
        return data

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.connection.recv(size - len(data))
            if not piece:
                raise EOFError("the other end has closed the session")
            data += piece
        return bytes(data)

    def send(self, packet: bytes) -> None:
        self.connection.sendall(packet)
        self.sent += 1
        self.sent_recoverable += packet[60] >> 5 & 1

    def handle(self) -> None:
        """Take one packet: a message, or an acknowledgment of ours."""
        data = self.packet()
        flags, size = struct.unpack_from("<H", data, 2)[0], struct.unpack_from("<I", data, 8)[0]
        if not flags & INTERNAL:
            said = read_message(data[:size])
            self.received += 1
            if said["recoverable"]:
                self.received_recoverable += 1
            self.messages.append(said)
        if flags & WITH_SESSION:
            self._take(data[-SESSION.size :])

    def _take(self, header: bytes) -> None:
        """A SessionHeader: bit k is for the recoverable message with RecoverableMsgAckSeqNumber + k."""
        self.acknowledged, first, bits, _, _, _, _ = SESSION.unpack(header)
        self._stored |= {first + place for place in range(32) if bits >> place & 1}
        self.stored = len(self._stored)

    @property
    def ordered(self) -> int:
        """Up to which number of its sequence the other end has our transactional messages (OrderAck, 2.2.4)."""
        bodies = [said["body"] for said in self.messages if said["message_class"] == ORDER_ACK]
        return max((struct.unpack_from("<QII", body)[1] for body in bodies), default=0)

    def acknowledge(self) -> None:
        """Everything that has come is stored; the bits are for the last 32 recoverable messages."""
        last = self.received_recoverable
        first = max(1, last - 31)
        bits = (1 << last - first + 1) - 1 if last else 0
        header = SESSION.pack(
            self.received, first if bits else 0, bits, self.sent, self.sent_recoverable, WINDOW, 0
        )
        front = base(INTERNAL | WITH_SESSION | 3, 36)
        self.connection.sendall(front + struct.pack("<HH", 0, SESSION_ACK) + header)


class Initiator(Session):
    """Opens a session (3.1.5.2)."""

    def __init__(self, host: str, port: int, guid: bytes, source_host: str) -> None:
        super().__init__(socket.create_connection((host, port), TIMEOUT_S, (source_host, 0)))
        asked = struct.pack("<16s16sIHH", guid, NULL, 1, 0x0310, 0) + bytes(512)
        self.connection.sendall(internal(ESTABLISH, asked))
        answer = self.packet()
        assert answer[18] == ESTABLISH, "refused"
        assert answer[20:36] == guid
        self.peer = answer[36:52]
        self.connection.sendall(internal(PARAMETERS, struct.pack("<IIHH", 500, 20_000, 0, WINDOW)))
        answer = self.packet()
        assert answer[18] == PARAMETERS
        self.window = struct.unpack_from("<H", answer, 30)[0]

    def settle(self) -> None:
        """Wait until everything we sent has arrived, and is on disk as far as it is recoverable."""
        while self.acknowledged < self.sent or self.stored < self.sent_recoverable:
            self.handle()

    def settle_order(self, number: int) -> None:
        """Wait until our transactional messages have arrived in order up to a number."""
        while self.ordered < number:
            self.handle()


class Acceptor:
    """Accepts sessions (3.1.5.3)."""

    def __init__(self, host: str, port: int, guid: bytes) -> None:
        self.guid = guid
        self.listener = socket.create_server((host, port))
        self.listener.settimeout(TIMEOUT_S)

    def accept(self) -> Session:
        session = Session(self.listener.accept()[0])
        asked = session.packet()
        client, server, stamp, system, _ = struct.unpack_from("<16s16sIHH", asked, 20)
        answer = struct.pack("<16s16sIHH", client, self.guid, stamp, system, 0) + b"\x5a" * 512
        assert server in (NULL, self.guid)
        session.connection.sendall(internal(ESTABLISH, answer))
        asked = session.packet()
        assert asked[18] == PARAMETERS
        session.connection.sendall(internal(PARAMETERS, asked[20:32]))
        return session

    def close(self) -> None:
        self.listener.close()

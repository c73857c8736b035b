"""A sender of ``bench/paths.py`` that speaks the protocol of queue managers over a socket by itself.

It shares no code with the queue manager: packets are bytes that ``struct`` wrote before the clock started, and of what
comes back only session acknowledgments are read. So what is measured is the queue manager that receives.
"""

from __future__ import annotations

import os
import struct
import time
from multiprocessing.connection import Connection as Pipe

from clients.applications import BODY_BYTES, LONG_S, Load, numbered
from peers import Socket, windowed

BASE = struct.Struct("<BBHIII")
USER = struct.Struct("<16s16sIIII")
SECURITY = struct.Struct("<HHHHII")
PROPERTIES = struct.Struct("<BBH20sIIIIIIII")
ESTABLISH = struct.Struct("<HH16s16sIHH512s")
PARAMETERS = struct.Struct("<HHIIHH")
ACKNOWLEDGMENT = struct.Struct("<HHI")
SIGNATURE, INFINITE, PRIORITY, INTERNAL = 0x524F494C, 0xFFFFFFFF, 3, 8
RECOVERABLE, DIRECT_TO, DIRECT_ADMIN, WITH_SECURITY, WITH_PROPERTIES = (
    1 << 5, 7 << 10, 7 << 13, 1 << 19, 1 << 21,
)  # fmt: skip
POSITIVE_ARRIVAL, NEGATIVE_ARRIVAL = 1, 4
BYTES_VARTYPE = 0x2011
SID = bytes.fromhex("010500000000000515000000ad4a9ebd36d9fa3d63a656dae8030000")
SESSION_ACK_BYTES = 36
TAIL = 512
"""Messages behind those that are timed: the receiver acknowledges full groups at once and the rest after half a
second."""


def packets(numbers: range, queue: str, security: bool, admin: str) -> list[bytes]:
    """User messages, whole."""
    source = os.urandom(16)
    flags = RECOVERABLE | DIRECT_TO | WITH_PROPERTIES
    names = _direct_name(queue)
    headers = b""
    if admin:
        flags |= DIRECT_ADMIN
        names += _direct_name(admin)
    if security:
        flags |= WITH_SECURITY
        headers = SECURITY.pack(1, len(SID), 0, 0, 0, 0) + SID  # no more than who sent it
    asked = POSITIVE_ARRIVAL | NEGATIVE_ARRIVAL if admin else 0
    properties = PROPERTIES.pack(asked, 0, 0, bytes(20), BYTES_VARTYPE, 0, BODY_BYTES, BODY_BYTES, 0, 0, 0, 0)
    size = BASE.size + USER.size + len(names) + len(headers) + len(properties) + BODY_BYTES
    base = BASE.pack(0x10, 0, PRIORITY, SIGNATURE, size, INFINITE)
    rest = names + headers + properties
    sent_s = int(time.time())
    return [
        base
        + USER.pack(source, bytes(16), LONG_S if admin else INFINITE, sent_s, 1 + number, flags)
        + rest
        + body
        for number, body in zip(numbers, numbered(numbers, BODY_BYTES), strict=True)
    ]


def _direct_name(name: str) -> bytes:
    text = name.encode("utf-16-le") + b"\0\0"
    counted = len(text).to_bytes(2, "little") + text
    return counted + bytes(-len(counted) % 4)


class Session(Socket):
    """A session with a queue manager, opened by us."""

    def __init__(self, host: str, port: int, window: int) -> None:
        super().__init__(port, host)
        self._stored = 0
        base = BASE.pack(0x10, 0, INTERNAL | PRIORITY, SIGNATURE, BASE.size + ESTABLISH.size, INFINITE)
        self.write(base + ESTABLISH.pack(0, 2, os.urandom(16), bytes(16), 0, 0x310, 0, b"\x5a" * 512))
        answer = self._packet()
        assert not answer[BASE.size + 2] & 0x10, "the queue manager refuses the session"
        base = BASE.pack(0x10, 0, INTERNAL | PRIORITY, SIGNATURE, BASE.size + PARAMETERS.size, INFINITE)
        self.write(base + PARAMETERS.pack(0, 3, 500, 20_000, 0, window))
        self._packet()

    def _packet(self) -> bytes:
        while len(self.data) < BASE.size or len(self.data) < BASE.unpack_from(self.data)[4]:
            self.read()
        size = BASE.unpack_from(self.data)[4]
        packet, self.data = self.data[:size], self.data[size:]
        return packet

    def confirmed(self) -> int:
        """How many more messages the receiver has stored, by the acknowledgments that were read."""
        before, data, start = self._stored, self.data, 0
        while len(data) - start >= SESSION_ACK_BYTES:
            assert data[start + BASE.size + 2] & 0xF == 1, "something else than a session acknowledgment"
            _, number, stored = ACKNOWLEDGMENT.unpack_from(data, start + BASE.size + 4)
            start += SESSION_ACK_BYTES
            if stored:  # bit k stands for the message ``number + k``; numbers have sixteen bits
                number += (~stored & stored + 1).bit_length() - 2
                self._stored += number - self._stored & 0xFFFF
        self.data = data[start:]
        return self._stored - before


def send_by_wire(
    pipe: Pipe, host: str, port: int, queue: str, load: Load, security: bool, admin: str
) -> tuple[float, float]:
    """Send; gives when the first message left and when the last one was acknowledged as stored. Behind the load follow
    ``TAIL`` more messages."""
    made = packets(range(load.total + TAIL), queue, security, admin)
    session = Session(host, port, load.window)

    def send(first: int, count: int, tail: int) -> tuple[float, float]:
        def frames(start: int, group: int) -> bytes:
            return b"".join(made[first + start : first + start + group])

        return windowed(session, frames, session.confirmed, count, load.window, tail)

    try:
        send(0, load.warm, 0)
        pipe.send("warm")
        pipe.recv()
        return send(load.warm, load.count, TAIL)
    finally:
        session.close()

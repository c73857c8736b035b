"""A name server that has a few SRV records and nothing else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

Records = Mapping[str, Sequence[str]]
"""Names to records as a zone file writes them: priority, weight, port, target."""


@contextmanager
def fake_dns(records: Records, delay_s: float = 0) -> Iterator[tuple[str, int]]:
    """Where it is; each answer takes ``delay_s``."""
    door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    door.bind(("127.0.0.1", 0))
    door.settimeout(0.1)
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            try:
                data, peer = door.recvfrom(65535)
            except TimeoutError:
                continue
            over.wait(delay_s)
            door.sendto(_answer(records, data), peer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield door.getsockname()
    finally:
        over.set()
        thread.join(120)
        door.close()


def _answer(records: Records, data: bytes) -> bytes:
    query = dns.message.from_wire(data)
    answer = dns.message.make_response(query)
    answer.flags |= dns.flags.AA
    (question,) = query.question
    name = str(question.name).lower()
    if name in records:
        answer.answer.append(dns.rrset.from_text(question.name, 60, "IN", "SRV", *records[name]))
    else:
        answer.set_rcode(dns.rcode.NXDOMAIN)
    return answer.to_wire()

"""Honest hosts, one after the other: each connects, has its messages taken and leaves. A program of its own, so that
what it measures is the queue manager, not its neighbours in a test.

``python -m tests.peers.newcomer HOST PORT QUEUE`` writes a line for each: the seconds it took, or what went wrong. It
goes on until its standard input ends.
"""

from __future__ import annotations

import os
import select
import sys
import time
from itertools import count

from tests.peers.mqqb import WINDOW, Initiator
from tests.peers.packets import write_message

TOGETHER = WINDOW // 2
"""So many express messages are acknowledged at once; a few would wait for the protocol's own timer."""
PAUSE_S = 0.05


def come_and_go(host: str, port: int, queue: str, source_host: str) -> None:
    guid = os.urandom(16)
    session = Initiator(host, port, guid, source_host)
    try:
        for number in range(1, TOGETHER + 1):
            said = {"source": guid, "sent_time": int(time.time()), "number": number}
            session.send(write_message({**said, "destination": ("direct", queue), "body": b"newcomer"}))
        session.settle()
    finally:
        session.close()


def main(host: str, port: str, queue: str) -> None:
    for number in count():
        if number and select.select([sys.stdin], [], [], PAUSE_S)[0]:
            return
        begin_s = time.monotonic()
        try:
            come_and_go(host, int(port), queue, f"127.0.8.{number % 250 + 1}")
        except (OSError, EOFError, AssertionError) as error:
            print(f"failed: {error!r}", flush=True)
        else:
            print(f"{time.monotonic() - begin_s:.4f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

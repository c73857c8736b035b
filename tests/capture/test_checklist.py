"""The checklist of "Try it against Windows", judged from a capture: two hosts do what its scripts say, and a third
party records them. One of the hosts stands in for Windows."""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from threading import Event, Thread

import pytest

import msmq
from msmq.capture.checklist import ROWS, Checklist, Verdict
from msmq.capture.cutter import Whole
from msmq.capture.format import Format
from msmq.capture.inputs import Found, Source, Tally, find_packets
from msmq.capture.scrub import scrub
from msmq.wire.describe import Description, describe
from msmq.wire.message import UserMessage
from tests import ready
from tests.cli.support import Live, serving
from tests.server.support import ALICE, BOB, PATIENCE_S, free_port
from tests.test_readme import ROOT

HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1)
WINDOWS_ROWS = (
    ("try", "row 1", 1, ("--express",)),
    ("try", "row 2", 100, ("--recoverable",)),
    ("try-tx", "row 3", 100, ("--transactional",)),
    ("try", "row 4", 1, ("--transactional",)),
    ("nobody", "row 5", 1, ("--transactional",)),
)
"""What try.ps1 sends, as our own command line says it."""


SO_ATTACH_FILTER, SO_RCVBUFFORCE = 26, 33


def let_through(tap: socket.socket, port: int) -> None:
    """Have the kernel leave out all but a TCP port by IPv4: whatever else goes by on a busy computer would take the
    room of what is recorded."""
    halfword, byte, equal, give = 0x28, 0x30, 0x15, 0x06
    program = [
        (halfword, 0, 0, 12),
        (equal, 0, 7, 0x0800),
        (byte, 0, 0, 23),
        (equal, 0, 5, socket.IPPROTO_TCP),
        (halfword, 0, 0, 34),
        (equal, 2, 0, port),
        (halfword, 0, 0, 36),
        (equal, 0, 1, port),
        (give, 0, 0, 0xFFFFFFFF),
        (give, 0, 0, 0),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    said = struct.pack("HL", len(program), ctypes.addressof(code))
    tap.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, said)


@contextmanager
def recording(port: int, frames: list[bytes]) -> Iterator[None]:
    """Record what comes and goes on a TCP port of the loopback interface, as tcpdump does."""
    over = Event()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as tap:
        let_through(tap, port)
        with suppress(PermissionError):  # in some containers nobody may have so much room
            tap.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
        tap.bind(("lo", 3))  # whatever it is

        def record() -> None:
            while not over.is_set():
                if not select.select([tap], [], [], 0.1)[0]:
                    continue
                frame, where = tap.recvfrom(1 << 18)
                if where[2] != socket.PACKET_OUTGOING:
                    head = struct.pack("<IIII", int(time.time()), 0, len(frame), len(frame))
                    frames.append(head + frame)

        recorder = Thread(target=record)
        recorder.start()
        try:
            yield
        finally:
            over.set()
            recorder.join()


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


def waiting(host: Live) -> int:
    return sum(each["unacknowledged"] for each in host.objects("outgoing", "list"))


def windows_sends(windows: Live, linux: Live) -> None:
    for queue, label, count, options in WINDOWS_ROWS:
        target = f"DIRECT=TCP:{ALICE}\\private$\\{queue}"
        windows.good("send", target, "--body", "x", "--label", f"{label} 1", "--count", str(count), *options)
    with msmq.connect_sync(windows.socket) as mq:
        mq.queue(f"DIRECT=TCP:{ALICE}\\private$\\try").send(
            "x",
            label="row 6 1",
            admin_queue=f"DIRECT=TCP:{BOB}\\private$\\try",
            acknowledgements=msmq.Acknowledge.FULL_REACH_QUEUE | msmq.Acknowledge.FULL_RECEIVE,
        )
    wait_until(lambda: len(linux.bodies(r".\private$\try")) == 102)
    linux.good("receive", r".\private$\try", "--all")


def linux_sends(linux: Live) -> None:
    path = f"{Path(ready.msmq()).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "MSMQ_SERVER": linux.socket, "PATH": path}
    script = str(ROOT / "packaging" / "windows" / "try.sh")
    subprocess.run([script, BOB], env=environment, check=True, capture_output=True, timeout=300)


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int]:
    """The capture of a whole evening with Windows, and its port."""
    directory, port = tmp_path_factory.mktemp("try"), free_port()
    frames: list[bytes] = []
    with (
        recording(port, frames),
        serving(directory / "linux", ALICE, "LINUX1", port) as linux,
        serving(directory / "windows", BOB, "WINDOWS", port) as windows,
    ):
        for host in (linux, windows):
            host.good("queue", "create", r".\private$\try")
            host.good("queue", "create", r".\private$\try-tx", "--transactional")
            for queue in ("try", "try-tx"):
                host.good("queue", "acl", "set", rf".\private$\{queue}", "--allow", "EVERYONE=full")
        windows_sends(windows, linux)
        linux_sends(linux)
        wait_until(lambda: len(windows.objects("dead-letter", "list")) == 2)
        wait_until(lambda: len(linux.objects("dead-letter", "list")) == 1)
        wait_until(lambda: len(windows.bodies(r".\private$\try")) == 106)
        wait_until(lambda: not waiting(linux) and not waiting(windows))
    return HEADER + b"".join(frames), port


def packets(capture: bytes, port: int) -> list[Found]:
    return list(find_packets(Source(BytesIO(capture)), Format.PCAP, port, 3527, Tally()))


def judged(found: list[Found], kept: Callable[[Description], bool] = lambda _: True) -> dict[int, Verdict]:
    """The verdicts on the packets that are kept, by row."""
    checklist = Checklist()
    for each in found:
        assert isinstance(each.cut, Whole)
        assert each.origin is not None
        description = describe(each.cut.data)
        if kept(description):
            checklist.take(description, each.origin)
    return {verdict.row: verdict for verdict in checklist.verdicts()}


def test_a_capture_without_fault_is_good_in_every_row(captured: tuple[bytes, int]) -> None:
    verdicts = judged(packets(*captured))
    assert verdicts.keys() == {row.number for row in ROWS}
    assert [verdict for verdict in verdicts.values() if not verdict.good] == []
    assert verdicts[5].words == "1 transactional to nobody, acknowledged, MQMSG_CLASS_NACK_BAD_DST_Q"


def test_a_scrubbed_capture_says_the_same(captured: tuple[bytes, int]) -> None:
    capture, port = captured
    out = BytesIO()
    scrub(packets(capture, port), out)
    assert judged(packets(out.getvalue(), port)) == judged(packets(capture, port))


@pytest.mark.parametrize(
    ("kind", "rows", "words"),
    [
        ("SessionAck", {2, 8, 9}, "100 not acknowledged in their session"),
        ("OrderAck", {3, 4, 5, 9, 10}, "no OrderAck up to number 1"),
        ("FinalAck", {4, 5, 10}, "no MQMSG_CLASS_NACK"),
    ],
)
def test_acknowledgments_that_did_not_come_are_missed(
    captured: tuple[bytes, int], kind: str, rows: set[int], words: str
) -> None:
    def came(each: Description) -> bool:
        message = each.decoded
        if kind == "SessionAck" and isinstance(message, UserMessage) and message.session is not None:
            message._session = None  # nor did the acknowledgment that travels with a message
        return each.packet != kind

    verdicts = judged(packets(*captured), came)
    bad = {number for number, verdict in verdicts.items() if not verdict.good}
    assert rows <= bad
    assert all(words in verdicts[number].words for number in rows)


def test_lost_messages_are_missed(captured: tuple[bytes, int]) -> None:
    lost: list[Description] = []

    def kept(each: Description) -> bool:
        is_third = each.packet == "UserMessage" and each.decoded.label.startswith("row 3 ")
        lost.extend([each] if is_third else [])
        return not is_third or len(lost) != 50

    assert judged(packets(*captured), kept)[3].words.startswith(
        "99 transactional to try-tx: 100 were to be sent"
    )


def test_messages_out_of_order_are_noticed(captured: tuple[bytes, int]) -> None:
    found = packets(*captured)
    labels = [
        describe(each.cut.data).decoded.label if b"r\0o\0w\0 \0003\0 \0" in each.cut.data else ""
        for each in found
        if isinstance(each.cut, Whole)
    ]
    first, second = [number for number, label in enumerate(labels) if label.startswith("row 3 ")][:2]
    found[first], found[second] = found[second], found[first]
    assert "the sequence numbers do not rise" in judged(found)[3].words


def test_a_capture_of_something_else_shows_nothing() -> None:
    sample = (ROOT / "samples" / "session.pcap").read_bytes()
    found = [each for each in packets(sample, 1801) if not each.is_ping]
    assert {verdict.good for verdict in judged(found).values()} == {None}

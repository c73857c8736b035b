"""What the disk does wrong is logged, counted and kept."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import msmq
from msmq.errors import MsmqError
from msmq.manager.ledger.ledger import Kind, LostRecord
from msmq.server.daemon import Daemon
from msmq.server.troubles import words_of
from msmq.store import StoreOptions
from tests.api.support import config
from tests.server.support import BOB, PATIENCE_S, free_port
from tests.server.test_daemon_processes import Process

ORDERS = ".\\private$\\orders"


def flip_a_bit(data: Path, body: bytes) -> None:
    """Damage the message with a certain body, wherever it lies."""
    (file,) = [path for path in (data / "store").iterdir() if body in path.read_bytes()]
    contents = bytearray(file.read_bytes())
    contents[contents.index(body) + 3] ^= 0x10
    file.write_bytes(contents)


FOUND_AT_THE_START = "the log of messages was damaged on the disk: 00000001.log"
FOUND_WHEN_READ = "a message of BOB\\private$\\orders was damaged on the disk and is lost"


@pytest.mark.parametrize(
    ("killed", "words"), [(True, FOUND_AT_THE_START), (False, FOUND_WHEN_READ)], ids=["killed", "stopped"]
)
async def test_a_flipped_bit(tmp_path: Path, killed: bool, words: str) -> None:
    """One that was killed reads all of its log at the start; one that was stopped finds the damage later."""
    bob = Process(tmp_path, "BOB", BOB, free_port(), api=f"unix:{tmp_path / 'api'}")
    await bob.start()
    async with msmq.connect(bob.api, timeout=PATIENCE_S) as mq:
        await mq.create_queue(ORDERS)
        for number in range(5):
            await mq.queue(ORDERS).send(b"message number %d" % number, delivery=msmq.Delivery.RECOVERABLE)
        assert (await mq.manager()).losses == ()
    await (bob.kill() if killed else bob.stop())
    flip_a_bit(bob.data, b"message number 3")
    await bob.start()
    async with msmq.connect(bob.api, timeout=PATIENCE_S) as mq:
        found = [(await mq.queue(ORDERS).receive(timeout=PATIENCE_S)).body for _ in range(4)]
        assert found == [b"message number %d" % number for number in (0, 1, 2, 4)]
        (first,) = (await mq.manager()).losses
        assert words in first
        assert "LostRecord" not in first
    await bob.stop()
    log = (tmp_path / "BOB.log").read_text()
    assert log.count(words) == 1
    await bob.start()
    async with msmq.connect(bob.api, timeout=PATIENCE_S) as mq:
        assert (await mq.manager()).losses == (first,), "as it was told when it happened"
    await bob.stop()


async def test_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "msmq.server.troubles"):
        settings, options = config(tmp_path), StoreOptions(1 << 16, 1 << 16, 4 << 16)
        daemon = Daemon(settings, store_options=options)
        await daemon.start()
        async with msmq.connect(f"unix:{tmp_path / 'api'}", timeout=PATIENCE_S) as mq:
            await mq.create_queue(ORDERS)
            queue, refused = mq.queue(ORDERS), 0
            while refused < 3:
                try:
                    await queue.send(bytes(10_000), delivery=msmq.Delivery.RECOVERABLE)
                except MsmqError:
                    refused += 1
            (told,) = (await mq.manager()).losses
            assert "there was no room on the disk, and messages were refused" in told
        await daemon.stop()
        daemon = Daemon(settings, store_options=options)
        await daemon.start()
        assert [line.partition(" (")[0] for line in daemon.troubles()] == [told.partition(" (")[0]]
        await daemon.stop()
    (line,) = {record.getMessage() for record in caplog.records}
    assert "no room on the disk" in line
    assert "limit_bytes" in line


async def test_many_troubles_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the log nor what is kept grows without end."""
    with caplog.at_level(logging.ERROR, "msmq.server.troubles"):
        daemon = Daemon(config(tmp_path, listen=()))
        await daemon.start()
        daemon.manager.core.lost_records += [
            LostRecord(Kind.MESSAGE, n, "q", "bad sum") for n in range(1, 251)
        ]
        told = daemon.troubles()
        assert (len(told), told[0]) == (201, "50 earlier troubles")
        await daemon.stop()
        daemon = Daemon(config(tmp_path, listen=()))
        await daemon.start()
        assert daemon.troubles() == told
        await daemon.stop()
    assert len(caplog.records) == 21
    assert "and 230 more" in caplog.text


def test_plain_words() -> None:
    assert "queue/7" in words_of(LostRecord(Kind.VALUE, 0, "queue/7", "bad sum"))
    assert "taken or moved" in words_of(LostRecord(Kind.DELETE_ALL, 0, "", "bad sum"))

"""``msmq store``."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from random import Random

import pytest

from msmq.manager.core import Environment
from msmq.manager.initialization import Identity
from msmq.manager.mailbox.batch import Batch
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.queues import QueueRequest
from msmq.store import RealDisk, Store, StoreOptions
from msmq.wire.headers import USER_MP, BaseHeader, MessagePropertiesHeader, QueueReference, UserHeader
from msmq.wire.message import UserMessage
from tests import ready

random_bytes = Random(1).randbytes
OPTIONS = StoreOptions(smallest_segment_bytes=4096, largest_segment_bytes=4096)


def msmq(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [ready.msmq(), "store", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store with three segments."""
    store = Store.open(RealDisk(tmp_path / "store"), OPTIONS, new_id=b"0123456789abcdef")
    assert list(store.recover()) == []
    for number in range(10):
        store.append(1, number.to_bytes(40, "little"), b"x" * 1000)
        store.append(2, number.to_bytes(40, "little"), live=False)
        store.commit()
    store.close()
    return tmp_path / "store"


SHAPE = {"where", "store_id", "format_version", "segments", "torn", "damaged", "sound"}


def test_for_programs(directory: Path) -> None:
    for command in ("info", "check"):
        told = json.loads(msmq(command, directory, "--json").stdout)
        assert set(told) == SHAPE
        assert told["store_id"] == b"0123456789abcdef".hex()
        assert told["sound"] is True
    file = directory / "00000001.log"
    data = bytearray(file.read_bytes())
    data[600] ^= 1
    file.write_bytes(data)
    result = msmq("check", directory, "--json")
    assert (result.returncode, json.loads(result.stdout)["sound"]) == (1, False)


def test_info(directory: Path) -> None:
    result = msmq("info", directory)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == f"store {b'0123456789abcdef'.hex()} in {directory}"
    assert lines[1] == "format 1, last batch 10"
    assert lines[2].split("  ")[0] == "segment"
    assert lines[3].split()[:6] == ["00000001.log", "sealed", "3", "6", "3,168", "168"]


def test_info_of_an_empty_store(tmp_path: Path) -> None:
    store = Store.open(RealDisk(tmp_path))
    list(store.recover())
    store.close()
    result = msmq("info", tmp_path)
    assert (result.returncode, len(result.stdout.splitlines())) == (0, 2)


def test_check_of_a_sound_store(directory: Path) -> None:
    result = msmq("check", directory)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "20 records in 4 segments: all sound\n"


def test_check_places_damage(directory: Path) -> None:
    path = directory / "00000002.log"
    data = bytearray(path.read_bytes())
    data[600] ^= 1
    path.write_bytes(data)
    result = msmq("check", directory)
    assert result.returncode == 1
    assert (
        "damaged: 00000002.log at offset 48, 1056 bytes: a record does not have its checksum\n"
        in result.stdout
    )
    assert result.stdout.endswith("19 records in 4 segments: damage in 1 places\n")


def test_check_tells_a_torn_tail_from_damage(directory: Path) -> None:
    store = Store.open(RealDisk(directory), OPTIONS)
    list(store.recover())
    store.append(1, bytes(40), b"y" * 2000)
    store.commit()
    store._disk.unlock()
    path = max(directory.glob("*.log"), key=lambda path: path.stat().st_mtime_ns)
    data = bytearray(path.read_bytes())
    data[1024:2048] = bytes(1024)
    path.write_bytes(data)
    result = msmq("check", directory)
    assert result.returncode == 0
    assert f"torn: {path.name} at offset 0: the last batch is incomplete\n" in result.stdout


@pytest.mark.parametrize("command", ["info", "check", "compact"])
def test_what_is_no_store(command: str, tmp_path: Path) -> None:
    result = msmq(command, tmp_path / "no")
    assert (result.returncode, result.stderr) == (2, f"msmq store: {tmp_path / 'no'} is no directory.\n")
    result = msmq(command, tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"msmq store: {tmp_path} is not a store: it has no FORMAT file.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_store_in_use(directory: Path) -> None:
    store = Store.open(RealDisk(directory), OPTIONS)
    result = msmq("check", directory)
    assert result.returncode == 2
    assert "is in use by process " in result.stderr
    store.close()


def test_a_newer_store(directory: Path) -> None:
    (directory / "FORMAT").write_text("msmq store\nformat 7\n")
    result = msmq("info", directory)
    assert result.returncode == 2
    assert "has store format 7, but this program knows formats up to 1" in result.stderr


# --- compact ------------------------------------------------------------------------------------------------


class Host:
    """A queue manager on a directory, with one queue."""

    def __init__(self, directory: Path) -> None:
        self.store = Store.open(RealDisk(directory))
        identity = Identity("HOST", "example.org")
        self.manager = QueueManager(
            self.store, Environment(lambda: 1_700_000_000, random_bytes), lambda: identity
        )
        self.manager.start()
        queue = self.manager.core.by_path.get("host\\private$\\q")
        self.queue = queue or self.manager.queues.create(QueueRequest(".\\private$\\q"))

    def send(self, count: int) -> None:
        for _ in range(count):
            batch = Batch.of([StoredMessage(packet(b"x" * 3000))], self.manager.core.record.identifier)
            self.manager.sending.enqueue(self.queue, batch)
            self.store.commit()

    def contents(self) -> list[tuple[int, bytes]]:
        entries = [
            (entry.lookup_id, self.manager.mailbox.load(self.queue, entry.lookup_id))
            for entry in self.queue.positions
        ]
        return [(lookup_id, message.packet.data) for lookup_id, message in entries]

    def close(self) -> None:
        self.manager.stop()
        self.store.close()


@pytest.fixture
def managed(tmp_path: Path) -> tuple[Path, list[tuple[int, bytes]]]:
    """The store of a queue manager of which most is dead, and what is live."""
    host = Host(tmp_path)
    host.send(600)
    for entry in list(host.queue.positions)[5:]:
        host.manager.mailbox.remove(host.queue, (entry.lookup_id,), 0)
    contents = host.contents()
    host.close()
    return tmp_path, contents


def test_compact(managed: tuple[Path, list[tuple[int, bytes]]]) -> None:
    directory, contents = managed
    before = sum(path.stat().st_size for path in directory.glob("*.log"))
    result = msmq("compact", directory)
    assert (result.returncode, result.stderr) == (0, "")
    after = sum(path.stat().st_size for path in directory.glob("*.log"))
    assert result.stdout == f"{directory}: {before:,} bytes before, {after:,} bytes after\n"
    assert after < 60_000 < 1_000_000 < before
    assert msmq("check", directory).returncode == 0
    host = Host(directory)
    assert host.contents() == contents
    record = host.manager.core.record
    assert (record.computer_name, record.qualified_computer_name) == ("HOST", "HOST.example.org")
    host.close()


def test_compact_for_programs(managed: tuple[Path, list[tuple[int, bytes]]]) -> None:
    directory, _ = managed
    told = json.loads(msmq("compact", directory, "--json").stdout)
    assert set(told) == {"where", "bytes_before", "bytes_after", "damaged"}
    assert told["bytes_after"] < told["bytes_before"]
    assert told["damaged"] == 0


def test_compact_of_a_store_in_use(managed: tuple[Path, list[tuple[int, bytes]]]) -> None:
    directory, _ = managed
    host = Host(directory)
    result = msmq("compact", directory)
    assert (result.returncode, result.stdout) == (2, "")
    assert f"msmq store: {directory} is in use by process {os.getpid()}" in result.stderr
    host.close()


def test_compact_tells_what_it_leaves_out(managed: tuple[Path, list[tuple[int, bytes]]]) -> None:
    directory, contents = managed
    path = directory / "00000001.log"
    data = path.read_bytes()
    place = data.index(contents[2][1][-100:]) + 50
    path.write_bytes(data[:place] + b"?" + data[place + 1 :])
    result = msmq("compact", directory)
    assert result.returncode == 1
    assert result.stdout.startswith("damaged: ")
    assert "00000001.log at offset " in result.stdout
    host = Host(directory)
    assert len(host.contents()) == len(contents) - 1
    host.close()


def test_compact_of_what_is_no_queue_manager(tmp_path: Path) -> None:
    store = Store.open(RealDisk(tmp_path))
    list(store.recover())
    store.close()
    result = msmq("compact", tmp_path)
    assert (result.returncode, result.stderr) == (2, f"msmq store: {tmp_path} holds no queue manager.\n")


def packet(body: bytes) -> UserMessage:
    user = UserHeader(
        source_queue_manager=bytes(16),
        queue_manager_address=bytes(16),
        sent_time=1_700_000_000,
        message_id=1,
        flags=USER_MP | 1 << 5 | QueueReference.DIRECT << 10,
        destination_queue="OS:host\\private$\\q",
    )
    return UserMessage.build(
        base=BaseHeader(flags=3), user=user, properties=MessagePropertiesHeader(), body=body
    )


def test_help() -> None:
    assert "Check every checksum" in msmq("--help").stdout
    assert "Nothing is changed." in msmq("info", "--help").stdout

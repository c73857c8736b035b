"""``msmq store``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from msmq.store import RealDisk, Store, StoreOptions

OPTIONS = StoreOptions(smallest_segment_bytes=4096, largest_segment_bytes=4096)


def msmq(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "msmq", "store", *map(str, arguments)]
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


@pytest.mark.parametrize("command", ["info", "check"])
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


def test_help() -> None:
    assert "Check every checksum" in msmq("--help").stdout
    assert "Nothing is changed." in msmq("info", "--help").stdout

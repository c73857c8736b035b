"""What a released version wrote, this one opens; what a newer one wrote, this one refuses by name."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from msmq.store.layout import FORMAT_FILE, FORMAT_VERSION
from scripts.store_fixture import NAME, NOWHERE, STORES, contents, serving

RELEASED = sorted(path for path in STORES.iterdir() if path.is_dir())


def unpacked(store: Path, directory: Path) -> dict[str, Any]:
    with tarfile.open(store / "data.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    expected: dict[str, Any] = json.loads((store / "expected.json").read_text(encoding="utf-8"))
    return expected


@pytest.mark.parametrize("store", RELEASED, ids=lambda path: path.name)
def test_a_released_store_opens_with_everything_in_it(store: Path, tmp_path: Path) -> None:
    """Twice: the second time the newest version has written into it."""
    expected = unpacked(store, tmp_path)
    with serving(tmp_path, kill=True) as run:
        assert contents(run) == expected
        run("send", r".\private$\payments", "--body", "new", "--label", "new", "--transactional")
    with serving(tmp_path, kill=False) as run:
        payments = expected["queues"][rf"{NAME}\private$\payments"]["messages"]
        found = contents(run)["queues"][rf"{NAME}\private$\payments"]["messages"]
        assert found[:-1] == payments
        assert found[-1]["body"] == "new"


def test_every_format_has_a_store() -> None:
    """Whoever raises the format runs `make store-fixture` before and after, and keeps both."""
    formats = {int(path.name.rpartition("-format")[2]) for path in RELEASED}
    assert formats == set(range(1, FORMAT_VERSION + 1))


def test_the_stores_have_something_of_everything() -> None:
    for store in RELEASED:
        expected = json.loads((store / "expected.json").read_text(encoding="utf-8"))
        messages = [each for queue in expected["queues"].values() for each in queue["messages"]]
        assert {each["delivery"] for each in messages} >= {"recoverable", "transactional"}
        assert any(each["dead_letter_reason"] for each in messages)
        assert expected["outgoing"][NOWHERE] == 2
        assert expected["tokens"] == ["reports"]


def test_a_newer_store_is_refused_by_name(tmp_path: Path) -> None:
    unpacked(RELEASED[-1], tmp_path)
    file = tmp_path / "data" / "store" / FORMAT_FILE
    newer = FORMAT_VERSION + 1
    file.write_bytes(file.read_bytes().replace(b"format %d" % FORMAT_VERSION, b"format %d" % newer))
    before = {path.name: path.read_bytes() for path in (tmp_path / "data" / "store").glob("*.log")}
    command = [
        sys.executable,
        "-m",
        "msmq",
        "serve",
        "--data",
        str(tmp_path / "data"),
        "--listen",
        "127.0.0.1",
    ]
    command += ["--port", "0", "--ping-port", "0", "--rpc-port", "0", "--api", "none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert f"has store format {newer}, but this program knows formats up to {FORMAT_VERSION}" in done.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "data" / "store").glob("*.log")} == before

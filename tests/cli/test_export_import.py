"""``msmq export`` and ``msmq import`` against a live daemon: everything comes back, whatever interrupts them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from msmq.cli import export_import
from tests.cli.support import Live

KEPT = (
    "label", "priority", "delivery", "body", "body_type", "response_queue", "admin_queue", "acknowledgements",
    "correlation_id", "application_tag", "extension", "time_to_reach_queue", "time_to_be_received", "journal",
    "dead_letter", "class_number",
)  # fmt: skip


def kept(messages: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{name: message[name] for name in KEPT} for message in messages]


def fill(live: Live, queue: str) -> None:
    live.good("send", queue, "--body", "two coffees", "--label", "table 7", "--priority", "5")
    live.good("send", queue, "-", given=b"\x00\x01\xff")
    live.good("send", queue, "-", given="ü".encode("utf-16-le"))
    live.good(
        "send", queue, "--body", "x", "--response-queue", queue, "--correlation-id",
        "557358D1-9150-9595-4997-B6E611EA26C6\\7", "--time-to-be-received", "900", "--acknowledge", "full-receive",
        "--admin-queue", queue, "--application-tag", "9", "--no-dead-letter",
    )  # fmt: skip


def test_there_and_back(live: Live, tmp_path: Path) -> None:
    queue, other, file = live.queue(), live.queue(), str(tmp_path / "m.jsonl")
    fill(live, queue)
    before = live.objects("peek", queue, "--all")
    wrote = live.object("export", queue, file)
    assert wrote == {"queue": queue, "file": file, "messages": 4, "removed": False}
    assert live.objects("peek", queue, "--all") == before
    sent = live.object("import", other, file)
    assert sent == {"queue": other, "file": file, "messages": 4, "skipped": 0}
    after = live.objects("peek", other, "--all")
    assert kept(after) == kept(before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.jsonl"]


def test_by_pipes(live: Live) -> None:
    queue, other = live.queue(), live.queue("--transactional")
    fill(live, queue)
    text = live.good("export", queue, "-")
    assert len(text.splitlines()) == 4
    assert live.good("import", other, "-", given=text).startswith("sent 4 messages")
    assert {message["delivery"] for message in live.objects("peek", other, "--all")} == {"transactional"}


def test_export_that_removes(live: Live, tmp_path: Path) -> None:
    queue, file = live.queue(), tmp_path / "m.jsonl"
    live.good("send", queue, "--body", "x", "--count", "300")
    assert live.good("export", queue, str(file), "--remove").startswith("wrote 300 messages")
    assert live.bodies(queue) == []
    assert len(file.read_text().splitlines()) == 300
    live.good("send", queue, "--body", "y")
    assert "--resume" in live.bad("export", queue, str(file), "--remove")
    assert live.bodies(queue) == ["y"]


def test_an_export_goes_on_where_it_was(live: Live, tmp_path: Path) -> None:
    queue, file = live.queue(), tmp_path / "m.jsonl"
    live.good("send", queue, "--body", "x", "--count", "5")
    live.good("export", queue, str(file))
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:3]) + lines[3][:20])  # the power went while the fourth line was written
    assert live.object("export", queue, str(file), "--remove", "--resume")["messages"] == 2
    assert file.read_bytes() == whole
    assert live.bodies(queue) == []


@pytest.mark.parametrize("remove", [True, False], ids=["remove", "copy"])
def test_an_export_that_is_interrupted(live: Live, tmp_path: Path, remove: bool) -> None:
    """Killed at some moment or other, and started again: every message is in the file, once."""
    queue, file = live.queue(), tmp_path / "m.jsonl"
    sent = [m["message_id"] for m in live.objects("send", queue, "--body", "x" * 2000, "--count", "1500")]
    options = ["--resume", *(["--remove"] if remove else [])]
    command = [sys.executable, "-m", "msmq", "--server", live.socket, "export", queue, str(file), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while process.poll() is None and not (file.exists() and file.stat().st_size):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=120)
    live.good("export", queue, str(file), *options)
    found = [json.loads(line)["message_id"] for line in file.read_text().splitlines()]
    assert sorted(found) == sorted(sent)
    assert live.object("queue", "show", queue)["messages"] == (0 if remove else 1500)


def test_an_import_goes_on_where_it_was(live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, file = live.queue(), tmp_path / "m.jsonl"
    monkeypatch.setattr(export_import, "BATCH", 2)
    lines = [json.dumps({"body": str(number)}) for number in range(5)]
    file.write_text("\n".join([*lines, "{broken"]) + "\n")
    assert "Line 6" in live.bad("import", queue, str(file))
    assert live.bodies(queue) == ["0", "1", "2", "3", "4"]
    assert [path.suffix for path in tmp_path.iterdir() if path != file] == [".state"]
    lines.append(json.dumps({"body": "5"}))
    file.write_text("\n".join(lines) + "\n\n")
    assert "has changed" in live.bad("import", queue, str(file))
    file.write_text("\n".join([*lines[:5], "{broken"]) + "\n")
    assert "Line 6" in live.bad("import", queue, str(file))
    assert live.bodies(queue) == ["0", "1", "2", "3", "4"]
    assert "Line 6" in live.bad("import", queue, str(file), "--restart")
    assert len(live.bodies(queue)) == 10


def test_an_import_that_is_interrupted(live: Live, tmp_path: Path) -> None:
    """Killed at many moments: nothing is missing, nothing is there twice, and the order is that of the file."""
    queue, file = live.queue(), tmp_path / "m.jsonl"
    bodies = [f"{number:04} " + "x" * 500 for number in range(4000)]
    file.write_text("".join(json.dumps({"body": body}) + "\n" for body in bodies))
    command = [sys.executable, "-m", "msmq", "--server", live.socket, "import", queue, str(file)]
    for part in range(1, 6):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while process.poll() is None and live.object("queue", "show", queue)["messages"] < 200 * part:
            pass
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=120)
        if process.returncode == 0:
            break  # quicker than the question how far it had come; a further import would be a new one
    else:
        live.good("import", queue, str(file))
    found = live.bodies(queue)
    assert [body[:5] for body in found] == [body[:5] for body in bodies]  # short, to be read when it fails
    assert found == bodies
    assert [path.name for path in tmp_path.iterdir()] == ["m.jsonl"]


def test_an_import_goes_on_behind_what_was_refused(live: Live, tmp_path: Path) -> None:
    queue, file = live.queue("--quota", "1"), tmp_path / "m.jsonl"
    file.write_text("".join(json.dumps({"body": body}) + "\n" for body in ("a", "b" * 3000, "c")))
    assert "Line 2 was refused" in live.bad("import", queue, str(file))
    assert live.bodies(queue) == ["a"]
    live.good("queue", "set", queue, "--quota", "none")
    assert live.object("import", queue, str(file))["skipped"] == 1
    assert live.bodies(queue) == ["a", "b" * 3000, "c"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("17", 'at least a "body"'),
        ('{"label": "x"}', 'at least a "body"'),
        ('{"body": "x", "delivery": "pigeon"}', "no message"),
        ('{"body": "%", "body_encoding": "base64"}', "no message"),
        ('{"body": "x", "correlation_id": "y"}', "no message"),
    ],
    ids=["number", "no-body", "delivery", "base64", "correlation"],
)
def test_lines_that_are_no_messages(live: Live, tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "m.jsonl"
    file.write_text(line + "\n")
    said = live.bad("import", live.queue(), str(file))
    assert "Line 1" in said
    assert says in said


def test_other_failures(live: Live, tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    assert "No such file" in live.bad("import", live.queue(), str(file))
    assert "QUEUE_NOT_FOUND" in live.bad("export", ".\\private$\\absent", str(file))
    file.write_text("no export\n")
    assert "Line 1" in live.bad("export", live.queue(), str(file), "--resume")
    assert "standard input" in live.bad("import", live.queue(), "-", "--restart", code=2)
    assert "No such file" in live.bad("export", live.queue(), str(tmp_path / "none" / "m"))
    file.write_text('{"body": "x"}\n')
    assert "QUEUE_NOT_FOUND" in live.bad("import", ".\\private$\\absent", str(file))


def test_an_export_that_fails_leaves_no_file_in_the_way(live: Live, tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    live.bad("export", ".\\private$\\nothing", str(file))
    assert not file.exists()
    file.touch()
    live.bad("export", ".\\private$\\nothing", str(file))
    assert file.exists(), "it was not made by the command"
    queue = live.queue()
    live.good("export", queue, str(tmp_path / "empty.jsonl"))
    assert (tmp_path / "empty.jsonl").read_bytes() == b""


@pytest.mark.parametrize("file", ["/dev/zero", "/dev/full", "/"])
def test_an_export_writes_to_files(live: Live, file: str) -> None:
    """A device may have no end."""
    assert "is no file to write to" in live.bad("export", live.queue(), file)


def test_an_import_of_which_nothing_was_sent_leaves_nothing_behind(live: Live, tmp_path: Path) -> None:
    queue, file = live.queue(), tmp_path / "m.jsonl"
    file.write_text("no json\n")
    assert "Line 1 is no JSON" in live.bad("import", queue, str(file))
    assert [path.name for path in tmp_path.iterdir()] == ["m.jsonl"]
    file.write_text('{"body": "a"}\n')
    assert live.good("import", queue, str(file)).startswith("sent 1 message "), (
        "as if it had not been tried before"
    )
    assert live.bodies(queue) == ["a"]

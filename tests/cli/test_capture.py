"""``msmq capture scrub``: a copy that can be sent to somebody."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from msmq.cli import app
from tests.test_readme import ROOT

SAMPLE = str(ROOT / "samples" / "session.pcap")


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(arguments), prog_name="msmq")
    return done.exit_code, done.stdout + done.stderr


def test_a_copy_that_decodes_like_the_original(tmp_path: Path) -> None:
    copy = tmp_path / "copy.pcap"
    code, words = run("capture", "scrub", SAMPLE, str(copy))
    assert code == 0, words
    assert "bytes of secrets overwritten" in words
    before, after = run("decode", "--brief", SAMPLE), run("decode", "--brief", str(copy))
    assert (before[0], after[0]) == (0, 0)
    assert before[1].count("UserMessage") == after[1].count("UserMessage") > 0


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    copy = tmp_path / "copy.pcap"
    copy.write_text("dear")
    code, words = run("capture", "scrub", SAMPLE, str(copy))
    assert (code, copy.read_text()) == (2, "dear")
    assert "File exists" in words


def test_what_is_no_capture_leaves_nothing_behind(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no capture")
    code, words = run("capture", "scrub", str(text), str(tmp_path / "copy.pcap"))
    assert code == 2, words
    assert not (tmp_path / "copy.pcap").exists()
    assert run("capture", "scrub", str(tmp_path / "nothing"), str(tmp_path / "copy.pcap"))[0] == 2

"""``msmq decode --checklist``: verdicts instead of packets. tests/capture/test_checklist.py judges what is judged."""

from __future__ import annotations

import json
from pathlib import Path

from msmq.capture.checklist import ROWS
from tests.capture.captures import Capture, decode
from tests.test_readme import ROOT
from tests.wire.builders import build

SAMPLE = str(ROOT / "samples" / "session.pcap")


def test_a_line_for_each_row_and_the_summary() -> None:
    result = decode("--checklist", SAMPLE)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "row  1  -    not in this capture"
    assert len(lines) == len(ROWS) + 1
    assert lines[-1].startswith("8 packets: ")


def test_an_object_for_each_row() -> None:
    result = decode("--checklist", "--json", SAMPLE)
    objects = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["row"] for each in objects] == [row.number for row in ROWS]
    assert objects[0] == {"row": 1, "good": None, "words": "not in this capture"}


def test_a_row_that_is_not_as_it_should_be_is_told_by_the_status(tmp_path: Path) -> None:
    capture = Capture()
    capture.stream(build(label="row 1 1").data, 100)
    path = tmp_path / "one.pcap"
    path.write_bytes(capture.pcap())
    result = decode("--checklist", str(path))
    assert result.exit_code == 1
    assert result.stdout.startswith("row  1  no   1 express to ")
    assert "1 not acknowledged in their session" in result.stdout

"""From input to status: every truncation, every order of good and bad packets, and the words at the end."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msmq.cli import decode_work
from tests.capture.captures import decode_json, kinds
from tests.wire import messages, vectors

MESSAGE = vectors.USER_MESSAGE.data
ACK = vectors.SESSION_ACK.data


OPTIONS = decode_work.Options(True, False, False, False, 512, 1801, 3527)


class Pipe(io.TextIOWrapper):
    """Standard input or output that is a pipe; the command line around ``run`` would only cost time here."""

    def __init__(self, data: bytes = b"") -> None:
        self.raw_bytes = io.BytesIO(data)
        super().__init__(self.raw_bytes, encoding="utf-8")


def test_every_truncation_of_frame_7_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The published dump is one of them; the completed message less its last byte is the longest."""
    assert MESSAGE.startswith(vectors.USER_MESSAGE_DUMP.data)
    for length in range(1, len(MESSAGE)):
        out = Pipe()
        monkeypatch.setattr(sys, "stdin", Pipe(MESSAGE[:length].hex().encode()))
        monkeypatch.setattr(sys, "stdout", out)
        assert decode_work.run("-", decode_work.Format.AUTO, OPTIONS) == 1
        found = json.loads(out.raw_bytes.getvalue())
        assert (found["packet"], found["size"]) == ("Malformed", length)


def test_what_follows_a_malformed_packet_is_decoded() -> None:
    broken = bytearray(MESSAGE)
    broken[94] = 27  # a SID of another size than it says
    status, objects = decode_json(given=ACK + bytes(broken) + ACK)
    assert (status, kinds(objects)) == (1, ["SessionAck", "Malformed", "SessionAck"])
    assert objects[1]["size"] == len(MESSAGE)
    assert objects[2]["number"] == 3


def test_http_messages_are_shown() -> None:
    status, objects = decode_json(given=messages.message(**messages.srmp_headers()).data)
    assert status == 0
    assert objects[0]["UserHeader"]["Flags"]["AH"] == 1


def status_of(data: bytes, form: decode_work.Format, options: decode_work.Options) -> int:
    with patch.object(sys, "stdin", Pipe(data)), patch.object(sys, "stdout", Pipe()):
        return decode_work.run("-", form, options)


FORMS = [decode_work.Format(form) for form in ("auto", "raw", "hex", "pcap")]
STYLES = [replace(OPTIONS, as_json=False), replace(OPTIONS, offsets=True)]


@settings(max_examples=40)
@given(st.binary(min_size=1, max_size=400))
def test_any_bytes_end_with_a_status(noise: bytes) -> None:
    for form in FORMS:
        for style in STYLES:
            assert status_of(noise, form, style) in (0, 1, 2)


@given(st.lists(st.tuples(st.integers(0, 2223), st.integers(0, 255)), min_size=1, max_size=5))
def test_changed_packets_end_with_a_status(changes: list[tuple[int, int]]) -> None:
    data = bytearray(MESSAGE)
    for place, value in changes:
        data[place] = value
    for style in (OPTIONS, STYLES[0]):
        assert status_of(bytes(data) + ACK, decode_work.Format.RAW, style) in (0, 1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("size", "expected"), [(1, True), (1 << 40, False)])
def test_a_bar_for_large_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, expected: bool
) -> None:
    """Only where standard error is a terminal, the output goes elsewhere and the file is worth it."""
    path = tmp_path / "acks"
    path.write_bytes(ACK * 10)
    terminal = Terminal()
    out = Pipe()
    monkeypatch.setattr(decode_work, "_WORTH_A_BAR", size)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", out)
    assert decode_work.run(str(path), decode_work.Format.AUTO, OPTIONS) == 0
    assert ("reading" in terminal.getvalue()) is expected
    assert out.raw_bytes.getvalue().count(b"\n") == 10

"""The names that ``--format`` takes."""

from __future__ import annotations

from msmq.capture.format import Format


def test_names() -> None:
    assert [form.value for form in Format] == ["auto", "hex", "raw", "pcap"]

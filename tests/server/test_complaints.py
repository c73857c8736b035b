"""The log is told once."""

from __future__ import annotations

import logging

import pytest

from msmq.server.complaints import Complaints


def test_each_reason_is_a_warning_once_and_strangers_cannot_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = logging.getLogger("msmq.test_complaints")
    with caplog.at_level(logging.DEBUG, logger=log.name):
        complaints = Complaints(log)
        for _ in range(3):
            complaints.hear("no good")
        for number in range(1_000):
            complaints.hear(str(number))
    levels = [record.levelno for record in caplog.records]
    assert levels[:3] == [logging.WARNING, logging.DEBUG, logging.DEBUG]
    assert levels.count(logging.WARNING) == 64
    assert caplog.records[0].getMessage() == "a message is refused: no good"

"""Errors in one line: what went wrong, and what to do."""

from __future__ import annotations

import traceback

import pytest

from msmq.client.problems import ServerNotAvailableError
from msmq.errors import AccessDeniedError, InsufficientResourcesError, QueueNotFoundError
from msmq.spark.options import Access, OptionError
from msmq.spark.telling import QueueManagerError, plainly

CHANNEL = Access("127.0.0.1:8181", "secret")
REMOTE = Access("mqrr:host", user="alice", password="secret")


@pytest.mark.parametrize(
    ("error", "access", "advice"),
    [
        (ServerNotAvailableError("No queue manager\nanswers."), CHANNEL, "The option server says where"),
        (ConnectionRefusedError("no"), REMOTE, "The option server says where"),
        (AccessDeniedError("No."), CHANNEL, "tokenFile"),
        (AccessDeniedError("No."), REMOTE, "passwordFile"),
        (QueueNotFoundError("No."), CHANNEL, "queuePattern"),
        (InsufficientResourcesError("The store is full."), CHANNEL, "The store is full."),
    ],
    ids=["channel", "remote-read", "token", "password", "queue", "other"],
)
def test_an_error_is_one_line_with_advice(error: Exception, access: Access, advice: str) -> None:
    with pytest.raises(QueueManagerError) as told, plainly(access):
        raise error
    text = str(told.value)
    assert advice in text
    assert "\n" not in text
    assert "secret" not in text
    trace = "".join(traceback.format_exception(told.value))
    assert "Traceback" not in trace[10:], "no cause is shown"


def test_what_is_plain_already_stays_what_it_is() -> None:
    given = OptionError("mode is one of two.")
    with pytest.raises(OptionError, match="mode is") as told, plainly(CHANNEL):
        raise given from KeyError("mode")
    assert told.value.__cause__ is None
    assert told.value.__suppress_context__


def test_a_mistake_of_ours_keeps_its_trace() -> None:
    with pytest.raises(ZeroDivisionError), plainly(CHANNEL):
        raise ZeroDivisionError

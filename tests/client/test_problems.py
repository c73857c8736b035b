"""What can go wrong between a client and its server."""

from __future__ import annotations

import msmq
from msmq.client.message import Receipt
from msmq.errors import LabelTooLongError, MsmqError


def test_all_are_errors_of_this_project() -> None:
    for kind in (
        msmq.ConnectionLostError,
        msmq.OutcomeUnknownError,
        msmq.SendError,
        msmq.ServerNotAvailableError,
    ):
        assert issubclass(kind, msmq.ClientError)
        assert issubclass(kind, MsmqError)


def test_what_they_carry() -> None:
    unknown = msmq.OutcomeUnknownError("nobody knows", [msmq.Message("x")])
    assert [message.body for message in unknown.messages] == ["x"]
    refused = LabelTooLongError()
    error = msmq.SendError([Receipt(bytes(16), 1, 1), refused])
    assert error.failures == [(1, refused)]
    assert "1 of 2" in str(error)

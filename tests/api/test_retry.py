"""The policy for rejected messages, as callers write it."""

from __future__ import annotations

from msmq.api.generated import msmq_pb2 as pb
from msmq.api.retry import retry_of
from msmq.manager.mailbox.retries import NO_RETRY, Retry


def test_what_is_left_out_is_as_usual() -> None:
    usual = Retry(5, 6, "poison")
    assert retry_of(pb.QueueSettings(), usual) == usual
    assert retry_of(pb.OpenToReceive(max_deliveries=0, poison_subqueue=""), usual) == Retry(5, 0, "")
    assert retry_of(pb.QueueSettings(retry_delay_ms=7), NO_RETRY) == Retry(7)

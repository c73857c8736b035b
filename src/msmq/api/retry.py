"""The retry policy for rejected messages, as callers write it."""

from __future__ import annotations

from msmq.api.generated import msmq_pb2 as pb
from msmq.manager.mailbox.retries import Retry


def retry_of(given: pb.QueueSettings | pb.OpenToReceive, usual: Retry) -> Retry:
    """The retry policy that a call asks for; fields that it leaves out are as in ``usual``."""
    return Retry(
        given.retry_delay_ms if given.HasField("retry_delay_ms") else usual.delay_ms,
        given.max_deliveries if given.HasField("max_deliveries") else usual.max_deliveries,
        given.poison_subqueue if given.HasField("poison_subqueue") else usual.poison_subqueue,
    )

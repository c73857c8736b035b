"""What a queue manager tells, as Python values."""

from __future__ import annotations

import msmq
from msmq.api.generated import msmq_pb2 as pb
from msmq.client.info import OutgoingInfo, figures, report


def test_the_last_error_of_an_outgoing_queue() -> None:
    attempts = [pb.Attempt(time=1, status="ConnectionRefused", error=0xC00E0069, addresses=["10.0.0.1"])]
    failed = report(OutgoingInfo, pb.OutgoingInfo(attempts=attempts))
    assert failed.last_error == "ConnectionRefused"
    assert failed.attempts[0].addresses == ("10.0.0.1",)
    attempts.append(pb.Attempt(time=2, status="Established"))
    assert report(OutgoingInfo, pb.OutgoingInfo(attempts=attempts)).last_error == ""
    assert report(OutgoingInfo, pb.OutgoingInfo()).last_error == ""


def test_figures() -> None:
    given = pb.Statistics(
        time_ms=1500,
        sessions=[pb.SessionInfo(peer="10.0.0.1", incoming=True)],
        queues=[pb.QueueStatistics(path="q", messages=3, waiting_readers=1)],
    )
    shown = figures(given)
    assert shown.time.timestamp() == 1.5
    assert shown.sessions[0].incoming
    assert isinstance(shown.queues[0], msmq.QueueStatistics)
    assert (shown.queues[0].messages, shown.queues[0].waiting_readers) == (3, 1)

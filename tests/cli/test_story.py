"""Who asks and who answers."""

from __future__ import annotations

from msmq.capture.inputs import Origin
from msmq.cli.story import Story
from msmq.wire.describe import describe, describe_ping
from msmq.wire.explain import Role
from msmq.wire.packets import Ping
from tests.wire import vectors


def test_bare_packets_are_matched_with_what_came_before() -> None:
    story = Story()
    pings = [describe_ping(vector.data) for vector in vectors.PINGS]
    packets = [describe(vector.data) for vector in vectors.SESSION_PACKETS]
    ask, answer, unknown = Role.REQUEST, Role.RESPONSE, Role.UNKNOWN
    roles = [story.role(description, None) for description in (*pings, *packets)]
    assert roles == [ask, answer, ask, answer, ask, answer, unknown, unknown]


def test_a_ping_of_another_cookie_asks_again() -> None:
    story = Story()
    roles = [story.role(describe_ping(Ping(cookie=cookie).encode()), None) for cookie in (1, 2, 1)]
    assert roles == [Role.REQUEST, Role.REQUEST, Role.RESPONSE]


def test_captures_tell_by_direction() -> None:
    description = describe(vectors.ESTABLISH_REQUEST.data)
    ends = (("a", 1), ("b", 1801))
    assert Story().role(description, Origin(0, *ends, 1, True)) is Role.REQUEST
    assert Story().role(description, Origin(0, *ends, 1, False)) is Role.RESPONSE


def test_unanswered_requests_are_forgotten_in_the_end() -> None:
    story = Story()
    for cookie in range(5000):
        story.role(describe_ping(Ping(cookie=cookie).encode()), None)
    assert story.role(describe_ping(Ping(cookie=0).encode()), None) is Role.REQUEST
    assert story.role(describe_ping(Ping(cookie=4999).encode()), None) is Role.RESPONSE

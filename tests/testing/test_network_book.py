"""The books of the network simulator: what they let pass and what not."""

from __future__ import annotations

from collections import Counter

import pytest

from msmq.testing.network_book import Book, Broken, Ends, Kind, Sending, Sent, body_of
from msmq.wire.classes import MessageClass
from msmq.wire.headers import MessagePropertiesHeader
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.message import UserMessage
from msmq.wire.packets import FinalAckBody, OrderAckBody, build_order_message
from tests.wire.builders import build, user_header

HERE, THERE = "10.0.0.1", "10.0.0.2"
ORDERS = (THERE, "orders")
MAIL = (THERE, "mail")


def book(*kinds: Kind, **attributes: object) -> Book:
    """Messages 1, 2, ... of these kinds were sent and confirmed."""
    made = Book()
    for number, kind in enumerate(kinds, 1):
        target = ORDERS if kind is Kind.TRANSACTIONAL else MAIL
        sent = Sent(number, kind, HERE, target, number, **attributes)  # type: ignore[arg-type]
        sent.state = Sending.CONFIRMED
        made.add(sent)
    return made


def receive(made: Book, number: int) -> None:
    key = made.sent[number].target
    made.arrived(key, number)
    made.taken(key, number)
    made.read(key, number)


def test_in_order_and_once() -> None:
    made = book(Kind.TRANSACTIONAL, Kind.TRANSACTIONAL)
    receive(made, 1)
    with pytest.raises(Broken, match="twice"):
        made.arrived(ORDERS, 1)
    receive(made, 2)
    made.check(Ends())


def test_out_of_order() -> None:
    made = book(Kind.TRANSACTIONAL, Kind.TRANSACTIONAL)
    made.arrived(ORDERS, 2)
    with pytest.raises(Broken, match="after"):
        made.arrived(ORDERS, 1)


def test_read_out_of_order() -> None:
    made = book(Kind.TRANSACTIONAL, Kind.TRANSACTIONAL)
    made.arrived(ORDERS, 1)
    made.arrived(ORDERS, 2)
    made.taken(ORDERS, 2)
    with pytest.raises(Broken, match="after"):
        made.taken(ORDERS, 1)
    with pytest.raises(Broken, match="received twice"):
        made.taken(ORDERS, 2)
    made.given_back(ORDERS, 2)
    made.taken(ORDERS, 1)


def test_what_was_never_sent() -> None:
    with pytest.raises(Broken, match="never sent"):
        book(Kind.EXPRESS).arrived(ORDERS, 1)


@pytest.mark.parametrize("kind", Kind)
def test_a_message_that_never_came_is_lost(kind: Kind) -> None:
    with pytest.raises(Broken):
        book(kind).check(Ends())


def test_an_express_message_may_be_lost_with_its_host() -> None:
    made = book(Kind.EXPRESS)
    made.restarted(THERE, {})
    made.check(Ends())


def test_what_the_sender_was_not_promised() -> None:
    made = book(Kind.TRANSACTIONAL)
    made.sent[1].state = Sending.ASKED
    made.restarted(HERE, {})
    made.check(Ends())
    assert made.sent[1].state is Sending.UNCERTAIN


def test_a_crash_while_a_message_is_received() -> None:
    made = book(Kind.TRANSACTIONAL, Kind.TRANSACTIONAL, Kind.TRANSACTIONAL)
    for number in (1, 2, 3):
        made.arrived(ORDERS, number)
        made.taken(ORDERS, number)
    made.log(ORDERS).stored = {1, 2}
    made.restarted(THERE, {"orders": [2]})
    log = made.log(ORDERS)
    assert (log.read, log.doubtful, log.seen) == ([1], {3}, [1, 2])
    made.taken(ORDERS, 2)
    made.read(ORDERS, 2)
    made.arrived(ORDERS, 3)  # it had not been stored
    assert not log.doubtful


def test_a_message_that_is_refused_had_not_come() -> None:
    """It was received on a host that crashed, and the copy that came then was too late."""
    made = book(Kind.TRANSACTIONAL, time_to_reach_queue_s=1, negative_journaling=True)
    made.arrived(ORDERS, 1)
    with pytest.raises(Broken, match="where it is"):
        made.refused(ORDERS, 1)
    made.taken(ORDERS, 1)
    made.restarted(THERE, {})
    made.refused(ORDERS, 1)
    made.check(Ends(dead=Counter({1: 1})))
    with pytest.raises(Broken, match="in the dead-letter queue"):
        made.check(Ends())


def test_a_crash_that_reorders() -> None:
    made = book(Kind.TRANSACTIONAL, Kind.TRANSACTIONAL)
    made.arrived(ORDERS, 1)
    made.arrived(ORDERS, 2)
    with pytest.raises(Broken, match="after a restart"):
        made.restarted(THERE, {"orders": [2, 1]})


@pytest.mark.parametrize(
    ("attributes", "dead", "journaled", "read"),
    [
        ({}, 1, 0, False),  # who put it there?
        ({"negative_journaling": True, "time_to_reach_queue_s": 1}, 1, 0, True),  # both
        ({"negative_journaling": True, "time_to_reach_queue_s": 1}, 0, 0, False),  # neither
        ({"positive_journaling": True}, 0, 0, True),
        ({"positive_journaling": True}, 0, 2, True),
        ({"positive_journaling": True, "time_to_reach_queue_s": 1}, 0, 1, False),
    ],
    ids=["dead", "read and dead", "nowhere", "not journaled", "journaled twice", "journaled unread"],
)
def test_one_end_for_each(attributes: dict[str, object], dead: int, journaled: int, read: bool) -> None:
    made = book(Kind.TRANSACTIONAL, **attributes)
    if read:
        receive(made, 1)
    with pytest.raises(Broken):
        made.check(Ends(Counter({1: dead}), Counter({1: journaled})))


@pytest.mark.parametrize(
    ("told", "read"),
    [
        ({}, True),
        ({MessageClass.ACK_REACH_QUEUE: 1}, True),
        ({MessageClass.ACK_RECEIVE: 1}, True),
        ({MessageClass.ACK_REACH_QUEUE: 2, MessageClass.ACK_RECEIVE: 1}, True),
        ({MessageClass.ACK_REACH_QUEUE: 1, MessageClass.NACK_RECEIVE_TIMEOUT: 1}, True),
        ({}, False),
        ({MessageClass.NACK_REACH_QUEUE_TIMEOUT: 1, MessageClass.NACK_RECEIVE_TIMEOUT: 1}, False),
    ],
    ids=["nothing", "no receive", "no arrival", "twice", "a lie", "silence", "two reasons"],
)
def test_the_sender_is_told_the_truth(told: dict[MessageClass, int], read: bool) -> None:
    made = book(Kind.TRANSACTIONAL, acknowledgments=0xF, time_to_reach_queue_s=9)
    if read:
        receive(made, 1)
    with pytest.raises(Broken):
        made.check(Ends(told={1: Counter({int(kind): count for kind, count in told.items()})}))


@pytest.mark.parametrize("at_target", [False, True])
def test_an_acknowledgment_may_come_again_where_a_crash_has_taken_the_memory_of_it(at_target: bool) -> None:
    twice = {1: Counter({int(MessageClass.NACK_REACH_QUEUE_TIMEOUT): 2})}
    made = book(
        Kind.TRANSACTIONAL, acknowledgments=0xF, time_to_reach_queue_s=9, answered_at_target=at_target
    )
    with pytest.raises(Broken, match="more than once"):
        made.check(Ends(told=twice))
    made.restarted(THERE if at_target else HERE, {})
    made.check(Ends(told=twice))


def test_half_a_transaction() -> None:
    made = book(Kind.TRANSACTIONAL, Kind.TRANSACTIONAL)
    made.sent[2].group = 1
    made.sent[1].state = made.sent[2].state = Sending.UNCERTAIN
    receive(made, 1)
    with pytest.raises(Broken, match="in part"):
        made.check(Ends())


def test_whoever_passes_a_message_on_may_lose_it_with_its_memory() -> None:
    """But only then: an express message may not be received at all if its routing server restarted."""
    for restarted in (False, True):
        made = book(Kind.EXPRESS, by_way_of="10.0.0.3")
        if restarted:
            made.restarted("10.0.0.3", {})
            made.check(Ends())
        else:
            with pytest.raises(Broken, match="received 0 times"):
                made.check(Ends())


def test_a_plain_message_comes_twice_only_to_a_host_that_has_lost_its_memory() -> None:
    """Whoever else was restarted."""
    for kind in (Kind.EXPRESS, Kind.RECOVERABLE):
        made = book(kind, by_way_of="10.0.0.3")
        receive(made, 1)
        made.restarted("10.0.0.3", {})
        with pytest.raises(Broken, match="came twice"):
            made.arrived(MAIL, 1)
        made.restarted(THERE, {})
        receive(made, 1)
        made.check(Ends())


def test_a_copy_is_received_once() -> None:
    made = book(Kind.RECOVERABLE)
    receive(made, 1)
    made.taken(MAIL, 1)
    made.read(MAIL, 1)
    with pytest.raises(Broken, match="received 2 times"):
        made.check(Ends())


def test_each_copy_of_a_plain_message_has_one_end() -> None:
    """One was received, the other one was purged; a third end would be a lie."""
    told = Counter({int(MessageClass.ACK_REACH_QUEUE): 1, int(MessageClass.ACK_RECEIVE): 1})
    told[MessageClass.NACK_Q_PURGED] = 1
    for copies in (1, 2):
        made = book(Kind.RECOVERABLE, acknowledgments=0xF)
        receive(made, 1)
        if copies > 1:
            made.restarted(THERE, {})
            made.arrived(MAIL, 1)
            made.check(Ends(told={1: told}))
            told[MessageClass.NACK_Q_DELETED] = 1
        with pytest.raises(Broken, match="was told"):
            made.check(Ends(told={1: told}))


def test_a_plain_message_may_be_late_wherever_it_is_on_its_way() -> None:
    for way, most in (("", 2), ("10.0.0.3", 3)):
        made = book(Kind.RECOVERABLE, by_way_of=way, negative_journaling=True, time_to_reach_queue_s=1)
        made.check(Ends(dead=Counter({1: most})))
        with pytest.raises(Broken, match=f"{most + 1} dead"):
            made.check(Ends(dead=Counter({1: most + 1})))
        made.restarted(THERE, {})
        made.check(Ends(dead=Counter({1: most + 1})))
        with pytest.raises(Broken, match=f"{most + 2} dead"):
            made.check(Ends(dead=Counter({1: most + 2})))


def test_a_damaged_message_may_be_lost_and_its_neighbour_not() -> None:
    made = book(Kind.TRANSACTIONAL, Kind.TRANSACTIONAL, acknowledgments=0xF, negative_journaling=True)
    made.sent[1].damaged = True
    with pytest.raises(Broken, match=r"number=2.*lost"):
        made.check(Ends())
    receive(made, 2)
    told = {2: Counter({int(MessageClass.ACK_REACH_QUEUE): 1, int(MessageClass.ACK_RECEIVE): 1})}
    made.check(Ends(told=told))
    with pytest.raises(Broken, match=r"number=1.*dead 2"):
        made.check(Ends(dead=Counter({1: 2}), told=told))


@pytest.mark.parametrize(
    "about", ["itself", "correlation", "used again", "final acknowledgment", "order acknowledgment"]
)
def test_what_a_packet_is_about(about: str) -> None:
    made, source = book(Kind.TRANSACTIONAL), bytes(range(16))
    made.identifiers[MessageIdentifier(source, 7).encode()] = 1
    packet: UserMessage
    if about in ("itself", "correlation", "used again"):
        user = user_header()
        user.source_queue_manager, user.message_id = source, 7 if about == "itself" else 8
        if about == "used again":
            made.identifiers[MessageIdentifier(source, 8).encode()] = 2
        correlation_id = MessageIdentifier(source, 7).encode()
        body = body_of(1, 20) if about == "itself" else b""
        packet = build(
            user=user, properties=MessagePropertiesHeader(correlation_id=correlation_id), body=body
        )
    else:
        final = about == "final acknowledgment"
        packet = build_order_message(
            FinalAckBody(1, 1, 0, source, 7) if final else OrderAckBody.of(1, 1),
            MessageClass.ACK_RECEIVE if final else MessageClass.ORDER_ACK,
            source=bytes(16),
            destination=source,
            message_id=9,
            sent_time=0,
        )
    assert made.number_of(packet) == (None if about == "order acknowledgment" else 1)

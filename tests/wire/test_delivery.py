"""Hops and acknowledgments: what a packet decides about its own fate."""

from __future__ import annotations

import pytest

from msmq.wire.classes import MessageClass
from msmq.wire.delivery import (
    INSECURE_NACKS,
    acknowledgments,
    format_name,
    largest_answers,
    wants,
)
from msmq.wire.guid import guid_text
from msmq.wire.headers import MessagePropertiesHeader, PrivateQueueFormatName
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import MQFElement, MultiQueueFormatHeader
from msmq.wire.optional_headers import SecurityHeader

from .builders import DESTINATION, FRAME_7, OTHER, QUEUE, SID, SOURCE, acknowledgment, build, user_header

SENT = 0x44110000
PA, PR, NA, NR = 1, 2, 4, 8
ADMIN = "OS:sender\\private$\\admin"


def asking(flags: int, **parts: object) -> UserMessage:
    """A message whose sender asks for the acknowledgments in ``flags`` at a direct admin queue."""
    parts.setdefault("user", user_header(admin=ADMIN))
    return build(properties=MessagePropertiesHeader(flags=flags), body=b"the body", **parts)


@pytest.mark.spec("MQMQ-2.2.19.2-j", "MQMQ-2.2.18.1.6-l")
def test_a_router_counts_its_hop_and_refuses_the_one_above_the_limit() -> None:
    user = user_header(7, admin=ADMIN, dq=3)
    user.hop_count = 0x1C
    message = build(user=user, properties=MessagePropertiesHeader(flags=NA))
    forwarded = message.forwarded()
    assert forwarded is not None
    assert forwarded.user.hop_count == 0x1D
    assert forwarded.forwarded() is None, "0x1E is one too many"
    nack = acknowledgment(forwarded, MessageClass.NACK_HOP_COUNT_EXCEEDED)
    assert nack is not None
    assert nack.message_class == 0x8005


@pytest.mark.parametrize(
    ("bit", "fates"),
    [
        pytest.param(PA, [0x0002], marks=pytest.mark.spec("MQMQ-2.2.19.3-d"), id="arrived"),
        pytest.param(PR, [0x4000], marks=pytest.mark.spec("MQMQ-2.2.19.3-e"), id="received"),
        pytest.param(
            NA,
            [0x8000, 0x8001, 0x8002, 0x8003, 0x8004, 0x8005, 0x8006, 0x8007, 0x8009, 0x800A, 0x800B],
            marks=pytest.mark.spec("MQMQ-2.2.19.3-f"),
            id="not delivered",
        ),
        pytest.param(
            NR, [0xC000, 0xC001, 0xC002, 0xC004], marks=pytest.mark.spec("MQMQ-2.2.19.3-g"), id="not received"
        ),
    ],
)
def test_each_fate_is_told_exactly_when_its_bit_asks_for_it(bit: int, fates: list[int]) -> None:
    for number in fates:
        fate = MessageClass(number)
        due = acknowledgment(asking(bit), fate, send_insecure_nacks=True)
        assert due is not None
        assert due.message_class == number
        assert acknowledgment(asking(0x0F & ~bit), fate, send_insecure_nacks=True) is None


def test_of_many_messages_those_are_answered_that_ask_each_by_itself() -> None:
    messages = [
        asking(flags, user=user_header("OS:host\\q", admin=admin, recoverable=recoverable))
        for flags in (PA, PR, PA | PR, 0)
        for admin in (ADMIN, None)
        for recoverable in (False, True)
    ]
    for fate in (MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE, MessageClass.NACK_Q_PURGED):
        alone = [acknowledgment(message, fate) for message in messages]
        due = acknowledgments(messages, fate)
        assert due == [one for one in alone if one is not None]
        assert len(due) == (0 if fate == MessageClass.NACK_Q_PURGED else 4)


def test_ordinary_classes_are_no_fate() -> None:
    message = asking(0x0F)
    assert not wants(message, MessageClass.NORMAL)
    assert not wants(message, MessageClass.REPORT)
    assert not wants(message, MessageClass.ORDER_ACK)


@pytest.mark.spec("MQMQ-2.2.19.2-af")
def test_frame_7_asks_for_all_acknowledgments_but_names_no_admin_queue() -> None:
    message = UserMessage.decode(FRAME_7)
    assert message.properties.flags == 0x0F
    assert message.user.admin_reference == 0
    for fate in MessageClass:
        assert acknowledgment(message, fate, send_insecure_nacks=True) is None


def test_telling_refusals_are_kept_from_strangers_unless_the_operator_allows_them() -> None:
    message = asking(NA)
    for fate in INSECURE_NACKS:
        assert acknowledgment(message, fate) is None
        assert acknowledgment(message, fate, send_insecure_nacks=True) is not None
    assert acknowledgment(message, MessageClass.NACK_Q_EXCEED_QUOTA) is not None


def test_an_acknowledgment_answers_to_the_admin_queue_and_names_message_and_queue() -> None:
    due = acknowledgment(
        asking(PA, user=user_header("OS:host\\q", admin=ADMIN)), MessageClass.ACK_REACH_QUEUE
    )
    assert due is not None
    assert due.destinations == ("DIRECT=" + ADMIN,)
    assert due.response == "DIRECT=OS:host\\q"
    assert due.correlation_id == SOURCE + (0x8EE).to_bytes(4, "little")
    assert due.body == b""


@pytest.mark.spec("MQQB-1.3.5.2-b")
@pytest.mark.parametrize("recoverable", [False, True])
def test_an_acknowledgment_is_as_durable_as_what_it_answers(recoverable: bool) -> None:
    due = acknowledgment(
        asking(PA, user=user_header(admin=ADMIN, recoverable=recoverable)), MessageClass.ACK_REACH_QUEUE
    )
    assert due is not None
    assert due.recoverable is recoverable


def test_a_negative_acknowledgment_brings_the_body_back_unless_it_is_encrypted() -> None:
    fate = MessageClass.NACK_Q_EXCEED_QUOTA
    clear = acknowledgment(asking(NA), fate)
    signed = acknowledgment(asking(NA, security=SecurityHeader(flags=1, security_id=SID)), fate)
    secret = acknowledgment(asking(NA, security=SecurityHeader(flags=0x21, security_id=SID)), fate)
    assert clear is not None
    assert signed is not None
    assert secret is not None
    assert (clear.body, signed.body, secret.body) == (b"the body", b"the body", b"")


@pytest.mark.parametrize(
    ("fate", "size", "told"),
    [
        (MessageClass.ACK_REACH_QUEUE, 4_000_000, 16),
        (MessageClass.NACK_Q_EXCEED_QUOTA, 8, 16),
        (MessageClass.NACK_Q_EXCEED_QUOTA, 1_000_000, 8),
        (MessageClass.NACK_Q_EXCEED_QUOTA, 4_000_000, 2),
    ],
)
def test_of_a_long_list_of_admin_queues_some_are_told_once(fate: MessageClass, size: int, told: int) -> None:
    """Else one packet would be many times its size here."""
    elements: list[MQFElement] = [f"OS:host\\private$\\q{number // 2}" for number in range(100)]
    lists = MultiQueueFormatHeader.of(["OS:host\\q"], elements)
    asked = build(
        user=user_header(admin=ADMIN),
        properties=MessagePropertiesHeader(flags=PA | NA),
        body=bytes(size),
        multi_queue=lists,
    )
    due = acknowledgment(asked, fate)
    assert due is not None
    assert due.destinations == tuple(f"DIRECT=OS:host\\private$\\q{number}" for number in range(told))
    assert due.untold == 50 - told
    assert told * len(due.body) <= largest_answers(len(asked.data)) <= 0x800000


@pytest.mark.spec("MQMQ-2.2.19.2-q")
@pytest.mark.parametrize(
    ("reference", "name", "size", "expected"),
    [
        (0, None, 0, None),
        (2, 7, 4, f"PRIVATE={guid_text(SOURCE)}\\00000007"),
        (3, 7, 4, f"PRIVATE={guid_text(DESTINATION)}\\00000007"),
        (5, QUEUE, 16, f"PUBLIC={guid_text(QUEUE)}"),
        (6, PrivateQueueFormatName(OTHER, 9), 20, f"PRIVATE={guid_text(OTHER)}\\00000009"),
        (7, "OS:x\\q", 16, "DIRECT=OS:x\\q"),
    ],
)
def test_an_admin_queue_takes_its_size_and_resolves_to_its_host(
    reference: int, name: object, size: int, expected: str | None
) -> None:
    plain = build(user=user_header(5, dq=3))
    message = build(user=user_header(5, admin=name, dq=3, aq=reference))  # type: ignore[arg-type]
    assert len(message.data) - len(plain.data) == size
    user = UserMessage.decode(message.data).user
    assert format_name(user, user.admin_reference, user.admin_queue) == expected


def test_a_response_queue_may_point_at_the_admin_queue_or_its_host() -> None:
    same = build(user=user_header(5, admin="OS:x\\q", dq=3, rq=1)).user
    assert format_name(same, same.response_reference, same.response_queue) == "DIRECT=OS:x\\q"
    host = build(user=user_header(5, admin=PrivateQueueFormatName(OTHER, 9), response=8, dq=3, rq=4)).user
    assert format_name(host, 4, host.response_queue) == f"PRIVATE={guid_text(OTHER)}\\00000008"
    nowhere = build(user=user_header(5, response=8, dq=3, rq=4)).user
    assert format_name(nowhere, 4, nowhere.response_queue) is None

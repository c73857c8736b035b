"""What the model says of acknowledgments, copies and dead letters."""

from __future__ import annotations

import pytest

from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.messages.message import AcknowledgementsRequested, Message
from msmq.manager.messages.serialize import serialize
from msmq.testing.manager_follow import (
    ARRIVED,
    DELETED,
    LATE,
    NO_ROOM,
    PURGED,
    RECEIVED,
    Due,
    Kind,
    Wishes,
    wishes_in,
)
from msmq.wire.identifiers import MessageIdentifier

IDENTIFIER = MessageIdentifier(bytes(range(16)), 7)


def stored(**said: object) -> StoredMessage:
    message = Message(
        body=b"text",
        destination_queue_format_name="DIRECT=OS:host\\private$\\q",
        identifier=IDENTIFIER,
        **said,  # type: ignore[arg-type]
    )
    return StoredMessage(serialize(message), LocalAttributes(application_deadletter_queue="HOST\\Grave"))


@pytest.mark.parametrize(
    ("fate", "bit"),
    [(ARRIVED, 1), (RECEIVED, 2), (NO_ROOM, 4), (DELETED, 8), (PURGED, 8), (LATE, 8)],
)
def test_each_fate_has_its_bit(fate: int, bit: int) -> None:
    assert Wishes(acknowledgements=bit).wants(fate)
    assert not Wishes(acknowledgements=0xF ^ bit).wants(fate)


def test_wishes_are_what_a_message_says() -> None:
    message = stored(
        acknowledgements_requested=AcknowledgementsRequested.ACK_FULL_RECEIVE,
        administration_queue_format_name="DIRECT=OS:host\\private$\\acks",
        negative_journaling_requested=True,
    )
    assert wishes_in(message) == Wishes(
        IDENTIFIER.encode(), 0xE, ("DIRECT=OS:host\\private$\\acks",), False, True, "host\\grave"
    )


def test_a_list_of_administration_queues_counts_only_beside_one() -> None:
    listed = ("DIRECT=OS:a\\private$\\q", "DIRECT=OS:b\\private$\\q")
    assert wishes_in(stored(administration_multi_queue_format_name=listed)).admin == ()
    both = stored(
        administration_multi_queue_format_name=listed, administration_queue_format_name="DIRECT=OS:c\\q"
    )
    assert wishes_in(both).admin == listed


def test_a_due_is_met_by_the_right_message_only() -> None:
    copy = Due(Kind.COPY, "journal", ARRIVED, IDENTIFIER.encode(), b"text")
    assert copy.is_met_by("journal", stored())
    assert not copy.is_met_by("elsewhere", stored())
    assert not copy._replace(text=b"other").is_met_by("journal", stored())
    assert not copy._replace(about=bytes(20)).is_met_by("journal", stored())
    assert not copy._replace(kind=Kind.DEAD_LETTER, fate=LATE).is_met_by("journal", stored())
    answer = stored(message_class=RECEIVED, correlation_identifier=b"c" * 20)
    due = Due(Kind.ACKNOWLEDGMENT, "acks", RECEIVED, b"c" * 20, b"text")
    assert due.is_met_by("acks", answer)
    assert not due._replace(fate=ARRIVED).is_met_by("acks", answer)


def test_the_copy_of_a_dead_letter_is_one_too() -> None:
    letter = stored()
    letter.local = letter.local.changed(dead_letter_class=PURGED)
    copy = Due(Kind.COPY, "journal", RECEIVED, IDENTIFIER.encode(), b"text", reason=PURGED)
    assert copy.is_met_by("journal", letter)
    assert not copy.is_met_by("journal", stored())
    assert not copy._replace(reason=0).is_met_by("journal", letter)

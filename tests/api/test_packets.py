"""Packets made from templates are those that the queue manager would make, and come back as they were sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.api.generated import msmq_pb2 as pb
from msmq.api.packets import Columns, to_delivered, to_message
from msmq.errors import (
    IllegalPropertySizeError,
    IllegalPropertyValueError,
    InsufficientResourcesError,
    InvalidParameterError,
    LabelTooLongError,
)
from msmq.manager.mailbox.stored import LocalAttributes, StoredMessage
from msmq.manager.messages.message import AuthenticationLevel, Message
from msmq.manager.messages.serialize import serialize
from msmq.manager.messages.template import Template, kind_of, options, refuse, write_packets
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.message import UserMessage

HOST = bytes(range(16))
QUEUE = "DIRECT=OS:HOST\\private$\\q"

texts = st.text(
    st.characters(min_codepoint=32, max_codepoint=0xFFFF, exclude_categories=("Cs",)), max_size=30
)
messages = st.builds(
    pb.Message,
    body=st.binary(max_size=200),
    body_type=st.integers(0, 0xFFFFFFFF),
    label=texts,
    extension=st.binary(max_size=40),
    application_tag=st.integers(0, 0xFFFFFFFF),
    correlation_id=st.sampled_from([b"", bytes(range(20))]),
    priority=st.integers(0, 7),
    delivery=st.sampled_from([pb.DELIVERY_DEFAULT, pb.EXPRESS, pb.RECOVERABLE]),
    time_to_be_received_s=st.integers(0, 0xFFFFFFFF),
    acknowledgements=st.integers(0, 15),
    journal=st.booleans(),
    dead_letter=st.booleans(),
    admin_queue=st.sampled_from(["", ".\\private$\\admin"]),
    response_queue=st.sampled_from(["", ".\\private$\\answers", "DIRECT=TCP:10.0.0.1\\private$\\r"]),
)


def complete(given_message: Message) -> Message:
    given_message.destination_queue_format_name = QUEUE
    given_message.identifier = MessageIdentifier(HOST, 77)
    given_message.sent_time = 1_700_000_000
    return given_message


def template(message: pb.Message) -> Template:
    made = complete(to_message(message, "HOST"))
    made.label, made.body, made.extension = "", b"", b""
    return Template.of(made)


def fill(made: Template, message: pb.Message, ordinal: int, sent_time: int) -> StoredMessage:
    """A message as a template makes it of columns that leave all its own to its kind."""
    columns = Columns(pb.Columns(kinds=[message], bodies=[message.body]))
    flags = options(
        recoverable=columns.deliveries[0] != pb.EXPRESS,
        negative_journaling=columns.dead_letters[0],
        positive_journaling=columns.journals[0],
    )
    row: Any = (
        made.form,
        ordinal,
        0,
        made.user_flags | flags,
        made.base_flags | columns.priorities[0],
        columns.times_to_reach_queue_s[0],
        columns.times_to_be_received_s[0],
        columns.acknowledgements[0],
        *(column[0] for column in columns.properties),
    )
    (packet,) = write_packets([row], sent_time, refuse)
    return StoredMessage(UserMessage.route(packet), LocalAttributes())


@given(messages)
def test_a_template_gives_the_packet_that_serializing_gives(message: pb.Message) -> None:
    stored = fill(template(message), message, 77, 1_700_000_000)
    assert stored.packet.data == serialize(complete(to_message(message, "HOST"))).data
    UserMessage.decode(stored.packet.data)


@given(messages)
def test_properties_come_back(message: pb.Message) -> None:
    stored = fill(template(message), message, 77, 1_700_000_000)
    stored.lookup_id, stored.arrival_time = 5, 1_700_000_001
    told = to_delivered(stored, pb.PROPERTIES, 2)
    for name in (
        "body",
        "body_type",
        "label",
        "extension",
        "application_tag",
        "priority",
        "acknowledgements",
    ):
        assert getattr(told.message, name) == getattr(message, name)
    for name in ("journal", "dead_letter", "time_to_be_received_s"):
        assert getattr(told.message, name) == getattr(message, name)
    assert told.message.correlation_id == (message.correlation_id or bytes(20))
    assert told.message.delivery == (pb.EXPRESS if message.delivery == pb.EXPRESS else pb.RECOVERABLE)
    assert told.message_id == HOST + (77).to_bytes(4, "little")
    assert (told.lookup_id, told.arrived_time, told.returned_count) == (5, 1_700_000_001, 2)
    assert told.destination == QUEUE
    packed = to_delivered(stored, pb.PACKET, 0)
    assert packed.packet == stored.packet.data
    assert not packed.HasField("message")


@pytest.mark.parametrize("form", [pb.PROPERTIES, pb.PACKET], ids=["properties", "packet"])
def test_a_dead_letter_tells_why(form: pb.Form) -> None:
    message = pb.Message(body=b"x")
    stored = fill(template(message), message, 77, 1_700_000_000)
    assert (
        to_delivered(stored, form, 0).dead_letter_class,
        to_delivered(stored, form, 0).dead_letter_reason,
    ) == (0, "")
    stored.local = LocalAttributes(dead_letter_class=0x8000)
    told = to_delivered(stored, form, 0)
    assert told.dead_letter_class == 0x8000
    assert told.dead_letter_reason == "the destination queue does not exist"


def test_one_template_serves_many_messages() -> None:
    first, second = pb.Message(body=b"a", label="one"), pb.Message(body=b"bbbb", extension=b"x")
    assert kind_of(to_message(first, "HOST")) == kind_of(to_message(second, "HOST"))
    shared = template(first)
    assert fill(shared, first, 1, 2).packet.body == b"a"
    packet = fill(shared, second, 3, 4).packet
    assert (packet.body, packet.label, packet.extension) == (b"bbbb", "", b"x")
    assert (packet.user.message_id, packet.user.sent_time) == (3, 4)
    answered = to_message(pb.Message(response_queue=".\\private$\\answers"), "HOST")
    assert kind_of(answered) != kind_of(to_message(pb.Message(), "HOST"))


@given(st.lists(messages, min_size=1, max_size=4))
def test_columns_give_back_each_message(sent: list[pb.Message]) -> None:
    """Each of its own kind, and with everything that is its own in a column."""
    columns = Columns(
        pb.Columns(
            kinds=sent[::-1],
            kind=range(len(sent) - 1, -1, -1),
            bodies=[each.body for each in sent],
            body_types=[each.body_type for each in sent],
            labels=[each.label for each in sent],
            extensions=[each.extension for each in sent],
            application_tags=[each.application_tag for each in sent],
            correlation_ids=[each.correlation_id for each in sent],
            deliveries=[each.delivery for each in sent],
            acknowledgements=[each.acknowledgements for each in sent],
            journals=[each.journal for each in sent],
            dead_letters=[each.dead_letter for each in sent],
        )
    )
    assert [columns.message(index) for index in range(len(columns))] == sent


@pytest.mark.parametrize(
    "columns",
    [
        pb.Columns(bodies=[b"a"]),
        pb.Columns(kinds=[pb.Message()], bodies=[b"a"], kind=[1]),
        pb.Columns(kinds=[pb.Message()], bodies=[b"a"], kind=[0, 0]),
        pb.Columns(kinds=[pb.Message()], bodies=[b"a", b"b", b"c"], labels=["x", "y"]),
        pb.Columns(kinds=[pb.Message()], bodies=[b"a", b"b", b"c"], priorities=[1, 2]),
        pb.Columns(kinds=[pb.Message()], priorities=[1, 2]),
    ],
    ids=[
        "no kind",
        "unknown kind",
        "more kinds than bodies",
        "fewer labels",
        "fewer priorities",
        "no bodies",
    ],
)
def test_columns_that_do_not_belong_together(columns: pb.Columns) -> None:
    with pytest.raises(InvalidParameterError):
        Columns(columns)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (pb.Message(label="x" * 250), LabelTooLongError),
        (pb.Message(label="a\0b"), IllegalPropertyValueError),
        (pb.Message(correlation_id=b"short"), IllegalPropertySizeError),
        (pb.Message(message_class=0x0200), IllegalPropertyValueError),
        (pb.Message(body=bytes(4 << 20)), InsufficientResourcesError),
    ],
    ids=["label", "null", "correlation", "class", "size"],
)
def test_what_no_packet_can_hold(message: pb.Message, error: type[Exception]) -> None:
    with pytest.raises(error):
        fill(template(pb.Message()), message, 1, 1)


def test_protection_that_is_asked_for() -> None:
    assert to_message(pb.Message(), "HOST").authentication_level is AuthenticationLevel.NONE
    assert to_message(pb.Message(authenticate=True), "HOST").authentication_level is AuthenticationLevel.SIG20
    assert to_message(pb.Message(privacy_level=5), "HOST").privacy_level == 5


def test_the_dead_letter_queue_of_an_application_goes_by_its_path() -> None:
    made = to_message(pb.Message(dead_letter_queue=".\\private$\\dead"), "HOST")
    assert made.application_deadletter_queue == "HOST\\private$\\dead"
    stored = StoredMessage(serialize(complete(made)), LocalAttributes(application_deadletter_queue="x"))
    assert to_delivered(stored, pb.PROPERTIES, 0).message.dead_letter_queue == "x"

"""Messages as applications write and read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import msmq
from msmq import Acknowledge, Delivery, Message
from msmq.api.generated import msmq_pb2 as pb
from msmq.client.message import Receipt, id_text
from tests.client.support import QUEUE, connected


def test_defaults_are_safe() -> None:
    made = Message("x").to_proto()
    assert made.dead_letter
    assert made.delivery == pb.DELIVERY_DEFAULT
    assert not made.HasField("priority")


def test_every_property_travels() -> None:
    message = Message(
        b"x",
        "label",
        body_type=17,
        delivery=Delivery.EXPRESS,
        priority=0,
        correlation_id=bytes(range(20)),
        response_queue="r",
        admin_queue="a",
        acknowledgements=Acknowledge.FULL_RECEIVE,
        time_to_reach_queue=timedelta(minutes=1),
        time_to_be_received=0.9,
        journal=True,
        dead_letter=False,
        dead_letter_queue="d",
        extension=b"e",
        application_tag=5,
        message_class=0,
        trace=True,
        authenticate=True,
        privacy=msmq.Privacy.AES,
        peekable_when_locked=True,
        sender_certificate=b"c",
        connector_type=bytes(16),
    )
    made = message.to_proto()
    assert (made.time_to_reach_queue_s, made.time_to_be_received_s) == (60, 1)
    assert made.HasField("priority")
    assert made.acknowledgements == 14
    unset = {field.name for field in pb.Message.DESCRIPTOR.fields} - {
        field.name for field, _ in made.ListFields()
    }
    assert unset == {"dead_letter", "message_class"}
    assert message.with_(label="other").label == "other"


def test_identifiers_as_text() -> None:
    receipt = Receipt(bytes(range(16)), 258, 1)
    assert receipt.message_id == bytes(range(16)) + b"\2\1\0\0"
    assert receipt.id == id_text(receipt.message_id) == "03020100-0504-0706-0809-0A0B0C0D0E0F\\258"


async def test_what_a_received_message_tells(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        before = datetime.now(UTC) - timedelta(seconds=2)
        sent = Message(
            {"total": 3},
            "Order",
            priority=5,
            extension=b"ext",
            application_tag=9,
            response_queue=".\\private$\\answers",
            admin_queue=".\\private$\\admin",
            acknowledgements=Acknowledge.NACK_RECEIVE,
            correlation_id=b"c" * 20,
            journal=True,
        )
        receipt = await queue.send(sent)
        message = await queue.receive(60)
        assert message.json() == {"total": 3}
        assert (message.label, message.priority, message.body_type) == ("Order", 5, 0)
        assert (message.extension, message.application_tag) == (b"ext", 9)
        assert message.message_id == receipt.message_id
        assert (message.id, message.lookup_id) == (receipt.id, receipt.lookup_id)
        assert message.response_queue == "DIRECT=OS:HOST\\private$\\answers"
        assert message.admin_queue == "DIRECT=OS:HOST\\private$\\admin"
        assert message.acknowledgements == Acknowledge.NACK_RECEIVE
        assert message.correlation_id == b"c" * 20
        assert message.delivery is Delivery.RECOVERABLE
        assert before < message.sent_time <= message.arrived_time
        assert message.destination == "DIRECT=OS:HOST\\PRIVATE$\\q"
        assert (message.journal, message.dead_letter) == (True, True)
        assert not message.first_in_transaction
        assert not message.last_in_transaction
        assert not message.transactional
        assert not message.authenticated
        assert message.sender == (await mq.manager()).caller
        assert (message.class_name, message.returned_count) == ("NORMAL", 0)
        assert "Order" in repr(message)
        answer = message.reply("done", label="Re")
        assert (answer.correlation_id, answer.label) == (receipt.message_id, "Re")
        with pytest.raises(RuntimeError):
            await (await mq.journal.peek()).acknowledge()


async def test_what_net_programs_read_and_write(tmp_path: Path) -> None:
    async with connected(tmp_path) as mq:
        queue = await mq.create_queue(QUEUE)
        order = {"$type": "Order", "Id": "7"}
        headers = b'{"rbs2-msg-id": "7"}'
        for body, formatter in (
            (order, "xml"),
            ([1, "two"], "binary"),
            (True, "activex"),
            ({"a": 1}, "json"),
        ):
            await queue.send(Message(body, formatter=formatter, extension=headers))
        messages = [await queue.receive(60) for _ in range(4)]
        assert [message.value for message in messages] == [order, [1, "two"], True, b'{"a":1}']
        assert [message.body_type for message in messages] == [0, 0x300, 11, 0]
        assert messages[0].text.startswith("<?xml")
        assert messages[2].body == b"\xff"
        assert messages[3].value_as(msmq.Formatter.JSON) == {"a": 1}
        assert messages[3].headers == {"rbs2-msg-id": "7"}
        with pytest.raises(msmq.errors.DecodeError):
            messages[3].value_as("xml")

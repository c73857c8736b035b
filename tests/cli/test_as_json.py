"""The shape of the JSON lines, as docs/decode-json.md promises it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from msmq.cli.as_json import endpoint_text, time_text
from msmq.wire.classes import MessageClass
from msmq.wire.multi_queue import MultiQueueFormatHeader
from msmq.wire.optional_headers import TransactionHeader
from msmq.wire.packets import FinalAckBody, OrderAckBody, build_order_message
from tests.capture.captures import decode, decode_json
from tests.wire import builders, messages, vectors


def one(data: bytes, *arguments: str) -> dict[str, Any]:
    status, objects = decode_json(*arguments, given=data)
    assert status == 0
    (found,) = objects
    return found


def test_a_ping_in_full() -> None:
    assert one(vectors.PING_REQUEST.data) == {
        "packet": "Ping",
        "number": 1,
        "role": "request",
        "offset": 0,
        "size": 24,
        "explanation": "Asks by UDP whether a queue manager is there and would take a session.",
        "Ping": {
            "Flags": {"value": 32001, "RC": 1, "RF": 0, "X": 8000},
            "Signature": 0x5548,
            "Cookie": 4,
            "QMGuid": "557358d1-9150-9595-4997-b6e611ea26c6",
        },
    }


def test_a_message_has_text_bytes_and_bits() -> None:
    found = one(messages.message(body="hi".encode("utf-16-le"), extension=b"\x01\x02").data)
    assert list(found)[-3:] == ["BaseHeader", "UserHeader", "MessagePropertiesHeader"]
    properties = found["MessagePropertiesHeader"]
    assert properties["Label"] == "An order"
    assert properties["ExtensionData"] == "0102"
    assert properties["MessageBody"] == "68006900"
    assert properties["MessageBodyText"] == "hi"
    assert properties["CorrelationID"] == (builders.OTHER + b"\x01\0\0\0").hex()
    assert "role" not in found


def test_what_a_message_lacks() -> None:
    """Label, extension and body are always there; a body that is no text has no text."""
    properties = one(messages.message(label="", extension=b"", body=b"").data)["MessagePropertiesHeader"]
    assert [properties[name] for name in ("Label", "ExtensionData", "MessageBody")] == ["", "", ""]
    assert "MessageBodyText" not in properties


def test_offsets() -> None:
    found = one(vectors.USER_MESSAGE.data, "--offsets")
    base = found["BaseHeader"]
    assert (base["offset"], base["size"]) == (0, 16)
    assert base["PacketSize"] == {"value": 2224, "offset": 8, "size": 4}
    assert base["Flags"]["offset"] == 2
    assert base["Flags"]["PR"] == {"value": 3, "bit": 0, "bits": 3}
    queue = found["UserHeader"]["DestinationQueue"]
    assert queue["DirectFormatName"] == {"value": "OS:a04bm02\\q", "offset": 66, "size": 26}
    properties = found["MessagePropertiesHeader"]
    assert (properties["offset"], properties["size"]) == (136, 2088)
    assert properties["MessageBody"]["offset"] == 222
    assert properties["MessageBodyText"] == "a" * 1000


def test_lists_and_structures_nest() -> None:
    lists = MultiQueueFormatHeader.of(["OS:a\\q", builders.QUEUE])
    transaction = TransactionHeader(tx_sequence_id=(5 << 32) | 9)
    found = one(messages.message(multi_queue=lists, transaction=transaction).data)
    names = found["MultiQueueFormatHeader"]["Destination"]["FormatNameList"]
    assert names[0] == {"FormatType": 3, "FormatName": {"DirectFormatName": "OS:a\\q"}}
    assert names[1]["FormatName"] == {"PublicQueueIdentifier": "43424140-4544-4746-4849-4a4b4c4d4e4f"}
    assert found["TransactionHeader"]["TxSequenceID"] == {"Ordinal": 9, "TimeStamp": 5}


@pytest.mark.parametrize(
    ("body", "message_class", "name", "expected"),
    [
        (OrderAckBody.of(9, 3), MessageClass.ORDER_ACK, "OrderAck", {"TxPreviousSequenceNumber": 2}),
        (FinalAckBody(9, 3, 2, builders.SOURCE, 77), MessageClass.ACK_RECEIVE, "FinalAck", {"MessageID": 77}),
    ],
)
def test_order_acknowledgments(
    body: OrderAckBody | FinalAckBody, message_class: MessageClass, name: str, expected: dict[str, int]
) -> None:
    message = build_order_message(
        body, message_class, source=builders.SOURCE, destination=builders.OTHER, message_id=1, sent_time=2
    )
    found = one(message.data)
    assert found["packet"] == name
    assert found[f"{name}Body"].items() >= expected.items()
    assert found["MessagePropertiesHeader"]["MessageBody"] == body.encode().hex()


def test_damage() -> None:
    broken = bytearray(vectors.SESSION_ACK.data)
    broken[32:34] = b"\0\0"
    status, objects = decode_json(given=vectors.PING_REQUEST.data + bytes(broken))
    assert status == 1
    assert objects[1] == {
        "packet": "Malformed",
        "number": 2,
        "offset": 24,
        "size": 36,
        "reason": "WindowSize is zero",
        "at": 32,
    }


def test_text_no_encoding_can_write_is_escaped() -> None:
    result = decode("--json", given=messages.message(label="lone \ud800", body=b"").data)
    assert result.exit_code == 0
    assert result.stdout.isascii()
    assert json.loads(result.stdout)["MessagePropertiesHeader"]["Label"] == "lone \ud800"


def test_times_and_places() -> None:
    assert time_text(1_700_000_000.25) == "2023-11-14T22:13:20.250000Z"
    assert time_text(1e300) == time_text(float("nan")) == "1970-01-01T00:00:00.000000Z"
    assert endpoint_text(("::1", 1801)) == "[::1]:1801"
    assert endpoint_text(("10.0.0.1", 1801)) == "10.0.0.1:1801"

"""Messages as JSON: what goes out comes back."""

from __future__ import annotations

import base64
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.client import Acknowledge, Delivery, Message
from msmq.client.message import id_bytes, id_text
from msmq.client.records import RecordError, suited, to_message


@given(st.binary(min_size=20, max_size=20))
def test_identifiers(identifier: bytes) -> None:
    assert id_bytes(id_text(identifier)) == identifier


@given(st.text(max_size=40), st.sampled_from(list(Delivery)), st.integers(0, 7), st.binary(max_size=20))
def test_properties(label: str, delivery: Delivery, priority: int, extension: bytes) -> None:
    record = {
        "body": "x", "label": label, "delivery": delivery.name.lower(), "priority": priority,
        "extension": base64.b64encode(extension).decode(), "acknowledgements": 14,
        "connector_type": "11d1a201-0bf6-4c5a-a1f9-0123456789ab",
    }  # fmt: skip
    message = to_message(record)
    assert (message.label, message.delivery, message.priority) == (label, delivery, priority)
    assert (message.extension, message.acknowledgements) == (extension, Acknowledge.FULL_RECEIVE)
    assert message.connector_type == UUID("11d1a201-0bf6-4c5a-a1f9-0123456789ab").bytes_le


@pytest.mark.parametrize("body", ["text", 17, {"a": 1}, [1, 2], True], ids=repr)
def test_bodies_may_be_anything_that_json_has(body: Any) -> None:
    assert to_message({"body": body}).body == body


@pytest.mark.parametrize(
    "record",
    [
        None,
        1,
        [],
        {},
        {"label": "x"},
        {"body": "x", "priority": "high"},
        {"body": "x", "acknowledgements": "all"},
    ],
    ids=repr,
)
def test_what_is_no_message(record: Any) -> None:
    with pytest.raises(RecordError):
        to_message(record)


def test_a_message_suits_its_queue() -> None:
    express, transactional = (
        Message("x", delivery=Delivery.EXPRESS),
        Message("x", delivery=Delivery.TRANSACTIONAL),
    )
    assert suited(express, False) is express
    assert suited(transactional, None) is transactional
    assert suited(express, True).delivery is Delivery.TRANSACTIONAL
    assert suited(transactional, False).delivery is Delivery.RECOVERABLE

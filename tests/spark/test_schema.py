"""Rows: every column from a message that has everything, and nulls for what a message does not have."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings

from msmq.client.queue import QueueIdentity
from msmq.manager.messages.message import DeliveryGuarantee, Message
from msmq.manager.messages.serialize import serialize
from msmq.spark.schema import COLUMNS, HEADERS, NAMES, Messages, Table
from msmq.wire.headers import INFINITE
from msmq.wire.identifiers import MessageIdentifier, TxSequenceID
from tests.manager.message_strategies import messages

HOST = bytes.fromhex("d1587355509195954997b6e611ea26c6")
NOON = 1_700_000_000


def full() -> Message:
    return Message(
        body="größer".encode(),
        body_type=30,
        label="a label",
        extension=b"ext",
        application_tag=0xFFFFFFFF,
        correlation_identifier=HOST + b"\x07\0\0\0",
        priority=0,
        delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
        time_to_reach_queue_s=60,
        time_to_be_received_s=INFINITE,
        destination_queue_format_name="DIRECT=OS:host\\private$\\orders",
        administration_queue_format_name="DIRECT=OS:host\\private$\\admin",
        response_queue_format_name="DIRECT=OS:host\\private$\\answers",
        transaction_identifier=5,
        transactional_message_sequence_identifier=TxSequenceID.from_number(1 << 32 | 1),
        first_in_transaction=True,
        identifier=MessageIdentifier(HOST, 9),
        sent_time=NOON,
    )


def one(
    message: Message,
    queue: str = "q",
    lookup_id: int = 1,
    arrived: int = 0,
    authentication_level: int = 0,
    identity: QueueIdentity | None = None,
    server: str | None = None,
) -> Messages:
    packet = serialize(message).data
    given = Messages.of(queue, [lookup_id], [arrived], [packet], [authentication_level])
    return given._replace(identity=identity, server=server)


def row(table: Table, read: Messages) -> dict[str, object]:
    (found,) = table.rows(read).to_pylist()
    assert isinstance(found, dict)
    return found


def test_a_row() -> None:
    read = one(full(), "orders", 3 << 56 | 8, NOON + 1, 5, QueueIdentity("a", "b"), "HOST")
    assert row(Table(), read) == {
        "queue": "orders",
        "lookup_id": 3 << 56 | 8,
        "message_id": "{557358D1-9150-9595-4997-B6E611EA26C6}\\9",
        "correlation_id": "{557358D1-9150-9595-4997-B6E611EA26C6}\\7",
        "class": 0,
        "priority": 0,
        "label": "a label",
        "body": "größer".encode(),
        "body_type": 30,
        "app_specific": 0xFFFFFFFF,
        "sent_time": datetime.fromtimestamp(NOON, UTC),
        "arrived_time": datetime.fromtimestamp(NOON + 1, UTC),
        "source_machine": "557358D1-9150-9595-4997-B6E611EA26C6",
        "sender_id": None,
        "authenticated": True,
        "encrypted": False,
        "response_queue": "DIRECT=OS:host\\private$\\answers",
        "admin_queue": "DIRECT=OS:host\\private$\\admin",
        "destination_queue": "DIRECT=OS:host\\private$\\orders",
        "delivery": "transactional",
        "transaction_id": 5,
        "first_in_transaction": True,
        "last_in_transaction": False,
        "extension": b"ext",
        "time_to_reach_queue": 60,
        "time_to_be_received": None,
        "queue_manager": "a",
        "queue_guid": "b",
        "server": "HOST",
    }


def test_what_a_message_does_not_have_is_null() -> None:
    found = row(Table(extras=["includeHeaders"]), one(Message()))
    nulls = {name for name, value in found.items() if value is None}
    assert {"correlation_id", "sender_id", "response_queue", "admin_queue", "transaction_id"} <= nulls
    assert {"arrived_time", "time_to_be_received", "headers", "sent_time"} <= nulls
    assert found["delivery"] == "express"


@settings(max_examples=50)
@given(messages())
def test_any_message_is_a_row(message: Message) -> None:
    found = row(Table("activex", extras=["includeHeaders"]), one(message, arrived=5))
    assert found["label"] == message.label
    assert found["priority"] == message.priority


@pytest.mark.parametrize(
    ("body", "expected"),
    [("bytes", "größer".encode()), ("text", "größer"), ("activex", "größer")],
)
def test_bodies(body: str, expected: object) -> None:
    table = Table(body)
    assert row(table, one(full()))["body"] == expected
    assert table.arrow.field("body").type == (pa.binary() if body == "bytes" else pa.string())
    assert ("`body` BINARY" in table.ddl) == (body == "bytes")


def test_the_table_is_documented() -> None:
    assert len(set(NAMES)) == len(COLUMNS)
    assert all(column.meaning.endswith(".") for column in (*COLUMNS, HEADERS))
    assert Table().ddl.count("`") == 2 * len(COLUMNS)
    assert Table(extras=["includeHeaders"]).arrow.names[-1] == "headers"
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "spark.md").read_text(encoding="utf-8")
    missing = [column.name for column in COLUMNS if f"| `{column.name}` | {column.spark} |" not in page]
    assert not missing, f"docs/how-to/spark.md has no such rows: {missing}"


def test_only_some_columns() -> None:
    table = Table("text", only=("body", "label"))
    assert table.ddl == "`body` STRING, `label` STRING"
    assert list(row(table, one(full()))) == ["body", "label"]


@pytest.mark.parametrize(
    ("body", "body_type", "text", "value"),
    [
        ("bstr".encode("utf-16-le"), 8, "bstr", '"bstr"'),
        (b"<?xml version='1.0'?><int>5</int>", 0, "<?xml version='1.0'?><int>5</int>", "5"),
        (b'{"a": 1}', 0, '{"a": 1}', '{"a": 1}'),
        (b"\xff\x00\x80", 0, None, None),
    ],
)
def test_a_body_beside_itself_as_text_and_as_value(
    body: bytes, body_type: int, text: str | None, value: str | None
) -> None:
    found = row(Table(extras=["includeText", "includeValue"]), one(Message(body=body, body_type=body_type)))
    assert found["body"] == body
    assert (found["text"], found["value"]) == (text, value)


def test_a_worker_that_makes_rows_does_not_load_pandas() -> None:
    """That would take each new worker of Spark most of a second."""
    program = (
        "import sys\n"
        "from msmq.spark.schema import Messages, Table\n"
        "from tests.spark.test_schema import full, one\n"
        "assert Table().rows(one(full(), arrived=5)).num_rows == 1\n"
        "assert Table().rows(Messages.of('q', (), (), ())).num_rows == 0\n"
        "print('pandas' in sys.modules)\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"

"""Rows to messages: columns, options for those that are missing, and the row that is at fault."""

from __future__ import annotations

import pyarrow as pa
import pytest

from msmq.api.packets import Columns
from msmq.client.message import Message
from msmq.spark.options import OptionError
from msmq.spark.rows import Letter, Letters, Parcel, RowError
from msmq.spark.schema import NAMES, Table
from msmq.wire.bodies import read_headers
from msmq.wire.bodies.activex import BodyType

QUEUE = {"queue": ".\\private$\\orders"}
HOST = bytes.fromhex("d1587355509195954997b6e611ea26c6")


def letters(options: dict[str, str], **columns: list[object]) -> list[Letter]:
    batch = pa.RecordBatch.from_pydict(columns)
    return list(Letters(options, list(columns)).of(batch))


def test_columns_become_properties() -> None:
    (letter,) = letters(
        {},
        queue=["a"], body=[b"\0\1"], body_type=[17], label=["l"], Priority=[7], app_specific=[5],
        correlation_id=["{557358D1-9150-9595-4997-B6E611EA26C6}\\7"], extension=[b"e"], response_queue=["r"],
        time_to_reach_queue=[1], time_to_be_received=[2], journal=[True], dead_letter=[False],
    )  # fmt: skip
    made = letter.message.to_proto()
    assert (letter.queue, made.body, made.body_type, made.label, made.priority) == ("a", b"\0\1", 17, "l", 7)
    assert (made.application_tag, made.extension, made.response_queue) == (5, b"e", "r")
    assert made.correlation_id == HOST + b"\7\0\0\0"
    assert (made.time_to_reach_queue_s, made.time_to_be_received_s) == (1, 2)
    assert (made.journal, made.dead_letter) == (True, False)


def test_options_stand_in_for_columns_and_nulls() -> None:
    options = {**QUEUE, "label": "usual", "priority": "6", "deadLetter": "false", "timeToBeReceived": "60"}
    first, second = (
        letter.message.to_proto() for letter in letters(options, body=["a", "b"], label=[None, "own"])
    )
    assert (first.label, second.label) == ("usual", "own")
    assert (first.priority, first.dead_letter, first.time_to_be_received_s) == (6, False, 60)
    assert (first.body, first.body_type) == ("a".encode("utf-16-le"), BodyType.LPWSTR)


def test_what_was_read_may_be_written() -> None:
    assert Letters(QUEUE, [*NAMES, "headers"])
    assert Letters({}, Table().arrow.names)


def test_an_unknown_column_is_no_property() -> None:
    with pytest.raises(OptionError, match="colour"):
        Letters(QUEUE, ["body", "colour"])


def test_there_must_be_a_queue() -> None:
    with pytest.raises(OptionError, match="queue"):
        Letters({}, ["body"])
    with pytest.raises(RowError, match="row 1, column queue"):
        letters({}, body=["a", "b"], queue=["q", None])


@pytest.mark.parametrize(
    ("column", "value"),
    [("priority", 8), ("app_specific", -1), ("correlation_id", "nonsense"), ("correlation_id", b"short")],
    ids=["priority", "app_specific", "text", "bytes"],
)
def test_a_failed_row_says_which_and_why(column: str, value: object) -> None:
    with pytest.raises(RowError, match=f"row 1, column {column}"):
        letters(QUEUE, body=["a", "b"], **{column: [None, value]})


def test_an_option_that_cannot_be() -> None:
    with pytest.raises(OptionError, match="priority"):
        Letters({**QUEUE, "priority": "9"}, ["body"])
    with pytest.raises(OptionError, match="journal"):
        Letters({**QUEUE, "journal": "perhaps"}, ["body"])


# --- many at a time ---------------------------------------------------------------------------------------------------


def both(options: dict[str, str], **columns: list[object]) -> list[Parcel]:
    """The rows in parcels, which say what they say one by one."""
    batch = pa.RecordBatch.from_pydict(columns)
    made = Letters(options, list(columns))
    parcels = made.parcels(batch, 7)
    assert parcels is not None
    columns_of = [Columns(parcel.columns) for parcel in parcels]
    together = [each.message(index) for each in columns_of for index in range(len(each))]
    alone = list(made.of(batch, 7))
    assert list(map(Message.from_proto, together)) == [letter.message for letter in alone]
    rows = [parcel.row + place for parcel in parcels for place in range(len(parcel))]
    assert rows == [letter.row for letter in alone]
    assert {parcel.queue for parcel in parcels} == {letter.queue for letter in alone}
    return parcels


def test_parcels_say_what_letters_say() -> None:
    both(QUEUE, body=["a", None, "c"], label=["x", None, "z"])
    both(
        {**QUEUE, "label": "usual", "appSpecific": "4"},
        body=[b"a", b"b"],
        label=["x", None],
        app_specific=[None, 9],
    )
    both({}, queue=["q", "q"], body=[b"a", b"b"], priority=[5, 5], correlation_id=[HOST + bytes(4), None])
    both({**QUEUE, "bodyType": "8"}, body=["a", "b"], body_type=[None, 31], extension=[b"e", None])
    both(QUEUE, priority=[1, 1], label=["no", "body"])


def test_parcels_are_small() -> None:
    assert [len(parcel) for parcel in both(QUEUE, body=[b"x"] * 600)] == [256, 256, 88]
    large = bytes(300 << 10)
    assert [len(parcel) for parcel in both(QUEUE, body=[large, large, b"x", large, large])] == [2, 3]


@pytest.mark.parametrize(
    "columns",
    [
        {"priority": [1, 2]},
        {"queue": ["a", "b"]},
        {"queue": [None, None]},
        {"priority": [9, 9]},
        {"label": [1, 2]},
    ],
    ids=["differ", "queues", "nowhere", "wrong", "kind"],
)
def test_what_is_no_parcel(columns: dict[str, list[object]]) -> None:
    given: dict[str, list[object]] = {"body": ["a", "b"], **columns}
    options = {} if "queue" in columns else QUEUE
    assert Letters(options, list(given)).parcels(pa.RecordBatch.from_pydict(given)) is None


def test_headers_are_not_dropped_silently() -> None:
    with pytest.raises(OptionError, match="headersAs, nservicebus or rebus"):
        Letters(QUEUE, ["body", "headers"])
    with pytest.raises(OptionError, match="headersAs"):
        Letters({**QUEUE, "headersAs": "morse"}, ["body", "headers"])
    changed: dict[str, list[object]] = {
        "body": ["a", "b"],
        "extension": [b'{"kind":"order"}'] * 2,
        "headers": [{"kind": "order"}, {"kind": "bill"}],
    }
    batch = pa.RecordBatch.from_pydict(changed, MAPPED)
    with pytest.raises(RowError, match=r"row 1, column extension: the column headers has others.*headersAs"):
        list(Letters(QUEUE, list(changed)).of(batch))
    assert Letters(QUEUE, list(changed)).parcels(batch) is None


MAPPED = pa.schema(
    [("body", pa.string()), ("extension", pa.binary()), ("headers", pa.map_(pa.string(), pa.string()))]
)


@pytest.mark.parametrize("dialect", ["nservicebus", "rebus"])
def test_headers_become_the_extension(dialect: str) -> None:
    """As their column is read again; where it is null the extension stays, and as it was read it may be written."""
    headers = [{"kind": "order", "größe": "<5>"}, {}, None]
    rows = {"body": ["a", "b", "c"], "extension": [None, b"old", b"own"], "headers": headers}
    batch = pa.RecordBatch.from_pydict(rows, MAPPED)
    made = Letters({**QUEUE, "headersAs": dialect}, list(rows))
    (parcel,) = made.parcels(batch) or ()
    written = list(parcel.columns.extensions)
    assert [letter.message.to_proto().extension for letter in made.of(batch)] == written
    assert [read_headers(extension) for extension in written] == headers
    assert written[2] == b"own"
    alone = Letters({**QUEUE, "headersAs": dialect}, ["body", "headers"])
    (parcel,) = alone.parcels(batch.select(["body", "headers"])) or ()
    assert list(parcel.columns.extensions) == [*written[:2], b""]
    again = pa.RecordBatch.from_pydict(rows | {"extension": written}, MAPPED)
    (parcel,) = Letters(QUEUE, list(rows)).parcels(again) or ()
    assert list(parcel.columns.extensions) == written

"""Rows to messages: columns, options for those that are missing, and the row that is at fault."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pytest

from msmq.api.generated import msmq_pb2 as pb
from msmq.api.packets import Columns
from msmq.spark.options import OptionError
from msmq.spark.rows import Packer, Parcel, RowError
from msmq.spark.schema import NAMES, Table
from msmq.wire.bodies import read_headers
from msmq.wire.bodies.activex import BodyType

QUEUE = {"queue": ".\\private$\\orders"}
HOST = bytes.fromhex("d1587355509195954997b6e611ea26c6")


class Letter(NamedTuple):
    """A row as the queue manager gets it."""

    queue: str
    message: pb.Message
    row: int


def parcels(options: dict[str, str], first: int = 0, **columns: list[object]) -> list[Parcel]:
    return Packer(options, list(columns)).parcels(pa.RecordBatch.from_pydict(columns), first)


def opened(packed: list[Parcel]) -> list[Letter]:
    return [
        Letter(parcel.queue, Columns(parcel.columns).message(place), row)
        for parcel in packed
        for place, row in enumerate(parcel.rows)
    ]


def letters(options: dict[str, str], **columns: list[object]) -> list[Letter]:
    return opened(parcels(options, **columns))


def test_columns_become_properties() -> None:
    (letter,) = letters(
        {},
        queue=["a"], body=[b"\0\1"], body_type=[17], label=["l"], Priority=[7], app_specific=[5],
        correlation_id=["{557358D1-9150-9595-4997-B6E611EA26C6}\\7"], extension=[b"e"], response_queue=["r"],
        time_to_reach_queue=[1], time_to_be_received=[2], journal=[True], dead_letter=[False],
    )  # fmt: skip
    made = letter.message
    assert (letter.queue, made.body, made.body_type, made.label, made.priority) == ("a", b"\0\1", 17, "l", 7)
    assert (made.application_tag, made.extension, made.response_queue) == (5, b"e", "r")
    assert made.correlation_id == HOST + b"\7\0\0\0"
    assert (made.time_to_reach_queue_s, made.time_to_be_received_s) == (1, 2)
    assert (made.journal, made.dead_letter) == (True, False)


def test_options_stand_in_for_columns_and_nulls() -> None:
    options = {**QUEUE, "label": "usual", "priority": "6", "deadLetter": "false", "timeToBeReceived": "60"}
    first, second = (letter.message for letter in letters(options, body=["a", "b"], label=[None, "own"]))
    assert (first.label, second.label) == ("usual", "own")
    assert (first.priority, first.dead_letter, first.time_to_be_received_s) == (6, False, 60)
    assert (first.body, first.body_type) == ("a".encode("utf-16-le"), BodyType.LPWSTR)


def test_what_was_read_may_be_written() -> None:
    assert Packer(QUEUE, [*NAMES, "headers"])
    assert Packer({}, Table().arrow.names)


def test_an_unknown_column_is_no_property() -> None:
    with pytest.raises(OptionError, match="colour"):
        Packer(QUEUE, ["body", "colour"])


def test_there_must_be_a_queue() -> None:
    with pytest.raises(OptionError, match="queue"):
        Packer({}, ["body"])
    with pytest.raises(RowError, match="row 1, column queue"):
        letters({}, body=["a", "b"], queue=["q", None])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("priority", 8),
        ("app_specific", -1),
        ("body_type", 1 << 32),
        ("correlation_id", "nonsense"),
        ("correlation_id", b"short"),
    ],
    ids=["priority", "app_specific", "body_type", "text", "bytes"],
)
def test_a_failed_row_says_which_and_why(column: str, value: object) -> None:
    with pytest.raises(RowError, match=f"row 1, column {column}"):
        letters(QUEUE, body=["a", "b"], **{column: [None, value]})


def test_an_option_that_cannot_be() -> None:
    with pytest.raises(OptionError, match="priority"):
        Packer({**QUEUE, "priority": "9"}, ["body"])
    with pytest.raises(OptionError, match="journal"):
        Packer({**QUEUE, "journal": "perhaps"}, ["body"])


# --- many at a time ---------------------------------------------------------------------------------------------------


def test_rows_of_many_kinds_and_queues() -> None:
    """Those of a queue keep their order, and what a row says beside columns of its own is a kind in its parcel."""
    packed = parcels(
        {"appSpecific": "4"},
        7,
        queue=["q", "r", "q", "q", "r"],
        body=["a", b"b".decode(), None, "d", "e"],
        priority=[5, None, 7, 5, 5],
        label=["x", None, "z", "", "y"],
        journal=[True, False, None, True, False],
    )
    said = [
        (
            each.queue,
            each.row,
            each.message.body.decode("utf-16-le"),
            each.message.label,
            each.message.journal,
        )
        for each in opened(packed)
    ]
    assert said == [
        ("q", 7, "a", "x", True), ("q", 9, "", "z", False), ("q", 10, "d", "", True),
        ("r", 8, "b", "", False), ("r", 11, "e", "y", False),
    ]  # fmt: skip
    priorities = [
        each.message.priority if each.message.HasField("priority") else None for each in opened(packed)
    ]
    assert priorities == [5, 7, 5, None, 5]
    assert {each.message.application_tag for each in opened(packed)} == {4}
    assert [len(parcel.columns.kinds) for parcel in packed] == [2, 2]


def test_a_type_of_its_own_or_the_usual() -> None:
    options = {**QUEUE, "bodyType": "8"}
    made = letters(options, body=["a", "b"], body_type=[None, 31], extension=[b"e", None])
    assert [(each.message.body_type, each.message.extension) for each in made] == [(8, b"e"), (31, b"")]
    bare = letters(QUEUE, priority=[1, 1], label=["no", "body"])
    assert [(each.message.body, each.message.label) for each in bare] == [(b"", "no"), (b"", "body")]


def test_parcels_are_small() -> None:
    """The queue manager takes each as a whole."""
    assert [len(parcel) for parcel in parcels(QUEUE, body=[b"x"] * 600)] == [256, 256, 88]
    large = bytes(300 << 10)
    assert [len(parcel) for parcel in parcels(QUEUE, body=[large, large, b"x", large, large])] == [2, 3]
    extended = parcels(QUEUE, body=[b"x"] * 4, extension=[large] * 4)
    assert [len(parcel) for parcel in extended] == [2, 2]


def test_headers_are_not_dropped_silently() -> None:
    with pytest.raises(OptionError, match="headersAs, nservicebus or rebus"):
        Packer(QUEUE, ["body", "headers"])
    with pytest.raises(OptionError, match="headersAs"):
        Packer({**QUEUE, "headersAs": "morse"}, ["body", "headers"])
    changed: dict[str, list[object]] = {
        "body": ["a", "b"],
        "extension": [b'{"kind":"order"}'] * 2,
        "headers": [{"kind": "order"}, {"kind": "bill"}],
    }
    batch = pa.RecordBatch.from_pydict(changed, MAPPED)
    with pytest.raises(RowError, match=r"row 1, column extension: the column headers has others.*headersAs"):
        Packer(QUEUE, list(changed)).parcels(batch)


MAPPED = pa.schema(
    [("body", pa.string()), ("extension", pa.binary()), ("headers", pa.map_(pa.string(), pa.string()))]
)


@pytest.mark.parametrize("dialect", ["nservicebus", "rebus"])
def test_headers_become_the_extension(dialect: str) -> None:
    """As their column is read again; where it is null the extension stays, and as it was read it may be written."""
    headers = [{"kind": "order", "größe": "<5>"}, {}, None]
    rows = {"body": ["a", "b", "c"], "extension": [None, b"old", b"own"], "headers": headers}
    batch = pa.RecordBatch.from_pydict(rows, MAPPED)
    made = Packer({**QUEUE, "headersAs": dialect}, list(rows))
    (parcel,) = made.parcels(batch)
    written = list(parcel.columns.extensions)
    assert [read_headers(extension) for extension in written] == headers
    assert written[2] == b"own"
    alone = Packer({**QUEUE, "headersAs": dialect}, ["body", "headers"])
    (parcel,) = alone.parcels(batch.select(["body", "headers"]))
    assert list(parcel.columns.extensions) == [*written[:2], b""]
    again = pa.RecordBatch.from_pydict(rows | {"extension": written}, MAPPED)
    (parcel,) = Packer(QUEUE, list(rows)).parcels(again)
    assert list(parcel.columns.extensions) == written

"""Bodies that Mono's System.Messaging writes and reads.

``Bodies.cs`` writes every kind with both formatters. Ours reads them, writes the values again, and Mono reads those.
"""

from __future__ import annotations

import base64
import subprocess
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from msmq.wire.bodies import Formatter, formatter_of, read_headers, read_value, write_body, write_headers

HERE = Path(__file__).resolve().parent
MOMENT = datetime(2020, 2, 29, 13, 14, 15, 678000)
UTC_MOMENT = MOMENT.replace(tzinfo=UTC)

BOTH: dict[str, Any] = {
    "text": 'hé €𝄞 <&>"',
    "empty-text": "",
    "return": "a\r\nb\rc\td",
    "long-text": "x" * 20000,
    "true": True,
    "false": False,
    "byte": 200,
    "sbyte": -100,
    "int16": -30000,
    "uint16": 60000,
    "int32": -2000000000,
    "uint32": 4000000000,
    "int64": -9000000000000000000,
    "uint64": 18000000000000000000,
    "single": 1.5,
    "double": -2.25e300,
    "decimal": Decimal("12.3400"),
    "small-decimal": Decimal("-0.0000000000000000000000000001"),
    "large-decimal": Decimal(79228162514264337593543950335),
    "utc": UTC_MOMENT,
    "date": MOMENT,
    "first-date": datetime(1, 1, 1),
    "char": "é",
    "guid": UUID("01234567-89ab-cdef-0123-456789abcdef"),
    "bytes": bytes([0, 1, 254, 255]),
    "ints": [1, -2, 3],
    "doubles": [0.5, -0.25],
    "texts": ["a", "b", ""],
    "bools": [True, False],
    "text-list": ["x", "y"],
    "int-list": [4, 5, 6],
    "empty-list": [],
    "mixed-list": [1, "two", 3.5, True, None],
    "nulls": [None, None, "end", None],
}
LINES = [
    {"$type": "Line", "Article": "tea", "Pieces": 2},
    {"$type": "Line", "Article": "milk", "Pieces": 1},
]
BINARY: dict[str, Any] = BOTH | {
    "object": {
        "$type": "Order", "Id": 7, "Customer": "Müller & <Söhne>", "Total": Decimal("1234.50"), "Paid": True,
        "Placed": UTC_MOMENT, "Tags": ["new", "big"], "Lines": LINES, "Remark": None,
    },
    "duration": timedelta(seconds=90.5),
    "negative-duration": timedelta(days=-3),
    "enumeration": 5,
    "stream": b"\x09\x08\x07",
    "hashtable": {"a": 1, "b": "two", "c": None},
    "dictionary": {"one": 1, "two": 2},
    "number-keys": {1: "one", 2: "two"},
    "empty-dictionary": {},
    "nested": {"list": [1, {"k": "v"}]},
    "matrix": [[1, 2, 3], [4, 5, 6]],
    "jagged": [[1], [2, 3]],
    "set": ["s"],
    "dates": [MOMENT, UTC_MOMENT],
    "durations": [timedelta(seconds=1)],
    "decimals": [Decimal("1.5"), Decimal("-2.25")],
    "chars": ["a", "é", "€"],
    "struct": {"$type": "Point", "X": 1, "Y": -2},
    "structs": [{"$type": "Point", "X": 1, "Y": 0}, {"$type": "Point", "X": 0, "Y": 2}],
    "shared": [[1], [1]],
    "many-nulls": [None] * 300,
    "guids": [UUID(int=0)],
    "boxes": [1, "c", Decimal("2.5"), MOMENT, timedelta(0), 7],
}  # fmt: skip
XML: dict[str, Any] = BOTH | {
    "object": {
        "$type": "Order", "Id": "7", "Total": "1234.50", "Paid": "true", "Placed": "2020-02-29T13:14:15.678Z",
        "Tags": ["new", "big"], "Customer": "Müller & <Söhne>",
        "Lines": {"Line": [{"Article": "tea", "Pieces": "2"}, {"Article": "milk", "Pieces": "1"}]},
    },
    "objects": [{"$type": "Line", "Pieces": "2", "Article": "tea"}, {"$type": "Line", "Pieces": "0", "Article": ""}],
    "infinity": float("inf"),
    "enumeration": "Friday",
}  # fmt: skip
ACTIVEX: dict[str, Any] = {
    "net-bool": True,
    "net-date": MOMENT,
    "net-bytes": b"\1\2",
    "text": "hé €𝄞",
    "guid": BOTH["guid"],
    "currency": Decimal("-12.3456"),
    "int32": -5,
    "int64": -5000000000,
    "double": 2.5,
    "decimal": Decimal("-12345678901234567890.123456789"),
    "com-bool": True,
    "com-date": MOMENT,
    "com-old-date": datetime(1815, 12, 10, 18),
    "com-text": "bstr",
    "com-byte-text": "lpstr",
    "com-file-time": MOMENT,
    "com-single": 1.5,
    "com-int16": -2,
    "com-uint16": 65535,
    "com-uint32": 4294967295,
    "com-uint64": 18446744073709551615,
    "com-stream": b"\1\0",
}
EXPECTED = {"activex": ACTIVEX, "xml": XML, "binary": BINARY}
FROM_MONO = {**EXPECTED, "xml": {**XML, "return": "a\nb\nc\td"}}
"""Mono writes a carriage return into XML as it is, and XML 1.0 (2.11) has it read as a line feed."""
UNWRITTEN = {("xml", "char"), ("xml", "enumeration")}
"""What Python has no value of its own for: text is written as text."""


class Mono:
    """The program ``Bodies.cs``, compiled."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([HERE.parents[2] / "scripts" / "mono.sh"], check=True, timeout=600)
        self._program = folder / "bodies.exe"
        libraries = ("-r:System.Messaging", "-r:Mono.Messaging")
        compiler = ("mcs", f"-out:{self._program}", *libraries, str(HERE / "Bodies.cs"))
        subprocess.run(compiler, check=True, timeout=120)

    def run(self, what: str, lines: str = "") -> list[str]:
        command = ("mono", str(self._program), what)
        done = subprocess.run(
            command, input=lines, capture_output=True, encoding="utf-8", check=True, timeout=120
        )
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def mono(tmp_path_factory: pytest.TempPathFactory) -> Mono:
    return Mono(tmp_path_factory.mktemp("mono"))


def test_what_mono_writes_is_read(mono: Mono) -> None:
    found: dict[str, dict[str, Any]] = {"activex": {}, "xml": {}, "binary": {}}
    for line in mono.run("write"):
        formatter, kind, body_type, content = line.split(" ")
        body = base64.b64decode(content)
        assert formatter_of(int(body_type), body) == formatter
        found[formatter][kind] = read_value(int(body_type), body)
        if formatter == "activex" and kind in ACTIVEX and not kind.startswith("com-"):
            assert write_body(ACTIVEX[kind], Formatter.ACTIVEX) == (body, int(body_type)), kind
    for formatter, values in found.items():
        assert values == FROM_MONO[formatter]
        assert {kind: type(value) for kind, value in values.items()} == {
            kind: type(value) for kind, value in FROM_MONO[formatter].items()
        }


def test_what_is_written_mono_reads(mono: Mono) -> None:
    lines = []
    for formatter in ("xml", "binary"):
        for kind, value in EXPECTED[formatter].items():
            if (formatter, kind) not in UNWRITTEN:
                body, body_type = write_body(value, Formatter(formatter))
                lines.append(f"{formatter} {kind} {body_type} {base64.b64encode(body).decode()}\n")
    # Mono's formatter prints the troubles it has between its answers.
    answers = [line.split("\t") for line in mono.run("read", "".join(lines)) if line.startswith("read\t")]
    assert [answer for answer in answers if answer[2] != answer[3]] == []
    assert len(answers) == len(lines) >= 90


def test_headers_of_nservicebus_are_the_same_to_mono(mono: Mono) -> None:
    """It reads what we wrote, and we read what it writes of that: a list of its own class ``HeaderInfo``."""
    headers = {"NServiceBus.EnclosedMessageTypes": "Order, Shop", 'é€𝄞 <&>"': "a\nb\tc", "empty": ""}
    ours = write_headers({**headers, "return": "a\r\nb\rc"}, "nservicebus")
    (line,) = mono.run("headers", base64.b64encode(ours).decode() + "\n")
    again = base64.b64decode(line)
    assert b"<Value>a\r\nb\rc</Value>" in again
    assert read_headers(again) == {**headers, "return": "a\nb\nc"}

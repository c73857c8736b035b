"""Documents of XmlSerializer, and documents that must be refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from msmq.errors import DecodeError, EncodeError
from msmq.wire.bodies.xml import read, write

HEAD = '<?xml version="1.0" encoding="utf-16"?>'
SPACES = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema"'


@pytest.mark.parametrize(
    ("document", "value"),
    [
        ("<dateTime>2020-02-29T13:14:15.1234567Z</dateTime>", datetime(2020, 2, 29, 13, 14, 15, 123456, UTC)),
        ("<TimeSpan>-P1DT2H3M4.5S</TimeSpan>", -timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("<float>-INF</float>", float("-inf")),
        (f'<anyType {SPACES} xsi:type="xsd:int">5</anyType>', 5),
        (f'<anyType {SPACES} xsi:nil="true" />', None),
        (f'<ArrayOfAnyType {SPACES}><anyType xsi:type="Line"><N>1</N></anyType></ArrayOfAnyType>', [
            {"$type": "Line", "N": "1"}]),
        ("<Empty />", {"$type": "Empty"}),
        ("<Order Id='5' xmlns='urn:shop'>text</Order>", {"$type": "Order", "@Id": "5", "#text": "text"}),
        ("<A><B>1</B><B>2</B><B>3</B><C><!-- no --><![CDATA[<x>]]></C></A>", {
            "$type": "A", "B": ["1", "2", "3"], "C": "<x>"}),
        (f"<A {SPACES}><B xsi:nil='true'/><C><int>1</int></C></A>", {"$type": "A", "B": None, "C": [1]}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_reading(document: str, value: Any, encoding: str) -> None:
    assert read((HEAD + document).encode(encoding)) == value


@pytest.mark.parametrize(
    "document",
    [
        "",
        "<open>",
        "<int>five</int>",
        f"<int>{'9' * 5000}</int>",
        "<decimal>1E+999999999</decimal>",
        "<guid>no</guid>",
        "<boolean>maybe</boolean>",
        "<base64Binary>!</base64Binary>",
        "<char>55296</char>",
        "<duration>P</duration>x",
        "<dateTime>soon</dateTime>",
        '<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;">]><string>&y;</string>',
        '<!DOCTYPE a SYSTEM "file:///etc/passwd"><string>x</string>',
        "<a>" * 65 + "<b/>" + "</a>" * 65,
        "<a>" * 100_000 + "</a>" * 100_000,
    ],
)
def test_refusing(document: str) -> None:
    with pytest.raises(DecodeError):
        read(document.encode())


@pytest.mark.parametrize("value", [{"two words": 1}, "bell\x07", [{"a": {"b c": 1}}]])
def test_what_xml_cannot_hold_is_not_written(value: Any) -> None:
    with pytest.raises(EncodeError):
        write(value)


def test_a_circle_is_not_written() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(EncodeError, match="deeply"):
        write(circle)
    with pytest.raises(TypeError, match="timedelta"):
        write(timedelta(1))


def test_marks_in_text_and_attributes_are_read_as_they_were_written() -> None:
    marks = 'say "hi", it\'s <b> & ]]>\r\n\tend'
    value = {"$type": "Order", "@Note": marks, "#text": marks}
    assert read(write(value)) == value

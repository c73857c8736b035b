"""Headers of NServiceBus and Rebus, and extensions that are something else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.wire.bodies import read_headers

LIST = (
    b'<?xml version="1.0"?><ArrayOfHeaderInfo xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
    b"<HeaderInfo><Key>NServiceBus.MessageId</Key><Value>1</Value></HeaderInfo>"
    b"<HeaderInfo><Key>empty</Key><Value /></HeaderInfo><HeaderInfo><Key>none</Key></HeaderInfo>"
    b"</ArrayOfHeaderInfo>"
)


@pytest.mark.parametrize("padding", [b"", b"\0\0\0", b"\r\n"])
def test_a_list(padding: bytes) -> None:
    assert read_headers(LIST + padding) == {
        "NServiceBus.MessageId": "1",
        "empty": "",
        "none": "",
    }


def test_an_object_of_rebus() -> None:
    assert read_headers(
        b'{"rbs2-msg-id": "7", "rbs2-content-type": "application/json;charset=utf-8", "none": null}'
    ) == {
        "rbs2-msg-id": "7",
        "rbs2-content-type": "application/json;charset=utf-8",
        "none": "",
    }


@pytest.mark.parametrize(
    "extension",
    [
        b'{"number": 1}',
        b'{"open": ',
        b"{" * 100_000,
        b"",
        b"binary",
        b"<Other/>",
        b"<ArrayOfHeaderInfo>",
        b'<!DOCTYPE a [<!ENTITY x "y">]><ArrayOfHeaderInfo/>',
        b"<a>" * 400_000,
    ],
)
def test_something_else(extension: bytes) -> None:
    assert read_headers(extension) is None


@given(
    st.binary(max_size=300)
    | st.binary(max_size=50).map(lambda data: b"<" + data)
    | st.binary(max_size=50).map(lambda data: b"{" + data)
)
def test_no_extension_raises(extension: bytes) -> None:
    read_headers(extension)

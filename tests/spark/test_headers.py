"""Headers of NServiceBus, and extensions that are something else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.spark.headers import nservicebus_headers

LIST = (
    b'<?xml version="1.0"?><ArrayOfHeaderInfo xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
    b"<HeaderInfo><Key>NServiceBus.MessageId</Key><Value>1</Value></HeaderInfo>"
    b"<HeaderInfo><Key>empty</Key><Value /></HeaderInfo><HeaderInfo><Key>none</Key></HeaderInfo>"
    b"</ArrayOfHeaderInfo>"
)


@pytest.mark.parametrize("padding", [b"", b"\0\0\0", b"\r\n"])
def test_a_list(padding: bytes) -> None:
    assert nservicebus_headers(LIST + padding) == [
        ("NServiceBus.MessageId", "1"),
        ("empty", ""),
        ("none", ""),
    ]


@pytest.mark.parametrize(
    "extension",
    [
        b"",
        b"binary",
        b"<Other/>",
        b"<ArrayOfHeaderInfo>",
        b'<!DOCTYPE a [<!ENTITY x "y">]><ArrayOfHeaderInfo/>',
        b"<a>" * 400_000,
    ],
)
def test_something_else(extension: bytes) -> None:
    assert nservicebus_headers(extension) is None


@given(st.binary(max_size=300) | st.binary(max_size=50).map(lambda data: b"<" + data))
def test_no_extension_raises(extension: bytes) -> None:
    nservicebus_headers(extension)

"""Headers of NServiceBus and Rebus, and extensions that are something else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import EncodeError
from msmq.wire.bodies import HeaderDialect, read_headers, write_headers

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


TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
    | st.sampled_from('\t\r\n<&>"')
)


@pytest.mark.parametrize("dialect", HeaderDialect)
@given(headers=st.dictionaries(TEXT, TEXT, max_size=5))
def test_what_is_written_is_read(dialect: HeaderDialect, headers: dict[str, str]) -> None:
    assert read_headers(write_headers(headers, dialect)) == headers


def test_the_forms_of_both() -> None:
    headers = {"a": "1 < 2", "b": "\r\n"}
    assert write_headers(headers, "nservicebus") == (
        b'<?xml version="1.0"?><ArrayOfHeaderInfo><HeaderInfo><Key>a</Key><Value>1 &lt; 2</Value></HeaderInfo>'
        b"<HeaderInfo><Key>b</Key><Value>&#xD;\n</Value></HeaderInfo></ArrayOfHeaderInfo>"
    )
    assert write_headers(headers, "rebus") == b'{"a": "1 < 2", "b": "\\r\\n"}'


def test_what_cannot_be_written() -> None:
    with pytest.raises(EncodeError, match="XML"):
        write_headers({"a": "\0"}, HeaderDialect.NSERVICEBUS)
    with pytest.raises(ValueError, match="mail"):
        write_headers({}, "mail")

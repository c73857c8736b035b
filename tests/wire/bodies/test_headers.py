"""Headers of NServiceBus and Rebus, and extensions that are something else."""

from __future__ import annotations

from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import EncodeError
from msmq.wire.bodies import HeaderDialect, read_headers, with_headers, write_headers

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
    assert write_headers(headers, "rebus") == b'{"a":"1 < 2","b":"\\r\\n"}'


def test_what_cannot_be_written() -> None:
    with pytest.raises(EncodeError, match="XML"):
        write_headers({"a": "\0"}, HeaderDialect.NSERVICEBUS)
    with pytest.raises(ValueError, match="mail"):
        write_headers({}, "mail")


NSERVICEBUS = {
    "NServiceBus.MessageId": "0b1e5a4c-8f0e-4c0f-9f62-a9a800e3a4d1",
    "NServiceBus.MessageIntent": "Send",
    "NServiceBus.ConversationId": "6f0c5be7-7bd2-4f4b-a0de-a9a800e3a4d2",
    "NServiceBus.CorrelationId": "0b1e5a4c-8f0e-4c0f-9f62-a9a800e3a4d1",
    "NServiceBus.ReplyToAddress": "Sales@SHOP01",
    "NServiceBus.OriginatingMachine": "SHOP01",
    "NServiceBus.OriginatingEndpoint": "Sales",
    "NServiceBus.ContentType": "text/xml",
    "NServiceBus.EnclosedMessageTypes": "Shop.PlaceOrder, Shop.Messages, Version=1.0.0.0, Culture=neutral",
    "NServiceBus.TimeSent": "2016-11-16 07:35:29:123456 Z",
    "CustomerName": "Jos\u00e9 & <Sons>",
}
"""The headers that an endpoint of NServiceBus sends with a command, by the names and forms its manual gives."""
AS_XML_SERIALIZER_WRITES = (
    '<?xml version="1.0"?>\r\n'
    '<ArrayOfHeaderInfo xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xmlns:xsd="http://www.w3.org/2001/XMLSchema">\r\n'
    + "".join(
        f"  <HeaderInfo>\r\n    <Key>{key}</Key>\r\n    <Value>{escape(value)}</Value>\r\n  </HeaderInfo>\r\n"
        for key, value in NSERVICEBUS.items()
    )
    + "</ArrayOfHeaderInfo>"
).encode()
REBUS = {
    "rbs2-return-address": "orders@SHOP01",
    "rbs2-intent": "p2p",
    "rbs2-msg-id": "5f0f7b6f-6a5b-4a3f-8d2f-3f6d7c1f9c11",
    "rbs2-senttime": "2016-11-16T07:35:29.1234567+00:00",
    "rbs2-sender-address": "orders@SHOP01",
    "rbs2-msg-type": "Shop.PlaceOrder, Shop.Messages",
    "rbs2-corr-id": "5f0f7b6f-6a5b-4a3f-8d2f-3f6d7c1f9c11",
    "rbs2-corr-seq": "0",
    "rbs2-content-type": "application/json;charset=utf-8",
    "customer": 'Jos\u00e9 "& Sons"',
}
"""The headers that Rebus sends with a message, by the names and forms its manual gives."""
AS_JSON_NET_WRITES = (
    '{"rbs2-return-address":"orders@SHOP01","rbs2-intent":"p2p",'
    '"rbs2-msg-id":"5f0f7b6f-6a5b-4a3f-8d2f-3f6d7c1f9c11",'
    '"rbs2-senttime":"2016-11-16T07:35:29.1234567+00:00","rbs2-sender-address":"orders@SHOP01",'
    '"rbs2-msg-type":"Shop.PlaceOrder, Shop.Messages","rbs2-corr-id":"5f0f7b6f-6a5b-4a3f-8d2f-3f6d7c1f9c11",'
    '"rbs2-corr-seq":"0","rbs2-content-type":"application/json;charset=utf-8","customer":"Jos\u00e9 \\"& Sons\\""}'
).encode()


def test_a_command_of_nservicebus() -> None:
    assert read_headers(AS_XML_SERIALIZER_WRITES) == NSERVICEBUS
    assert read_headers(b"\xef\xbb\xbf" + AS_XML_SERIALIZER_WRITES + b"\0") == NSERVICEBUS
    ours, theirs = (
        [(element.tag, (element.text or "").strip()) for element in ElementTree.fromstring(text).iter()]
        for text in (write_headers(NSERVICEBUS, "nservicebus"), AS_XML_SERIALIZER_WRITES)
    )
    assert ours == theirs  # by another parser


def test_a_message_of_rebus() -> None:
    assert read_headers(AS_JSON_NET_WRITES) == REBUS
    assert write_headers(REBUS, "rebus") == AS_JSON_NET_WRITES


@pytest.mark.parametrize(
    ("extension", "headers"), [(AS_XML_SERIALIZER_WRITES, NSERVICEBUS), (AS_JSON_NET_WRITES, REBUS)]
)
def test_more_headers_in_the_dialect_that_is_there(extension: bytes, headers: dict[str, str]) -> None:
    first = next(iter(headers))
    more = with_headers(extension + b"\0", {"traceparent": "00-1", first: "changed"})
    assert more is not None
    assert more[:1] == extension[:1]
    assert read_headers(more) == {**headers, first: "changed", "traceparent": "00-1"}


def test_a_header_without_a_value_keeps_having_none() -> None:
    assert with_headers(b'{"none": null}', {"a": "1"}) == b'{"none":null,"a":"1"}'
    more = with_headers(LIST, {})
    assert more is not None
    assert b"<HeaderInfo><Key>none</Key></HeaderInfo>" in more
    assert b"<HeaderInfo><Key>empty</Key><Value></Value></HeaderInfo>" in more


@pytest.mark.parametrize("extension", [b"", b"binary", b"<Other/>", b'{"number": 1}'])
def test_nothing_is_put_into_what_is_something_else(extension: bytes) -> None:
    assert with_headers(extension, {"a": "1"}) is None

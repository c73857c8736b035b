from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import IllegalPropertyValueError
from msmq.wire.guid import guid_from_text
from msmq.wire.management_text import (
    MachineType,
    ds_server_text,
    history_address_text,
    next_hop_text,
    parse_ds_server,
    parse_history_address,
    parse_machine_type,
    parse_next_hop,
)
from msmq.wire.names import MsmqVersion

GUID_TEXT = "557358D1-9150-9595-4997-B6E611EA26C6"
MACHINE_TYPE = "Windows NT Server 5.0 (Build 2195, x86 Family) - MSMQ 2.0 (Build 641)"


def refused(parse, text, **options):
    with pytest.raises(IllegalPropertyValueError) as caught:
        parse(text, **options)
    assert caught.value.code == 0xC00E0018


@pytest.mark.spec("MQMQ-2.3.12.12-b")
@pytest.mark.parametrize(
    ("text", "hop"),
    [
        ("IP=10.0.0.2", IPv4Address("10.0.0.2")),
        ("IPv6=fe80::1", IPv6Address("fe80::1")),
        ("FOREIGN=" + GUID_TEXT, guid_from_text(GUID_TEXT)),
    ],
)
def test_next_hop(text, hop):
    assert parse_next_hop(text) == hop
    assert next_hop_text(hop) == text
    assert parse_next_hop(text.lower()) == hop


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.0.0.2",
        "IP=",
        "IP=fe80::1",
        "IP=10.0.0.256",
        "IPv6=10.0.0.2",
        "IPv6=fe80::1%1",
        "FOREIGN=1",
        "\u0131P=10.0.0.2",
        "X=1",
    ],
)
def test_next_hop_refused(text):
    refused(parse_next_hop, text)


@given(st.ip_addresses() | st.binary(min_size=16, max_size=16))
def test_next_hop_round_trip(hop):
    assert parse_next_hop(next_hop_text(hop)) == hop


@pytest.mark.spec("MQMQ-2.3.12.25-d")
def test_history_address():
    for text, host in (("\\\\srv", "srv"), ("10.0.0.1", "10.0.0.1"), ("999.0.00.001", "999.0.00.001")):
        assert parse_history_address(text) == host
        assert history_address_text(host) == text
    for text in ("", "\\\\", "srv", "\\srv", "\\\\srv1", "10.0.0", "1000.0.0.1", "10.0.0.1.1", "\\\\srv\n"):
        refused(parse_history_address, text)


@pytest.mark.spec("MQMQ-2.3.11.3-b")
def test_ds_server():
    # U+2C00 and U+002D hold one byte of the comma or stand beside it, and are allowed
    for name in ("dc1", "dc1.corp.example", "\u2c00-\u012c", "\u0100"):
        assert parse_ds_server("\\\\" + name) == name
        assert ds_server_text(name) == "\\\\" + name
    for text in ("dc1", "\\dc1", "\\\\", "", "\\\\a,b", "\\\\a\0b", "\\\\dc1\0"):
        refused(parse_ds_server, text)


@pytest.mark.spec("MQMQ-6-r")
def test_machine_type():
    parsed = parse_machine_type(MACHINE_TYPE)
    assert parsed == MachineType("NT Server", "5.0", "2195", "x86 Family", "2.0", "641")
    assert str(parsed) == MACHINE_TYPE
    assert parse_machine_type("") is None
    for version in MsmqVersion:
        assert parse_machine_type(MACHINE_TYPE, version=version) == parsed
    assert parse_machine_type("", version=MsmqVersion.V3) is None
    for version in (MsmqVersion.V1, MsmqVersion.V2):
        refused(parse_machine_type, "", version=version)


@pytest.mark.parametrize(
    "text",
    [
        "Linux",
        MACHINE_TYPE.lower(),
        MACHINE_TYPE + " ",
        " " + MACHINE_TYPE,
        MACHINE_TYPE.replace("641", "x"),
        MACHINE_TYPE.replace("5.0", "5"),
        MACHINE_TYPE.replace("NT", "\u00dc"),
        MACHINE_TYPE.replace("x86", "x\n86"),
        MACHINE_TYPE.replace(" - ", " "),
    ],
)
def test_machine_type_refused(text):
    refused(parse_machine_type, text)


def test_machine_type_may_be_long_and_odd():
    odd = "Windows  . (Build , )) - MSMQ . (Build )"
    assert str(parse_machine_type(odd)) == odd
    repeated = "Windows " + "x 5.0 (Build 1, " * 20_000
    refused(parse_machine_type, repeated)
    refused(parse_machine_type, repeated + ") - MSMQ " * 20_000)
    assert parse_machine_type(repeated + ") - MSMQ 2.0 (Build 1)").platform == ""

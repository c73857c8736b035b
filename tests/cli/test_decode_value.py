"""``msmq decode --as``: one structure to an input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from msmq.cli import app
from msmq.wire.addresses import AddressType, TAAddress
from msmq.wire.names import parse_format_name
from msmq.wire.properties import BY_NAME
from msmq.wire.queue_format import QueueFormat
from msmq.wire.queue_format_ndr import encode_queue_format
from msmq.wire.variant import VT, Variant, encode_variant
from tests.security.samples import USER, allow, deny, granting

GUID_TEXT = "03020100-0504-0706-0809-0A0B0C0D0E0F"
GUID = bytes(range(16))

RIGHTS = {
    "PROPID_S_SECURITY": (
        ("MQMQ-2.2.25-b", "CREATE_FRS", 0x1),
        ("MQMQ-2.2.25-c", "CREATE_BSC", 0x2),
        ("MQMQ-2.2.25-d", "CREATE_MACHINE", 0x4),
        ("MQMQ-2.2.25-e", "SET_SITE_PROPERTIES", 0x10),
        ("MQMQ-2.2.25-f", "GET_SITE_PROPERTIES", 0x20),
        ("MQMQ-2.2.25-g", "DELETE_SITE", 0x10000),
        ("MQMQ-2.2.25-h", "GET_SITE_PERMISSIONS", 0x20000),
        ("MQMQ-2.2.25-i", "CHANGE_SITE_PERMISSIONS", 0x40000),
        ("MQMQ-2.2.25-j", "TAKE_SITE_OWNERSHIP", 0x80000),
    ),
    "PROPID_E_SECURITY": (
        ("MQMQ-2.2.26-b", "CREATE_USER", 0x1),
        ("MQMQ-2.2.26-c", "CREATE_SITE", 0x2),
        ("MQMQ-2.2.26-d", "CREATE_CN", 0x4),
        ("MQMQ-2.2.26-e", "SET_ENTERPRISE_PROPERTIES", 0x10),
        ("MQMQ-2.2.26-f", "GET_ENTERPRISE_PROPERTIES", 0x20),
        ("MQMQ-2.2.26-g", "DELETE_ENTERPRISE", 0x10000),
        ("MQMQ-2.2.26-h", "GET_ENTERPRISE_PERMISSIONS", 0x20000),
        ("MQMQ-2.2.26-i", "CHANGE_ENTERPRISE_PERMISSIONS", 0x40000),
        ("MQMQ-2.2.26-j", "TAKE_ENTERPRISE_OWNERSHIP", 0x80000),
    ),
    "PROPID_CN_SECURITY": (
        ("MQMQ-2.2.27-b", "CN_OPEN_CONNECTOR", 0x1),
        ("MQMQ-2.2.27-c", "SET_CN_PROPERTIES", 0x10),
        ("MQMQ-2.2.27-d", "GET_CN_PROPERTIES", 0x20),
        ("MQMQ-2.2.27-e", "DELETE_CN", 0x10000),
        ("MQMQ-2.2.27-f", "GET_CN_PERMISSIONS", 0x20000),
        ("MQMQ-2.2.27-g", "CHANGE_CN_PERMISSIONS", 0x40000),
        ("MQMQ-2.2.27-h", "TAKE_CN_OWNERSHIP", 0x80000),
    ),
}


def decode(data: bytes, kind: str, *options: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["decode", "--as", kind, "--json", *options], input=data.hex(" "))
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def entries(name: str, mask: int) -> list[str]:
    """What is shown of a descriptor that allows this and denies nothing of it."""
    _, row = BY_NAME[name]
    found = decode(encode_variant(Variant(row.vt, granting(allow(mask)).encode())), name)
    assert (found["property"], found["id"], found["type"]) == (name, row.id, "VT_BLOB")
    prefix = f"ACCESS_ALLOWED {USER}: "
    (entry,) = found["entries"]
    assert entry.startswith(prefix)
    return [right for right in entry.removeprefix(prefix).split(", ") if right]


@pytest.mark.parametrize(
    ("name", "right", "bit"),
    [
        pytest.param(name, right, bit, marks=pytest.mark.spec(row), id=row)
        for name, rows in RIGHTS.items()
        for row, right, bit in rows
    ],
)
def test_one_right_of_a_directory_object(name: str, right: str, bit: int) -> None:
    assert entries(name, bit) == [f"MQSEC_{right}"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("PROPID_S_SECURITY", marks=pytest.mark.spec("MQMQ-2.2.25-a")),
        pytest.param("PROPID_E_SECURITY", marks=pytest.mark.spec("MQMQ-2.2.26-a")),
        pytest.param("PROPID_CN_SECURITY", marks=pytest.mark.spec("MQMQ-2.2.27-a", "MQMQ-2.3.4.6-a")),
    ],
)
def test_the_rights_of_a_directory_object(name: str) -> None:
    """All that are defined by name, others as bits, and what a generic right stands for."""
    named = [f"MQSEC_{right}" for _, right, _ in RIGHTS[name]]
    undefined = 0x0000FF00
    assert entries(name, sum(bit for *_, bit in RIGHTS[name]) | undefined) == [*named, "0xff00"]
    assert entries(name, 0x10000000) == named


@pytest.mark.spec("MQMQ-2.2.12-b")
@pytest.mark.parametrize("vt", [VT.EMPTY, VT.NULL])
def test_a_variant_without_a_value(vt: VT) -> None:
    head = vt.to_bytes(2, "little") + bytes(6) + vt.to_bytes(2, "little")
    assert decode(head, "propvariant") == {"type": f"VT_{vt.name}", "values": []}


@pytest.mark.spec("MQMQ-2.2.12-h")
@pytest.mark.parametrize("options", [(), ("--ndr64",)])
def test_a_variant_with_a_guid(options: tuple[str, ...]) -> None:
    data = encode_variant(Variant(VT.CLSID, GUID), bool(options))
    assert data.endswith(GUID)
    assert decode(data, "propvariant", *options) == {"type": "VT_CLSID", "values": [GUID_TEXT]}


@pytest.mark.spec("MQMQ-2.3.8.1-a")
def test_a_text_and_what_it_means() -> None:
    found = decode(encode_variant(Variant(VT.LPWSTR, "MSMQ Settings")), "PROPID_SET_NAME")
    assert (found["id"], found["of"], found["values"]) == (5101, "settings", ["MSMQ Settings"])
    assert found["meaning"]


def test_addresses_and_sids() -> None:
    packed = TAAddress(AddressType.IP, bytes([10, 0, 0, 7])).encode()
    found = decode(encode_variant(Variant(VT.BLOB, packed)), "PROPID_QM_ADDRESS")
    assert found["addresses"] == ["IP 10.0.0.7"]
    found = decode(encode_variant(Variant(VT.BLOB, USER.encode())), "PROPID_QM_OWNER_SID")
    assert found["sid"] == str(USER)


@pytest.mark.parametrize("name", [f"PUBLIC={GUID_TEXT};JOURNAL", r"DIRECT=OS:srv\PRIVATE$\q"])
def test_a_queue_format(name: str) -> None:
    form = QueueFormat.from_name(parse_format_name(name))  # type: ignore[arg-type]
    found = decode(encode_queue_format(form), "queue-format")
    assert (found["m_qft"], found["format_name"]) == (form.type.name, name)


@pytest.mark.spec("MQMQ-2.1.2-i", "MQMQ-2.1.2-k", "MQMQ-2.1.2-l")
@pytest.mark.parametrize(
    ("name", "place"),
    [
        (r"DIRECT=OS:srv\q", {"host": "srv"}),
        (r"DIRECT=TCP:10.0.0.1\q", {"host": "10.0.0.1"}),
        (r"DIRECT=HTTP://srv/MSMQ\q", {"host": "srv", "port": 80}),
        (r"DIRECT=HTTP://srv:8080/MSMQ\q", {"host": "srv", "port": 8080}),
        (r"DIRECT=HTTPS://[::1]/MSMQ\q", {"host": "::1", "port": 443}),
        (r"DIRECT=IPX:00000001:00AA00BB00CC\q", {"network": "00000001", "node": "00aa00bb00cc"}),
        (f"PUBLIC={GUID_TEXT}", {}),
    ],
)
def test_where_a_name_leads(name: str, place: dict[str, Any]) -> None:
    form = QueueFormat.from_name(parse_format_name(name))  # type: ignore[arg-type]
    found = decode(encode_queue_format(form), "queue-format")
    assert {key: found[key] for key in found.keys() & {"host", "port", "network", "node"}} == place


def test_for_people_and_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "value.bin"
    file.write_bytes(encode_variant(Variant(VT.BLOB, granting(deny(0x2)).encode())))
    result = CliRunner().invoke(app, ["decode", "--as", "PROPID_S_SECURITY", "--format", "raw", str(file)])
    assert result.exit_code == 0
    assert f"ACCESS_DENIED {USER}: MQSEC_CREATE_BSC" in result.stdout


@pytest.mark.parametrize(
    ("kind", "data", "code", "says"),
    [
        ("nonsense", b"\0", 2, "--as takes"),
        ("propvariant", b"\0", 1, "bytes expected"),
        ("PROPID_SET_NAME", encode_variant(Variant(VT.UI4, 1)), 1, "VT_LPWSTR"),
        ("PROPID_SET_NAME", encode_variant(Variant(VT.LPWSTR, "Settings")), 1, "MSMQ Settings"),
        ("queue-format", bytes(5), 1, "UNKNOWN"),
    ],
)
def test_what_is_no_such_structure(kind: str, data: bytes, code: int, says: str) -> None:
    result = CliRunner().invoke(app, ["decode", "--as", kind], input=data.hex())
    assert result.exit_code == code
    assert says in result.stderr

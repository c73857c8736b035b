"""The real command in a process of its own, on the eight published frames and on what surrounds them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.wire import vectors
from tests.wire.vectors import Vector

# The frame tables of MS-MQQB 4.1 use their own names; these are the specification's.
LAYERS = {
    "Ping packet": "Ping",
    "MSMQBaseHeader": "BaseHeader",
    "MSMQInternalHeader": "InternalHeader",
    "EstablishConnectionPacket": "EstablishConnectionHeader",
}
FIELDS = {
    "Ping": {"StateFlag": "Flags", "QMGUID": "QMGuid"},
    "BaseHeader": {"FlagsBaseHeader": "Flags", "MessageLife": "TimeToReachQueue"},
    "InternalHeader": {"FlagsInternalHeader": "Flags"},
    "EstablishConnectionHeader": {"ClientGUID": "ClientGuid", "ServerGUID": "ServerGuid"},
    "ConnectionParametersHeader": {"RecoverAckTimeout": "RecoverableAckTimeout"},
    "MessagePropertiesHeader": {"AllocatedBodySize": "AllocationBodySize"},
    "SecurityHeader": {"SecurityID": "SecurityData.SecurityID"},
    "UserHeader.DestinationQueue": {"Length": "Count", "Value": "DirectFormatName"},
}
# Named runs of bits, by the first bit. A run the specification splits is joined from its parts.
BITS = {
    "Ping": {0: "RC", 1: "RF", 2: "X"},
    "BaseHeader": {0: "PR", 3: "IN", 4: "SH", 5: "DH", 6: "X9 X8", 8: "TR", 9: "X6 X5 X4 X3 X2 X1 X0"},
    "InternalHeader": {0: "PT", 4: "CS", 5: "X5 X6 X7 X8 X9 X10 X11 X12 X13 X14 X15"},
    "EstablishConnectionHeader": {0: "RE", 8: "SE", 9: "OS", 10: "QS", 11: "X11 X12 X13 X14 X15"},
    "UserHeader": {
        0: "RC", 5: "DM", 7: "X1", 8: "JN JP", 10: "DQ", 13: "AQ", 16: "RQ", 19: "SH", 20: "TH", 21: "MP",
        22: "CQ", 23: "MQ", 24: "X2", 25: "AH X3", 28: "HH", 29: "X4",
    },
    "SecurityHeader": {0: "ST", 4: "AU", 5: "EB", 6: "DE", 7: "AI", 8: "AS", 12: "X12 X13 X14 X15"},
    "MessagePropertiesHeader": {0: "PA", 1: "PR", 2: "NA", 3: "NR", 4: "X"},
}  # fmt: skip
# Values the tables give as words, and the one padding of no bytes, which is no field.
WORDS = {"VTBSTR [String data in unicode]": 8, "No encryption": 0}
FRAMES = [
    pytest.param(vectors.PING_REQUEST, "Ping", id="1"),
    pytest.param(vectors.PING_RESPONSE, "Ping", id="2", marks=pytest.mark.spec("MQQB-4.1.2-a")),
    pytest.param(vectors.ESTABLISH_REQUEST, "EstablishConnection", id="3"),
    pytest.param(
        vectors.ESTABLISH_RESPONSE, "EstablishConnection", id="4", marks=pytest.mark.spec("MQQB-4.1.4-a")
    ),
    pytest.param(vectors.PARAMETERS_REQUEST, "ConnectionParameters", id="5"),
    pytest.param(vectors.PARAMETERS_RESPONSE, "ConnectionParameters", id="6"),
    pytest.param(
        vectors.USER_MESSAGE_DUMP,
        "UserMessage",
        id="7",
        marks=pytest.mark.spec("MQQB-4.1.7-a", "MQQB-4.1.7-b"),
    ),
    pytest.param(vectors.SESSION_ACK, "SessionAck", id="8"),
]


def msmq(
    *arguments: str, given: bytes | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "msmq", *arguments],
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        env=os.environ | environment,
        check=False,
    )


def decoded(vector: Vector) -> dict[str, Any]:
    """What the command shows; frame 7 is read from its completed form."""
    name = vectors.USER_MESSAGE.name if vector is vectors.USER_MESSAGE_DUMP else vector.name
    process = msmq("decode", "--json", str(vectors.HOME / f"{name}.hex"))
    assert (process.returncode, process.stderr) == (0, b"")
    found: dict[str, Any] = json.loads(process.stdout)
    return found


def look_up(found: dict[str, Any], path: str) -> Any:
    value: Any = found
    for name in path.split("."):
        value = value[name]
    return value


def shown(found: dict[str, Any], field: dict[str, Any]) -> Any:
    """What the command shows for one line of a frame table."""
    layer = LAYERS.get(field["layer"], field["layer"])
    if "bit" not in field:
        name = FIELDS.get(layer, {}).get(field["field"], field["field"])
        value = look_up(found, f"{layer}.{name}")
        return value["value"] if isinstance(value, dict) else value
    flags = "OperatingSystem" if layer == "EstablishConnectionHeader" else "Flags"
    value, at = 0, 0
    widths = {"X3": 2} if layer == "UserHeader" else {}
    names = BITS[layer][field["bit"]].split()
    for name in names:
        value |= look_up(found, f"{layer}.{flags}.{name}") << at
        at += field["bits"] if len(names) == 1 else widths.get(name, 1)
    assert at == field["bits"]
    return value


def trusted_fields(vector: Vector) -> list[dict[str, Any]]:
    return [
        field
        for field in vector.description["fields"]
        if field.get("offset") is not None
        and field["size"] > 0
        and vector.trusted(field["offset"], field["size"])
    ]


@pytest.mark.parametrize(("vector", "packet"), FRAMES)
def test_every_trusted_value_of_the_published_frames(vector: Vector, packet: str) -> None:
    found = decoded(vector)
    assert found["packet"] == packet
    fields = trusted_fields(vector)
    assert fields
    for field in fields:
        value = shown(found, field)
        expected = field["dump_value"]
        if isinstance(expected, str):
            assert str(value).lower() == expected.lower(), field
        elif isinstance(value, str) and field["field"] != "Label":
            # The tables give only the size of what is opaque to them.
            size = 28 if field["field"] == "SecurityID" else len(bytes.fromhex(value))
            assert size == expected, field
        elif isinstance(value, int):
            assert value == expected, field
            if field["match"]:
                assert value == WORDS.get(field["value"], field["value"]), field


def test_the_whole_of_frame_7() -> None:
    found = decoded(vectors.USER_MESSAGE)
    expected = vectors.USER_MESSAGE.description["expected"]
    assert (
        f"DIRECT={look_up(found, 'UserHeader.DestinationQueue.DirectFormatName')}"
        == expected["DestinationQueue"]
    )
    assert look_up(found, "SecurityHeader.SecurityData.SecurityID") == expected["SenderSid"]
    properties = found["MessagePropertiesHeader"]
    for name in ("Label", "BodyType", "MessageSize", "AllocationBodySize"):
        assert properties[name] == expected[name]
    assert properties["MessageBodyText"] == "a" * 1000
    assert found["BaseHeader"]["TimeToReachQueue"] == expected["TimeToReachQueue"]
    assert found["UserHeader"]["TimeToBeReceived"] == expected["TimeToBeReceived"]
    assert found["UserHeader"]["MessageID"] == expected["MessageID"]
    assert found["SecurityHeader"]["Flags"]["AI"] == 0
    assert [name for name in found if name.endswith("Header")] == [
        top["layer"] for top in expected["headers"]
    ]


def test_the_incomplete_dump_is_refused() -> None:
    process = msmq("decode", "--json", str(vectors.HOME / "frame07_user_message.hex"))
    assert process.returncode == 1
    assert process.stderr == b""
    assert json.loads(process.stdout)["packet"] == "Malformed"


def test_status_2_and_one_line() -> None:
    process = msmq("decode", "no-such-file")
    assert process.returncode == 2
    assert process.stderr == b"msmq decode: no-such-file: No such file or directory\n"


def test_help_teaches() -> None:
    process = msmq("decode", "--help", COLUMNS="100")
    assert process.returncode == 0
    text = process.stdout.decode()
    for words in (
        "Examples:",
        "tcpdump",
        "--json",
        "--offsets",
        "--max-body",
        "--port",
        "--ping-port",
        "Status:",
    ):
        assert words in text


def test_the_example_of_the_help_works() -> None:
    process = msmq("decode", given=b"017d 4855 04000000 d1587355 50919595 4997b6e6 11ea26c6\n")
    assert process.returncode == 0
    assert process.stdout.startswith(b"1. Ping request")


def test_hexadecimal_needs_no_dpkt() -> None:
    program = "import sys\nsys.modules['dpkt'] = None\nfrom msmq.cli import main\nmain()"
    command = [sys.executable, "-c", program, "decode", "--brief"]
    process = subprocess.run(command, input=b"1000", capture_output=True, check=False)
    assert process.returncode == 1
    assert b"Traceback" not in process.stderr


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "many"
    path.write_bytes(vectors.SESSION_ACK.data * 5000)
    command = f"{sys.executable} -m msmq decode --json {path} | head -1"
    process = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert process.stderr == b""
    assert json.loads(process.stdout)["packet"] == "SessionAck"


def test_an_ascii_terminal_gets_escapes() -> None:
    process = msmq("decode", given=vectors.USER_MESSAGE.data, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert process.returncode == 0
    assert process.stdout.isascii()

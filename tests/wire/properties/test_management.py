"""Properties for watching a computer and its queues."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest

from msmq.errors import IllegalFormatnameError, IllegalQueuePathnameError, PropertyNotallowedError
from msmq.wire.identifiers import SequenceInfo
from msmq.wire.names import parse_format_name
from msmq.wire.properties import TABLES, ObjectType, Use
from msmq.wire.properties.management import (
    Connected,
    ConnectionEvent,
    ConnectionStatus,
    EodSource,
    Known,
    QueueLocation,
    QueueState,
    QueueType,
    connection_history,
    eod_source_info,
    known,
    next_hops,
    queue_location,
    queue_state,
    queue_type,
)
from msmq.wire.variant import VT, Variant, decode_variant, encode_variant
from tests.wire.properties.support import GUID, NOW_S, judge, keeps, refuses, row_marks, store

GUID_TEXT = "00112233-4455-6677-8899-AABBCCDDEEFF"
COUNTERS = [
    "PROPID_MGMT_QUEUE_MESSAGE_COUNT",
    "PROPID_MGMT_QUEUE_BYTES_IN_QUEUE",
    "PROPID_MGMT_QUEUE_JOURNAL_MESSAGE_COUNT",
    "PROPID_MGMT_QUEUE_BYTES_IN_JOURNAL",
    "PROPID_MGMT_QUEUE_EOD_LAST_ACK_COUNT",
    "PROPID_MGMT_QUEUE_EOD_NO_READ_COUNT",
    "PROPID_MGMT_QUEUE_EOD_NO_ACK_COUNT",
    "PROPID_MGMT_QUEUE_EOD_RESEND_INTERVAL",
    "PROPID_MGMT_QUEUE_EOD_RESEND_COUNT",
    "PROPID_MGMT_QUEUE_SUBQUEUE_COUNT",
]


def test_everything_is_read_only() -> None:
    for object_type in (ObjectType.MANAGEMENT_MACHINE, ObjectType.MANAGEMENT_QUEUE):
        assert all(row.uses is Use.READ_ONLY for row in TABLES[object_type].values())
    with pytest.raises(PropertyNotallowedError):
        judge(Use.SET, "PROPID_MGMT_QUEUE_MESSAGE_COUNT", 1)


@pytest.mark.parametrize("name", COUNTERS)
def test_counters_are_kept(name: str) -> None:
    keeps(name, 0, 0xFFFFFFFF)


def test_lists_of_names() -> None:
    keeps("PROPID_MGMT_MSMQ_ACTIVEQUEUES", (), ("DIRECT=OS:srv\\PRIVATE$\\q", f"PUBLIC={GUID_TEXT}"))
    refuses("PROPID_MGMT_MSMQ_ACTIVEQUEUES", ("orders",), error=IllegalFormatnameError)
    keeps("PROPID_MGMT_MSMQ_PRIVATEQ", ("srv\\private$\\q",))
    refuses("PROPID_MGMT_MSMQ_PRIVATEQ", ("orders",), error=IllegalQueuePathnameError)
    keeps("PROPID_MGMT_QUEUE_SUBQUEUE_NAMES", (), ("poison", "retry"))
    keeps("PROPID_MGMT_QUEUE_PATHNAME", "srv\\q")
    refuses("PROPID_MGMT_QUEUE_PATHNAME", "q", error=IllegalQueuePathnameError)


@pytest.mark.spec("MQMQ-2.3.11.3-a")
def test_directory_server() -> None:
    keeps("PROPID_MGMT_MSMQ_DSSERVER", "\\\\dc1")
    refuses("PROPID_MGMT_MSMQ_DSSERVER", "dc1", "\\dc1", "\\\\", "\\\\dc1,dc2")


def test_connected() -> None:
    keeps("PROPID_MGMT_MSMQ_CONNECTED", *map(str, Connected))
    refuses("PROPID_MGMT_MSMQ_CONNECTED", "", "connected")


@pytest.mark.spec("MQMQ-2.3.11.5-a")
def test_type_is_never_empty() -> None:
    keeps("PROPID_MGMT_MSMQ_TYPE", "Windows NT 10.0 (Build 20348, x64) - MSMQ 6.3 (Build 0)", "OpenMSMQ")
    refuses("PROPID_MGMT_MSMQ_TYPE", "")


def test_bytes_in_all_queues() -> None:
    keeps("PROPID_MGMT_MSMQ_BYTES_IN_ALL_QUEUES", 0, 2**40)


@pytest.mark.spec("MQMQ-2.3.12.2-a")
def test_format_name() -> None:
    keeps("PROPID_MGMT_QUEUE_FORMATNAME", "DIRECT=OS:srv\\private$\\q", f"PUBLIC={GUID_TEXT}")
    refuses("PROPID_MGMT_QUEUE_FORMATNAME", "DIRECT=XX:y\\z", "", error=IllegalFormatnameError)


@pytest.mark.spec("MQMQ-2.3.12.3-a")
@pytest.mark.parametrize(
    ("format_name", "shown"),
    [
        (f"PUBLIC={GUID_TEXT}", "PUBLIC"),
        ("DIRECT=OS:srv\\q", "PUBLIC"),
        (f"PRIVATE={GUID_TEXT}\\0000000A", "PRIVATE"),
        ("DIRECT=OS:srv\\private$\\q", "PRIVATE"),
        (f"MACHINE={GUID_TEXT};DEADLETTER", "MACHINE"),
        ("DIRECT=OS:srv\\SYSTEM$;DEADXACT", "MACHINE"),
        (f"CONNECTOR={GUID_TEXT}", "CONNECTOR"),
        ("MULTICAST=234.1.1.1:8001", "MULTICAST"),
    ],
)
def test_queue_type(format_name: str, shown: str) -> None:
    name: Any = parse_format_name(format_name)
    keeps("PROPID_MGMT_QUEUE_TYPE", str(queue_type(name)))
    assert queue_type(name) == shown


def test_queue_types_are_five() -> None:
    assert set(QueueType) == {"PUBLIC", "PRIVATE", "MACHINE", "CONNECTOR", "MULTICAST"}
    refuses("PROPID_MGMT_QUEUE_TYPE", "", "Public", "DIRECT")


@pytest.mark.spec("MQMQ-2.3.12.4-a")
def test_location() -> None:
    assert set(QueueLocation) == {"LOCAL", "REMOTE"}
    assert queue_location(local=False) == "REMOTE"  # an outgoing queue
    assert queue_location(local=True) == "LOCAL"
    keeps("PROPID_MGMT_QUEUE_LOCATION", "LOCAL", "REMOTE")
    refuses("PROPID_MGMT_QUEUE_LOCATION", "", "HERE")


@pytest.mark.spec("MQMQ-2.3.12.5-a", "MQMQ-2.3.12.6-a")
@pytest.mark.parametrize("name", ["PROPID_MGMT_QUEUE_XACT", "PROPID_MGMT_QUEUE_FOREIGN"])
def test_what_is_known_of_a_queue(name: str) -> None:
    """A transactional queue reads YES of the first; a normal queue reads NO of the second."""
    assert set(Known) == {"UNKNOWN", "YES", "NO"}
    assert [known(answer) for answer in (None, True, False)] == ["UNKNOWN", "YES", "NO"]
    keeps(name, "UNKNOWN", "YES", "NO")
    refuses(name, "", "yes", "MAYBE")


@pytest.mark.spec("MQMQ-2.3.12.11-a")
def test_state_is_one_of_eight_texts() -> None:
    texts = {
        "LOCAL CONNECTION",
        "INACTIVE",
        "WAITING",
        "NEED VALIDATION",
        "ONHOLD",
        "CONNECTED",
        "DISCONNECTING",
        "DISCONNECTED",
    }
    assert {str(state) for state in QueueState} == texts
    keeps("PROPID_MGMT_QUEUE_STATE", *texts)
    refuses("PROPID_MGMT_QUEUE_STATE", "", "PAUSED", "connected")


@pytest.mark.spec("MQMQ-2.3.12.11-b")
def test_what_state_a_queue_shows() -> None:
    live = QueueState.MGMT_QUEUE_STATE_CONNECTED
    assert queue_state(live, local=False, on_hold=True) == "ONHOLD"
    assert queue_state(live, local=False, on_hold=False) == "CONNECTED"
    for on_hold in (False, True):
        assert queue_state(live, local=True, on_hold=on_hold) == "LOCAL CONNECTION"
    for state in QueueState:
        assert queue_state(state, local=False, on_hold=False) is state


@pytest.mark.spec("MQMQ-2.3.12.12-a")
def test_next_hops() -> None:
    candidates = (IPv4Address("10.0.0.2"), IPv6Address("fe80::1"), GUID)
    connecting = next_hops(candidates, None)
    assert connecting.value == ("IP=10.0.0.2", "IPv6=fe80::1", "FOREIGN=03020100-0504-0706-0809-0A0B0C0D0E0F")
    connected = next_hops(candidates, IPv4Address("10.0.0.2"))
    assert connected.value == ("IP=10.0.0.2",)
    for variant in (connecting, connected, next_hops((), None)):
        keeps("PROPID_MGMT_QUEUE_NEXTHOPS", variant.value)
    refuses("PROPID_MGMT_QUEUE_NEXTHOPS", ("10.0.0.2",), ("IP=10.0.0.2", ""))


@pytest.mark.parametrize(
    "name",
    row_marks(
        PROPID_MGMT_QUEUE_EOD_LAST_ACK="2.3.12.13-a",
        PROPID_MGMT_QUEUE_EOD_FIRST_NON_ACK="2.3.12.16-a",
        PROPID_MGMT_QUEUE_EOD_LAST_NON_ACK="2.3.12.17-a",
    ),
)
def test_sequence_information(name: str) -> None:
    blob = SequenceInfo(seq_id=5, seq_no=3, prev_no=2).encode()
    assert len(blob) == 16
    keeps(name, blob)
    value = store(name, blob).value
    assert isinstance(value, bytes)
    assert SequenceInfo.decode(value) == SequenceInfo(seq_id=5, seq_no=3, prev_no=2)
    refuses(name, b"", blob[:-1], blob + b"\0")


def test_next_sequence_is_one_too() -> None:
    keeps("PROPID_MGMT_QUEUE_EOD_NEXT_SEQ", SequenceInfo(seq_id=5, seq_no=4, prev_no=3).encode())
    refuses("PROPID_MGMT_QUEUE_EOD_NEXT_SEQ", b"")


@pytest.mark.parametrize("name", ["PROPID_MGMT_QUEUE_EOD_LAST_ACK_TIME", "PROPID_MGMT_QUEUE_EOD_RESEND_TIME"])
def test_times_are_signed(name: str) -> None:
    keeps(name, NOW_S, -1)


SOURCES = [
    EodSource("DIRECT=OS:a\\q", GUID, 2**40, 7, NOW_S, 0),
    EodSource("DIRECT=OS:b\\q", GUID[::-1], 1, 1, NOW_S + 1, 3),
]
EVENTS = [
    ConnectionEvent(ConnectionStatus.CONNECT_SOCKET_FAILED, NOW_S, 1, ("10.0.0.1", "\\\\srv")),
    ConnectionEvent(ConnectionStatus.READY, NOW_S + 1, 0, ()),
]


@pytest.mark.spec("MQMQ-2.3.12.24-a", "MQMQ-2.3.12.24-b")
@pytest.mark.parametrize("count", [0, 1, 2])
def test_sources_are_six_parallel_arrays(count: int) -> None:
    variant = decode_variant(encode_variant(eod_source_info(SOURCES[:count])))
    keeps("PROPID_MGMT_QUEUE_EOD_SOURCE_INFO", variant.value)
    arrays: Any = variant.value
    assert [array.vt for array in arrays] == [0x101F, 0x1048, 0x1015, 0x1013, 0x1003, 0x1013]
    assert {len(array.value) for array in arrays} == {count}
    rows = list(zip(*(array.value for array in arrays), strict=True))
    assert [EodSource(*row) for row in rows] == SOURCES[:count]


def test_other_arrays_are_no_sources() -> None:
    arrays: Any = eod_source_info(SOURCES).value
    short = (*arrays[:5], Variant(VT.VECTOR | VT.UI4, (0,)))
    swapped = (arrays[1], arrays[0], *arrays[2:])
    refuses("PROPID_MGMT_QUEUE_EOD_SOURCE_INFO", (), arrays[:5], short, swapped)


@pytest.mark.spec("MQMQ-2.3.12.25-a", "MQMQ-2.3.12.25-b")
@pytest.mark.parametrize("count", [0, 1, 2])
def test_history_is_four_parallel_arrays(count: int) -> None:
    variant = decode_variant(encode_variant(connection_history(EVENTS[:count])))
    keeps("PROPID_MGMT_QUEUE_CONNECTION_HISTORY", variant.value)
    arrays: Any = variant.value
    assert [array.vt for array in arrays] == [0x1013, 0x1003, 0x1003, 0x100C]
    assert {len(array.value) for array in arrays} == {count}
    assert [address.value for address in arrays[3].value] == [event.addresses for event in EVENTS[:count]]


def test_other_arrays_are_no_history() -> None:
    arrays: Any = connection_history(EVENTS).value
    unknown = (Variant(VT.VECTOR | VT.UI4, (3, 2)), *arrays[1:])
    bad_address = (
        *arrays[:3],
        Variant(VT.VECTOR | VT.VARIANT, (Variant(VT.VECTOR | VT.LPWSTR, ("srv 1",)),) * 2),
    )
    short = (*arrays[:2], Variant(VT.VECTOR | VT.I4, (1,)), arrays[3])
    refuses("PROPID_MGMT_QUEUE_CONNECTION_HISTORY", (), arrays[:3], unknown, bad_address, short)


def test_connection_statuses() -> None:
    assert [status.value for status in ConnectionStatus] == [0, 1, 2, *range(0x80000000, 0x8000000E)]
    assert ConnectionStatus.CONNECT_SOCKET_FAILED == 0x80000004
    assert ConnectionStatus.DNS_FAILED == 0x80000008

from itertools import product

import pytest

from msmq.errors import DecodeError, IllegalFormatnameError
from msmq.wire.guid import guid_from_text
from msmq.wire.names import (
    ConnectorName,
    DistributionListName,
    MachineName,
    MsmqVersion,
    MulticastName,
    QueueTarget,
    SuffixType,
    parse_format_name,
    target_of,
)
from msmq.wire.queue_format import (
    REMOTE_READ_TYPES,
    DLId,
    MulticastId,
    ObjectId,
    QueueFormat,
    QueueFormatFlags,
    QueueFormatType,
    supported_by_remote_read,
)

TEXT = "557358D1-9150-9595-4997-B6E611EA26C6"
GUID = guid_from_text(TEXT)
QUEUE = r"OS:srv\PRIVATE$\q"

# An arm for each m_qft that is good with every suffix the type allows; texts that carry the suffix themselves
# are chosen in form().
ARMS = {
    0: None,
    1: GUID,
    2: ObjectId(GUID, 4),
    3: QUEUE,
    4: GUID,
    5: GUID,
    6: DLId(GUID, "corp.example"),
    7: MulticastId(0x010101EA, 8001),
    8: QUEUE + ";sub",
}


def form(qft, byte):
    arm = ARMS[qft]
    if qft == 3 and byte & 0x0F in (2, 3):
        arm = "OS:srv\\SYSTEM$;" + SuffixType(byte & 0x0F).name
    return QueueFormat.from_members(qft, byte, arm)


def valid(qft, byte):
    try:
        form(qft, byte).to_name()
    except IllegalFormatnameError as error:
        return "names no queue" in str(error)  # UNKNOWN, where the table lets it pass
    return True


def types_of(byte):
    return {qft for qft in range(9) if valid(qft, byte)}


@pytest.mark.spec("MQMQ-2.2.6-a")
def test_types():
    assert {t.name: t.value for t in QueueFormatType} == {
        "UNKNOWN": 0,
        "PUBLIC": 1,
        "PRIVATE": 2,
        "DIRECT": 3,
        "MACHINE": 4,
        "CONNECTOR": 5,
        "DL": 6,
        "MULTICAST": 7,
        "SUBQUEUE": 8,
    }
    with pytest.raises(ValueError, match="9"):
        QueueFormatType(9)
    with pytest.raises(DecodeError):
        QueueFormat.from_members(9, 0, None)


@pytest.mark.spec("MQMQ-2.2.6-c")
def test_subqueue_since_version_4():
    subqueue = form(8, 0x05)
    for version in MsmqVersion:
        if version < MsmqVersion.V4:
            with pytest.raises(IllegalFormatnameError, match=r"MSMQ 4\.0"):
                subqueue.to_name(version=version)
        else:
            subqueue.to_name(version=version)


@pytest.mark.spec("MQMQ-2.2.11-a")
def test_suffixes():
    assert {s.name: s.value for s in SuffixType} == {
        "NONE": 0,
        "JOURNAL": 1,
        "DEADLETTER": 2,
        "DEADXACT": 3,
        "XACTONLY": 4,
        "SUBQUEUE": 5,
    }


@pytest.mark.spec("MQMQ-2.2.7-b")
@pytest.mark.parametrize("qft", [9, 10, 255, -1])
def test_unknown_discriminant(qft):
    with pytest.raises(DecodeError, match="m_qft"):
        QueueFormat.from_members(qft, 0, GUID)


@pytest.mark.parametrize(("qft", "arm"), list(product(ARMS, ARMS.values())))
def test_arm_must_fit_the_discriminant(qft, arm):
    if type(arm) is type(ARMS[qft]):
        assert QueueFormat.from_members(qft, 0, arm).arm == arm
    else:
        with pytest.raises(DecodeError, match="arm"):
            QueueFormat.from_members(qft, 0, arm)


@pytest.mark.spec("MQMQ-2.2.7-c")
def test_split_of_suffix_and_flags():
    journal = QueueFormat.from_members(1, 0x81, GUID)
    assert (journal.flags, journal.suffix) == (0x80, SuffixType.JOURNAL)
    assert journal.suffix_and_flags == 0x81
    for suffix, flags in product(SuffixType, QueueFormatFlags):
        split = QueueFormat.from_members(1, flags | suffix, GUID)
        assert (split.flags, split.suffix, split.suffix_and_flags) == (flags, suffix, flags + suffix)


@pytest.mark.spec("MQMQ-2.2.7-d")
def test_flags():
    assert {f.name: f.value for f in QueueFormatFlags} == {"NOT_SYSTEM": 0x00, "SYSTEM": 0x80}
    for nibble in range(16):
        if nibble in (0, 8):
            QueueFormat.from_members(5, nibble << 4, GUID)
        else:
            with pytest.raises(DecodeError, match="undefined"):
                QueueFormat.from_members(5, nibble << 4, GUID)


@pytest.mark.parametrize("suffix", range(6, 16))
def test_undefined_suffix(suffix):
    with pytest.raises(DecodeError, match="undefined"):
        QueueFormat.from_members(1, suffix, GUID)


@pytest.mark.spec("MQMQ-2.2.7-e")
def test_no_suffix():
    assert types_of(0x00) == {0, 1, 2, 3, 5, 6, 7, 8}
    assert types_of(0x80) == set()


@pytest.mark.spec("MQMQ-2.2.7-f")
def test_journal():
    assert types_of(0x81) == {0, 1, 2, 3, 4, 8}
    assert types_of(0x01) == set()


@pytest.mark.spec("MQMQ-2.2.7-g")
def test_deadletter():
    # m_qft 0 is not barred but names nothing; 8 is not barred either, yet no subqueue is a dead-letter queue.
    assert types_of(0x82) - {0} == {3, 4}
    assert types_of(0x02) == set()


@pytest.mark.spec("MQMQ-2.2.7-h")
def test_deadxact():
    assert types_of(0x83) == {3, 4}
    assert types_of(0x03) == set()


@pytest.mark.spec("MQMQ-2.2.7-i")
def test_xactonly():
    assert types_of(0x04) == {5}
    assert types_of(0x84) == {5}


@pytest.mark.spec("MQMQ-2.2.7-j")
def test_subqueue():
    assert types_of(0x05) == {8}
    assert types_of(0x85) == set()


@pytest.mark.spec("MQMQ-2.2.7-k")
def test_reserved_changes_nothing():
    zero, other = (QueueFormat.from_members(3, 0, QUEUE, reserved) for reserved in (0, 0xBEEF))
    assert other.reserved == 0xBEEF
    assert zero == other
    assert hash(zero) == hash(other)
    assert zero.to_name() == other.to_name()
    assert QueueFormat.from_name(zero.to_name()).reserved == 0


@pytest.mark.spec("MQMQ-2.2.7-n")
def test_direct_arm():
    name = parse_format_name(r"DIRECT=OS:srv\private$\q")
    assert QueueFormat.from_name(name) == QueueFormat(QueueFormatType.DIRECT, QUEUE)
    received = QueueFormat.from_members(3, 0, r"OS:srv\private$\q")
    assert received.arm == r"OS:srv\private$\q"
    assert received.to_name() == name
    with pytest.raises(IllegalFormatnameError):
        QueueFormat.from_members(3, 0, r"DIRECT=OS:srv\private$\q").to_name()


@pytest.mark.spec("MQMQ-2.2.7-o")
@pytest.mark.parametrize("suffix", [SuffixType.JOURNAL, SuffixType.DEADLETTER, SuffixType.DEADXACT])
def test_machine_arm(suffix):
    machine = QueueFormat.from_members(4, 0x80 | suffix, GUID)
    assert machine.to_name() == MachineName(GUID, suffix)
    assert str(machine.to_name()) == f"MACHINE={TEXT};{suffix.name}"
    assert QueueFormat.from_name(machine.to_name()) == machine


@pytest.mark.spec("MQMQ-2.2.7-p")
def test_connector_arm():
    connector = QueueFormat.from_members(5, 0x00, GUID)
    assert connector.to_name() == ConnectorName(GUID)
    assert str(connector.to_name()) == "CONNECTOR=" + TEXT


@pytest.mark.spec("MQMQ-2.2.7-q")
@pytest.mark.parametrize("domain", [None, "corp.example"])
def test_distribution_list_arm(domain):
    name = DistributionListName(GUID, domain)
    assert QueueFormat.from_name(name) == QueueFormat(QueueFormatType.DL, DLId(GUID, domain))
    assert QueueFormat(QueueFormatType.DL, DLId(GUID, domain)).to_name() == name


@pytest.mark.spec("MQMQ-2.2.10-a")
def test_multicast_arm():
    group = MulticastId.from_name(MulticastName("234.1.1.1", 8001))
    assert group == MulticastId(0x010101EA, 8001)
    assert group.address.to_bytes(4, "little") == bytes([234, 1, 1, 1])
    assert str(group.to_name()) == "MULTICAST=234.1.1.1:8001"
    for address, port in ((0x010101EA, 65536), (1 << 32, 1), (-1, 1)):
        with pytest.raises(IllegalFormatnameError):
            MulticastId(address, port).to_name()
    with pytest.raises(IllegalFormatnameError, match=r"224\.0\.0\.0"):
        QueueFormat(QueueFormatType.MULTICAST, MulticastId(0x0100000A, 1)).to_name()


@pytest.mark.spec("MQMQ-2.2.7-s")
def test_subqueue_arm():
    named = QueueFormat.from_members(8, 0x05, r"OS:srv\private$\q;sub")
    assert named.to_name() == parse_format_name(r"DIRECT=OS:srv\private$\q;sub")
    for text in (r"OS:srv\private$\q", r"OS:srv\q;JOURNAL", r"OS:srv\SYSTEM$;DEADLETTER", ""):
        with pytest.raises(IllegalFormatnameError):
            QueueFormat.from_members(8, 0x05, text).to_name()


def test_suffix_of_a_direct_name():
    journal = parse_format_name(f"DIRECT={QUEUE};JOURNAL")
    assert QueueFormat.from_name(journal) == QueueFormat.from_members(3, 0x81, QUEUE + ";JOURNAL")
    assert QueueFormat.from_members(3, 0x81, QUEUE).to_name() == journal
    for byte, text in (
        (0x00, QUEUE + ";JOURNAL"),
        (0x82, QUEUE + ";JOURNAL"),
        (0x82, QUEUE),
        (0x81, r"OS:srv\SYSTEM$;DEADXACT"),
    ):
        with pytest.raises(IllegalFormatnameError, match="disagree"):
            QueueFormat.from_members(3, byte, text).to_name()


def test_unknown_names_nothing():
    unknown = QueueFormat(QueueFormatType.UNKNOWN)
    assert unknown.arm is None
    with pytest.raises(IllegalFormatnameError, match="names no queue"):
        unknown.to_name()


@pytest.mark.parametrize("guid", [b"", bytes(15), bytes(17)])
def test_guid_of_the_wrong_size(guid):
    with pytest.raises(IllegalFormatnameError, match="16 bytes"):
        QueueFormat(QueueFormatType.PUBLIC, guid).to_name()


@pytest.mark.spec("MQMQ-2.2.11-b")
@pytest.mark.parametrize(
    ("qft", "byte", "arm", "target"),
    [
        (1, 0x81, GUID, QueueTarget.QUEUE_JOURNAL),
        (2, 0x81, ObjectId(GUID, 4), QueueTarget.QUEUE_JOURNAL),
        (3, 0x81, QUEUE + ";JOURNAL", QueueTarget.QUEUE_JOURNAL),
        (4, 0x81, GUID, QueueTarget.MACHINE_JOURNAL),
        (3, 0x82, r"OS:srv\SYSTEM$;DEADLETTER", QueueTarget.DEAD_LETTER),
        (4, 0x82, GUID, QueueTarget.DEAD_LETTER),
        (3, 0x83, r"OS:srv\SYSTEM$;DEADXACT", QueueTarget.TRANSACTIONAL_DEAD_LETTER),
        (4, 0x83, GUID, QueueTarget.TRANSACTIONAL_DEAD_LETTER),
        (5, 0x00, GUID, QueueTarget.CONNECTOR),
        (5, 0x04, GUID, QueueTarget.TRANSACTIONAL_CONNECTOR),
        (8, 0x05, QUEUE + ";sub", QueueTarget.SUBQUEUE),
        (1, 0x00, GUID, QueueTarget.QUEUE),
    ],
)
def test_targets(qft, byte, arm, target):
    assert target_of(QueueFormat.from_members(qft, byte, arm).to_name()) is target


@pytest.mark.spec("MQMQ-2.2.6-b")
def test_types_of_remote_read():
    assert set(REMOTE_READ_TYPES) == {0, 1, 2, 3, 4, 8}
    for qft, arm in ARMS.items():
        assert supported_by_remote_read(QueueFormat.from_members(qft, 0, arm)) is (qft not in (5, 6, 7))


@pytest.mark.parametrize(
    ("text", "supported"),
    [
        (QUEUE, True),
        (r"tcp:127.0.0.1\q", True),
        (r"HTTP://srv/MSMQ\q", False),
        (r"HTTPS://srv/MSMQ\q", False),
        (r"IPX:00000001:00AA00BB00CC\q", False),
        ("", False),
    ],
)
def test_protocols_of_remote_read(text, supported):
    assert supported_by_remote_read(QueueFormat(QueueFormatType.DIRECT, text)) is supported

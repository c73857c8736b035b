import pytest

from msmq.errors import IllegalFormatnameError, IllegalPropertyValueError
from msmq.wire.guid import guid_from_text
from msmq.wire.names import (
    ConnectorName,
    DirectName,
    DistributionListName,
    MachineName,
    MsmqVersion,
    MulticastName,
    MultipleElementName,
    PrivateName,
    Protocol,
    PublicName,
    QueueKind,
    SuffixType,
    check,
    parse_format_name,
)
from msmq.wire.queue_format import QueueFormat

TEXT = "557358D1-9150-9595-4997-B6E611EA26C6"
GUID = guid_from_text(TEXT)


def refused(text, version=MsmqVersion.V6):
    with pytest.raises(IllegalFormatnameError) as caught:
        parse_format_name(text, version=version)
    assert caught.value.code == 0xC00E001E
    return caught.value.detail


@pytest.mark.spec("MQMQ-2.1.3-a")
def test_public_name():
    name = parse_format_name("PUBLIC=" + TEXT)
    assert name == PublicName(GUID)
    assert str(name) == "PUBLIC=" + TEXT
    assert "without braces" in refused(f"PUBLIC={{{TEXT}}}")


@pytest.mark.parametrize("prefix", ["PUBLIC=", "PRIVATE=", "DL=", "MACHINE=", "CONNECTOR=", "public=", "Dl="])
def test_guid_of_every_kind(prefix):
    tail = "\\1" if prefix == "PRIVATE=" else ""
    upper = parse_format_name(prefix + TEXT + tail)
    assert parse_format_name(prefix + TEXT.lower() + tail) == upper
    for bad in (TEXT[:-1], TEXT + "0", TEXT.replace("D1", "G1"), TEXT.replace("-", "", 1), "", f"{{{TEXT}}}"):
        refused(prefix + bad + tail)


@pytest.mark.spec("MQMQ-2.1.3-e")
def test_public_journal():
    name = parse_format_name(f"PUBLIC={TEXT};JOURNAL")
    assert name == PublicName(GUID, SuffixType.JOURNAL)
    form = QueueFormat.from_name(name)
    assert (form.type, form.suffix_and_flags) == (1, 0x81)
    for suffix in (";DEADLETTER", ";XACTONLY", ";", ";JOURNAL ", "JOURNAL", ";JOURNAL;JOURNAL"):
        refused(f"PUBLIC={TEXT}{suffix}")


@pytest.mark.spec("MQMQ-2.1.4-a")
def test_private_name():
    name = parse_format_name(f"PRIVATE={TEXT}\\4")
    assert name == PrivateName(GUID, 4)
    assert parse_format_name(f"PRIVATE={TEXT}\\00000004") == name
    for digits in ("", "000000004", "G", "+4", "0x4", "\u0664", "1_0"):
        refused(f"PRIVATE={TEXT}\\{digits}")
    refused("PRIVATE=" + TEXT)
    refused(f"PRIVATE={TEXT}/4")


@pytest.mark.spec("MQMQ-2.1.4-b")
def test_private_number_is_hexadecimal():
    name = PrivateName(GUID, 0x1A)
    assert str(name) == f"PRIVATE={TEXT}\\0000001A"
    parsed = parse_format_name(str(name))
    assert isinstance(parsed, PrivateName)
    assert parsed.queue_id == 26
    form = QueueFormat.from_name(parsed)
    assert form.arm.uniquifier == 26
    assert parse_format_name(f"PRIVATE={TEXT}\\ffffffff") == PrivateName(GUID, 0xFFFFFFFF)


@pytest.mark.spec("MQMQ-2.1.4-d")
def test_private_journal():
    plain, journal = (parse_format_name(f"PRIVATE={TEXT}\\4{suffix}") for suffix in ("", ";JOURNAL"))
    assert journal.suffix is SuffixType.JOURNAL
    assert QueueFormat.from_name(journal).arm == QueueFormat.from_name(plain).arm
    refused(f"PRIVATE={TEXT}\\4;DEADXACT")


@pytest.mark.spec("MQMQ-2.1.5-a")
def test_distribution_list_name():
    assert parse_format_name("DL=" + TEXT) == DistributionListName(GUID)
    named = parse_format_name(f"DL={TEXT}@corp.example")
    assert named == DistributionListName(GUID, "corp.example")
    assert str(named) == f"DL={TEXT}@corp.example"
    refused(f"DL={TEXT[:-1]}@corp.example")
    refused(f"DL={TEXT};JOURNAL")


@pytest.mark.spec("MQMQ-2.1.5-b")
def test_domain_name():
    assert parse_format_name(f"DL={TEXT}@{'d' * 255}") == DistributionListName(GUID, "d" * 255)
    vchars = "".join(map(chr, range(0x21, 0x7F)))
    assert parse_format_name(f"DL={TEXT}@{vchars}") == DistributionListName(GUID, vchars)
    for domain in ("d" * 256, "", "a b", "a\x7f"):
        refused(f"DL={TEXT}@{domain}")


@pytest.mark.spec("MQMQ-2.1.6-a")
def test_machine_name():
    name = parse_format_name("MACHINE=" + TEXT)
    assert name == MachineName(GUID)
    assert QueueFormat.from_name(name).type == 4


@pytest.mark.spec("MQMQ-2.1.6-b")
def test_machine_name_needs_a_suffix():
    bare = QueueFormat.from_name(parse_format_name("MACHINE=" + TEXT))
    with pytest.raises(IllegalFormatnameError):
        bare.to_name()
    for suffix in (SuffixType.JOURNAL, SuffixType.DEADLETTER, SuffixType.DEADXACT):
        name = parse_format_name(f"MACHINE={TEXT};{suffix.name}")
        assert name == MachineName(GUID, suffix)
        assert QueueFormat.from_name(name).to_name() == name
    refused(f"MACHINE={TEXT};XACTONLY")


@pytest.mark.spec("MQMQ-2.1.6-c")
def test_connector_name():
    plain = QueueFormat.from_name(parse_format_name("CONNECTOR=" + TEXT))
    assert (plain.type, plain.suffix) == (5, SuffixType.NONE)
    name = parse_format_name(f"CONNECTOR={TEXT};XACTONLY")
    assert name == ConnectorName(GUID, SuffixType.XACTONLY)
    form = QueueFormat.from_name(name)
    assert (form.type, form.suffix) == (5, SuffixType.XACTONLY)
    refused(f"CONNECTOR={TEXT};JOURNAL")


@pytest.mark.spec("MQMQ-2.1.6-d")
def test_multicast_name():
    name = parse_format_name("MULTICAST=234.1.1.1:8001")
    assert name == MulticastName("234.1.1.1", 8001)
    assert str(name) == "MULTICAST=234.1.1.1:8001"
    for address in ("234.1.1.1", "234.1.1.1:", "234.1.1:1", "234.1.1.1.1:1", "srv:1", ":1", "234.1.1.1:1:1"):
        refused("MULTICAST=" + address)


@pytest.mark.spec("MQMQ-2.1.6-e")
def test_multicast_octets():
    for address in ("224.0.0.0", "229.9.10.99", "230.100.199.200", "239.255.255.255"):
        assert parse_format_name(f"MULTICAST={address}:1") == MulticastName(address, 1)
    for address in ("223.0.0.1", "240.0.0.1", "234.01.1.1", "234.256.1.1", "234.1.1.00", "0234.1.1.1"):
        assert "224.0.0.0" in refused(f"MULTICAST={address}:1")


@pytest.mark.spec("MQMQ-2.1.6-f")
def test_multicast_port():
    for port in (0, 9, 20, 99, 200, 2000, 8001, 59999, 64999, 65535):
        assert parse_format_name(f"MULTICAST=234.1.1.1:{port}") == MulticastName("234.1.1.1", port)
    for port in ("65536", "99999", "100000", "-1", "08001", "8001x"):
        assert "0 to 65535" in refused(f"MULTICAST=234.1.1.1:{port}")


@pytest.mark.spec("MQMQ-2.1.6-g")
def test_multicast_since_version_3():
    for version in MsmqVersion:
        if version < MsmqVersion.V3:
            assert "MSMQ 3.0" in refused("MULTICAST=234.1.1.1:8001", version)
        else:
            assert parse_format_name("MULTICAST=234.1.1.1:8001", version=version)


def test_multicast_address_property():
    for text in ("234.1.1.1:8001", "239.255.255.255:0", "224.0.0.0:65535"):
        assert MulticastName.parse_address(text).address_text == text
    for text in ("192.168.1.1:80", "234.1.1.1", "234.1.1.1:80:80", ""):
        with pytest.raises(IllegalPropertyValueError):
            MulticastName.parse_address(text)


@pytest.mark.spec("MQMQ-2.1.7-a", "MQMQ-2.1.7-e")
def test_multiple_element_name():
    text = f"DIRECT=OS:a\\q,PUBLIC={TEXT},DL={TEXT}"
    name = parse_format_name(text)
    assert name == MultipleElementName(
        (
            DirectName(Protocol.OS, "a", QueueKind.PUBLIC, "q"),
            PublicName(GUID),
            DistributionListName(GUID),
        )
    )
    assert str(name) == text
    single = MultipleElementName.parse("PUBLIC=" + TEXT)
    assert single.elements == (PublicName(GUID),)
    for bad in (text + ",", "," + text, text + ",junk", text.replace(",", ", "), text.replace(",", ";")):
        refused(bad)


@pytest.mark.spec("MQMQ-2.1.7-b")
def test_element_kinds():
    elements = [
        r"DIRECT=OS:a\q",
        f"PUBLIC={TEXT}",
        f"PRIVATE={TEXT}\\1",
        f"DL={TEXT}",
        f"CONNECTOR={TEXT}",
        "MULTICAST=234.1.1.1:8001",
    ]
    name = parse_format_name(",".join(elements))
    assert list(map(type, name.elements)) == [
        DirectName,
        PublicName,
        PrivateName,
        DistributionListName,
        ConnectorName,
        MulticastName,
    ]
    for machine in (f"MACHINE={TEXT}", f"MACHINE={TEXT};DEADLETTER"):
        assert "MACHINE=" in refused(",".join([*elements, machine]))
        assert "MACHINE=" in refused(",".join([machine, *elements]))
        with pytest.raises(IllegalFormatnameError):
            MultipleElementName.parse(machine)


@pytest.mark.spec("MQMQ-2.1.7-c")
@pytest.mark.parametrize(
    "read_only",
    [
        r"DIRECT=OS:a\q;JOURNAL",
        r"DIRECT=OS:a\PRIVATE$\q;JOURNAL",
        r"DIRECT=OS:a\SYSTEM$;JOURNAL",
        r"DIRECT=OS:a\SYSTEM$;DEADLETTER",
        r"DIRECT=OS:a\SYSTEM$;DEADXACT",
        f"PUBLIC={TEXT};JOURNAL",
        f"PRIVATE={TEXT}\\1;JOURNAL",
    ],
)
def test_no_read_only_elements(read_only):
    assert parse_format_name(read_only)
    assert "only be read" in refused("DIRECT=OS:b\\q," + read_only)
    assert "only be read" in refused(read_only + ",DIRECT=OS:b\\q")


@pytest.mark.parametrize("text", ["", "=", "PUBLIC", "QUEUE=" + TEXT, "srv\\q", " PUBLIC=" + TEXT])
def test_unknown_prefix(text):
    assert "DIRECT=, PUBLIC=, PRIVATE=" in refused(text)


@pytest.mark.parametrize("text", [f"PUBLIC={TEXT}\n", f"MULTICA\u017fT={TEXT}", f"PUBLIC={TEXT};JOURNAL\n"])
def test_lookalikes(text):
    refused(text)


@pytest.mark.parametrize(
    "name",
    [
        PublicName(b"short"),
        PublicName(GUID, SuffixType.DEADLETTER),
        PrivateName(GUID, 1 << 32),
        PrivateName(GUID, -1),
        DistributionListName(GUID, ""),
        DistributionListName(GUID, f"a,DL={TEXT}"),
        MulticastName("10.0.0.1", 1),
        MulticastName("234.1.1.1", 65536),
        DirectName(Protocol.OS, "srv", QueueKind.PUBLIC, "a,b"),
        DirectName(Protocol.OS, "srv", QueueKind.PUBLIC, r"private$\q"),
        DirectName(Protocol.OS, "srv", QueueKind.PUBLIC, "q", "JOURNAL"),
        DirectName(Protocol.OS, "srv", QueueKind.PUBLIC, "q", None, SuffixType.DEADXACT),
        DirectName(Protocol.OS, "srv", QueueKind.SYSTEM, ""),
        DirectName(Protocol.SPX, "00000001.00AA00BB00CC", QueueKind.PUBLIC, "q"),
        MultipleElementName(()),
        MultipleElementName((MachineName(GUID, SuffixType.JOURNAL),)),
    ],
)
def test_check_refuses_values_that_make_no_name(name):
    with pytest.raises(IllegalFormatnameError):
        check(name)


def test_check_passes_good_values():
    check(PublicName(GUID))
    check(MultipleElementName((PublicName(GUID),)))
    with pytest.raises(IllegalFormatnameError):
        check(DirectName(Protocol.OS, "srv", QueueKind.PUBLIC, "q", "sub"), version=MsmqVersion.V3)

"""parse(print(x)) == x for every kind of name, and only our own errors for everything else."""

from ipaddress import IPv4Address, IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError, IllegalFormatnameError, IllegalQueuePathnameError
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
    QueuePath,
    SuffixType,
    check,
    is_read_only,
    parse_format_name,
)
from msmq.wire.queue_format import MulticastId, QueueFormat

VCHARS = "".join(map(chr, range(0x21, 0x7F)))
NAME_CHARS = "".join(chr(c) for c in range(0x21, 0x80) if chr(c) not in '\\;+,"')

ipv4_addresses = st.integers(0, (1 << 32) - 1).map(IPv4Address)
ipv6_addresses = st.integers(0, (1 << 128) - 1).map(IPv6Address)
guids = st.binary(min_size=16, max_size=16)
queue_names = st.text(NAME_CHARS, min_size=1, max_size=124)
subqueues = st.none() | st.text(NAME_CHARS, min_size=1, max_size=32).filter(lambda s: s.upper() != "JOURNAL")
computers = st.text(VCHARS.replace("\\", ""), min_size=1, max_size=256).filter(lambda s: "=" not in s)
hosts = st.text(VCHARS.translate(str.maketrans("", "", "\\/:[]=")), min_size=1, max_size=256)
journal = st.sampled_from([SuffixType.NONE, SuffixType.JOURNAL])
dead_letter = [SuffixType.JOURNAL, SuffixType.DEADLETTER, SuffixType.DEADXACT]


@st.composite
def queue_paths(draw):
    kind = draw(st.sampled_from(QueueKind))
    subqueue = draw(subqueues)
    suffix = draw(journal) if subqueue is None else SuffixType.NONE
    name = draw(queue_names.filter(lambda s: s.lower() != "system$"))
    return QueuePath(draw(computers), kind, name, subqueue, suffix)


@st.composite
def direct_names(draw):
    protocol = draw(st.sampled_from([p for p in Protocol if p is not Protocol.SPX]))
    port = None
    if protocol is Protocol.TCP:
        address = str(draw(ipv4_addresses | ipv6_addresses))
    elif protocol is Protocol.IPX:
        address = draw(st.binary(min_size=10, max_size=10)).hex()
        address = f"{address[:8]}:{address[8:]}"
    elif protocol is Protocol.OS:
        address = draw(computers)
    else:
        address = draw(hosts | ipv6_addresses.map(lambda a: f"[{a}]"))
        port = draw(st.none() | st.integers(0, 65535))
    kind = draw(st.sampled_from(QueueKind))
    if kind is QueueKind.SYSTEM:
        return DirectName(protocol, address, kind, "", None, draw(st.sampled_from(dead_letter)), port)
    queue = draw(queue_names.filter(lambda s: s.lower() != "system$"))
    return DirectName(protocol, address, kind, queue, draw(subqueues), draw(journal), port)


multicast_names = st.builds(
    MulticastName,
    st.integers(int(IPv4Address("224.0.0.0")), int(IPv4Address("239.255.255.255"))).map(
        lambda number: str(IPv4Address(number))
    ),
    st.integers(0, 65535),
)
single_names = st.one_of(
    direct_names(),
    st.builds(PublicName, guids, journal),
    st.builds(PrivateName, guids, st.integers(0, 0xFFFFFFFF), journal),
    st.builds(
        DistributionListName, guids, st.none() | st.text(VCHARS.replace("=", ""), min_size=1, max_size=255)
    ),
    st.builds(MachineName, guids, st.sampled_from([SuffixType.NONE, *dead_letter])),
    st.builds(ConnectorName, guids, st.sampled_from([SuffixType.NONE, SuffixType.XACTONLY])),
    multicast_names,
)
elements = single_names.filter(lambda name: not isinstance(name, MachineName) and not is_read_only(name))


@given(queue_paths())
def test_path(path):
    assert QueuePath.parse(str(path)) == path


@given(single_names)
def test_format_name(name):
    assert parse_format_name(str(name)) == name
    check(name)


@given(direct_names())
def test_wire_text(name):
    assert DirectName.from_wire_text(name.wire_text) == name


@given(st.lists(elements, min_size=2, max_size=4).map(tuple).map(MultipleElementName))
def test_multiple_element_name(name):
    assert parse_format_name(str(name)) == name
    check(name)


@given(single_names.filter(lambda name: not (isinstance(name, MachineName) and not name.suffix)))
def test_queue_format(name):
    form = QueueFormat.from_name(name)
    assert form.to_name() == name
    assert QueueFormat.from_members(form.type, form.suffix_and_flags, form.arm) == form


@given(multicast_names)
def test_multicast_id(name):
    assert MulticastId.from_name(name).to_name() == name


prefixes = [
    "",
    "DIRECT=OS:a\\",
    "DIRECT=",
    "DIRECT=HTTP://",
    "PUBLIC=",
    "PRIVATE=",
    "DL=",
    "MULTICAST=",
    "a\\",
]
garbage = st.builds(str.__add__, st.sampled_from(prefixes), st.text(max_size=60))
broken = st.builds(
    lambda name, at, junk: str(name)[: at % len(str(name))] + junk + str(name)[at % len(str(name)) + 1 :],
    single_names,
    st.integers(0, 1000),
    st.text(max_size=3),
)


@given(garbage | broken, st.sampled_from(MsmqVersion))
def test_garbage_raises_only_our_errors(text, version):
    try:
        name = parse_format_name(text, version=version)
    except IllegalFormatnameError:
        pass
    else:
        assert parse_format_name(str(name), version=version) == name
        is_read_only(name)
    try:
        path = QueuePath.parse(text, version=version)
    except IllegalQueuePathnameError:
        pass
    else:
        assert QueuePath.parse(str(path), version=version) == path
    try:
        direct = DirectName.from_wire_text(text)
    except DecodeError:
        pass
    else:
        assert DirectName.from_wire_text(direct.wire_text) == direct

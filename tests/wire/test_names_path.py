import pytest

from msmq.errors import IllegalQueuePathnameError
from msmq.wire.names import MsmqVersion, QueueKind, QueuePath, SuffixType

V1_ONLY = '+,"'
V2_CHARACTERS = "".join(chr(c) for c in range(0x21, 0x80) if chr(c) not in '\\;+,"')


def parse(text, version=MsmqVersion.V6):
    return QueuePath.parse(text, version=version)


def refused(text, version=MsmqVersion.V6):
    with pytest.raises(IllegalQueuePathnameError) as caught:
        parse(text, version)
    assert caught.value.code == 0xC00E0014
    return caught.value.detail


@pytest.mark.spec("MQMQ-2.1.1-a")
def test_public_path():
    path = parse(r"srv1\orders")
    assert path == QueuePath("srv1", QueueKind.PUBLIC, "orders")
    assert str(path) == r"srv1\orders"
    refused("orders")
    refused(r"srv1\\orders")
    refused(r"srv1\a\orders")


@pytest.mark.spec("MQMQ-2.1.1-b")
@pytest.mark.parametrize("text", [r"srv1\private$\q", r"srv1\PRIVATE$\q", r"srv1\PriVate$\q"])
def test_private_path(text):
    path = parse(text)
    assert path == QueuePath("srv1", QueueKind.PRIVATE, "q")
    assert str(path) == r"srv1\private$\q"


@pytest.mark.spec("MQMQ-2.1.1-c")
def test_system_path():
    path = parse(r"srv1\system$;DEADLETTER")
    assert path == QueuePath("srv1", QueueKind.SYSTEM, "DEADLETTER")
    assert str(path) == r"srv1\system$;DEADLETTER"
    refused(r"srv1\system$\DEADLETTER")


@pytest.mark.spec("MQMQ-2.1.1-d")
def test_computer():
    assert parse("h" * 256 + r"\q").computer == "h" * 256
    vchars = "".join(chr(c) for c in range(0x21, 0x7F) if c != 0x5C)
    assert parse(vchars + r"\q").computer == vchars
    for computer in ("h" * 257, "", "a b", "a\tb", "a\x7fb", "a\nb"):
        assert "computer name" in refused(computer + r"\q")
    assert "ASCII" in refused("h\u00f6st\\q")


@pytest.mark.spec("MQMQ-2.1.1-e")
def test_queue_name_of_version_1():
    name = V2_CHARACTERS + V1_ONLY
    assert parse("s\\" + name, MsmqVersion.V1).name == name
    refused(r"s\a;b", MsmqVersion.V1)
    refused(r"s\a\b", MsmqVersion.V1)


@pytest.mark.spec("MQMQ-2.1.1-f")
@pytest.mark.parametrize("version", [MsmqVersion.V2, MsmqVersion.V3])
def test_queue_name_of_versions_2_and_3(version):
    assert parse("s\\" + V2_CHARACTERS, version).name == V2_CHARACTERS
    for character in '\\;+,"':
        refused(f"s\\a{character}b", version)


@pytest.mark.spec("MQMQ-2.1.1-g")
def test_subqueue_since_version_4():
    text = r"srv\private$\q;sub1"
    for version in (MsmqVersion.V4, MsmqVersion.V5, MsmqVersion.V6):
        path = parse(text, version)
        assert (path.name, path.subqueue) == ("q", "sub1")
        assert str(path) == text
    assert "MSMQ 3.0" in refused(text, MsmqVersion.V3)
    for character in '+,"':
        refused(f"s\\a{character}b", MsmqVersion.V4)


@pytest.mark.spec("MQMQ-2.1.1-h")
def test_subqueue_name():
    assert parse("s\\q;" + "x" * 32).subqueue == "x" * 32
    for start in range(0, len(V2_CHARACTERS), 32):
        subqueue = V2_CHARACTERS[start : start + 32]
        assert parse("s\\q;" + subqueue).subqueue == subqueue
    for subqueue in ("x" * 33, "", "a;b", "a\\b", "a b", "a+b", "a,b", 'a"b'):
        assert "subqueue" in refused("s\\q;" + subqueue)


@pytest.mark.spec("MQMQ-2.1.1-i")
@pytest.mark.parametrize("frame", ["h\\{}", "h\\private$\\{}", "h\\system$;{}", "h\\private$\\{};sub"])
def test_queue_name_length(frame):
    assert parse(frame.format("q" * 124)).name == "q" * 124
    refused(frame.format("q" * 125))
    refused(frame.format(""))


@pytest.mark.parametrize("text", [r"s\q;JOURNAL", r"s\q;journal"])
def test_journal_is_no_subqueue(text):
    path = parse(text)
    assert path == QueuePath("s", QueueKind.PUBLIC, "q", suffix=SuffixType.JOURNAL)
    assert str(path) == r"s\q;JOURNAL"
    refused(r"s\q;sub;JOURNAL")
    refused(text, MsmqVersion.V3)

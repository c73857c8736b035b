from pathlib import Path

import pytest

from msmq.errors import DecodeError, IllegalFormatnameError, IllegalQueuePathnameError
from msmq.wire.names import (
    DirectName,
    MsmqVersion,
    Protocol,
    QueueKind,
    QueuePath,
    QueueTarget,
    SuffixType,
    parse_format_name,
    target_of,
)
from msmq.wire.queue_format import QueueFormat, QueueFormatType

VECTORS = Path(__file__).parents[1] / "vectors"


def parse(text, version=MsmqVersion.V6):
    name = parse_format_name(text, version=version)
    assert isinstance(name, DirectName)
    assert DirectName.parse(text, version=version) == name
    assert parse_format_name(str(name), version=version) == name
    return name


def refused(text, version=MsmqVersion.V6):
    with pytest.raises(IllegalFormatnameError) as caught:
        parse_format_name(text, version=version)
    assert caught.value.code == 0xC00E001E
    return caught.value.detail


@pytest.mark.spec("MQMQ-2.1.2-a")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (r"DIRECT=OS:srv\PRIVATE$\q", QueueKind.PRIVATE),
        (r"DIRECT=OS:srv\q", QueueKind.PUBLIC),
        (r"DIRECT=OS:srv\SYSTEM$;DEADLETTER", QueueKind.SYSTEM),
    ],
)
def test_alternatives(text, kind):
    name = parse(text)
    assert name.kind is kind
    assert str(name) == text
    with pytest.raises(IllegalFormatnameError, match="DIRECT="):
        DirectName.parse(text.removeprefix("DIRECT="))
    refused(text.removeprefix("DIRECT="))


@pytest.mark.spec("MQMQ-2.1.2-b")
def test_private_queue_path():
    name = parse(r"DIRECT=OS:srv\PRIVATE$\q")
    assert name == DirectName(Protocol.OS, "srv", QueueKind.PRIVATE, "q")
    journal = parse(r"DIRECT=OS:srv\PRIVATE$\q;JOURNAL")
    assert journal == DirectName(Protocol.OS, "srv", QueueKind.PRIVATE, "q", suffix=SuffixType.JOURNAL)
    assert target_of(journal) is QueueTarget.QUEUE_JOURNAL


@pytest.mark.spec("MQMQ-2.1.2-c")
def test_public_queue_path():
    assert parse(r"DIRECT=OS:a04bm02\q") == DirectName(Protocol.OS, "a04bm02", QueueKind.PUBLIC, "q")
    assert target_of(parse(r"DIRECT=OS:a04bm02\q;JOURNAL")) is QueueTarget.QUEUE_JOURNAL


@pytest.mark.spec("MQMQ-2.1.2-d")
@pytest.mark.parametrize(
    ("suffix", "target"),
    [
        ("JOURNAL", QueueTarget.MACHINE_JOURNAL),
        ("DEADLETTER", QueueTarget.DEAD_LETTER),
        ("DEADXACT", QueueTarget.TRANSACTIONAL_DEAD_LETTER),
    ],
)
def test_machine_queue_path(suffix, target):
    name = parse(f"DIRECT=OS:srv\\SYSTEM$;{suffix}")
    assert (name.kind, name.queue, name.suffix) == (QueueKind.SYSTEM, "", SuffixType[suffix])
    assert target_of(name) is target
    assert parse(f"DIRECT=OS:srv\\system$;{suffix.lower()}") == name


@pytest.mark.spec("MQMQ-2.1.2-d")
@pytest.mark.parametrize("suffix", ["", "XACTONLY", "NONE", "SUBQUEUE", "q", "JOURNAL;JOURNAL", "JOURNAL "])
def test_unknown_machine_suffix(suffix):
    assert "JOURNAL, DEADLETTER or DEADXACT" in refused(f"DIRECT=OS:srv\\SYSTEM$;{suffix}")


@pytest.mark.spec("MQMQ-2.1.2-e")
def test_subqueue():
    name = parse(r"DIRECT=OS:srv\private$\q;sub")
    assert (name.queue, name.subqueue, name.suffix) == ("q", "sub", SuffixType.NONE)
    assert QueueFormat.from_name(name).type is QueueFormatType.SUBQUEUE == 8
    refused(r"DIRECT=OS:srv\private$\q;sub", MsmqVersion.V3)
    refused("DIRECT=OS:srv\\q;" + "x" * 33)
    refused(r"DIRECT=OS:srv\q;journal;JOURNAL")


@pytest.mark.spec("MQMQ-2.1.2-f")
@pytest.mark.parametrize("mark", [";JOURNAL", ";journal", ";Journal"])
def test_journal_before_subqueue(mark):
    for queue in ("q", r"private$\q"):
        name = parse(f"DIRECT=OS:srv\\{queue}{mark}")
        assert name.suffix is SuffixType.JOURNAL
        assert name.subqueue is None
        refused(f"DIRECT=OS:srv\\{queue}{mark}{mark}")
        refused(f"DIRECT=OS:srv\\{queue}{mark};sub")
    assert parse(r"DIRECT=OS:srv\q;sub;JOURNAL").suffix is SuffixType.JOURNAL
    # older versions know journals, only subqueues came later
    assert parse(f"DIRECT=OS:srv\\q{mark}", MsmqVersion.V1).suffix is SuffixType.JOURNAL


@pytest.mark.spec("MQMQ-2.1.2-g")
def test_protocols():
    addresses = {
        "TCP": "10.0.0.1",
        "OS": "srv",
        "HTTP": "//srv/MSMQ",
        "HTTPS": "//srv/MSMQ",
        "IPX": "00000001:00AA00BB00CC",
    }
    for token, address in addresses.items():
        for spelled in (token, token.lower(), token.capitalize()):
            assert parse(f"DIRECT={spelled}:{address}\\q").protocol is Protocol[token]
            assert parse(f"direct={spelled}:{address}\\q").protocol is Protocol[token]
    for token in ("UDP:", "SPX:", "", ":"):
        assert "TCP:, OS:, HTTP://, HTTPS:// or IPX:" in refused(f"DIRECT={token}10.0.0.1\\q")
    # the long s becomes S in upper case, the dotless i becomes I
    for text in ("DIRECT=O\u017f:srv\\q", "D\u0131RECT=OS:srv\\q", "DIRECT=OS:srv\\\u017fYSTEM$;JOURNAL"):
        assert "ASCII" in refused(text)


@pytest.mark.spec("MQMQ-2.1.2-g")
@pytest.mark.parametrize(
    ("text", "protocol", "host"),
    [
        (r"SPX:00000001.00AA00BB00CC\PRIVATE$\order_queue$", Protocol.SPX, "00000001.00AA00BB00CC"),
        (r"TCP:fe80::1\PRIVATE$\order_queue$", Protocol.TCP, "fe80::1"),
        (r"TCP:10.0.0.1\PRIVATE$\order_queue$", Protocol.TCP, "10.0.0.1"),
    ],
)
def test_order_queue_names_are_received(text, protocol, host):
    name = DirectName.from_wire_text(text)
    assert (name.protocol, name.host, name.queue) == (protocol, host, "order_queue$")
    assert name.wire_text == text


@pytest.mark.parametrize("text", [r"SPX:1.2\q", r"UDP:10.0.0.1\q"])
def test_received_protocols_have_limits(text):
    with pytest.raises(DecodeError):
        DirectName.from_wire_text(text)


@pytest.mark.spec("MQMQ-2.1.2-h")
def test_tcp_address():
    assert parse(r"DIRECT=TCP:10.0.0.1\q").host == "10.0.0.1"
    for address in ("srv", "10.0.0", "10.0.0.256", "10.0.0.01", "", "10.0.0.1:1801", "fe80::1%2", "1" * 99):
        assert "numeric IP address" in refused(f"DIRECT=TCP:{address}\\q")


@pytest.mark.spec("MQMQ-2.1.2-i")
def test_ipx_address():
    name = parse(r"DIRECT=IPX:00000001:00AA00BB00CC\q")
    assert name.ipx == (bytes.fromhex("00000001"), bytes.fromhex("00AA00BB00CC"))
    assert DirectName.from_wire_text(r"SPX:00000001.00AA00BB00CC\q").ipx == name.ipx
    for address in ("00000001", "1:2", "00000001.00AA00BB00CC", "0000000G:00AA00BB00CC"):
        assert "hexadecimal" in refused(f"DIRECT=IPX:{address}\\q")
    with pytest.raises(ValueError, match="no IPX address"):
        _ = parse(r"DIRECT=OS:srv\q").ipx


@pytest.mark.spec("MQMQ-2.1.2-j")
@pytest.mark.parametrize("host", [".", "srv", "srv.corp.example", "h" * 256])
def test_os_address_is_what_the_resolver_is_asked_for(host):
    name = parse(f"DIRECT=OS:{host}\\q")
    assert name.host == host


@pytest.mark.parametrize("host", ["", "a b", "h" * 257])
def test_os_address_outside_the_grammar(host):
    assert "computer name" in refused(f"DIRECT=OS:{host}\\q")


@pytest.mark.spec("MQMQ-2.1.2-k")
def test_http_address():
    name = parse(r"DIRECT=HTTP://srv/MSMQ\q")
    assert (name.host, name.port, name.http_port) == ("srv", None, 80)
    assert str(name) == r"DIRECT=HTTP://srv/MSMQ\q"
    other = parse(r"DIRECT=HTTP://srv:8080/MSMQ\q")
    assert (other.port, other.http_port) == (8080, 8080)
    assert str(other) == r"DIRECT=HTTP://srv:8080/MSMQ\q"
    assert parse(r"DIRECT=http://srv:/msmq\q") == name
    for rest in (r"//srv\q", r"//srv/q", r"//srv/MSMQX\q", r"srv/MSMQ\q", r"//srv:80x/MSMQ\q", r"///MSMQ\q"):
        assert "//HOST/MSMQ" in refused("DIRECT=HTTP:" + rest)
    for port in ("65536", "9" * 9999):
        assert "0 to 65535" in refused(f"DIRECT=HTTP://srv:{port}/MSMQ\\q")


@pytest.mark.spec("MQMQ-2.1.2-l")
def test_https_address():
    name = parse(r"DIRECT=HTTPS://srv/MSMQ\private$\q")
    assert name == DirectName(Protocol.HTTPS, "srv", QueueKind.PRIVATE, "q")
    assert name.http_port == 443
    assert parse(r"DIRECT=OS:srv\q").http_port is None


@pytest.mark.spec("MQMQ-2.1.2-k", "MQMQ-2.1.2-l")
def test_http_hosts_and_slashes():
    assert parse(r"DIRECT=HTTP://[fe80::1]:81/MSMQ\q").host == "fe80::1"
    assert "brackets" in refused(r"DIRECT=HTTP://[fe80]/MSMQ\q")
    typed = parse("DIRECT=http://srv/msmq/private$/q")
    assert str(typed) == r"DIRECT=HTTP://srv/MSMQ\PRIVATE$\q"
    refused("DIRECT=http://srv/msmq/a/b")


@pytest.mark.spec("MQMQ-2.1.2-n")
def test_prefix_is_dropped_on_the_wire():
    name = parse(r"DIRECT=OS:a04bm02\q")
    assert name.wire_text == r"OS:a04bm02\q"
    encoded = (name.wire_text + "\0").encode("utf-16-le")
    assert len(encoded) == 26
    frame = bytes.fromhex((VECTORS / "frame07_user_message.hex").read_text())
    assert (26).to_bytes(2, "little") + encoded in frame
    assert DirectName.from_wire_text(name.wire_text) == name
    form = QueueFormat.from_name(name)
    assert form.arm == r"OS:a04bm02\q"


@pytest.mark.parametrize("queue", ["", "q" * 125, "a b", "a,b", "a+b", 'a"b', "a\\b", "q;", "\u00fc"])
def test_queue_names_are_those_of_paths(queue):
    refused(f"DIRECT=OS:srv\\{queue}")
    refused(f"DIRECT=OS:srv\\PRIVATE$\\{queue}")


@pytest.mark.parametrize("text", ["DIRECT=", "DIRECT=OS:", "DIRECT=OS:srv", "DIRECT=OS"])
def test_missing_parts(text):
    refused(text)


@pytest.mark.spec("MQMQ-2.1.1-j")
@pytest.mark.parametrize("queue", ["my queue", "bestell\u00fcbersicht", "\u6ce8\u6587", "\ud800", "a\0b"])
def test_names_outside_the_grammar(queue):
    with pytest.raises(IllegalQueuePathnameError):
        QueuePath.parse(f"srv\\private$\\{queue}")
    with pytest.raises(DecodeError):
        DirectName.from_wire_text(f"OS:srv\\private$\\{queue}")
    refused(f"DIRECT=OS:srv\\private$\\{queue}")
    assert QueuePath.parse("srv\\a\x7fb").name == "a\x7fb"

"""A scrubbed capture has the packets and none of the secrets."""

from __future__ import annotations

import io
from pathlib import Path

from msmq.capture.format import Format
from msmq.capture.inputs import Found, Origin, Source, Tally, Whole, find_packets
from msmq.capture.scrub import SECRETS, scrub, without_secrets
from msmq.wire.describe import Node, describe, describe_ping
from msmq.wire.message import UserMessage
from tests.wire.builders import all_headers, build

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "session.pcap"


def packets(file: io.BytesIO) -> list[Found]:
    return list(find_packets(Source(file), Format.PCAP, 1801, 3527, Tally()))


def leaves(node: Node) -> list[Node]:
    return [node] if not node.children else [leaf for child in node.children for leaf in leaves(child)]


def shape(found: Found) -> object:
    """Everything that a description says besides secrets."""
    assert isinstance(found.cut, Whole)
    description = describe_ping(found.cut.data) if found.is_ping else describe(found.cut.data)

    def told(node: Node, header: str) -> object:
        if node.name in SECRETS.get(header, ()):
            return (node.name, node.size)
        children = [told(child, header) for child in node.children if not child.derived]
        return (node.name, node.offset, node.size, node.value, children)

    return description.packet, [told(header, header.name) for header in description.headers]


def test_everything_but_secrets_and_addresses_stays() -> None:
    before = packets(io.BytesIO(SAMPLE.read_bytes()))
    out = io.BytesIO()
    done = scrub(before, out)
    after = packets(io.BytesIO(out.getvalue()))
    assert [shape(each) for each in after] == [shape(each) for each in before]
    assert done.packets.total() == len(before)
    assert (done.left_out, done.overwritten > 0) == (0, True)
    assert [each.origin and round(each.origin.time, 5) for each in after] == [
        each.origin and round(each.origin.time, 5) for each in before
    ]


def test_no_secret_is_left_in_the_file() -> None:
    before = packets(io.BytesIO(SAMPLE.read_bytes()))
    out = io.BytesIO()
    scrub(before, out)
    secrets = []
    for found in before:
        assert isinstance(found.cut, Whole)
        if not found.is_ping:
            for header in describe(found.cut.data).headers:
                for node in leaves(header):
                    if node.name in SECRETS.get(header.name, ()) and not node.derived:
                        secrets.append(found.cut.data[node.offset : node.end])
    secrets = [secret for secret in secrets if len(secret) > 4]
    assert secrets
    assert not [secret for secret in secrets if secret in out.getvalue()]
    assert {
        str(end[0]) for each in packets(io.BytesIO(out.getvalue())) if each.origin for end in each.origin[1:3]
    } == {
        "198.18.0.1",
        "198.18.0.2",
    }


def test_what_cannot_be_decoded_is_left_out() -> None:
    good = next(each for each in packets(io.BytesIO(SAMPLE.read_bytes())) if not each.is_ping)
    assert isinstance(good.cut, Whole)
    bad = Found(Whole(0, b"secret" * 20), False, good.origin)
    out = io.BytesIO()
    done = scrub([bad, good], out)
    assert (done.left_out, done.packets.total()) == (1, 1)
    assert b"secret" not in out.getvalue()


def test_a_packet_larger_than_a_segment_comes_back_whole() -> None:
    data = build(body=b"s" * 200_000).data
    origin = Origin(1.5, ("10.0.0.1", 5000), ("10.0.0.2", 1801), 1, True)
    out = io.BytesIO()
    scrub([Found(Whole(0, data), False, origin)], out)
    (found,) = packets(io.BytesIO(out.getvalue()))
    assert isinstance(found.cut, Whole)
    assert UserMessage.decode(found.cut.data).body == bytes(200_000)


def test_every_header_is_looked_into() -> None:
    data = all_headers().data
    clean, overwritten = without_secrets(data, describe(data))
    assert UserMessage.decode(clean).label.strip("x") == ""
    secrets = [
        data[node.offset : node.end]
        for header in describe(data).headers
        for node in leaves(header)
        if node.name in SECRETS.get(header.name, ()) and not node.derived
    ]
    hidden = {
        (header.name, node.name): clean[node.offset : node.end].strip(b"x\0")
        for header in describe(data).headers
        for node in leaves(header)
        if node.name in {"MessageBody", "ExtensionData", "EncryptionKey", "Signature", "SenderCert"}
    }
    assert hidden.pop(("BaseHeader", "Signature")) == b"LIOR"
    assert len(hidden) == 6
    assert set(hidden.values()) == {b""}
    assert overwritten == sum(len(secret) for secret in secrets)
    assert not [secret for secret in secrets if len(secret.strip(b"\0")) > 4 and secret in clean]

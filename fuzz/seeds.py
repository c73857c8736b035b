"""Makes the committed corpus: ``python -m fuzz.seeds`` writes fuzz/corpus/<target>/<hash>.

Seeds come from the published packets in tests/vectors and from the project's own writers, a few of every
shape, so that a campaign starts from valid inputs. What a campaign discovers stays in build/fuzz; what it
breaks becomes a file in fuzz/regressions.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import UUID

from fuzz.rpc_targets import Part, Parts
from fuzz.targets import HEADERS, PROPERTIES, SHAPES, TARGETS
from msmq.remote_read.interface import StartReceiveReply
from msmq.rpc.epm import EPM, Entry, EptLookup, EptLookupReply, EptMap, EptMapReply, Tower, build_tower
from msmq.rpc.mgmt import IfId, IfIdVector, InqIfIdsReply, InqPrincNameReply, InqStatsReply
from msmq.rpc.ndr import NULL_HANDLE, Parameters
from msmq.rpc.pdu import (
    Bind,
    BindAck,
    BindNak,
    ContextAnswer,
    ContextElement,
    Fault,
    PduFlags,
    PduType,
    Request,
    Response,
    SecTrailer,
    build,
)
from msmq.rpc.syntaxes import NDR, NDR64, feature_syntax
from msmq.rpc.verification import Meant, append_trailer
from msmq.security.descriptor import Ace, AceFlags, AceType, Acl, Control, SecurityDescriptor
from msmq.security.sddl import parse_sddl
from msmq.security.sid import ADMINISTRATORS, EVERYONE, LOCAL_SYSTEM, Sid
from msmq.wire.addresses import AddressType, TAAddress
from msmq.wire.algorithms import EncryptionAlgorithm
from msmq.wire.bodies import Formatter, write_body
from msmq.wire.certificates import UserSignCert, UserSignCerts
from msmq.wire.classes import MessageClass
from msmq.wire.headers import (
    BaseHeader,
    MessagePropertiesHeader,
    PrivateQueueFormatName,
    QueueReference,
    UserHeader,
)
from msmq.wire.keys import DSPublicKey, DSPublicKeys, KeyType, ProviderType, PublicKeyBlob, SimpleBlob
from msmq.wire.message import UserMessage
from msmq.wire.multi_queue import DistributionListName, MultiQueueFormatHeader
from msmq.wire.names import parse_format_name
from msmq.wire.optional_headers import (
    DebugHeader,
    ProviderInfo,
    SecurityHeader,
    SessionHeader,
    SoapHeader,
    TransactionHeader,
)
from msmq.wire.packets import (
    ConnectionParameters,
    EstablishConnection,
    FinalAckBody,
    OrderAckBody,
    Ping,
    SessionAck,
    build_order_message,
)
from msmq.wire.queue_format import QueueFormat, QueueFormatType
from msmq.wire.queue_format_ndr import encode_queue_format
from msmq.wire.sections import Section, SectionType
from msmq.wire.srmp import CompoundMessageHeader, SRMPEnvelopeHeader
from msmq.wire.trailers import (
    DeadLetterHeader,
    ExtendedAddressHeader,
    MessagePacket,
    SubqueueHeader,
)
from msmq.wire.variant import VT, Variant, encode_variant

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "fuzz" / "corpus"
REGRESSIONS = ROOT / "fuzz" / "regressions"
VECTORS = ROOT / "tests" / "vectors"

A = bytes(range(16))
B = bytes(range(16, 32))
X509 = b64decode(
    "MIIBkTCB+6ADAgECAgEBMA0GCSqGSIb3DQEBCwUAMA8xDTALBgNVBAMMBGZ1enowHhcNMjUwMTAxMDAwMDAwWhcNMzUwMTAx"
    "MDAwMDAwWjAPMQ0wCwYDVQQDDARmdXp6MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDmokN34UshAHQj5KnrlU3cp6Wz"
    "eAL08Uuj5WVZTqrj+7Stb3jATJ+skjohx9bpuV/0HkMocw7EtPD//PAJgjYJMz2QUNGgio/0ltk5EB1s/YXkjYDtTHbqxEcS"
    "Sl4PTB+oZ6F65Snsj3dwQVmT5NZKQ714FjmFsevnvHjnpntC/QIDAQABMA0GCSqGSIb3DQEBCwUAA4GBACCqawhD89mpRP7w"
    "CQEloqJMWIi4rUioYbJkZaGfOKOL5h/75BGIGYrSNYr2vZk8lry7+MGIn4VH2u46/DExauByHCdYaUVV7kQVWznD5ZXlau2D"
    "O2cItF4GURU3+sX4FaP6623hP0mqfDnSkz9sjrqQRmb08BK+hpoi9Wq139SF"
)
"""A self-signed certificate; its private key was thrown away."""

GUID = "557358D1-9150-9595-4997-B6E611EA26C6"


def vectors() -> dict[str, bytes]:
    """The packets published in MS-MQQB 4.1, by the names of their files."""
    return {path.stem: bytes.fromhex(path.read_text()) for path in sorted(VECTORS.glob("*.hex"))}


def _user(destination: str | bytes | int = "OS:srv\\private$\\q", **fields: object) -> UserHeader:
    user = UserHeader(A, bytes(16) if isinstance(destination, str) else B, sent_time=1, message_id=7)
    user.destination_queue = destination
    user.destination_reference = {str: 7, bytes: 5, int: 3}[type(destination)]
    user.delivery_mode = 1
    for name, value in fields.items():
        setattr(user, name, value)
    return user


def _message(user: UserHeader | None = None, **parts: object) -> UserMessage:
    properties = parts.pop("properties", None) or MessagePropertiesHeader(body_type=8)
    return UserMessage.build(
        base=BaseHeader(), user=user or _user(), properties=properties, **parts,  # type: ignore[arg-type]
    )  # fmt: skip


def messages() -> list[UserMessage]:
    """One message for each optional header and each way to name a queue, and one with everything."""
    session = SessionHeader(3, 2, 5, 4, 2, 64)
    transaction = TransactionHeader(0x16, (1 << 32) | 5, 2, 1)
    sid = Sid.parse("S-1-5-21-1-2-3-500").encode()
    signed = SecurityHeader(
        0x0C1, security_id=sid, signature=b"s" * 64, sender_cert=b"certificate",
        provider_info=ProviderInfo(1, "Provider").encode(),
    )  # fmt: skip
    encrypted = SecurityHeader(0x22, security_id=A, encryption_key=b"k" * 12)
    debug = DebugHeader(1, queue_identifier=A)
    envelope = SRMPEnvelopeHeader("<se:Envelope/>")
    compound = CompoundMessageHeader(msg_body_size=4, msg_body_offset=2, data=b"<<body>>")
    soap = SoapHeader("<h/>", "<b>x</b>")
    lists = MultiQueueFormatHeader.of(
        ["OS:srv\\q", A, PrivateQueueFormatName(B, 9), DistributionListName(A)],
        [A],
        ["TCP:10.0.0.1\\q"],
        b"sig",
    )
    private_elsewhere = _user(
        A,
        admin_queue=PrivateQueueFormatName(B, 3), admin_reference=QueueReference.PRIVATE_ELSEWHERE,
        response_queue=5, response_reference=QueueReference.PRIVATE_ON_ADMIN_HOST, connector_type=B,
    )  # fmt: skip
    direct_answers = _user(
        admin_queue="TCP:10.0.0.2\\PRIVATE$\\admin", admin_reference=QueueReference.DIRECT,
        response_reference=QueueReference.SAME_AS_ADMIN,
    )  # fmt: skip
    ack = MessagePropertiesHeader(message_class=MessageClass.NACK_ACCESS_DENIED)
    roomy = MessagePropertiesHeader(allocation_body_size=24)
    return [
        _message(body=b"body"),
        _message(_user(4), label="Label", extension=b"ext", body=b"body!", session=session),
        _message(private_elsewhere, label="x", body=b"b"),
        _message(direct_answers, properties=ack),
        _message(transaction=transaction, body=b"in order"),
        _message(security=signed, body=b"signed"),
        _message(security=encrypted, body=b"secret", properties=roomy),
        _message(debug=debug, session=session),
        _message(envelope=envelope, compound=compound, soap=soap),
        _message(multi_queue=lists, body=b"to many"),
        _message(
            private_elsewhere, label="All", extension=b"e", body=b"b",
            transaction=transaction, security=signed, debug=debug,
            soap=soap, multi_queue=lists, session=session,
        ),
    ]  # fmt: skip


def order_messages() -> list[UserMessage]:
    order = OrderAckBody.of(1 << 32 | 5, 2)
    final = FinalAckBody(1 << 32 | 5, 2, 1, A, 7)
    return [
        build_order_message(order, 0xFF, source=A, destination=B, message_id=1, sent_time=2),
        build_order_message(
            final, 0x4000, source=A, destination=IPv4Address("10.0.0.5"), message_id=1, sent_time=2
        ),
    ]


def internal_packets() -> list[bytes]:
    return [
        EstablishConnection.request(A, B, 1).encode(),
        ConnectionParameters.of(500, 20_000, 64).encode(),
        SessionAck.of(SessionHeader(1)).encode(),
    ]


def _streams(packets: list[bytes]) -> Iterator[bytes]:
    yield b"\x00" + b"".join(packets[:3])
    yield b"\x07" + b"".join(reversed(packets[-4:]))
    yield b"\x1f" + packets[0] + b"\x10"
    yield b"\x03" + packets[-1] + bytes(24)


def _message_packets() -> list[bytes]:
    subqueue = SubqueueHeader(flags=5, abort_counter=1, move_counter=2)
    subqueue.subqueue, subqueue.target_subqueue = "one", "two"
    plain, with_session, everything = messages()[0], messages()[1], messages()[-1]
    return [
        MessagePacket.of(plain).encode(),
        MessagePacket.of(with_session, subqueue, None, IPv4Address("10.0.0.1")).encode(),
        MessagePacket.of(
            everything, subqueue, DeadLetterHeader("DIRECT=OS:srv\\dead"), IPv6Address("fe80::1%3"), True
        ).encode(),
    ]


def _cut_packets() -> Iterator[bytes]:
    for wanted, packet in ((0, _message_packets()[0]), (2, _message_packets()[2]), (9, messages()[8].data)):
        yield wanted.to_bytes(2, "little") + packet


def _section_buffers() -> Iterator[bytes]:
    reply = StartReceiveReply.of(1, 2, [Section(SectionType.BINARY_FIRST_SECTION, 12, b"first")])
    for ndr64 in (False, True):
        yield b"\0\0" + reply.encode(ndr64)


PATHS = ("srv\\q", ".\\private$\\orders;sub", "srv\\system$;journal", "srv\\q;JOURNAL")
_CONTENTS = (
    *PATHS,
    "srv.corp.example\\q",
    "CN=q,CN=msmq,CN=srv,DC=corp,DC=example",
    "LDAP://srv/CN=q\\,1+OID.1.2=#0aff,DC=corp",
    "234.1.1.1:8001",
)


def _property_values() -> Iterator[bytes]:
    """One property of each kind, with a content that is right for some of its type."""
    kinds = {(row.vt, row.rule and row.rule.text, row.content): n for n, row in enumerate(PROPERTIES)}
    texts = cycle(_CONTENTS)
    for (vt, _rule, _content), number in kinds.items():
        content = next(texts).encode() if vt & ~VT.VECTOR == VT.LPWSTR else A[:4]
        yield number.to_bytes(2, "little") + content


def _headers() -> Iterator[bytes]:
    parts: list[object] = []
    for message in messages():
        parts += [message.base, message.user, message.properties]
        names = ("transaction", "security", "debug", "envelope", "compound", "soap", "multi_queue", "session")
        parts += [part for name in names if (part := getattr(message, name)) is not None]
        if message.multi_queue is not None:
            parts += [message.multi_queue.destination, message.multi_queue.signature]
        parts.append(message.identifier)
    packet = MessagePacket.decode(_message_packets()[-1])
    parts += [packet.extension, packet.subqueue, packet.dead_letter, packet.extended_address]
    parts.append(ExtendedAddressHeader.of(IPv4Address("10.0.0.1")))
    for part in parts:
        yield bytes((HEADERS.index(type(part)), 0)) + part.write()  # type: ignore[attr-defined]


def _keys() -> list[bytes]:
    blob = PublicKeyBlob(65537, int.from_bytes(b"\xc5" * 64, "little"))
    keys = DSPublicKeys(
        (
            DSPublicKey(ProviderType.RSA_FULL, "Microsoft Base Cryptographic Provider v1.0", blob.encode()),
            DSPublicKey(ProviderType.RSA_AES, "P", PublicKeyBlob(3, 0x8001, KeyType.SIGN).encode()),
        )
    )
    simple = SimpleBlob(EncryptionAlgorithm.AES128, b"k" * 64)
    single = keys.keys[1].encode()
    return [keys.encode(), single, blob.encode(), simple.encode(), DSPublicKeys().encode()]


def _variants() -> list[Variant]:
    vector = VT.VECTOR
    inner = Variant(vector | VT.VARIANT, (Variant(VT.LPWSTR, "deep"), Variant(VT.NULL), Variant(VT.I1, -1)))
    return [
        Variant(VT.EMPTY),
        Variant(VT.BOOL, True),
        Variant(VT.UI1, 7),
        Variant(VT.I4, -5),
        Variant(VT.UI8, 1 << 40),
        Variant(VT.LPWSTR, "srv\\private$\\q"),
        Variant(VT.LPWSTR),
        Variant(VT.CLSID, A),
        Variant(VT.BLOB, b"blob!"),
        Variant(vector | VT.UI1, b"octets"),
        Variant(vector | VT.UI2, (1, 2, 3)),
        Variant(vector | VT.UI4, (1, 2)),
        Variant(vector | VT.UI8, (1, 2)),
        Variant(vector | VT.CLSID, (A, B)),
        Variant(vector | VT.LPWSTR, ("one", "two")),
        Variant(vector | VT.VARIANT, (inner, Variant(VT.UI4, 9), inner)),
    ]


FORMAT_NAMES = (
    "DIRECT=OS:srv\\private$\\orders",
    "DIRECT=TCP:10.0.0.1\\q;sub",
    "DIRECT=TCP:fe80::1\\q;JOURNAL",
    "DIRECT=HTTP://srv:8080/MSMQ\\q",
    "DIRECT=HTTPS://[fe80::1]/msmq/private$/q",
    "DIRECT=IPX:0123ABCD:0123456789AB\\q",
    "DIRECT=OS:.\\SYSTEM$;DEADXACT",
    f"PUBLIC={GUID};JOURNAL",
    f"PRIVATE={GUID}\\0000000A",
    f"DL={GUID}@corp.example",
    f"MACHINE={GUID};DEADLETTER",
    f"CONNECTOR={GUID};XACTONLY",
    "MULTICAST=234.1.1.1:8001",
)
LIST_NAME = f"DIRECT=OS:a\\q,PUBLIC={GUID},MULTICAST=239.0.0.1:1"
PROPERTY_TEXTS = (
    "IP=10.0.0.2",
    "IPv6=fe80::1",
    f"FOREIGN={GUID}",
    "\\\\dc",
    "10.0.0.1",
    "Windows NT 5.0 (Build 2195, x86) - MSMQ 2.0 (Build 641)",
    "234.1.1.1:8001",
)
SDDL = (
    "O:BAG:SYD:P(A;;0x20024;;;WD)(A;OICI;GA;;;BA)S:AI(AU;SAFA;GA;;;WD)",
    "O:S-1-5-21-1-2-3-500G:DAD:AR(D;;RCSD;;;AN)",
    f"D:(OA;CIIO;RPWP;{GUID};{GUID};AU)",
    "D:NO_ACCESS_CONTROL",
    "O:S-1-0x123456789ABC-1D:PARAI(A;;017;;;WD)(A;;17;;;S-1-1-0)",
)


def _queue_formats() -> Iterator[QueueFormat]:
    for text in FORMAT_NAMES:
        name = parse_format_name(text)
        yield QueueFormat.from_name(name)  # type: ignore[arg-type]  # none of them is a list
    yield QueueFormat(QueueFormatType.UNKNOWN)


def _descriptors() -> Iterator[SecurityDescriptor]:
    domain = Sid.parse("S-1-5-21-1-2-3")
    for text in SDDL:
        yield parse_sddl(text, domain)
    conditional = Ace(
        AceType.ACCESS_ALLOWED_CALLBACK, 3, EVERYONE, AceFlags.INHERITED, application_data=b"artx"
    )
    one_guid = Ace(AceType.ACCESS_DENIED_CALLBACK_OBJECT, 3, ADMINISTRATORS, inherited_object_type=UUID(GUID))
    yield SecurityDescriptor(EVERYONE, LOCAL_SYSTEM, Acl.of(conditional, one_guid), Acl())
    yield SecurityDescriptor(
        control=Control.DACL_PRESENT | Control.RM_CONTROL_VALID, resource_manager_control=1
    )


NTLM_NEGOTIATE = b"NTLMSSP\0" + bytes.fromhex("010000003582886200000000000000000000000000000000")


def _rpc_conversations() -> list[bytes]:
    """What a client sends, one conversation each, with a byte before it that says how it is cut."""
    contexts = (
        ContextElement(0, EPM.syntax, (NDR64, NDR)),
        ContextElement(1, EPM.syntax, (feature_syntax(3),)),
    )
    offer = Bind(5840, 5840, 0, contexts=contexts).write_body()
    bind = build(PduType.BIND, 1, offer)
    trailer = SecTrailer(10, 5, 0, 0, 9)
    secured = build(PduType.BIND, 1, offer, flags=7, trailer=trailer, token=NTLM_NEGOTIATE)
    third = build(PduType.AUTH3, 1, bytes(4), trailer=trailer, token=b"NTLMSSP\0\3\0\0\0" + bytes(80))
    signed = build(PduType.REQUEST, 2, bytes(16), trailer=trailer, token=bytes(16))

    def request(call_id: int, flags: int) -> bytes:
        return build(PduType.REQUEST, call_id, Request(0, 0, 3).write_body() + b"stub", flags=flags)

    several = request(2, 1) + request(3, 3) + request(2, 0) + request(2, 2)
    alter = build(PduType.ALTER_CONTEXT, 3, offer)
    of_object = build(PduType.REQUEST, 4, Request(0, 0, 3, A).write_body(), flags=3 | PduFlags.OBJECT_UUID)
    ends = build(PduType.CO_CANCEL, 3, b"") + build(PduType.ORPHANED, 3, b"")
    wholes = (bind + several, bind + alter + of_object + ends, secured + third + signed, bind + bind)
    return [bytes((cut,)) + whole for whole, cut in zip(wholes, (255, 15, 99, 254), strict=True)]


def _rpc_answers() -> list[bytes]:
    ack = BindAck(5840, 5840, 7, b"2103", (ContextAnswer(0, 0, NDR), ContextAnswer(3, 3))).write_body()
    nak = build(PduType.BIND_NAK, 1, BindNak(4).write_body())
    response = build(PduType.RESPONSE, 1, Response(4).encode() + b"stub")
    first = build(PduType.RESPONSE, 2, Response(4).encode() + b"stub", flags=1)
    last = build(PduType.RESPONSE, 2, Response(4).encode() + b"stub", flags=2)
    fault = build(PduType.FAULT, 1, Fault(32, 0, 0, 0, 5).encode())
    return [
        build(PduType.BIND_ACK, 1, ack) + response,
        nak,
        first + fault + last,
        build(PduType.SHUTDOWN, 0, b""),
    ]


def _rpc_parameters() -> Iterator[bytes]:
    octets = build_tower(EPM.syntax, 135, "10.0.0.1")
    tower = Tower(len(octets), octets)
    values: list[Parameters] = [
        EptLookup(1, A, IfId(B, 1, 2), 1, NULL_HANDLE, 5),
        EptLookupReply(NULL_HANDLE, 1, [Entry(A, tower, b"one")], 0, 5),
        EptMap(None, tower, NULL_HANDLE, 4),
        EptMapReply(NULL_HANDLE, 2, [tower, None], 0, 4),
        InqIfIdsReply(IfIdVector(2, [IfId(A, 1, 0), None]), 0),
        InqStatsReply(4, [1, 2, 3, 4], 0),
        InqPrincNameReply(b"host/name", 0),
        Parts(2, [Part(1, 3, b"abc"), Part(2, 0, None)], 1, "text"),
        Parts(0, None, 2, 1 << 60),
    ]
    for value in values:
        for ndr64 in (False, True):
            yield bytes((SHAPES.index(type(value)),)) + value.encode(ndr64)


def seeds() -> dict[str, list[bytes]]:
    """All seeds of each target."""
    published = vectors()
    pings = [data for name, data in published.items() if "ping" in name]
    session = [data for name, data in published.items() if "ping" not in name]
    written = [message.data for message in (*messages(), *order_messages())]
    texts = {
        "format_name": (*FORMAT_NAMES, LIST_NAME),
        "queue_path": PATHS,
        "direct_name": (
            *(name.removeprefix("DIRECT=") for name in FORMAT_NAMES if name.startswith("DIRECT=")),
            FORMAT_NAMES[0], "SPX:0123ABCD.0123456789AB\\PRIVATE$\\order_queue$",
        ),
        "property_text": PROPERTY_TEXTS,
        "sddl": SDDL,
    }  # fmt: skip
    addresses = [
        TAAddress(AddressType.IP, bytes([10, 0, 0, 1])),
        TAAddress(AddressType.IP_RAS, b"\x0a\0\0\2"),
        TAAddress(AddressType.IPX, bytes(10)),
        TAAddress(AddressType.FOREIGN, A),
    ]
    certificates = UserSignCerts().register(b"certificate one", A).register(b"two", B)
    sids = [EVERYONE, ADMINISTRATORS, Sid.parse("S-1-5-21-1-2-3-500"), Sid(1 << 40, tuple(range(15)))]
    return {
        "stream": list(_streams([*internal_packets(), *session, *written])),
        "packet": [*session, *internal_packets(), *written],
        "user_message": [*session[4:6], *written],
        "resized_message": written,
        "ping": [*pings, Ping(1, cookie=5, qm_guid=A).encode()],
        "order_ack": [message.data for message in order_messages()],
        "remote_read": _message_packets(),
        "section": [*_cut_packets(), *_section_buffers()],
        "description": [*published.values(), *internal_packets(), *written],
        "header": list(_headers()),
        "address": [
            b"".join(address.encode() for address in addresses),
            *(address.encode() for address in addresses),
        ],
        "key": _keys(),
        "certificate": [
            certificates.encode(),
            UserSignCert.of(b"one", A).encode(),
            UserSignCerts().encode(),
            X509,
            UserSignCert.of(X509, A).encode(),
        ],
        "variant": [encode_variant(value, ndr64) for value in _variants() for ndr64 in (False, True)],
        "queue_format": [encode_queue_format(f, ndr64) for f in _queue_formats() for ndr64 in (False, True)],
        "property_value": list(_property_values()),
        "provider_info": [ProviderInfo(1, "Microsoft Base Cryptographic Provider v1.0").encode()],
        "sid": [*(sid.encode() for sid in sids), *(str(sid).encode() for sid in sids)],
        "descriptor": [
            *(d.encode() for d in _descriptors()),
            *(acl.encode() for d in _descriptors() if (acl := d.dacl)),
            *(ace.encode() for d in _descriptors() for ace in d.aces),
        ],
        "body": list(dict.fromkeys(_bodies())),
        "rpc_server": _rpc_conversations(),
        "rpc_client": _rpc_answers(),
        "rpc_parameters": list(_rpc_parameters()),
        "rpc_tails": [
            build_tower(EPM.syntax, 135, "10.0.0.1"),
            append_trailer(b"", Meant(EPM.syntax, EPM.syntax, 0, 3), 1),
        ],
        **{name: [text.encode() for text in several] for name, several in texts.items()},
    }


def _bodies() -> Iterator[bytes]:
    """Values as each formatter writes them, behind the type of the body."""
    values = (7, "text", 2.5, True, Decimal("12.34"), datetime(2020, 2, 29, 13, 14, 15), UUID(int=5), b"\0\1")
    trees: tuple[Any, ...] = (
        [1, "two", None, [3.5]],
        {"$type": "Order", "Id": 7, "Lines": [{"Article": "tea"}]},
    )
    for value in (*values, *trees):
        for formatter in Formatter:
            if formatter is not Formatter.ACTIVEX or value not in trees:
                content, body_type = write_body(value, formatter)
                yield bytes([body_type & 0xFF]) + content
    headers = b"<HeaderInfo><Key>k</Key><Value>v</Value></HeaderInfo>"
    yield b"\0<?xml version='1.0'?><ArrayOfHeaderInfo>" + headers + b"</ArrayOfHeaderInfo>"
    yield b'\0{"rbs2-msg-id": "7"}'


def file_name(data: bytes) -> str:
    """Files are named by what they hold, so that the same input is never there twice."""
    return hashlib.sha256(data).hexdigest()[:20]


def main() -> None:
    made = seeds()
    assert made.keys() == TARGETS.keys(), made.keys() ^ TARGETS.keys()
    for name, inputs in made.items():
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for data in inputs:
            (folder / file_name(data)).write_bytes(data)
    sizes = [path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()]
    print(f"{len(sizes)} seeds, {sum(sizes)} bytes, for {len(made)} targets")


if __name__ == "__main__":
    main()

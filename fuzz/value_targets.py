"""Targets for what stands in directory objects, properties and calls: keys, variants, names, descriptors."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

from fuzz.oracles import as_text, attempt, attempt_text, require, require_exact, target
from msmq.errors import EncodeError, MQError
from msmq.security.descriptor import Ace, Acl, SecurityDescriptor, decode_security_property
from msmq.security.keys import certificate_public_key, export_public_key, import_public_key
from msmq.security.sddl import format_sddl, parse_sddl
from msmq.security.sid import Sid, well_known_name
from msmq.wire import management_text
from msmq.wire.access_masks import SecurityInformation
from msmq.wire.addresses import TAAddress, decode_addresses
from msmq.wire.bodies import Formatter, binary, read_as, read_headers, to_json
from msmq.wire.bodies.text import type_name
from msmq.wire.certificates import UserSignCert, UserSignCerts
from msmq.wire.keys import DSPublicKey, DSPublicKeys, PublicKeyBlob, SimpleBlob
from msmq.wire.names import (
    DirectName,
    MsmqVersion,
    MulticastName,
    MultipleElementName,
    QueuePath,
    is_read_only,
    parse_format_name,
    target_of,
)
from msmq.wire.optional_headers import (
    ProviderInfo,
)
from msmq.wire.properties.check import TABLES, check_value
from msmq.wire.queue_format import QueueFormat, supported_by_remote_read
from msmq.wire.queue_format_ndr import decode_queue_format, encode_queue_format
from msmq.wire.variant import INTEGERS, VT, Variant, decode_variant, encode_variant

# --- bodies -----------------------------------------------------------------------------------------


@target(max_len=2048, weight=4, memory_factor=512)
def body(data: bytes) -> None:
    """A body, read as its type says and by every formatter, and an extension with headers."""
    content = data[1:]
    for body_type in (data[0] if data else 0, binary.VT_BINARY_OBJECT, 0x1000 | (data[0] if data else 0)):
        for formatter in Formatter:
            value = attempt(read_as, formatter, body_type, content)
            json.dumps(to_json(value))
            if formatter is Formatter.BINARY and value is not None:
                require(repr(binary.read(binary.write(value))) == repr(value), "a value changed on its way")
        require(type_name(body_type) != "", "a type has no name")
    read_headers(content)


# --- directory objects and properties ---------------------------------------------------------------


@target(max_len=256)
def address(data: bytes) -> None:
    """TA_ADDRESS alone and as an array."""
    one = attempt(TAAddress.decode, data)
    if one is not None:
        require(TAAddress.decode(one.encode()) == one, "an address changed on its way through")
        require(bool(str(one)), "an address has no text")
    several = attempt(decode_addresses, data)
    if several is not None:
        require(
            b"".join(one.encode() for one in several) == data, "the addresses changed on their way through"
        )


@target(max_len=1024, weight=4)
def key(data: bytes) -> None:
    """MQDSPUBLICKEYS, MQDSPUBLICKEY, PUBLICKEYBLOB and SIMPLEBLOB."""
    for content in (data, struct.pack("<I", len(data)) + data[4:]):
        keys = attempt(DSPublicKeys.decode, content)
        if keys is not None:
            require_exact(DSPublicKeys.decode, content)
            require(keys.encode() == content, "a list of keys changed on its way through")
            for entry in keys.keys:
                require(entry.key.bit_length >= 8, "a key without a modulus")
                require(keys.find(entry.provider_name) is not None, "a key is not found by its provider")
    one = attempt(DSPublicKey.decode, data)
    if one is not None:
        require(data.startswith(one.encode()) and one.size <= len(data), "a key changed on its way through")
    public = attempt(PublicKeyBlob.decode, data)
    if public is not None:
        require(data.startswith(public.encode()), "a public key changed on its way through")
        usable = attempt(import_public_key, public)
        if usable is not None:
            require(export_public_key(usable, public.key_type) == public, "a usable key is another one")
    session_key = attempt(SimpleBlob.decode, data)
    if session_key is not None:
        require(session_key.encode() == data, "a session key changed on its way through")


@target(max_len=1024, weight=3)
def certificate(data: bytes) -> None:
    """MQUSERSIGNCERTS and MQUSERSIGNCERT, and the X.509 certificates they hold."""
    several = attempt(UserSignCerts.decode, data)
    if several is not None:
        require_exact(UserSignCerts.decode, data)
        require(several.encode() == data, "the certificates changed on their way through")
    attempt(certificate_public_key, data)
    one = attempt(UserSignCert.decode, data)
    if one is not None:
        require(data.startswith(one.encode()), "a certificate changed on its way through")


@target(max_len=1024, weight=16, memory_factor=100)
def variant(data: bytes) -> None:
    """PROPVARIANT in NDR and NDR64, and from one to the other."""
    for ndr64 in (False, True):
        value = attempt(decode_variant, data, ndr64)
        if value is None:
            continue
        require_exact(decode_variant, data, ndr64=ndr64)
        require(isinstance(value, Variant), "no variant was read")
        for other in (False, True):
            written = encode_variant(value, other)
            again = decode_variant(written, other)
            require(again == value, "a variant changed on its way through")
            require(encode_variant(again, other) == written, "a variant written twice differs")


@target(max_len=512, weight=5)
def queue_format(data: bytes) -> None:
    """QUEUE_FORMAT in NDR and NDR64, and as the name it stands for."""
    for ndr64 in (False, True):
        value = attempt(decode_queue_format, data, ndr64)
        if value is None:
            continue
        require_exact(decode_queue_format, data, ndr64=ndr64)
        for other in (False, True):
            written = encode_queue_format(value, other)
            require(decode_queue_format(written, other) == value, "a queue format changed on its way through")
        supported_by_remote_read(value)
        attempt_text(value.to_name)
        name = attempt_text(value.to_name)
        if name is not None:
            require(QueueFormat.from_name(name).to_name() == name, "a queue format lost its name")


PROPERTIES = tuple(row for table in TABLES.values() for row in table.values())


@target(max_len=512, weight=3, memory_factor=96)
def property_value(data: bytes) -> None:
    """check_value: the first two bytes choose a property, the rest becomes a value of its type."""
    row = PROPERTIES[int.from_bytes(data[:2], "little") % len(PROPERTIES)]
    value = _value(row.vt & ~VT.VECTOR, bool(row.vt & VT.VECTOR), data[2:])
    for version in (MsmqVersion.V6, MsmqVersion.V1):
        attempt_text(check_value, row, Variant(row.vt, value), version=version)


def _value(vt: int, vector: bool, data: bytes) -> Any:
    """Bytes as a value of a type, in some way that reaches every value."""
    if vt == VT.BLOB or (vt == VT.UI1 and vector):
        return data
    if vt == VT.LPWSTR:
        texts = as_text(data).split("\0")
        return tuple(texts) if vector else texts[0]
    if vt == VT.VARIANT:
        inner = attempt(decode_variant, data)
        return (inner,) if inner else ()
    if vt == VT.BOOL:
        return bool(data)
    size = 16 if vt == VT.CLSID else INTEGERS[vt].size
    items = [data[at : at + size].ljust(size, b"\0") for at in range(0, len(data) or 1, size)]
    if vt == VT.CLSID:
        return tuple(items) if vector else items[0]
    numbers = tuple(int.from_bytes(item, "little", signed=INTEGERS[vt].low < 0) for item in items)
    return numbers if vector else numbers[0]


@target(max_len=256)
def provider_info(data: bytes) -> None:
    """ProviderInfo of a SecurityHeader."""
    decoded = attempt(ProviderInfo.decode, data)
    if decoded is not None:
        require(data.startswith(decoded.encode()), "a provider changed on its way through")


# --- names ------------------------------------------------------------------------------------------


@target(max_len=512, weight=5, text=True)
def format_name(data: bytes) -> None:
    """parse_format_name: what it takes is ASCII, as the grammar is, and is read back from its own text."""
    text = as_text(data)
    for version in (MsmqVersion.V6, MsmqVersion.V1):
        name = attempt_text(parse_format_name, text, version=version)
        if name is None:
            continue
        require(text.isascii(), "a format name outside ASCII was accepted")
        require(
            parse_format_name(str(name), version=version) == name, "a format name does not survive its text"
        )
        target_of(name), is_read_only(name)
        for part in name.elements if isinstance(name, MultipleElementName) else (name,):
            form = QueueFormat.from_name(part)
            require(decode_queue_format(encode_queue_format(form)) == form, "a name has no QUEUE_FORMAT")
            back = attempt_text(form.to_name)
            require(back is None or back == part, "a QUEUE_FORMAT stands for another name")


@target(max_len=256, weight=2, text=True)
def queue_path(data: bytes) -> None:
    """QueuePath.parse."""
    text = as_text(data)
    for version in (MsmqVersion.V6, MsmqVersion.V1):
        path = attempt_text(QueuePath.parse, text, version=version)
        if path is not None:
            require(text.isascii(), "a path outside ASCII was accepted")
            require(QueuePath.parse(str(path), version=version) == path, "a path does not survive its text")


@target(max_len=256, weight=4, text=True)
def direct_name(data: bytes) -> None:
    """DirectName.from_wire_text, the names inside packets, and .parse."""
    text = as_text(data)
    name = attempt(DirectName.from_wire_text, text)
    if name is not None:
        require(text.isascii(), "a direct name outside ASCII was accepted")
        require(DirectName.from_wire_text(name.wire_text) == name, "a direct name does not survive its text")
        require(bool(name.host), "a direct name without a host")
        require(name.http_port is None or name.http_port in range(0x10000), "a port is out of range")
        if name.protocol.value in ("IPX", "SPX"):
            require(tuple(map(len, name.ipx)) == (4, 6), "an IPX address of the wrong size")
    parsed = attempt_text(DirectName.parse, text)
    if parsed is not None:
        require(text.isascii(), "a direct name outside ASCII was accepted")
        require(DirectName.parse(str(parsed)) == parsed, "a direct name does not survive its text")
        require(DirectName.from_wire_text(parsed.wire_text) == parsed, "a packet cannot carry a direct name")


_PROPERTY_TEXTS: tuple[tuple[Callable[[str], Any], Callable[[Any], str]], ...] = (
    (management_text.parse_next_hop, management_text.next_hop_text),
    (management_text.parse_history_address, management_text.history_address_text),
    (management_text.parse_ds_server, management_text.ds_server_text),
    (management_text.parse_machine_type, lambda value: "" if value is None else str(value)),
    (MulticastName.parse_address, lambda value: value.address_text),
)


@target(max_len=256, weight=2, text=True)
def property_text(data: bytes) -> None:
    """The small texts inside property values."""
    text = as_text(data)
    for parse, text_of in _PROPERTY_TEXTS:
        try:
            value = parse(text)
        except MQError:
            continue
        require(parse(text_of(value)) == value, f"{parse.__name__} does not read what is printed")


# --- security ---------------------------------------------------------------------------------------


@target(max_len=128, weight=2)
def sid(data: bytes) -> None:
    """SIDs in their packet form and as text."""
    decoded = attempt(Sid.decode, data)
    if decoded is not None:
        require(data.startswith(decoded.encode()) and decoded.size <= len(data), "a SID changed")
        require(Sid.parse(str(decoded)) == decoded, "a SID does not survive its text")
        well_known_name(decoded)
    text = as_text(data)
    parsed = attempt(Sid.parse, text)
    if parsed is not None:
        require(text.isascii(), "a SID outside ASCII was accepted")
        require(Sid.parse(str(parsed)) == parsed == Sid.decode(parsed.encode()), "a SID does not survive")


@target(max_len=1024, weight=16, memory_factor=64)
def descriptor(data: bytes) -> None:
    """Security descriptors, their lists and entries; through SDDL when that can say it."""
    acl = attempt(Acl.decode, data)
    if acl is not None:
        require(Acl.decode(acl.encode()) == acl, "an ACL changed on its way through")
    ace = attempt(Ace.decode, data)
    if ace is not None:
        require(Ace.decode(ace.encode()) == ace, "an ACE changed on its way through")
    decoded = attempt(SecurityDescriptor.decode, data)
    checked = attempt_text(decode_security_property, 1101, data)
    require(checked is None or checked == decoded, "a security property is read in another way")
    if decoded is None:
        return
    require(SecurityDescriptor.decode(decoded.encode()) == decoded, "a descriptor changed on its way through")
    everything = SecurityInformation(0xF)
    require(decoded.select(everything).aces == decoded.aces, "selecting everything loses something")
    try:
        text = format_sddl(decoded)
    except EncodeError:
        return
    again = parse_sddl(text)
    require(
        (again.owner, again.group, again.aces) == (decoded.owner, decoded.group, decoded.aces),
        "a descriptor does not survive its text",
    )


_DOMAIN = Sid.parse("S-1-5-21-1-2-3")


@target(max_len=512, weight=5, memory_factor=64, text=True)
def sddl(data: bytes) -> None:
    """SDDL, with and without a domain for its aliases."""
    text = as_text(data)
    for domain in (None, _DOMAIN):
        parsed = attempt(parse_sddl, text, domain)
        if parsed is None:
            continue
        require(text.isascii(), "SDDL outside ASCII was accepted")
        require(parse_sddl(format_sddl(parsed), domain) == parsed, "SDDL does not survive its own text")
        require(SecurityDescriptor.decode(parsed.encode()) == parsed, "SDDL has no binary form")

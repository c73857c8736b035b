"""What the tests of the property tables share."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from msmq.errors import DecodeError, IllegalPropertyValueError, IllegalPropidError
from msmq.security.access import default_queue_manager_descriptor
from msmq.security.descriptor import decode_security_property
from msmq.security.sid import Sid
from msmq.wire.keys import DSPublicKey, DSPublicKeys, ProviderType, PublicKeyBlob
from msmq.wire.names import MsmqVersion
from msmq.wire.properties import (
    BY_NAME,
    WIRE_CONTENTS,
    Content,
    ObjectType,
    Property,
    Use,
    check_properties,
    check_value,
    lookup,
)
from msmq.wire.variant import Variant, decode_variant, encode_variant
from tests.wire.properties.declared import DECLARED

GUID = bytes(range(16))
USER = Sid(5, (21, 1, 2, 3, 1001))
DESCRIPTOR = default_queue_manager_descriptor(USER).encode()
NOW_S = 1_700_000_000
KEYS = DSPublicKeys(
    (DSPublicKey(ProviderType.RSA_FULL, "Provider", PublicKeyBlob(65537, 2**511 + 1).encode()),)
).encode()
PATH = "srv\\orders"
DISTINGUISHED_NAME = "CN=msmq,CN=srv,CN=Computers,DC=corp,DC=example"


def certificate() -> bytes:
    """A self-signed certificate in DER."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "msmq")])
    day = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(day).not_valid_after(day.replace(year=2034))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def _sid(_propid: int, data: bytes) -> Sid:
    sid = Sid.decode(data)
    if sid.size != len(data):
        raise DecodeError("bytes follow the SID")
    return sid


def _certificate(_propid: int, data: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(data)
    except ValueError as error:
        raise DecodeError(str(error)) from None


CONTENTS = {
    **WIRE_CONTENTS,
    Content.SECURITY_DESCRIPTOR: decode_security_property,
    Content.SID: _sid,
    Content.CERTIFICATE: _certificate,
}


def declared(name: str) -> Property:
    """Our row of a property, once it is shown to be the one the specification prints."""
    object_type, propid, vt, since = DECLARED[name]
    row = lookup(object_type, propid)
    assert (row.name, row.id, row.vt, row.since) == (name, propid, vt, since)
    if since > MsmqVersion.V1:
        with pytest.raises(IllegalPropidError):
            lookup(object_type, propid, MsmqVersion(since - 1))
    return row


def judge(use: Use, name: str, value: Any) -> tuple[int, ...]:
    """The statuses of a call that writes one property."""
    object_type, row = BY_NAME[name]
    return check_properties(object_type, use, [row.id], [Variant(row.vt, value)], contents=CONTENTS).statuses


def store(name: str, value: Any) -> Variant:
    """What is taken of a property that is written the way it may be, through NDR."""
    row = declared(name)
    object_type, _ = BY_NAME[name]
    variant = decode_variant(encode_variant(Variant(row.vt, value)))
    use = Use.SYSTEM
    if Use.SET in row.uses:
        use = Use.SET
    elif Use.CREATE in row.uses and object_type is not ObjectType.QUEUE:
        use = Use.CREATE
    ((_, accepted),) = check_properties(object_type, use, [row.id], [variant], contents=CONTENTS).accepted
    return accepted


def keeps(name: str, *values: Any) -> None:
    """Each value comes back as it was written."""
    row = declared(name)
    for value in values:
        assert store(name, value) == Variant(row.vt, value)


def refuses(name: str, *values: Any, error: type[Exception] = IllegalPropertyValueError) -> None:
    """None of the values is taken."""
    row = declared(name)
    for value in values:
        with pytest.raises(error):
            check_value(row, Variant(row.vt, value), contents=CONTENTS)


def default_of(name: str) -> object:
    """What is read of a property nobody wrote."""
    return declared(name).default


def row_marks(**rows: str) -> list[Any]:
    """Parameters, one per property, each marked with the row it shows: ``PROPID_Q_SEQNUM="2.3.1.17-a"``."""
    return [pytest.param(name, marks=pytest.mark.spec(f"MQMQ-{row}"), id=name) for name, row in rows.items()]

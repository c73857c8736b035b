"""Keys, certificates and Hypothesis strategies of the security tests."""

from __future__ import annotations

import datetime
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import strategies as st

from msmq.security.descriptor import (
    OBJECT_ACE_TYPES,
    Ace,
    AceFlags,
    AceType,
    Acl,
    Control,
    SecurityDescriptor,
)
from msmq.security.sid import EVERYONE, Sid

# The base provider uses keys of 512 bits, which the library reads but no longer makes.
_P = 0xDC7306B57D2806E2CC5689417AFA14AB7CB12B14C083717E8C0D733F65769B4D
_Q = 0xEC8E2769316D577292065D56651C3555650B64E19560A73D7621CF79E7C52B53


@cache
def private_key(bits: int) -> rsa.RSAPrivateKey:
    if bits >= 1024:
        return rsa.generate_private_key(65537, bits)
    assert bits == 512
    d = pow(65537, -1, (_P - 1) * (_Q - 1))
    return rsa.RSAPrivateNumbers(
        _P,
        _Q,
        d,
        rsa.rsa_crt_dmp1(d, _P),
        rsa.rsa_crt_dmq1(d, _Q),
        rsa.rsa_crt_iqmp(_P, _Q),
        rsa.RSAPublicNumbers(65537, _P * _Q),
    ).private_key()


@cache
def certificate(bits: int) -> bytes:
    """A self-signed certificate for an RSA key, in DER."""
    return certificate_for(private_key(bits))


def certificate_for(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sender")])
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.DER)


USER = Sid.parse("S-1-5-21-1-2-3-1000")
OTHER = Sid.parse("S-1-5-21-1-2-3-1001")
OWNER = Sid.parse("S-1-5-21-1-2-3-500")


def allow(mask: int, sid: Sid = USER, **more: object) -> Ace:
    return Ace(AceType.ACCESS_ALLOWED, mask, sid, **more)  # type: ignore[arg-type]


def deny(mask: int, sid: Sid = USER, **more: object) -> Ace:
    return Ace(AceType.ACCESS_DENIED, mask, sid, **more)  # type: ignore[arg-type]


def granting(*aces: Ace) -> SecurityDescriptor:
    """A descriptor whose owner takes no part in the test."""
    return SecurityDescriptor(owner=OWNER, dacl=Acl.of(*aces))


u32 = st.integers(0, 0xFFFFFFFF)
sids = st.builds(
    Sid, st.integers(0, 0xFFFFFFFFFFFF) | st.just(5), st.lists(u32, max_size=15).map(tuple)
) | st.sampled_from([EVERYONE, USER])
_flags = st.integers(0, 0xFF).map(AceFlags)
_data = st.integers(0, 4).flatmap(lambda words: st.binary(min_size=4 * words, max_size=4 * words))
_guids = st.none() | st.uuids()


def aces(types: frozenset[AceType], data: st.SearchStrategy[bytes] = _data) -> st.SearchStrategy[Ace]:
    plain, about_objects = types - OBJECT_ACE_TYPES, types & OBJECT_ACE_TYPES
    return st.builds(
        Ace, st.sampled_from(sorted(plain)), u32, sids, _flags, application_data=data
    ) | st.builds(
        Ace, st.sampled_from(sorted(about_objects)), u32, sids, _flags, _guids, _guids, application_data=data
    )


def acls(entries: st.SearchStrategy[Ace]) -> st.SearchStrategy[Acl | None]:
    lists = st.lists(entries, max_size=4)
    return (
        st.none()
        | lists.map(lambda several: Acl.of(*several))
        | lists.map(lambda several: Acl(tuple(several), Acl.REVISION_DS))
    )


descriptors = st.builds(
    SecurityDescriptor,
    st.none() | sids,
    st.none() | sids,
    acls(aces(frozenset(AceType))),
    acls(aces(frozenset(AceType))),
    st.integers(0, 0xFFFF).map(Control),
    st.integers(0, 0xFF),
)

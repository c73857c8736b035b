"""Users, their registered certificates and the internal ones."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.x509 import load_der_x509_certificate
from cryptography.x509.oid import NameOID

from msmq.errors import EncodeError
from msmq.manager.access.certificates import make_internal_certificate, register_certificate
from msmq.manager.model import User
from msmq.security.sid import Sid
from msmq.wire.certificates import UserSignCerts
from tests.manager.domain import guid
from tests.manager.support import Host
from tests.security.samples import certificate, private_key

ALICE = Sid.parse("S-1-5-21-1-2-3-1001")
BOB = Sid.parse("S-1-5-21-1-2-3-1002")


def user(sid: Sid) -> User:
    return User(guid(), sid.encode())


@pytest.mark.spec("DMPR-3.1.1.15-a")
def test_registering_adds_the_digest_and_the_certificate() -> None:
    alice = user(ALICE)
    assert Sid.decode(alice.security_identifier) == ALICE
    for bits in (1024, 2048):
        register_certificate(alice, certificate(bits), guid())
    assert alice.certificate_digest_list == tuple(
        hashlib.md5(certificate(bits), usedforsecurity=False).digest() for bits in (1024, 2048)
    )
    kept = UserSignCerts.decode(alice.certificates).certificates
    assert [entry.certificate for entry in kept] == [certificate(1024), certificate(2048)]


def test_an_identifier_names_one_registration() -> None:
    alice, identifier = user(ALICE), guid()
    register_certificate(alice, certificate(1024), identifier)
    before = alice.certificates
    with pytest.raises(EncodeError):
        register_certificate(alice, certificate(2048), identifier)
    assert alice.certificates == before
    assert len(alice.certificate_digest_list) == 1


@pytest.mark.spec("DMPR-3.1.1.19-a")
def test_an_internal_certificate_is_a_users() -> None:
    core = Host().manager.core
    alice, key = user(ALICE), private_key(2048)
    internal = make_internal_certificate(core, alice, key)
    parsed = load_der_x509_certificate(internal.certificate)
    assert internal.user is alice
    assert parsed.public_key() == key.public_key()
    assert parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == str(ALICE)
    assert parsed.not_valid_before_utc.timestamp() == core.now_s
    parsed.public_key().verify(  # type: ignore[union-attr, call-arg]
        parsed.signature,
        parsed.tbs_certificate_bytes,
        parsed.signature_algorithm_parameters,  # type: ignore[arg-type]
        parsed.signature_hash_algorithm,  # type: ignore[arg-type]
    )


@pytest.mark.spec("DMPR-3.1.1.1-al")
def test_a_user_has_at_most_one_internal_certificate() -> None:
    core = Host().manager.core
    alice, bob = user(ALICE), user(BOB)
    first = make_internal_certificate(core, alice, private_key(2048))
    make_internal_certificate(core, bob, private_key(2048))
    second = make_internal_certificate(core, alice, private_key(1024))
    assert first.certificate != second.certificate
    kept = list(core.internal_certificates.values())
    assert sorted(str(Sid.decode(entry.user.security_identifier)) for entry in kept) == [str(ALICE), str(BOB)]
    assert core.internal_certificates[alice.security_identifier] is second

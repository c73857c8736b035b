"""The keys of a queue manager: lengths, validity, lists, and that their private halves survive."""

from __future__ import annotations

import secrets
from math import gcd, lcm
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import InsufficientResourcesError
from msmq.manager.access.keys import (
    KEY_BITS,
    KeyRing,
    generate_key,
    generate_prime,
    is_probable_prime,
)
from msmq.manager.model import QueueManagerRecord
from msmq.security.encryption import new_session_key, unwrap_session_key, wrap_session_key
from msmq.security.keys import import_public_key
from msmq.security.providers import BASE, ENHANCED, ENHANCED_RSA_AES, PRIVACY_PROVIDERS
from msmq.wire.algorithms import ALLOWED_ALGORITHMS
from msmq.wire.keys import DSPublicKeys, KeyType, ProviderType
from tests.manager.domain import DomainHost, KeyBox
from tests.manager.support import Host

PROVIDERS = [BASE, ENHANCED, ENHANCED_RSA_AES]


@pytest.fixture(scope="module")
def made() -> tuple[KeyRing, KeyRing]:
    """The keys of two queue managers, made as on a real host."""
    first, second = (KeyRing.generate(lambda bits: generate_key(bits, secrets.token_bytes)) for _ in range(2))
    return first, second


@pytest.mark.spec("DMPR-3.1.3-h")
def test_one_encryption_key_for_each_provider() -> None:
    data = DomainHost().core.record.public_encryption_key_list
    keys = DSPublicKeys.decode(data).keys
    assert [key.provider_name for key in keys] == PROVIDERS
    assert {key.key.key_type for key in keys} == {KeyType.EXCHANGE}
    assert [key.provider_type for key in keys] == [
        ProviderType.RSA_FULL,
        ProviderType.RSA_FULL,
        ProviderType.RSA_AES,
    ]
    assert all((name + "\0").encode("utf-16-le") in data for name in PROVIDERS)


@pytest.mark.spec("DMPR-3.1.3-i")
def test_one_signing_key_for_each_provider_and_another_than_for_encryption() -> None:
    record = DomainHost().core.record
    signing = DSPublicKeys.decode(record.public_signing_key_list).keys
    encryption = DSPublicKeys.decode(record.public_encryption_key_list).keys
    assert [key.provider_name for key in signing] == PROVIDERS
    assert {key.key.key_type for key in signing} == {KeyType.SIGN}
    assert not {key.key.modulus for key in signing} & {key.key.modulus for key in encryption}


@pytest.mark.spec("DMPR-3.1.1.1-p")
def test_lists_are_empty_until_the_host_is_provisioned() -> None:
    assert (
        QueueManagerRecord().public_encryption_key_list,
        QueueManagerRecord().public_signing_key_list,
    ) == (
        b"",
        b"",
    )
    workgroup = Host().manager.core.record
    assert (workgroup.public_encryption_key_list, workgroup.public_signing_key_list) == (b"", b"")
    record = DomainHost().core.record
    for data in (record.public_encryption_key_list, record.public_signing_key_list):
        assert [key.provider_name for key in DSPublicKeys.decode(data).keys] == PROVIDERS


@pytest.mark.spec("DMPR-3.1.3-j")
def test_keys_have_the_length_of_their_provider_and_are_valid(made: tuple[KeyRing, KeyRing]) -> None:
    for keys in (made[0].exchange, made[0].sign):
        assert [keys[name].key_size for name in PROVIDERS] == [512, 1024, 1024]
        for key in keys.values():
            numbers = key.private_numbers()
            e, n = numbers.public_numbers.e, numbers.public_numbers.n
            order = lcm(numbers.p - 1, numbers.q - 1)
            assert numbers.p * numbers.q == n
            assert 3 <= e < n
            assert gcd(e, order) == 1
            assert e * numbers.d % order == 1


@pytest.mark.spec("DMPR-5.1-b")
def test_keys_of_two_hosts_differ_and_are_made_of_large_primes(made: tuple[KeyRing, KeyRing]) -> None:
    first, second = ([*ring.exchange.values(), *ring.sign.values()] for ring in made)
    primes = [p for key in first + second for p in (key.private_numbers().p, key.private_numbers().q)]
    assert len(set(primes)) == len(primes) == 24
    assert all(is_probable_prime(prime, secrets.token_bytes) for prime in primes)
    for key in first + second:
        numbers = key.private_numbers()
        half = key.key_size // 2
        assert {numbers.p.bit_length(), numbers.q.bit_length()} == {half}
        assert abs(numbers.p - numbers.q) > 1 << half - 100


def test_short_keys_come_from_the_given_randomness_alone() -> None:
    def modulus(seed: int) -> int:
        return generate_key(512, Random(seed).randbytes).private_numbers().public_numbers.n

    assert modulus(1) == modulus(1) != modulus(2)


@given(number=st.integers(0, 20_000))
def test_primes_are_told_from_composites(number: int) -> None:
    prime = number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))
    assert is_probable_prime(number, Random(number).randbytes) == prime


@pytest.mark.parametrize("number", [2**127 - 1, 2**521 - 1])
def test_large_primes_are_found_and_their_products_are_not(number: int) -> None:
    random_bytes = Random(number).randbytes
    assert is_probable_prime(number, random_bytes)
    assert not is_probable_prime(number * generate_prime(64, random_bytes), random_bytes)
    assert not is_probable_prime(number * number, random_bytes)


def test_no_prime_breaks_the_public_exponent() -> None:
    prime = generate_prime(64, Random(3).randbytes)
    assert prime.bit_length() == 64
    assert prime >> 62 == 3
    assert gcd(prime - 1, 65_537) == 1


def test_a_generator_that_repeats_itself_is_noticed() -> None:
    prime = generate_prime(256, Random(5).randbytes).to_bytes(32, "big")
    for stuck in (bytes, lambda size: prime[:size]):
        with pytest.raises(InsufficientResourcesError, match="repeats itself"):
            generate_key(512, stuck)


def test_private_keys_survive_a_crash_and_open_what_was_encrypted_for_them() -> None:
    host = DomainHost()
    public = DSPublicKeys.decode(host.own.attributes["public_encryption_key_list"])
    host.kill()
    for level, provider in PRIVACY_PROVIDERS.items():
        entry = public.find(provider)
        assert entry is not None
        algorithm = min(ALLOWED_ALGORITHMS[level])
        session_key = new_session_key(level, algorithm, secrets.token_bytes)
        wrapped = wrap_session_key(session_key, import_public_key(entry.key))
        opened = unwrap_session_key(wrapped, level, algorithm, host.manager.keys.decryption_keys())
        assert opened == session_key


def test_no_key_shows_itself_in_a_log() -> None:
    assert repr(KeyRing.generate(KeyBox())) == "KeyRing()"


def test_the_providers_are_those_with_a_privacy_level() -> None:
    assert set(KEY_BITS) == set(PRIVACY_PROVIDERS.values())

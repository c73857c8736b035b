"""The keys that queue managers of tests are given (tests/keys.py)."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from random import Random

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from msmq.manager.access.keys import KEY_BITS, KeyRing
from tests.keys import HOSTS, Keys


def numbers(make: Callable[[int], RSAPrivateKey]) -> list[int]:
    ring = KeyRing.generate(make)
    keys = [*ring.exchange.items(), *ring.sign.items()]
    assert [(provider, key.key_size) for provider, key in keys] == 2 * list(KEY_BITS.items())
    return [key.private_numbers().p for _, key in keys]


def test_neighbours_have_keys_of_their_own() -> None:
    """In one process, and in forks of one that has made them all; then the same keys are given again."""
    keys = Keys()
    make = partial(keys, random_bytes=os.urandom)
    given = [numbers(make) for _ in range(HOSTS)]
    assert len({key for each in given for key in each}) == HOSTS * 2 * len(KEY_BITS)
    assert [numbers(make) for _ in range(HOSTS)] == given
    keys.pass_on()
    assert numbers(make) == given[1]


def test_whoever_has_randomness_of_their_own_makes_keys_of_it() -> None:
    one, other = (numbers(partial(Keys(), random_bytes=Random(1).randbytes))[0] for _ in range(2))
    assert one == other, "the first has 512 bits, which are found here"
    assert KEY_BITS[next(iter(KEY_BITS))] == 512

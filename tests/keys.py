"""Keys for the queue managers of tests: a few are made, and each queue manager is given some that its neighbours do not
have.

Making its keys takes most of a queue manager's first start, and tests start thousands. Who has randomness of their own
(`msmq.testing`) makes keys of it as ever.
"""

from __future__ import annotations

import os
from collections import Counter
from unittest import mock

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from msmq.manager.access.keys import KEY_BITS, RandomBytes, generate_key

HOSTS = 6
"""So many queue managers, one started after the other, have keys of their own."""
EACH = Counter([*KEY_BITS.values(), *KEY_BITS.values()])
"""How many keys of each length a queue manager has."""


class Keys:
    """Makes keys until there are enough, and gives the same ones again, the oldest first."""

    def __init__(self) -> None:
        self._made: dict[int, list[RSAPrivateKey]] = {bits: [] for bits in EACH}
        self._given: Counter[int] = Counter()

    def __call__(self, bits: int, random_bytes: RandomBytes) -> RSAPrivateKey:
        if random_bytes is not os.urandom or bits not in EACH:
            return generate_key(bits, random_bytes)
        made, number = self._made[bits], self._given[bits]
        self._given[bits] += 1
        if len(made) < HOSTS * EACH[bits]:
            made.append(generate_key(bits, random_bytes))
            return made[-1]
        return made[number % len(made)]

    def make(self) -> None:
        """Make all of them at once."""
        for bits, count in EACH.items():
            for _ in range(HOSTS * count):
                self(bits, os.urandom)

    def pass_on(self) -> None:
        """Leave the next ones to a fork of this process."""
        self._given += EACH

    def use(self) -> None:
        """Have every queue manager in this process given keys from here."""
        mock.patch("msmq.manager.initialization.generate_key", self).start()

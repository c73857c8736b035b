"""Waits and locks for those who guess."""

from __future__ import annotations

import pytest

from msmq.admission.guesses import (
    FORGET_S,
    FREE,
    FREE_OF_ADDRESS,
    LONGEST_S,
    Guesses,
    LockOut,
    place_of,
)


class Watch:
    """Guesses with a clock that is moved by hand."""

    def __init__(self, lock_out: LockOut | None = None) -> None:
        self.now_s = 1_000.0
        self.told: list[str] = []
        self.guesses = Guesses(lambda: self.now_s, self.told.append, lock_out)

    def miss(self, account: str, address: str, times: int = 1) -> None:
        for _ in range(times):
            self.guesses.failed(account, address, "wrong password")


def test_the_wait_grows() -> None:
    watch = Watch()
    waits = []
    for _ in range(12):
        watch.miss("alice", "10.0.0.7")
        waits.append(watch.guesses.wait_s("Alice", "10.0.0.7"))
    assert waits[:7] == [0, 0, 1, 2, 4, 8, 16]
    assert waits[-1] == LONGEST_S
    assert watch.guesses.wait_s("alice", "10.0.0.8") == 0, "elsewhere nobody has to wait"
    assert watch.guesses.wait_s("bob", "10.0.0.7") == 0
    watch.now_s += LONGEST_S
    assert watch.guesses.wait_s("alice", "10.0.0.7") == 0
    watch.guesses.succeeded("alice", "10.0.0.7")
    watch.miss("alice", "10.0.0.7", FREE - 1)
    assert watch.guesses.wait_s("alice", "10.0.0.7") == 0, "the mistakes before are forgotten"


def test_a_host_with_many_addresses_guesses_no_faster() -> None:
    watch = Watch()
    for number in range(FREE):
        watch.miss("alice", f"2001:db8::{number + 1:x}")
    assert watch.guesses.wait_s("alice", "2001:db8::ffff") == 1
    assert watch.guesses.wait_s("bob", "2001:db8::ffff") == 0, "its neighbours"
    assert watch.guesses.wait_s("alice", "2001:db8:0:1::1") == 0, "elsewhere"
    watch.now_s += 1
    watch.guesses.succeeded("alice", "2001:db8::2")
    watch.miss("alice", "2001:db8::1", FREE - 1)
    assert watch.guesses.wait_s("alice", "2001:db8::1") == 0, "the mistakes before are forgotten"


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::1", "::1"),
        ("fe80::7%eth0", "fe80::7%eth0"),
        ("uid 1000", "uid 1000"),
        ("", ""),
    ],
)
def test_where_an_address_is(address: str, place: str) -> None:
    assert place_of(address) == place


def test_many_accounts_of_one_address() -> None:
    watch = Watch()
    for number in range(FREE_OF_ADDRESS):
        watch.miss(f"user{number}", "10.0.0.7")
    assert watch.guesses.wait_s("somebody else", "10.0.0.7") == 1
    assert watch.guesses.wait_s("", "10.0.0.7") == 1, "tokens too"
    watch.now_s += FORGET_S + 1
    watch.miss("alice", "10.0.0.7")
    assert watch.guesses.wait_s("alice", "10.0.0.7") == 0


def test_tokens_have_no_account() -> None:
    watch = Watch()
    watch.miss("", "10.0.0.7", FREE_OF_ADDRESS - 1)
    assert watch.guesses.wait_s("", "10.0.0.7") == 0
    watch.miss("", "10.0.0.7")
    assert watch.guesses.wait_s("", "10.0.0.7") == 1


def test_an_account_is_locked_where_that_is_wanted() -> None:
    for lock_out, wait_s in ((None, 0), (LockOut(5, 600), 600)):
        watch = Watch(lock_out)
        for number in range(5):
            watch.miss("alice", f"10.0.0.{number}")
        assert watch.guesses.wait_s("alice", "10.0.0.99") == wait_s
        watch.now_s += 600
        assert watch.guesses.wait_s("alice", "10.0.0.99") == 0


def test_who_whence_and_why() -> None:
    watch = Watch()
    watch.miss("ali\nce", "10.0.0.7")
    assert watch.told == ["'ali\\nce' at 10.0.0.7 is not let in, attempt 1: wrong password"]
    for number in range(100):
        watch.miss("alice", f"10.0.1.{number}")
    assert len(watch.told) == 30
    watch.now_s += 60
    watch.miss("alice", "10.0.2.1")
    assert watch.told[-1].endswith("(71 lines like this were left out)")


def test_what_is_remembered_is_bounded() -> None:
    watch = Watch()
    for number in range(20_000):
        watch.miss(f"user{number}", f"address {number}")
    assert len(watch.guesses._misses) == 10_000

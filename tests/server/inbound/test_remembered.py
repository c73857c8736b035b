"""Duplicates of recoverable messages, told over restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from msmq.errors import MessageStorageFailedError
from msmq.manager.ledger.ledger import Ledger
from msmq.server.inbound.remembered import RememberedIds
from tests.server.support import BOB, Peer, eventually, neighbourhood

SOURCE = bytes(range(16))
NOON = 1_700_000_000


def identifier(number: int, source: bytes = SOURCE) -> bytes:
    return source + number.to_bytes(4, "little")


class FakeLedger:
    """The values, as a restart would find them."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.full = False

    def reserve(self, size: int) -> None:
        if self.full:
            raise MessageStorageFailedError("full")

    def put_value(self, key: str, value: Any) -> None:
        self.values[key] = json.loads(json.dumps(value))

    def drop_value(self, key: str) -> None:
        del self.values[key]


def history(ledger: FakeLedger, now_s: int = NOON, size: int = 10, cleanup_ms: int = 60_000) -> RememberedIds:
    return RememberedIds(cast(Ledger, ledger), dict(ledger.values), cleanup_ms, now_s, size)


@pytest.mark.spec("MQQB-3.1.5.8.2-d", "MQQB-3.1.3.1-b")
def test_entries_are_found_again() -> None:
    ledger = FakeLedger()
    before = history(ledger)
    assert before.deadline_s is None, "the timer does not run for nothing"
    before.record(identifier(1), NOON, recoverable=True)
    assert before.deadline_s == NOON + 60
    before.record(identifier(2), NOON, recoverable=False)
    before.record(identifier(3, bytes(16)), NOON, recoverable=True)
    before.write(NOON)
    before.write(NOON)
    assert len(ledger.values) == 1
    assert len(before) == 3
    after = history(ledger, NOON + 5)
    assert after.seen(identifier(1), NOON + 5)
    assert not after.seen(identifier(2), NOON + 5), "an express message was lost as well"
    assert after.seen(identifier(3, bytes(16)), NOON + 5)
    assert after.deadline_s == NOON + 65
    after.record(identifier(4), NOON + 5, recoverable=True)
    after.write(NOON + 5)
    assert len(ledger.values) == 2, "new values do not replace old ones"


def test_each_start_goes_on_where_the_last_one_ended() -> None:
    ledger = FakeLedger()
    for number in range(1, 7):
        remembered = history(ledger, NOON + number)
        remembered.record(identifier(number), NOON + number, recoverable=True)
        remembered.write(NOON + number)
    assert all(history(ledger, NOON + 7).seen(identifier(number), NOON + 7) for number in range(1, 7))


def test_numbers_that_count_on_are_few_bytes() -> None:
    ledger = FakeLedger()
    before = history(ledger, size=1_000)
    before.record_all(SOURCE, range(5, 205), NOON, recoverable=True)
    before.write(NOON)
    before.record_all(SOURCE, (300, 302), NOON, recoverable=True)
    before.record(identifier(210), NOON, recoverable=True)
    before.write(NOON)
    assert [value[1][SOURCE.hex()] for value in ledger.values.values()] == [[[5, 200]], [300, 302, 210]]
    after = history(ledger, size=1_000)
    assert len(after) == 203
    assert list(after.fresh(SOURCE, (204, 4, 205, 301), range(4), NOON)) == [1, 2, 3]


@pytest.mark.spec("MQQB-3.1.5.8.2-d")
def test_the_oldest_make_room() -> None:
    ledger = FakeLedger()
    remembered = history(ledger)
    for number in range(1, 31):
        remembered.record(identifier(number), NOON + number, recoverable=True)
        if number % 3 == 0:
            remembered.write(NOON + number)
    assert len(remembered) == 10
    after = history(ledger, NOON + 40)
    assert [number for number in range(1, 31) if after.seen(identifier(number), NOON + 40)] == list(
        range(21, 31)
    )
    assert len(ledger.values) == 4


def test_values_go_with_their_time() -> None:
    ledger = FakeLedger()
    remembered = history(ledger)
    for number, time_s in ((1, NOON), (2, NOON + 50)):
        remembered.record(identifier(number), time_s, recoverable=True)
        remembered.write(time_s)
    remembered.handle_timer(NOON + 61)
    assert len(ledger.values) == 1
    remembered.handle_timer(NOON + 200)
    assert not ledger.values
    assert remembered.deadline_s is None


def test_without_room_it_is_only_help() -> None:
    ledger = FakeLedger()
    remembered = history(ledger)
    ledger.full = True
    remembered.record(identifier(1), NOON, recoverable=True)
    remembered.write(NOON)
    assert not ledger.values
    assert remembered.seen(identifier(1), NOON)


async def test_a_message_that_comes_again_after_a_crash_of_the_receiver(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as here:
        bob = await here.node(BOB)
        bob.queue()
        await bob.daemon.commit.drain()
        packet = Peer().message(b"once", recoverable=True)
        for life in range(3):
            peer = Peer()
            await peer.connect(BOB, here.port)
            peer.send(packet, "stored")
            await eventually(lambda peer=peer: peer.acknowledged == ["stored"])
            if life == 1:
                assert bob.receive(bob.find()) == b"once"
                await bob.daemon.commit.drain()
            await peer.close()
            await bob.crash()
            await bob.start()
            assert bob.bodies(bob.find()) == ([b"once"] if life == 0 else [])

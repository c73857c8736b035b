"""Messages that leave together."""

from __future__ import annotations

from array import array
from typing import Any, cast

import pytest

from msmq.manager.mailbox.contents import Found
from msmq.manager.mailbox.positions import Positions
from msmq.manager.mailbox.stored import LocalAttributes
from msmq.server.outbound.runs import (
    LATE,
    PASSING_TH,
    PRIVATE,
    Run,
    awaited,
    runs_in,
    runs_of,
    together,
)
from msmq.wire.classes import MessageClass
from msmq.wire.headers import USER_JN, USER_JP, USER_RECOVERABLE, USER_TH, MessagePropertiesHeader
from msmq.wire.layout import FIXED_SIZE, PROPERTIES
from tests.transfer import support

NOW_S = 1_000_000
OURS = support.OURS
THEIRS = support.THEIRS
NOBODY = cast(Any, None)


def packet(
    *,
    source: bytes = OURS,
    flags: int = 0,
    ttrq_s: int = 0xFFFFFFFF,
    age_s: int = 0,
    message_class: int = MessageClass.NORMAL,
) -> bytes:
    """The headers of a message without names."""
    data = bytearray(FIXED_SIZE + MessagePropertiesHeader.SIZE)
    start = FIXED_SIZE + PROPERTIES["message_class"]
    data[start : start + 2] = message_class.to_bytes(2, "little")
    data[12:16] = ttrq_s.to_bytes(4, "little")
    data[16:32] = source
    data[48:52] = (0xFFFFFFFF).to_bytes(4, "little")
    data[52:56] = (NOW_S - age_s).to_bytes(4, "little")
    data[60:64] = flags.to_bytes(4, "little")
    return bytes(data)


def found(*packets: bytes, private: tuple[int, ...] = (), other: tuple[int, ...] = ()) -> Found:
    local = dict.fromkeys(private, LocalAttributes(private=True))
    local |= dict.fromkeys(other, LocalAttributes(application_deadletter_queue="host\\private$\\dead"))
    ids = array("Q", range(70, 70 + len(packets)))
    positions = Positions(ids, array("Q"), array("I"), bytearray(), bytearray(), array("H"))
    return Found(positions, packets=list(packets), local=local)


def runs(given: Found) -> list[tuple[Run, int, list[int]]]:
    return list(runs_in(NOBODY, given, OURS, NOW_S))


def places(given: Found) -> list[list[int]]:
    """Where the messages of each run stood."""
    return [[lookup_id - 70 for lookup_id in run.lookup_ids] for run, _, _ in runs(given)]


def test_neighbours_that_need_the_same_are_one_run() -> None:
    express, durable = packet(), packet(flags=USER_RECOVERABLE)
    order = packet(flags=USER_RECOVERABLE | USER_TH)
    passing = packet(flags=USER_RECOVERABLE | USER_TH, source=THEIRS)
    given = found(express, durable, express, durable, durable, order, order, passing, other=(1, 2))
    assert places(given) == [[0, 1, 2, 3, 4], [5, 6], [7]]
    assert [run.express for run, _, _ in runs(given)] == [bytes((1, 0, 1, 0, 0)), None, None]
    assert [kind & PASSING_TH == USER_TH for _, kind, _ in runs(given)] == [False, True, False]
    assert [kept for _, _, kept in runs(given)] == [[], [], []]


@pytest.mark.parametrize("recoverable", [0, USER_RECOVERABLE], ids=["express", "recoverable"])
def test_what_is_journaled_on_arrival(recoverable: int) -> None:
    journaled = packet(flags=recoverable | USER_JP)
    passing = packet(flags=recoverable | USER_JP, source=THEIRS)
    acknowledgment = packet(flags=recoverable | USER_JP, message_class=MessageClass.ACK_RECEIVE)
    ((_, _, kept), (_, _, of_others)) = runs(found(packet(), journaled, acknowledgment, journaled, passing))
    assert kept == [71, 73]
    assert of_others == [], "it is journaled by the host that sent it"
    ((_, _, kept),) = runs(found(packet(flags=USER_RECOVERABLE | USER_JP | USER_TH)))
    assert kept == []  # by its FinalAck


@pytest.mark.spec("MQMQ-2.2.19.1-s")
def test_who_is_late_or_private_stands_alone() -> None:
    late, fresh = packet(ttrq_s=5, age_s=6), packet(ttrq_s=5, age_s=5)
    given = found(fresh, late, late, fresh, fresh, private=(3, 4))
    assert places(given) == [[0], [1], [2], [3], [4]]
    assert [bool(kind & LATE) for _, kind, _ in runs(given)] == [False, True, True, False, False]
    assert [bool(kind & PRIVATE) for _, kind, _ in runs(given)] == [False, False, False, True, True]


def test_a_sequence_of_others_does_not_expire_on_its_way() -> None:
    late = packet(flags=USER_TH, source=THEIRS, ttrq_s=5, age_s=6)
    assert [bool(kind & LATE) for _, kind, _ in runs(found(late))] == [False]


def test_a_part_has_what_the_whole_has() -> None:
    run = Run(NOBODY, array("Q", (7, 8, 9)), 21, bytes((1, 0, 1)), [b"a", b"b", b"c"], 5)
    assert run.part(0, 3) is run
    part = run.part(1, 3)
    assert (list(part.lookup_ids), part.number, part.packets) == ([8, 9], 22, [b"b", b"c"])
    assert (part.express, part.durable_at) == (bytes((0, 1)), 5)
    assert list(part.numbers) == [22, 23]
    assert len(run.part(0, 0)) == 0
    plain = Run(NOBODY, array("Q", (7, 8, 9)))
    assert (plain.part(1, 2).number, list(plain.numbers)) == (0, [])


@pytest.mark.parametrize(
    ("wanted", "left"),
    [("111", [[7, 8, 9]]), ("101", [[7], [9]]), ("011", [[8, 9]]), ("110", [[7, 8]]), ("000", [])],
)
def test_what_is_left(wanted: str, left: list[list[int]]) -> None:
    run = Run(NOBODY, array("Q", (7, 8, 9)), 21)
    parts = list(run.parts([sign == "1" for sign in wanted]))
    assert [list(part.lookup_ids) for part in parts] == left
    assert all(part.number - 21 == part.lookup_ids[0] - 7 for part in parts)


def test_places_without_gaps_are_one_run() -> None:
    made = runs_of(NOBODY, [(1, 70), (2, 80), (4, 75), (5, 76)], 3)
    assert [(run.number, list(run.lookup_ids)) for run in made] == [(1, [70, 80]), (4, [75, 76])]
    assert {run.durable_at for run in made} == {3}


def test_only_some_are_late_of_those_that_are_looked_at_together() -> None:
    """They differ in their time alone, and each is judged by its own."""
    given = found(*(packet(ttrq_s=5, age_s=age_s) for age_s in (5, 5, 6, 4, 7)))
    assert places(given) == [[0, 1], [2], [3], [4]]
    assert [bool(kind & LATE) for _, kind, _ in runs(given)] == [False, True, False, True]


def test_who_may_want_to_hear_of_a_final_acknowledgment() -> None:
    plain = support.journaled(1).data
    asking = [
        support.journaled(2, final_ack=True).data,
        support.journaled(3, positive=True).data,
        support.journaled(4, negative=True).data,
    ]
    other = bytearray(plain)
    other[60:64] = (int.from_bytes(other[60:64], "little") | 1).to_bytes(4, "little")
    assert list(awaited([plain, plain])) == []
    assert list(awaited([plain, bytes(other)])) == []
    assert [index for index, _, _ in awaited([plain, asking[0], plain])] == [1]
    assert [(index, number) for index, number, _ in awaited([*asking, plain])] == [(0, 2), (1, 3), (2, 4)]
    assert [flags & (USER_JP | USER_JN) for _, _, flags in awaited(asking)] == [0, USER_JP, USER_JN]


def test_parts_of_a_run_come_together_again() -> None:
    run = Run(NOBODY, array("Q", range(70, 76)), 21)
    other = Run(NOBODY, array("Q", (90,)), 30)
    express = Run(NOBODY, array("Q", (95, 96)))
    parts = [run.part(0, 2), run.part(2, 5), run.part(5, 6), other, express, express]
    merged = together(parts)
    assert [(each.number, list(each.lookup_ids)) for each in merged] == [
        (21, list(range(70, 76))),
        (30, [90]),
        (0, [95, 96]),
        (0, [95, 96]),
    ]
    assert len(run) == 6
    assert list(parts[0].lookup_ids) == [70, 71], "the parts are still what they were"


def test_what_has_no_place_stays_apart_from_what_has_the_next_number() -> None:
    """One message without a number, then the first of a sequence: 0 + 1 is 1, and they are not neighbours."""
    without = Run(NOBODY, array("Q", (90,)))
    first = Run(NOBODY, array("Q", (91,)), 1)
    merged = together([without, first, without])
    assert [(each.number, list(each.lookup_ids)) for each in merged] == [(0, [90]), (1, [91]), (0, [90])]

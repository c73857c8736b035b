"""Messages that leave together."""

from __future__ import annotations

from array import array
from typing import Any, cast

import pytest

from msmq.manager.mailbox.contents import Found
from msmq.manager.mailbox.stored import LocalAttributes
from msmq.server.outbound.runs import (
    LATE,
    ODD,
    PASSING_TH,
    Run,
    alike,
    awaited,
    is_simple,
    runs_of,
    together,
)
from msmq.wire.headers import USER_RECOVERABLE, USER_TH
from tests.transfer import support

NOW_S = 1_000_000
OURS = support.OURS
THEIRS = support.THEIRS
NOBODY = cast(Any, None)


def packet(*, source: bytes = OURS, flags: int = 0, ttrq_s: int = 0xFFFFFFFF, age_s: int = 0) -> bytes:
    data = bytearray(64)
    data[12:16] = ttrq_s.to_bytes(4, "little")
    data[16:32] = source
    data[48:52] = (0xFFFFFFFF).to_bytes(4, "little")
    data[52:56] = (NOW_S - age_s).to_bytes(4, "little")
    data[60:64] = flags.to_bytes(4, "little")
    return bytes(data)


def found(*packets: bytes, odd: tuple[int, ...] = ()) -> Found:
    return Found(packets=list(packets), local=dict.fromkeys(odd, LocalAttributes()))


def test_neighbours_that_need_the_same_are_one_run() -> None:
    express, durable = packet(), packet(flags=USER_RECOVERABLE)
    order = packet(flags=USER_RECOVERABLE | USER_TH)
    passing = packet(flags=USER_RECOVERABLE | USER_TH, source=THEIRS)
    given = found(express, express, durable, durable, durable, order, order, passing)
    runs = list(alike(given, OURS, NOW_S))
    assert [(start, stop) for start, stop, _ in runs] == [(0, 2), (2, 5), (5, 7), (7, 8)]
    assert [is_simple(kind) for _, _, kind in runs] == [True, True, True, False]
    assert [kind & PASSING_TH == USER_TH for _, _, kind in runs] == [False, False, True, False]


def test_flags_that_do_not_matter_do_not_part_them() -> None:
    given = found(packet(flags=USER_RECOVERABLE | 1), packet(flags=USER_RECOVERABLE | 0x4000000))
    assert len(list(alike(given, OURS, NOW_S))) == 1


@pytest.mark.parametrize("recoverable", [0, USER_RECOVERABLE], ids=["express", "recoverable"])
def test_what_is_journaled_here_is_not_simple(recoverable: int) -> None:
    ((_, _, kind),) = alike(found(packet(flags=recoverable | 0x200)), OURS, NOW_S)
    assert not is_simple(kind)
    ((_, _, kind),) = alike(found(packet(flags=recoverable | 0x200 | USER_TH)), OURS, NOW_S)
    assert is_simple(kind)  # by its FinalAck


def test_who_is_late_or_odd_stands_alone() -> None:
    late, fresh = packet(ttrq_s=5, age_s=6), packet(ttrq_s=5, age_s=5)
    given = found(fresh, late, late, fresh, fresh, odd=(3, 4))
    runs = list(alike(given, OURS, NOW_S))
    assert [(start, stop) for start, stop, _ in runs] == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    assert [bool(kind & LATE) for _, _, kind in runs] == [False, True, True, False, False]
    assert [bool(kind & ODD) for _, _, kind in runs] == [False, False, False, True, True]
    assert [is_simple(kind) for _, _, kind in runs] == [True, True, True, False, False]


def test_a_sequence_of_others_does_not_expire_on_its_way() -> None:
    late = packet(flags=USER_TH, source=THEIRS, ttrq_s=5, age_s=6)
    assert [bool(kind & LATE) for _, _, kind in alike(found(late), OURS, NOW_S)] == [False]


def test_a_part_has_what_the_whole_has() -> None:
    run = Run(NOBODY, array("Q", (7, 8, 9)), 21, True, True, [b"a", b"b", b"c"], 5)
    assert run.part(0, 3) is run
    part = run.part(1, 3)
    assert (list(part.lookup_ids), part.number, part.packets) == ([8, 9], 22, [b"b", b"c"])
    assert (part.recoverable, part.simple, part.durable_at) == (True, True, 5)
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
    runs = runs_of(NOBODY, [(1, 70), (2, 80), (4, 75), (5, 76)], 3)
    assert [(run.number, list(run.lookup_ids)) for run in runs] == [(1, [70, 80]), (4, [75, 76])]
    assert {run.durable_at for run in runs} == {3}


def test_only_some_are_late_of_those_that_are_looked_at_together() -> None:
    """They differ in their time alone, and each is judged by its own."""
    given = found(*(packet(ttrq_s=5, age_s=age_s) for age_s in (5, 5, 6, 4, 7)))
    runs = list(alike(given, OURS, NOW_S))
    assert [(start, stop, bool(kind & LATE)) for start, stop, kind in runs] == [
        (0, 2, False),
        (2, 3, True),
        (3, 4, False),
        (4, 5, True),
    ]


def test_who_may_want_to_hear_of_a_final_acknowledgment() -> None:
    plain = support.journaled(1).data
    asking = [
        support.journaled(2, final_ack=True).data,
        support.journaled(3, positive=True).data,
        support.journaled(4, negative=True).data,
    ]
    other = bytearray(plain)
    other[60:64] = (int.from_bytes(other[60:64], "little") | 1).to_bytes(4, "little")
    assert awaited([plain, plain]) == []
    assert awaited([plain, bytes(other)]) == []
    assert awaited([plain, asking[0], plain]) == [1]
    assert awaited([*asking, plain]) == [0, 1, 2]


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
    without = Run(NOBODY, array("Q", (90,)), simple=True)
    first = Run(NOBODY, array("Q", (91,)), 1)
    merged = together([without, first, without])
    assert [(each.number, list(each.lookup_ids)) for each in merged] == [(0, [90]), (1, [91]), (0, [90])]

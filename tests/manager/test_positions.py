"""The ordered places of a queue against a plain sorted dictionary."""

from __future__ import annotations

import tracemalloc
from array import array

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from msmq.manager.positions import END, START, Entry, PositionList, PositionMark, PositionState

AVAILABLE, LOCKED, PENDING = PositionState.AVAILABLE, PositionState.LOCKED, PositionState.PURGE_PENDING

OWES_NOTHING = int(PositionMark.OWES_NOTHING)


def lookup_id(priority: int, number: int) -> int:
    return (7 - priority) << 56 | number


def _is_plain(entry: Entry) -> bool:
    return entry.marks == OWES_NOTHING and entry.address != 0


class PositionMachine(RuleBasedStateMachine):
    """Everything a queue does to its places, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.list = PositionList()
        self.model: dict[int, Entry] = {}
        self.number = 0
        self.taken: list[Entry] = []

    @rule(
        priority=st.integers(0, 7),
        size=st.integers(1, 5000),
        count=st.integers(1, 300),
        marks=st.sampled_from([0, OWES_NOTHING, OWES_NOTHING, OWES_NOTHING]),
        on_disk=st.sampled_from([True, True, True, False]),
    )
    def arrive(self, priority: int, size: int, count: int, marks: int, on_disk: bool) -> None:
        for _ in range(count):
            self.number += 1
            address = self.number * 8 if on_disk else 0
            entry = Entry(lookup_id(priority, self.number), address, size, AVAILABLE, marks)
            self.list.add(*entry)
            self.model[entry.lookup_id] = entry

    @rule(
        priority=st.integers(0, 7),
        sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=1200),
        marks=st.sampled_from([0, OWES_NOTHING]),
        on_disk=st.booleans(),
    )
    def arrive_together(self, priority: int, sizes: list[int], marks: int, on_disk: bool) -> None:
        first = lookup_id(priority, self.number + 1)
        self.number += len(sizes)
        lookup_ids = range(first, first + len(sizes))
        addresses = [8 * each if on_disk else 0 for each in range(1, len(sizes) + 1)]
        self.list.add_run(lookup_ids, addresses, sizes, marks)
        for each, address, size in zip(lookup_ids, addresses, sizes, strict=True):
            self.model[each] = Entry(each, address, size, AVAILABLE, marks)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), state=st.sampled_from([AVAILABLE, LOCKED, PENDING]))
    def change(self, data: st.DataObject, state: PositionState) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.model)))
        self.list.set_state(chosen, state)
        self.model[chosen] = self.model[chosen]._replace(state=state)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), count=st.integers(1, 200))
    def take(self, data: st.DataObject, count: int) -> None:
        places = sorted(self.model)
        start = data.draw(st.integers(0, len(places) - 1))
        for chosen in places[start : start + count]:
            assert self.list.remove(chosen) == self.model[chosen]
            self.taken.append(self.model.pop(chosen))

    @rule(most=st.integers(1, 600), most_bytes=st.sampled_from([1, 5000, 1 << 40]), lock=st.booleans())
    def look_at_plain_ones(self, most: int, most_bytes: int, lock: bool) -> None:
        """Those from the front, until one is not plain or it is enough."""
        expected: list[Entry] = []
        for entry in (self.model[key] for key in sorted(self.model) if self.model[key].state is AVAILABLE):
            enough = len(expected) == most or sum(each.size for each in expected) >= most_bytes
            if enough or not _is_plain(entry):
                break
            expected.append(entry)
        run = self.list.plain_run(most, most_bytes)
        assert list(zip(run.lookup_ids, run.addresses, run.sizes, strict=True)) == [
            entry[:3] for entry in expected
        ]
        if lock:
            self.list.lock_run(run)
            for entry in expected:
                self.model[entry.lookup_id] = entry._replace(state=LOCKED)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), count=st.integers(1, 600), step=st.integers(1, 3))
    def take_locked_ones(self, data: st.DataObject, count: int, step: int) -> None:
        """Neighbours, or every second or third one."""
        places = sorted(self.model)
        start = data.draw(st.integers(0, len(places) - 1))
        chosen = places[start::step][:count]
        run = self.list.locked_run(array("Q", chosen))
        expected = [self.model[key] for key in chosen]
        if not all(_is_plain(entry) and entry.state is LOCKED for entry in expected):
            assert run is None
            return
        assert run is not None
        assert list(run.lookup_ids) == chosen
        assert self.list.remove_run(run) == sum(entry.size for entry in expected)
        self.taken += [self.model.pop(key) for key in chosen]

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        """A message moved away returns to its old place among its neighbours."""
        entry = self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1)))
        self.list.add(*entry)
        self.model[entry.lookup_id] = entry

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def relocate(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.model)))
        self.list.set_address(chosen, 7)
        self.model[chosen] = self.model[chosen]._replace(address=7)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), state=st.sampled_from([AVAILABLE, PositionState.LOCKED]))
    def many_at_once(self, data: st.DataObject, state: PositionState) -> None:
        """Neighbours, with and without gaps, in any order, and some that are not there."""
        chosen = array("Q", data.draw(st.lists(st.sampled_from(sorted(self.model)), unique=True)))
        if data.draw(st.booleans()):
            chosen = array("Q", sorted(chosen))
        here = [self.model[key] for key in chosen]
        missing = array("Q", (lookup_id(3, 1 << 40), lookup_id(0, 1 << 40)))
        found = self.list.standing(missing[:1] + chosen + missing[1:])
        assert list(found.ids) == list(chosen)
        assert list(found.addresses) == [entry.address for entry in here]
        assert list(found.sizes) == [entry.size for entry in here]
        self.list.set_states(chosen, state)
        for key in chosen:
            self.model[key] = self.model[key]._replace(state=state)
        if data.draw(st.booleans()):
            assert self.list.remove_all(missing[:1] + chosen) == sum(entry.size for entry in here)
            for key in chosen:
                self.taken.append(self.model.pop(key))

    @rule(priority=st.integers(0, 7), number=st.integers(0, 1000))
    def look_around(self, priority: int, number: int) -> None:
        place = lookup_id(priority, number)
        ordered = [self.model[key] for key in sorted(self.model)]
        assert list(self.list.after(place)) == [entry for entry in ordered if entry.lookup_id > place]
        assert list(self.list.before(place)) == [entry for entry in ordered if entry.lookup_id < place][::-1]
        assert self.list.get(place) == self.model.get(place)
        available = [entry for entry in ordered if entry.state is AVAILABLE]
        behind = [entry for entry in available if entry.lookup_id > place]
        in_front = [entry for entry in available if entry.lookup_id < place]
        assert self.list.next_available(place) == (behind[0] if behind else None)
        for most in (0, 1, number, len(behind) + 1):
            assert self.list.available_run(place, most) == behind[:most]
            stretch = self.list.available_stretch(place, max(most, 1))
            ids = [] if stretch is None else list(stretch.ids)
            assert ids == [entry.lookup_id for entry in behind[: len(ids)]]
            assert bool(ids) == bool(behind)
            assert len(ids) <= max(most, 1)
        assert self.list.previous_available(place) == (in_front[-1] if in_front else None)

    @invariant()
    def same(self) -> None:
        ordered = [self.model[key] for key in sorted(self.model)]
        assert list(self.list) == ordered
        assert list(self.list.before(END)) == ordered[::-1]
        assert len(self.list) == len(ordered)
        assert self.list.total_bytes == sum(entry.size for entry in ordered)
        available = [entry for entry in ordered if entry.state is AVAILABLE]
        assert self.list.next_available(START) == (available[0] if available else None)
        assert self.list.previous_available(END) == (available[-1] if available else None)


TestPositions = PositionMachine.TestCase
TestPositions.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


def test_order_is_priority_then_arrival_between_start_and_end() -> None:
    places = PositionList()
    assert list(places.after(START)) == [], "the head of an empty list is its end"
    ids = [lookup_id(priority, number) for number, priority in enumerate((3, 7, 3, 0), start=1)]
    for place in ids:
        places.add(place, 0, 1)
    assert [entry.lookup_id for entry in places] == [ids[1], ids[0], ids[2], ids[3]]
    assert list(places.after(END)) == []
    assert list(places.before(START)) == []


def test_places_that_are_gone_are_no_run() -> None:
    places = PositionList()
    for number in (1, 2):
        places.add(lookup_id(3, number), 8 * number, 10, LOCKED, OWES_NOTHING)
    places.remove(lookup_id(3, 1))
    assert places.locked_run(array("Q", [lookup_id(3, 1)])) is None
    assert places.locked_run(array("Q", [lookup_id(3, 2), lookup_id(5, 9)])) is None
    assert places.locked_run(array("Q", [lookup_id(3, 2)])) is not None


def test_a_million_places_take_little_room() -> None:
    tracemalloc.start()
    places = PositionList()
    for number in range(100_000):
        places.add(lookup_id(3, number), number, 1000)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / 100_000 < 30, "bytes a place"

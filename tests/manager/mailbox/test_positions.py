"""The ordered places of a queue against a plain sorted dictionary."""

from __future__ import annotations

import tracemalloc
from array import array

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from msmq.manager.mailbox.positions import END, START, Entry, PositionList, PositionMark, PositionState

AVAILABLE, LOCKED, PENDING = PositionState.AVAILABLE, PositionState.LOCKED, PositionState.PURGE_PENDING

OWES_NOTHING = int(PositionMark.OWES_NOTHING)


def lookup_id(priority: int, number: int) -> int:
    return (7 - priority) << 56 | number


def front_of(lookup_id: int) -> int:
    return lookup_id % 100


class PositionMachine(RuleBasedStateMachine):
    """Everything a queue does to its places, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.list = PositionList()
        self.model: dict[int, Entry] = {}
        self.number = 0
        self.taken: list[Entry] = []

    @rule(
        arrivals=st.lists(
            st.tuples(
                st.integers(0, 7), st.integers(1, 5000), st.sampled_from([0, OWES_NOTHING]), st.booleans()
            ),
            min_size=1,
            max_size=5,
        ),
        times=st.integers(1, 300),
        state=st.sampled_from([AVAILABLE, AVAILABLE, LOCKED]),
    )
    def arrive(self, arrivals: list[tuple[int, int, int, bool]], times: int, state: PositionState) -> None:
        """Messages of one priority or of several, as one batch."""
        batch = []
        for priority, size, marks, on_disk in arrivals * times:
            self.number += 1
            address = self.number * 8 if on_disk else 0
            batch.append(Entry(lookup_id(priority, self.number), address, size, state, marks))
        ids, addresses, sizes, _, marks_of = zip(*batch, strict=True)
        self.list.add(ids, addresses, sizes, list(map(front_of, ids)), bytes(marks_of), state)
        self.model.update((entry.lookup_id, entry) for entry in batch)

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
        chosen = array("Q", places[start : start + count])
        assert self.list.remove(chosen) == sum(self.model[key].size for key in chosen)
        self.taken += [self.model.pop(key) for key in chosen]

    @rule(
        most=st.integers(1, 600),
        most_bytes=st.sampled_from([1, 5000, 1 << 40]),
        behind=st.sampled_from([START, lookup_id(3, 100), lookup_id(0, 7)]),
        upto=st.sampled_from([END, lookup_id(3, 500), lookup_id(7, 1 << 50)]),
        lock=st.booleans(),
    )
    def look(self, most: int, most_bytes: int, behind: int, upto: int, lock: bool) -> None:
        """Available ones in their order, until it is enough."""
        expected: list[Entry] = []
        for key in sorted(self.model):
            entry = self.model[key]
            if entry.state is not AVAILABLE or not behind < key <= upto:
                continue
            if len(expected) == most or sum(each.size for each in expected) >= most_bytes:
                break
            expected.append(entry)
        found = self.list.available(behind, most, most_bytes, upto)
        assert list(map(Entry._make, zip(*found[:-1], strict=True))) == expected
        assert list(found.fronts) == list(map(front_of, found.ids))
        if lock:
            self.list.set_states(found.ids, LOCKED)
            for entry in expected:
                self.model[entry.lookup_id] = entry._replace(state=LOCKED)

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        """A message moved away returns to its old place among its neighbours."""
        entry = self.taken.pop(data.draw(st.integers(0, len(self.taken) - 1)))
        lookup, address, size, state, marks = entry
        self.list.add([lookup], [address], [size], [front_of(lookup)], bytes([marks]), state)
        self.model[entry.lookup_id] = entry

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def relocate(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.model)))
        self.list.set_address(chosen, 7)
        self.model[chosen] = self.model[chosen]._replace(address=7)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), state=st.sampled_from([AVAILABLE, LOCKED, PENDING]))
    def many_at_once(self, data: st.DataObject, state: PositionState) -> None:
        """Neighbours, with small and large gaps, in any order, and some that are not there."""
        every = sorted(self.model)
        if data.draw(st.booleans()):
            chosen = array("Q", data.draw(st.lists(st.sampled_from(every), unique=True)))
        else:
            start, step = data.draw(st.integers(0, len(every) - 1)), data.draw(st.integers(1, 40))
            chosen = array("Q", every[start : start + 600 : step])
        ordered = array("Q", sorted(chosen))
        here = [self.model[key] for key in ordered]
        missing = array("Q", (lookup_id(7, 0), lookup_id(0, 1 << 40)))
        found = self.list.find(missing[:1] + chosen + missing[1:])
        assert found.ids == ordered
        assert list(found.addresses) == [entry.address for entry in here]
        assert list(found.sizes) == [entry.size for entry in here]
        assert list(found.fronts) == list(map(front_of, ordered))
        assert list(found.states) == [entry.state for entry in here]
        some, others = found.divided({*ordered[::3], *missing})
        assert (some.ids, others.ids) == (ordered[::3], array("Q", sorted({*ordered} - {*ordered[::3]})))
        assert list(some.sizes) == [entry.size for entry in here[::3]]
        self.list.set_states(ordered, state)
        for key in chosen:
            self.model[key] = self.model[key]._replace(state=state)
        if data.draw(st.booleans()):
            assert self.list.remove(missing[:1] + ordered + missing[1:]) == sum(entry.size for entry in here)
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
    places.add(ids, [0] * 4, [1] * 4, [8] * 4, bytes(4))
    assert [entry.lookup_id for entry in places] == [ids[1], ids[0], ids[2], ids[3]]
    assert list(places.after(END)) == []
    assert list(places.before(START)) == []


def test_a_million_places_take_little_room() -> None:
    tracemalloc.start()
    places = PositionList()
    for number in range(0, 100_000, 10):
        first = lookup_id(3, number)
        places.add(range(first, first + 10), range(number, number + 10), [1000] * 10, [8] * 10, bytes(10))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / 100_000 < 30, "bytes a place"

"""Test the store against a model, on a disk that loses power. ``python -m msmq.testing.store_sim SEED`` replays a run.

The model is a dictionary of keys with a payload and a label, changed by *events*. Each event appends its records under
one reserve, so it must survive whole or not at all, and the log must keep the order of events. That makes the check
simple and strict: a crash must leave the state after some number of events, which is at least the number that were
confirmed durable.

Keys whose records were damaged on purpose are left out of the comparison; the others must not be affected.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from random import Random
from struct import Struct
from typing import Final, NamedTuple

from msmq.store import (
    HEAD_SIZE,
    DamagedRecordError,
    RecoveryReport,
    Store,
    StoreFailedError,
    StoreFullError,
    StoreOptions,
)
from msmq.store.layout import (
    BATCH_HEADER_SIZE,
    BATCH_MAGIC,
    INDEX_MARKER,
    RECORD_SIZE,
    footprint,
    place,
    segment_name,
)
from msmq.testing.disk import SECTOR_SIZE, PowerLoss, SimulatedDisk
from msmq.testing.faults import Fault, Faults

PUT: Final = 1
DELETE: Final = 2
LABEL: Final = 3

_FAULTY: Final = 0.05
"""The share of steps that are to meet an internal error; some end before it comes."""
_CALLS_LOG2: Final = 8
"""The most calls that a step makes before it meets one, as a power of two."""

_HEAD: Final = Struct("<QQI20x")
assert _HEAD.size == HEAD_SIZE


class Item(NamedTuple):
    """A key of the model. The payload is made from ``content``, which is also in the head of its record."""

    content: int
    size: int
    label: int

    @property
    def payload(self) -> bytes:
        """The payload; some have stretches of zeros, which on disk look as if they were never written."""
        random = Random(self.content)
        data = random.randbytes(self.size)
        if self.content % 3:
            return data
        start, stop = sorted(random.choices(range(self.size + 1), k=2))
        return data[:start] + bytes(stop - start) + data[stop:]


State = dict[int, Item]
Change = tuple[int, Item | None]


class Record(NamedTuple):
    """Where the payload of a key is."""

    head: bytes
    address: int
    payload_size: int


class Keeper:
    """Plays the queue manager: holds for each key the record and the label that count."""

    def __init__(self, lost_keys: set[int]) -> None:
        self.store: Store | None = None
        self.records: dict[int, Record] = {}
        self.labels: dict[int, int] = {}
        self.lost_keys = lost_keys

    def replay(self, store: Store) -> None:
        self.store = store
        for kind, _, head, address, size in store.recover():
            key, label, _ = _HEAD.unpack(head)
            if kind == LABEL:
                if key in self.records:
                    self.labels[key] = label
                continue
            self.forget(key)
            if kind == PUT:
                self.records[key] = Record(head, address, size)
                self.labels[key] = label

    @property
    def state(self) -> State:
        """What the log says, in terms of the model."""
        return {
            key: Item(_HEAD.unpack(entry.head)[2], entry.payload_size, self.labels[key])
            for key, entry in self.records.items()
        }

    def forget(self, key: int) -> None:
        entry = self.records.pop(key, None)
        if entry is not None:
            assert self.store is not None
            self.store.release(entry.address, entry.payload_size)

    def is_live(self, kind: int, head: bytes, address: int) -> bool:
        entry = self.records.get(_HEAD.unpack(head)[0])
        return entry is not None and entry.address == address

    def current_head(self, kind: int, head: bytes, address: int) -> bytes:
        key, _, content = _HEAD.unpack(head)
        return _HEAD.pack(key, self.labels[key], content)

    def relocated(self, kind: int, head: bytes, old: int, new: int) -> None:
        key = _HEAD.unpack(head)[0]
        self.records[key] = self.records[key]._replace(address=new)

    def lost(self, kind: int, head: bytes, address: int, error: DamagedRecordError) -> None:
        key = _HEAD.unpack(head)[0]
        del self.records[key]
        self.lost_keys.add(key)


class StoreSimulation:
    """A store, its disk and its model. Every method is a step; :meth:`check` must hold after each of them."""

    def __init__(self, rng: Random, options: StoreOptions | None = None, capacity: int | None = None) -> None:
        self.rng = rng
        self.options = options or StoreOptions(
            smallest_segment_bytes=4096,
            largest_segment_bytes=rng.choice((4096, 8192, 32768)),
            largest_batch_bytes=rng.choice((500, 5000, 1 << 22)),
        )
        self.disk = SimulatedDisk(capacity)
        self.disk.lingering = 3
        self.confirmed: State = {}
        self.uncertain: list[tuple[int, list[Change]]] = []
        """Events that are not confirmed yet, each with the number of its last record."""
        self.damaged: set[int] = set()
        self.lost: set[int] = set()
        """Keys whose damaged record the store has given up and reported."""
        self.crashes = 0
        self.steps = 0
        self.faults = Faults()
        self._next_key = 0
        self.store = Store.open(self.disk, self.options, new_id=rng.randbytes(16))
        self.keeper = Keeper(self.lost)
        self.keeper.replay(self.store)

    @property
    def state(self) -> State:
        """The model after all events."""
        state = dict(self.confirmed)
        for _, changes in self.uncertain:
            _change(state, changes)
        return state

    # --- events ---------------------------------------------------------------------------------------------

    def put(self, sizes: list[int]) -> None:
        """Add new keys, all in one event."""
        items = [(self._new_key(), Item(self.rng.getrandbits(32), size, 0)) for size in sizes]
        if self._reserve(sum(sizes), len(sizes), freeing=False):
            for key, item in items:
                self._append_put(key, item)
            self._happened([*items])

    def update(self, size: int) -> None:
        """Give a key another payload."""
        state = self.state
        key = self._any_key(state)
        if key is not None and self._reserve(size, 1, freeing=False):
            item = Item(self.rng.getrandbits(32), size, state[key].label)
            old = self.keeper.records[key]
            self._append_put(key, item)
            self.store.release(old.address, old.payload_size)
            self._happened([(key, item)])

    def delete(self, count: int) -> None:
        """Delete keys, all in one event."""
        keys = list(dict.fromkeys(filter(None, (self._any_key(self.state) for _ in range(count)))))
        if keys and self._reserve(0, len(keys), freeing=True):
            for key in keys:
                self.store.append(DELETE, _HEAD.pack(key, 0, 0), live=False)
                self.keeper.forget(key)
            self._happened([(key, None) for key in keys])

    def label(self, label: int) -> None:
        """Append a record that changes the label of another one."""
        state = self.state
        key = self._any_key(state)
        if key is not None and self._reserve(0, 1, freeing=False):
            self.store.append(LABEL, _HEAD.pack(key, label, 0), live=False)
            self.keeper.labels[key] = label
            self._happened([(key, state[key]._replace(label=label))])

    def _append_put(self, key: int, item: Item) -> None:
        head = _HEAD.pack(key, item.label, item.content)
        cut = self.rng.randint(0, item.size)
        payload = item.payload
        address = self.store.append(PUT, head, (payload[:cut], payload[cut:]))
        self.keeper.records[key] = Record(head, address, item.size)
        self.keeper.labels[key] = item.label

    def _new_key(self) -> int:
        self._next_key += 1
        return self._next_key

    def _any_key(self, state: State) -> int | None:
        keys = sorted(state.keys() - self.damaged)
        return self.rng.choice(keys) if keys else None

    def _reserve(self, size: int, records: int, *, freeing: bool) -> bool:
        before = self.store.appended
        if self.disk.capacity is None and self.rng.random() < 0.3:
            return True  # the event may cross the end of a segment, and must still be whole
        try:
            self.store.reserve(size, records=records, freeing=freeing)
        except StoreFullError:
            assert self.disk.capacity is not None
            assert self.store.appended == before
            return False
        return True

    def _happened(self, changes: list[Change]) -> None:
        self.uncertain.append((self.store.appended, changes))

    # --- the store at work ----------------------------------------------------------------------------------

    def commit(self, between: Callable[[], None] = lambda: None) -> None:
        """Commit; ``between`` is called while the batch is being written."""
        batch = self.store.take()
        between()
        if batch is not None:
            self.store.write(batch)
            assert self.store.durable < batch.lsn or not batch.records, "durable before completed"
            self.store.completed(batch)
        self._confirm()

    def _confirm(self) -> None:
        while self.uncertain and self.uncertain[0][0] <= self.store.durable:
            _change(self.confirmed, self.uncertain.pop(0)[1])

    def clean(self, budget_bytes: int) -> None:
        self.store.clean_step(self.keeper, budget_bytes)

    def compact(self) -> None:
        with suppress(StoreFullError):
            self.store.compact(self.keeper)
        self._confirm()

    # --- the end of the process -----------------------------------------------------------------------------

    def close(self) -> None:
        self.store.close()
        self._confirm_all()
        self.reopen()

    def _confirm_all(self) -> None:
        self.confirmed, self.uncertain = self.state, []

    def kill(self) -> None:
        """Kill the process; the machine goes on."""
        self.disk.kill()
        self.reopen()

    def crash(self) -> None:
        self.crashes += 1
        self.disk.crash(self.rng)
        self.reopen()

    def fail_sync(self) -> None:
        """Let a sync fail: the store must refuse everything until it is opened again."""
        self.disk.failing_syncs = 1
        try:
            self.commit()
        except StoreFailedError:
            self._must_refuse(self.store.take)
            self._must_refuse(lambda: self.store.reserve(1))
            self.rng.choice((self.kill, self.crash))()
        self.disk.failing_syncs = 0

    def _must_refuse(self, call: Callable[[], object]) -> None:
        with suppress(StoreFailedError):
            call()
            raise AssertionError("a failed store went on")

    def reopen(self) -> None:
        """Open the store again, as often as the power fails meanwhile, and check that it has what it must have."""
        reports: list[RecoveryReport] = []
        while True:
            if self.rng.random() < 0.2:
                self.disk.crash_at(self.rng.randint(1, 25))
            try:
                self.store = Store.open(self.disk, self.options, new_id=self.rng.randbytes(16))
                self.keeper = Keeper(self.lost)
                self.keeper.replay(self.store)
                break
            except PowerLoss:
                reports.append(self.store.report)
                self.crashes += 1
                self.disk.crash(self.rng)
        reports.append(self.store.report)
        self._settle(any(report.damaged or report.torn for report in reports))

    def _settle(self, told: bool) -> None:
        """Find the number of events after which the model equals what the store has."""
        found = self.keeper.state
        candidate = dict(self.confirmed)
        events = [changes for _, changes in self.uncertain]
        while not self._matches(candidate, found):
            assert events, f"the store lost or invented something: {self._difference(candidate, found)}"
            _change(candidate, events.pop(0))
        for key in self.damaged & candidate.keys():
            if key not in found:
                assert told or key in self.lost, "damage went without a word"
                del candidate[key]
        self.confirmed, self.uncertain = candidate, []
        self.read_all()

    def _matches(self, state: State, found: State) -> bool:
        return all(state.get(key) == found.get(key) for key in (state.keys() | found.keys()) - self.damaged)

    def _difference(self, state: State, found: State) -> str:
        rows = ((key, state.get(key), found.get(key)) for key in sorted(state.keys() | found.keys()))
        return str([row for row in rows if row[1] != row[2] and row[0] not in self.damaged][:5])

    # --- damage ---------------------------------------------------------------------------------------------

    def damage(self) -> None:
        """Flip a bit in a record that is on disk, or in a batch header or an index, or make sectors unreadable."""
        if self.rng.random() < 0.5:
            self._damage_record()
        else:
            self._damage_frame()

    def _damage_record(self) -> None:
        state = self.state
        durable = [
            key for key in self.confirmed.keys() - self.damaged if self.confirmed[key] == state.get(key)
        ]
        if durable:
            key = self.rng.choice(sorted(durable))
            entry = self.keeper.records[key]
            number, offset = place(entry.address)
            within = offset + self.rng.randrange(RECORD_SIZE + entry.payload_size)
            # A copy made by cleaning may not be durable yet, though the record is.
            if not self.store.pending:
                name, end = segment_name(number), offset + RECORD_SIZE + entry.payload_size
                if self.rng.random() < 0.5 or not self.disk.spoil(name, offset, end):
                    self.disk.flip(name, within, 1 << self.rng.randrange(8))
                self.damaged.add(key)

    def _damage_frame(self) -> None:
        """Damage a batch header or an index. Records are found without them, so nothing may be lost.

        The store is reopened at once: if a torn batch came after the damage, nobody could tell what was whole.
        """
        name = self.rng.choice([name for name in self.disk.names() if name.endswith(".log")])
        content = self.disk.durable_content(name)
        places = [
            offset + self.rng.randrange(BATCH_HEADER_SIZE)
            for offset in range(0, len(content), 8)
            if content.startswith(BATCH_MAGIC, offset)
        ]
        index = content.rfind(INDEX_MARKER)
        if index >= 0 and self.rng.random() < 0.3:
            self.disk.spoil(name, index, len(content) + SECTOR_SIZE - 1)
            self.kill()
            return
        if index >= 0:
            places.append(self.rng.randrange(index, len(content)))
        if places:
            self.disk.flip(name, self.rng.choice(places), 1 << self.rng.randrange(8))
            self.kill()

    # --- what must hold -------------------------------------------------------------------------------------

    def read_all(self) -> None:
        """Read every record. A damaged one may have a sound copy; if it has none, the damage must be reported."""
        state = self.state
        records = self.keeper.records
        sound = sorted(records.keys() - self.damaged)
        wanted = [(records[key].address, records[key].payload_size) for key in sound]
        beginnings, rests = self.store.read_many(wanted, [size // 3 for _, size in wanted])
        assert list(map(bytes.__add__, beginnings, rests)) == [state[key].payload for key in sound]
        for key in records.keys() & self.damaged:
            with suppress(DamagedRecordError):
                assert self.store.read(records[key].address) == self.keeper.state[key].payload

    def check(self) -> None:
        """Check what must hold between any two steps."""
        state = self.state
        assert self.lost <= self.damaged, "a sound record was given up"
        assert self.keeper.records.keys() - self.damaged == state.keys() - self.damaged
        if not self.damaged and not self.store.pending:
            expected = sum(footprint(entry.payload_size) for entry in self.keeper.records.values())
            assert self.store.live_bytes == expected
        if self.keeper.records and self.rng.random() < 0.2:
            key = self.rng.choice(sorted(self.keeper.records))
            if key not in self.damaged:
                assert self.store.read(self.keeper.records[key].address) == state[key].payload

    # --- random steps ---------------------------------------------------------------------------------------

    def step(self, *, faulty: float = 0) -> None:
        """Do one step of any kind, sometimes with a power failure ahead or with an internal error in it."""
        self.steps += 1
        if self.rng.random() < 0.1:
            self.disk.crash_at(self.rng.randint(1, 12))
        elif faulty and self.rng.random() < faulty:
            self.faults.arm(int(2 ** self.rng.uniform(0, _CALLS_LOG2)))
        raised = self.faults.raised
        try:
            self._any_step()
        except PowerLoss:
            self.faults.disarm()
            self.crash()
        except Fault:  # the process ends, and what it had not written is lost
            self.faults.disarm()
            self.rng.choice((self.kill, self.crash))()
        else:
            assert self.faults.raised == raised, f"it went on after an internal error in {self.faults.place}"
        finally:
            self.faults.disarm()
        self.check()

    def _any_step(self) -> None:
        rng = self.rng
        size = rng.choice((0, 1, 7, 40, 200, 1000, 1000, 3000, 9000))
        steps: list[tuple[int, Callable[[], None]]] = [
            (20, lambda: self.put([size])),
            (5, lambda: self.put([rng.randint(0, 1500) for _ in range(rng.randint(2, 8))])),
            (10, lambda: self.update(size)),
            (20, lambda: self.delete(rng.choice((1, 1, 1, 5, 30)))),
            (6, lambda: self.label(rng.randint(1, 9))),
            (20, self.commit),
            (8, lambda: self.commit(lambda: self.put([size, 5]))),
            (20, lambda: self.clean(rng.choice((100, 2000, 20000)))),
            (1, self.compact),
            (2, self.close),
            (2, self.kill),
            (2, self.crash),
            (1, self.fail_sync),
        ]
        rng.choices([step for _, step in steps], [weight for weight, _ in steps])[0]()


def _change(state: State, changes: list[Change]) -> None:
    for key, item in changes:
        if item is None:
            state.pop(key, None)
        else:
            state[key] = item


def run(seed: int, steps: int, *, damaging: bool = False) -> StoreSimulation:
    """Run a simulation that depends on ``seed`` alone. With ``damaging`` bits on the disk flip now and then, otherwise
    there are internal errors."""
    rng = Random(seed)
    simulation = StoreSimulation(rng, capacity=rng.choice((None, None, 65536)))
    for _ in range(steps):
        simulation.step(faulty=0 if damaging else _FAULTY)
        if damaging and rng.random() < 0.05:
            simulation.damage()
            simulation.check()
    return simulation


def main(arguments: list[str]) -> None:
    """Run one simulation with ``SEED [STEPS]``; without arguments run one after another until one fails."""
    if arguments:
        steps = int(arguments[1]) if len(arguments) > 1 else 1000
        for damaging in (False, True):
            run(int(arguments[0]), steps, damaging=damaging)
        return
    seed = 0
    while True:
        seed += 1
        sys.stderr.write(f"\rseed {seed}")
        main([str(seed)])


if __name__ == "__main__":
    main(sys.argv[1:])

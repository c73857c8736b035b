"""The position of a stream: one number for each queue and each priority.

A lookup identifier has the priority in its top byte (7 - priority) and below it a number that rises with each arrival.
A late message of a higher priority therefore sorts before messages that were read already, and a single number for a
queue would skip it. So an offset holds, for each queue, the last number read in each of the eight *lanes*; messages of
a lane arrive in the order of their numbers. Transactional queues have one lane, 0.

Numbers belong to one queue manager. Another one, or one that was set up anew, gives the same numbers to other messages,
whatever its name. An offset therefore identifies each queue by GUIDs and says nothing about another queue of the same
name. Offsets that people write may omit this; they then apply to whatever is there.

A queue manager whose data were replaced by an older copy gives out the same numbers again. It detects this by the
*incarnation* in which a position was last moved; a position that starts again because of it says so (``restored``).

The last message of a batch must still be there when the batch is read or repeated, or something was lost; but a message
with a time to be received may expire meanwhile, as its sender wanted. So an offset also says which of its ends may
expire.

The JSON is ``{"version": 1, "queues": {name: {lane: number}}, "identities": {name: {"queue_manager": GUID, "queue":
GUID, "incarnation": text}}, "expiring": {name: [lane, ...]}, "restored": {name: text}}`` with lanes as text in
``queues``, keys sorted, so that the same position is always the same text. The offset of several queue managers
(:class:`FleetOffset`) is ``{"version": 2, "servers": {name: position}}``; one without a name is written as above.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

from msmq.client.queue import QueueIdentity

LANES: Final = 8
_SHIFT: Final = 56
NUMBERS: Final = (1 << _SHIFT) - 1
_VERSION: Final = 1
_FLEET_VERSION: Final = 2


class OffsetError(ValueError):
    """A text that is no offset of this source."""


class Span(NamedTuple):
    """Messages of one lane: those after ``start`` up to and including ``end``, as numbers."""

    queue: str
    lane: int
    start: int
    end: int

    @property
    def first_lookup_id(self) -> int:
        """The lookup identifier before the first message."""
        return self.lane << _SHIFT | self.start

    @property
    def last_lookup_id(self) -> int:
        return self.lane << _SHIFT | self.end

    def split(self, parts: int) -> list[Span]:
        """Divide the span into at most ``parts`` spans of about the same width."""
        width = self.end - self.start
        parts = max(1, min(parts, width))
        edges = [self.start + width * part // parts for part in range(parts + 1)]
        return [Span(self.queue, self.lane, *edge) for edge in pairwise(edges)]


def lane_of(lookup_id: int) -> int:
    return lookup_id >> _SHIFT


def number_of(lookup_id: int) -> int:
    return lookup_id & NUMBERS


class Offset:
    """An immutable position; a lane that it does not name is at its beginning."""

    __slots__ = ("_expiring", "_identities", "_queues", "_restored")

    def __init__(
        self,
        queues: Mapping[str, Mapping[int, int]] | None = None,
        identities: Mapping[str, QueueIdentity] | None = None,
        expiring: Mapping[str, Iterable[int]] | None = None,
        restored: Mapping[str, str] | None = None,
    ) -> None:
        self._queues = {
            name: {lane: number for lane, number in lanes.items() if number}
            for name, lanes in (queues or {}).items()
        }
        self._identities = {
            name: identity for name, identity in (identities or {}).items() if name in self._queues
        }
        self._expiring = {
            name: kept
            for name, lanes in (expiring or {}).items()
            if (kept := frozenset(lanes)) and name in self._queues
        }
        self._restored = {name: since for name, since in (restored or {}).items() if name in self._queues}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Offset)
            and self._queues == other._queues
            and self._identities == other._identities
            and self._expiring == other._expiring
            and self._restored == other._restored
        )

    def __hash__(self) -> int:
        return hash(self.json())

    def __repr__(self) -> str:
        return f"Offset({self._queues!r}, {self._identities!r})"

    @property
    def queues(self) -> tuple[str, ...]:
        return tuple(self._queues)

    @property
    def managers(self) -> set[str]:
        """The GUIDs of the queue managers that have the queues; usually there is one."""
        return {known.queue_manager for known in self._identities.values()}

    def identity(self, queue: str) -> QueueIdentity | None:
        """Return the identity of a queue; None if it is not recorded."""
        return self._identities.get(queue)

    def is_of(self, queue: str, identity: QueueIdentity | None) -> bool:
        """True if this is a position in that very queue, as far as is known."""
        return identity is None or self._identities.get(queue, identity).is_same(identity)

    def lanes(self, queue: str, identity: QueueIdentity | None = None) -> dict[int, int]:
        """Return the last number read of each lane; empty if this is a position in another queue of that name."""
        return dict(self._queues.get(queue, {})) if self.is_of(queue, identity) else {}

    def highest(self, queue: str) -> int:
        """Return the highest number read in a queue."""
        return max(self._queues.get(queue, {}).values(), default=0)

    def renamed(self, names: Callable[[str], str]) -> Offset:
        """Return this position with other names for its queues."""
        return Offset(
            {names(name): lanes for name, lanes in self._queues.items()},
            {names(name): identity for name, identity in self._identities.items()},
            {names(name): lanes for name, lanes in self._expiring.items()},
            {names(name): since for name, since in self._restored.items()},
        )

    def may_expire(self, queue: str, lane: int) -> bool:
        """True if the last message of a lane has a time to be received."""
        return lane in self._expiring.get(queue, ())

    def anew(self, queue: str, identity: QueueIdentity) -> Offset:
        """Return this position with a queue at its beginning, because it is another one than the queue read before, or
        was restored."""
        return Offset(
            self._queues | {queue: {}},
            self._identities | {queue: identity},
            {name: lanes for name, lanes in self._expiring.items() if name != queue},
            self._restored | {queue: identity.incarnation},
        )

    def reading(
        self, queue: str, identity: QueueIdentity, lookup_ids: Iterable[int], expiring: Container[int]
    ) -> Offset:
        """Return this position after more messages of a queue were read, of which some may expire. If none were read it
        stays equal, because Spark compares positions."""
        lanes, ends = self.lanes(queue), set(self._expiring.get(queue, ()))
        moved = queue not in self._queues
        for lookup_id in lookup_ids:
            lane, number = lane_of(lookup_id), number_of(lookup_id)
            if number > lanes.get(lane, 0):
                moved = True
                lanes[lane] = number
                (ends.add if lookup_id in expiring else ends.discard)(lane)
        if not moved:
            return self
        return Offset(
            self._queues | {queue: lanes},
            self._identities | {queue: identity},
            self._expiring | {queue: frozenset(ends)},
            self._restored,
        )

    def spans(self, end: Offset) -> Iterator[Span]:
        """Yield the spans between this position and a later one."""
        for name, lanes in end._queues.items():
            begun = self.lanes(name, end.identity(name))
            if end._restored.get(name) != self._restored.get(name):
                begun = {}
            for lane, number in sorted(lanes.items()):
                start = begun.get(lane, 0)
                if number > start:
                    yield Span(name, lane, start, number)

    def covers(self, queue: str, lookup_id: int) -> bool:
        """True if a message was read before this position."""
        return number_of(lookup_id) <= self._queues.get(queue, {}).get(lane_of(lookup_id), 0)

    # JSON

    def value(self) -> dict[str, Any]:
        """Return the plain JSON values that Spark keeps."""
        queues = {
            name: {str(lane): lanes[lane] for lane in sorted(lanes)}
            for name, lanes in sorted(self._queues.items())
        }
        known = {
            name: {
                field: said for field, said in identity._asdict().items() if field != "incarnation" or said
            }
            for name, identity in sorted(self._identities.items())
        }
        expiring = {name: sorted(lanes) for name, lanes in sorted(self._expiring.items())}
        more = {"identities": known, "expiring": expiring, "restored": dict(sorted(self._restored.items()))}
        return {"version": _VERSION, "queues": queues} | {name: said for name, said in more.items() if said}

    def json(self) -> str:
        return json.dumps(self.value(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def parse(cls, given: str | Mapping[str, Any]) -> Offset:
        """Parse what :meth:`value` or :meth:`json` returned.

        Raises:
            OffsetError: it is something else.
        """
        try:
            value = json.loads(given) if isinstance(given, str) else given
            if value["version"] != _VERSION:
                raise OffsetError(
                    f"this offset has version {value['version']}, and version {_VERSION} is understood here; "
                    "it comes from a newer release"
                )
            queues = {
                str(name): {int(lane): int(number) for lane, number in lanes.items()}
                for name, lanes in value["queues"].items()
            }
            identities = {
                str(name): QueueIdentity(
                    str(known["queue_manager"]), str(known["queue"]), str(known.get("incarnation", ""))
                )
                for name, known in value.get("identities", {}).items()
            }
            expiring = {
                str(name): [int(lane) for lane in lanes] for name, lanes in value.get("expiring", {}).items()
            }
            restored = {str(name): str(since) for name, since in value.get("restored", {}).items()}
        except OffsetError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise OffsetError(f"this is no offset of the source: {str(given)[:200]}") from error
        if any(
            not 0 <= lane < LANES or not 0 <= number <= NUMBERS
            for lanes in queues.values()
            for lane, number in lanes.items()
        ):
            raise OffsetError(f"lanes go from 0 to {LANES - 1}, numbers to 2**{_SHIFT}: {str(given)[:200]}")
        return cls(queues, identities, expiring, restored)


class FleetOffset:
    """An immutable position in the queues of several queue managers, each by the name under which it is reached.

    A position without a name (``""``) belongs to the only server of a source, or was written by people for whatever
    servers there are.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Mapping[str, Offset] | None = None) -> None:
        self._parts = dict(parts or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FleetOffset) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self.json())

    def __repr__(self) -> str:
        return f"FleetOffset({self._parts!r})"

    @property
    def parts(self) -> dict[str, Offset]:
        return dict(self._parts)

    def name_of(self, server: str, queue_manager: str) -> str | None:
        """Return the name under which a server has its position: the one under which the same queue manager was reached
        before, or its own. A queue manager is known by its GUID, because its address may change."""
        names = [name for name, part in self._parts.items() if queue_manager in part.managers]
        if names:
            return server if server in names else names[0]
        if server in self._parts:
            return server
        return "" if "" in self._parts and not self._parts[""].managers else None

    def of(self, server: str, queue_manager: str) -> Offset:
        """Return the position of a server; the beginning if there is none."""
        name = self.name_of(server, queue_manager)
        return Offset() if name is None else self._parts[name]

    def at(self, offsets: Mapping[str, Offset], before: Container[str] = ()) -> FleetOffset:
        """Return this position with new ones for some servers, which were reached ``before`` by other names."""
        others = {name: part for name, part in self._parts.items() if name not in before}
        return FleetOffset(others | dict(offsets))

    def value(self) -> dict[str, Any]:
        """Return the plain JSON values that Spark keeps."""
        if self._parts.keys() <= {""}:
            return self._parts.get("", Offset()).value()
        servers = {name: part.value() for name, part in sorted(self._parts.items())}
        return {"version": _FLEET_VERSION, "servers": servers}

    def json(self) -> str:
        return json.dumps(self.value(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def parse(cls, given: str | Mapping[str, Any]) -> FleetOffset:
        """Parse what :meth:`value` or :meth:`json` returned, or an offset of one server.

        Raises:
            OffsetError: it is something else.
        """
        try:
            value = json.loads(given) if isinstance(given, str) else given
            if value["version"] == _FLEET_VERSION:
                return cls({str(name): Offset.parse(part) for name, part in value["servers"].items()})
        except (AttributeError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise OffsetError(f"this is no offset of the source: {str(given)[:200]}") from error
        return cls({"": Offset.parse(value)})

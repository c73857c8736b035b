"""Where a stream is: a position for each queue and each priority.

A lookup identifier has the priority in its top byte (7 - priority) and below it a number that rises with each arrival.
A late message of a higher priority therefore sorts before ones that were read already, and a single number for a queue
would step over it. So an offset holds, for each queue, the last number read in each of the eight *lanes*; messages of a
lane arrive in the order of their numbers. Transactional queues have one lane, 0.

Numbers are those of one queue manager. Another one, whatever its name, gives the same numbers to other messages, and so
does one that was set up anew. An offset therefore says of each queue which it was, by GUIDs: it says nothing about
another queue of that name. An offset that people write may leave this out; it then counts for whatever is there.

A message that a batch ends with must be there when the batch is read or repeated, or something is lost; but a message
that has a time to be received may expire meanwhile, as its sender wanted. So an offset also names those of its ends.

The JSON is ``{"version": 1, "queues": {name: {lane: number}}, "identities": {name: {"queue_manager": GUID, "queue":
GUID}}, "expiring": {name: [lane, ...]}}`` with lanes as text in ``queues``, keys sorted, so that the same position is
always the same text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

from msmq.client.queue import QueueIdentity

LANES: Final = 8
_SHIFT: Final = 56
_NUMBERS: Final = (1 << _SHIFT) - 1
_VERSION: Final = 1


class OffsetError(ValueError):
    """A text that is no offset of this source."""


class Span(NamedTuple):
    """Messages of one lane: those after ``start`` up to and with ``end``, as numbers."""

    queue: str
    lane: int
    start: int
    end: int

    @property
    def first_lookup_id(self) -> int:
        """The place before the first message."""
        return self.lane << _SHIFT | self.start

    @property
    def last_lookup_id(self) -> int:
        return self.lane << _SHIFT | self.end

    def split(self, parts: int) -> list[Span]:
        """Cut the span into at most ``parts`` spans of about the same width."""
        width = self.end - self.start
        parts = max(1, min(parts, width))
        edges = [self.start + width * part // parts for part in range(parts + 1)]
        return [Span(self.queue, self.lane, *edge) for edge in pairwise(edges)]


def lane_of(lookup_id: int) -> int:
    return lookup_id >> _SHIFT


def number_of(lookup_id: int) -> int:
    return lookup_id & _NUMBERS


class Offset:
    """An immutable position; a lane that is not named stands at its beginning."""

    __slots__ = ("_expiring", "_identities", "_queues")

    def __init__(
        self,
        queues: Mapping[str, Mapping[int, int]] | None = None,
        identities: Mapping[str, QueueIdentity] | None = None,
        expiring: Mapping[str, Iterable[int]] | None = None,
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

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Offset)
            and self._queues == other._queues
            and self._identities == other._identities
            and self._expiring == other._expiring
        )

    def __hash__(self) -> int:
        return hash(self.json())

    def __repr__(self) -> str:
        return f"Offset({self._queues!r}, {self._identities!r})"

    @property
    def queues(self) -> tuple[str, ...]:
        return tuple(self._queues)

    def identity(self, queue: str) -> QueueIdentity | None:
        """Which queue had the name; None if nobody has said."""
        return self._identities.get(queue)

    def is_of(self, queue: str, identity: QueueIdentity | None) -> bool:
        """Whether this is a position in that very queue, as far as is known."""
        return identity is None or self._identities.get(queue, identity) == identity

    def lanes(self, queue: str, identity: QueueIdentity | None = None) -> dict[int, int]:
        """The last number read of each lane; none if this is a position in another queue of that name."""
        return dict(self._queues.get(queue, {})) if self.is_of(queue, identity) else {}

    def may_expire(self, queue: str, lane: int) -> bool:
        """Whether the last message of a lane has a time to be received."""
        return lane in self._expiring.get(queue, ())

    def expiring(self, lanes: Mapping[str, Iterable[int]]) -> Offset:
        """This position, knowing of which lanes the last message may expire."""
        return Offset(self._queues, self._identities, lanes)

    def reading(
        self, lookup_ids: Mapping[str, Iterable[int]], identities: Mapping[str, QueueIdentity] | None = None
    ) -> Offset:
        """This position after more messages were read. Those of another queue of the same name begin anew."""
        known = identities or {}
        queues = {name: dict(lanes) for name, lanes in self._queues.items()}
        for name, found in lookup_ids.items():
            lanes = queues[name] = self.lanes(name, known.get(name))
            for lookup_id in found:
                lane = lane_of(lookup_id)
                lanes[lane] = max(lanes.get(lane, 0), number_of(lookup_id))
        expiring = {
            name: [lane for lane in lanes if queues[name].get(lane) == self._queues[name].get(lane)]
            for name, lanes in self._expiring.items()
        }
        return Offset(queues, self._identities | dict(known), expiring)

    def spans(self, end: Offset) -> Iterator[Span]:
        """What lies between this position and a later one."""
        for name, lanes in end._queues.items():
            begun = self.lanes(name, end.identity(name))
            for lane, number in sorted(lanes.items()):
                start = begun.get(lane, 0)
                if number > start:
                    yield Span(name, lane, start, number)

    def covers(self, queue: str, lookup_id: int) -> bool:
        """Whether a message was read before this position."""
        return number_of(lookup_id) <= self._queues.get(queue, {}).get(lane_of(lookup_id), 0)

    # JSON

    def value(self) -> dict[str, Any]:
        """What Spark keeps: plain values that JSON has."""
        queues = {
            name: {str(lane): lanes[lane] for lane in sorted(lanes)}
            for name, lanes in sorted(self._queues.items())
        }
        known = {name: identity._asdict() for name, identity in sorted(self._identities.items())}
        expiring = {name: sorted(lanes) for name, lanes in sorted(self._expiring.items())}
        more = {"identities": known, "expiring": expiring}
        return {"version": _VERSION, "queues": queues} | {name: said for name, said in more.items() if said}

    def json(self) -> str:
        return json.dumps(self.value(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def parse(cls, given: str | Mapping[str, Any]) -> Offset:
        """Read what :meth:`value` or :meth:`json` gave.

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
                str(name): QueueIdentity(str(known["queue_manager"]), str(known["queue"]))
                for name, known in value.get("identities", {}).items()
            }
            expiring = {
                str(name): [int(lane) for lane in lanes] for name, lanes in value.get("expiring", {}).items()
            }
        except OffsetError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise OffsetError(f"this is no offset of the source: {str(given)[:200]}") from error
        if any(
            not 0 <= lane < LANES or not 0 <= number <= _NUMBERS
            for lanes in queues.values()
            for lane, number in lanes.items()
        ):
            raise OffsetError(f"lanes go from 0 to {LANES - 1}, numbers to 2**{_SHIFT}: {str(given)[:200]}")
        return cls(queues, identities, expiring)

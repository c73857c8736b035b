"""The queue managers that one source reads, as one unit: each is asked by a thread of its own and has a position of its
own.

A server that does not answer may be away for a while. With ``failOnUnreachable`` that is an error; without, the others
go on and it is read when it is back. But a batch that was planned with messages of a server needs them: leaving them
out would lose them, so such a batch waits for the server, and fails if it does not come back.

One server is a fleet of one, under the name ``""``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress
from typing import Final, TypeVar

from msmq.client.problems import ConnectionLostError, ServerNotAvailableError
from msmq.client.queue import QueueIdentity, Removal, Waiting
from msmq.errors import MsmqError, RemoteMachineNotAvailableError
from msmq.spark.doors import Door, Host, open_door
from msmq.spark.listing import listing_of
from msmq.spark.offsets import FleetOffset, Offset
from msmq.spark.options import Access, OptionError, SourceOptions
from msmq.spark.planner import MessagesPartition, Planner, Read
from msmq.spark.telling import PlainError

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

UNREACHABLE: Final = (ServerNotAvailableError, ConnectionLostError, RemoteMachineNotAvailableError, OSError)
_PATIENCE_S: Final = 2.0
"""The least time that the others wait for a server that was reached before."""
_OF_LAST_TIME: Final = 2.0
"""The multiple of the last answer's duration that the others wait: a server with much in its queues is slow, not
away.
"""


class UnreachableError(PlainError):
    """A server whose messages are needed does not answer."""


class Member:
    """One server: its door, and the only thread that uses it."""

    def __init__(self, name: str, access: Access) -> None:
        self.name = name
        self.access = access
        self.host: Host | None = None
        """Its identity when it was last reached."""
        self.planner: Planner | None = None
        self.missed = False
        """True if it was reported as away."""
        self._took_s = 0.0
        self._door: Door | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"msmq {name}")
        self._asked: Future[object] | None = None

    def __str__(self) -> str:
        return self.name or self.access.server or "The queue manager"

    @property
    def busy(self) -> bool:
        """True while it still tries to answer the last question."""
        return self._asked is not None and not self._asked.done()

    @property
    def patience_s(self) -> float:
        """How long the others wait for an answer before they go on without it."""
        longest = self.access.timeout_s + _PATIENCE_S
        return longest if self.host is None else min(max(_PATIENCE_S, _OF_LAST_TIME * self._took_s), longest)

    def ask(self, question: Callable[[Door], _T]) -> Future[_T]:
        """Ask something through the door, which is opened if necessary."""
        asked = self._thread.submit(self._answer, question)
        self._asked = asked  # type: ignore[assignment]
        return asked

    def _answer(self, question: Callable[[Door], _T]) -> _T:
        try:
            if self._door is None:
                self._door = open_door(self.access).__enter__()
            self.host = self._door.host
            begun = time.monotonic()
            answer = question(self._door)
            self._took_s = time.monotonic() - begun
            return answer
        except UNREACHABLE:
            self._close()
            raise

    def _close(self) -> None:
        door, self._door, self.planner = self._door, None, None
        if door is not None:
            with suppress(MsmqError, OSError):
                door.__exit__(None, None, None)

    def close(self) -> None:
        self._thread.submit(self._close)
        self._thread.shutdown(wait=not self.busy)


class Fleet:
    """The servers of a source. ``accesses`` is called before each batch, because servers may have been added."""

    def __init__(
        self, accesses: Callable[[], Mapping[str, Access]], *, fail_on_unreachable: bool = True
    ) -> None:
        self._accesses = accesses
        self._fails = fail_on_unreachable
        self._members: dict[str, Member] = {}

    @classmethod
    def of(cls, options: SourceOptions) -> Fleet:
        return cls(listing_of(options), fail_on_unreachable=options.fail_on_unreachable)

    @property
    def members(self) -> list[Member]:
        try:
            accesses = self._accesses()
        except OptionError as error:
            if not self._members:
                raise
            _log.warning("The servers are those that they were: %s", error)
            return list(self._members.values())
        for name in self._members.keys() - accesses.keys():
            self._members.pop(name).close()
        for name, access in accesses.items():
            if name not in self._members:
                self._members[name] = Member(name, access)
        return list(self._members.values())

    def close(self) -> None:
        for member in self._members.values():
            member.close()
        self._members = {}

    # --- asking -----------------------------------------------------------------------------------------------------

    def each(
        self, question: Callable[[Member, Door], _T], members: Iterable[Member] | None = None
    ) -> dict[str, _T]:
        """Ask every server, or some, all at once. Returns the replies of those that answer."""
        chosen = self.members if members is None else list(members)
        asked: dict[str, tuple[Member, Future[_T]]] = {}
        patience = {member.name: member.patience_s for member in chosen}
        for member in chosen:
            if member.busy and not self._fails:
                continue  # it was reported as away before
            asked[member.name] = member, member.ask(_with(question, member))
        begun, found = time.monotonic(), dict[str, _T]()
        for name, (member, future) in asked.items():
            if not self._fails:
                wait_for([future], max(0.0, begun + patience[name] - time.monotonic()))
                if not future.done():
                    self._miss(member, "it does not answer")
                    continue
            try:
                found[name] = future.result()
            except UNREACHABLE as error:
                if self._fails:
                    raise
                self._miss(member, error)
            else:
                member.missed = False
        self._check()
        return found

    @staticmethod
    def _miss(member: Member, why: object) -> None:
        if not member.missed:
            _log.warning("%s is away, and is read when it is back: %s", member, why)
        member.missed = True

    def needed(self, member: Member, question: Callable[[Door], _T]) -> _T:
        """Ask one server that is indispensable."""
        try:
            return member.ask(question).result()
        except UNREACHABLE as error:
            raise UnreachableError(
                f"A batch that was begun has messages of {member}, which does not answer: {error} The batch waits for "
                "it: start the query again when it is back."
            ) from None

    def _check(self) -> None:
        """Check that no queue manager is there twice."""
        known: dict[str, Member] = {}
        for member in self._members.values():
            if member.host is not None:
                other = known.setdefault(member.host.queue_manager, member)
                if other is not member:
                    raise OptionError(
                        f"{other} and {member} are the same queue manager, {member.host.name}: name it once."
                    )

    def member_of(self, name: str, part: Offset) -> Member | None:
        """Return the server to which a position belongs: by its GUID, because its address may have changed, or by its
        name if no other server is known to have that GUID."""
        members = self.members
        named = next((each for each in members if each.name == name), None)
        if not part.managers:
            return named

        def known() -> Member | None:
            found = (each for each in members if each.host and each.host.queue_manager in part.managers)
            return next(found, None)

        if known() is None:
            self.each(lambda member, door: None)  # this identifies them
        return known() or named

    # --- removing ---------------------------------------------------------------------------------------------------

    def remove(
        self, server: str, queue: str, lookup_ids: Iterable[int], identity: QueueIdentity | None
    ) -> Removal:
        """Take messages out of a queue of a server; the result says ``elsewhere`` if it is not there now."""
        wanted = list(lookup_ids)
        found = self.at(server, identity, lambda door: door.remove(queue, wanted, identity))
        return _ELSEWHERE if found is None else found

    def at(self, server: str, identity: QueueIdentity | None, question: Callable[[Door], _T]) -> _T | None:
        """Ask the server that has a queue; None if it is not there now."""
        member = self._who(server, identity)
        if member is None:
            self.each(lambda member, door: None)  # this identifies them
            member = self._who(server, identity)
        if member is None:
            return None
        return self.each(lambda _, door: question(door), [member]).get(member.name)

    def _who(self, server: str, identity: QueueIdentity | None) -> Member | None:
        """Return the server that has a queue, as far as is known."""
        for member in self.members:
            manager = None if member.host is None else member.host.queue_manager
            if server == member.name if identity is None else manager == identity.queue_manager:
                return member
        return None


_ELSEWHERE: Final = Removal(0, [], [], elsewhere=True)  # type: ignore[arg-type]


def _with(question: Callable[[Member, Door], _T], member: Member) -> Callable[[Door], _T]:
    return lambda door: question(member, door)


class FleetPlanner:
    """The part that batch and streaming reads share on the driver: a :class:`Planner` for each server."""

    def __init__(
        self, options: SourceOptions, fleet: Fleet, wanted: Callable[[str], bool] | None = None
    ) -> None:
        self._options = options
        self.fleet = fleet
        self._wanted = wanted

    def _planner(self, member: Member, door: Door) -> Planner:
        if member.planner is None:
            member.planner = Planner(self._options, door, self._wanted, member.name)
        return member.planner

    def each_queue(self, ask: Callable[[Door, str], None]) -> None:
        """Ask something about each queue that is read."""

        def ask_all(member: Member, door: Door) -> None:
            for queue in self._planner(member, door).queues():
                ask(door, queue)

        self.fleet.each(ask_all)

    def _start(self, member: Member, door: Door, start: FleetOffset) -> Offset:
        """Return the position of a server, with its queues spelt as in rows."""
        return start.of(member.name, door.host.queue_manager).renamed(door.spelt)

    def latest(
        self, start: FleetOffset, upto: FleetOffset | None = None, most_messages: int = 0, most_bytes: int = 0
    ) -> FleetOffset:
        """Return how far to read from a position. Each server has its share of a limit; what some leave of theirs goes
        to the others with the next batch."""
        count = max(len(self.fleet.members), 1)
        share, share_bytes = -(-most_messages // count), -(-most_bytes // count)

        def plan(member: Member, door: Door) -> tuple[str | None, Offset]:
            begun, target = self._start(member, door, start), None
            before = start.name_of(member.name, door.host.queue_manager)
            if upto is not None:
                if member.name not in upto.parts:
                    return before, begun  # it was not there when this run began
                target = upto.parts[member.name]
            self._hold(door, self._planner(member, door).queues())
            return before, self._planner(member, door).latest(begun, target, share, share_bytes)

        found = self.fleet.each(plan)
        names = {before for before, _ in found.values() if before}
        return start.at({name: offset for name, (_, offset) in found.items()}, names)

    @property
    def planned_messages(self) -> int:
        """The number of messages in the last plan."""
        planners = [member.planner for member in self.fleet.members if member.planner is not None]
        return sum(read.messages for planner in planners for read in planner.planned.values())

    def _hold(self, door: Door, queues: Iterable[str]) -> None:
        """Make sure that nobody else consumes the queues, if they are to be consumed."""
        if self._options.consume:
            for queue in queues:
                door.hold(queue, self._options.holder)

    def since(self, time_s: float) -> FleetOffset:
        return FleetOffset(self.fleet.each(lambda member, door: self._planner(member, door).since(time_s)))

    def now(self, start: FleetOffset) -> list[MessagesPartition]:
        found = self.fleet.each(
            lambda member, door: self._planner(member, door).now(self._start(member, door, start))
        )
        return [part for parts in found.values() for part in parts]

    def between(self, start: FleetOffset, end: FleetOffset, *, exact: bool) -> list[MessagesPartition]:
        """Return the messages between two positions. Every server that has some must answer."""
        found: list[MessagesPartition] = []
        for name, part in end.parts.items():
            if part == start.parts.get(name):
                continue
            member = self.fleet.member_of(name, part)
            if member is None and name:
                raise UnreachableError(
                    f"A batch that was begun has messages of {name}, which is not among the servers any more. Name it "
                    "until the batch is done."
                )

            def plan(member: Member, door: Door, part: Offset = part) -> list[MessagesPartition]:
                spelt = part.renamed(door.spelt)
                self._hold(door, spelt.queues)  # a repeated batch comes before any plan
                return self._planner(member, door).between(
                    self._start(member, door, start), spelt, exact=exact
                )

            if member is not None:
                found += self.fleet.needed(member, _with(plan, member))
            else:  # written by people, for whatever servers there are
                found += [each for parts in self.fleet.each(plan).values() for each in parts]
        return found

    def waiting(self, start: FleetOffset) -> dict[str, tuple[Host, dict[str, Waiting], dict[str, Read]]]:
        """Count what waits after a position, and what the last batch has, for each server that answers."""

        def count(member: Member, door: Door) -> tuple[Host, dict[str, Waiting], dict[str, Read]]:
            planner = self._planner(member, door)
            return door.host, planner.waiting(self._start(member, door, start)), planner.planned

        return self.fleet.each(count)

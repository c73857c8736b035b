"""A host in a domain: its directory over LDAP, and the work that has to wait for the directory.

The queue manager starts in a thread, where it may wait: there it is published or takes over its object. After that
:class:`msmq.directory.cached.CachedDirectory` answers. Three things cannot wait by themselves and are kept back here
until the directory answers: messages of unknown senders, bodies to be encrypted with keys that have not been looked up
yet, and acknowledgments to public queues that have not been looked up yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, TypeVar

from msmq.directory.cached import CachedDirectory, DomainDirectory, Question, reading
from msmq.directory.patience import OPERATION_S
from msmq.directory.query import find_all
from msmq.directory.troubles import explain, explained
from msmq.errors import DsError, MachineNotFoundError, MQError, MsmqError, NoDsError
from msmq.errors.tasks import raise_again
from msmq.manager.differences import Difference
from msmq.manager.directory import (
    DirectoryObject,
    DirectoryResult,
    Expression,
    Filter,
    ObjectClass,
    Relation,
    by_identifier,
)
from msmq.manager.ledger.recovered import Recovered
from msmq.manager.queue_manager import QueueManager
from msmq.server.directory_settings import ConfigError, DirectorySettings
from msmq.server.inbound.connection import Connection
from msmq.transfer.events import MessagesReceived
from msmq.wire.guid import NULL_GUID, guid_text
from msmq.wire.headers import USER_TH
from msmq.wire.message import UserMessage
from msmq.wire.names import PublicName, parse_format_name

if TYPE_CHECKING:
    from msmq.directory.active_directory import ActiveDirectory
    from msmq.directory.changes import Changed, Mark

ReadingOf = tuple[ObjectClass, Filter | None, Sequence[str] | None]
DESTINATION_FLAGS = USER_TH | 7 << 10
"""The bits of UserHeader.Flags that decide where a message goes."""
_ROUTES = frozenset({ObjectClass.QUEUE_MANAGER, ObjectClass.ROUTING_LINK, ObjectClass.SITE})
_MOST_LATE = 1_000
"""The most acknowledgments that wait for the directory to locate their queue; a sender that names a thousand unknown
queues gets none for the others."""
_FEW = 100
"""Up to this many queues are read one by one, more are read with all others of this host."""
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def reach(settings: DirectorySettings) -> ActiveDirectory:
    """The directory of the domain, without a connection yet.

    Raises:
        ConfigError: what it needs is not installed, or the password cannot be read.
    """
    try:
        from msmq.directory.active_directory import ActiveDirectory
    except ImportError as error:
        raise ConfigError(
            f"directory: {error}. A domain needs more packages: pip install 'msmq[directory,kerberos]'"
        ) from error
    return ActiveDirectory(settings.connection())


class Membership:
    """The membership of this host in its domain."""

    def __init__(self, settings: DirectorySettings, directory: DomainDirectory | None = None) -> None:
        """``directory`` replaces Active Directory, in tests."""
        self._settings = settings
        self._active = reach(settings) if directory is None else None
        self.directory = CachedDirectory(directory or self._active)  # type: ignore[arg-type]  # one of them is there
        self._manager: QueueManager | None = None
        self._parked: dict[Connection, list[MessagesReceived]] = {}
        self._open = ExitStack()
        self._watching: asyncio.Task[None] | None = None
        self._look_now = asyncio.Event()
        self._mark: Mark | None = None
        self.take: Callable[[Connection, MessagesReceived], None] = lambda connection, event: None
        """Takes messages that were kept back."""
        self.forget_ways: Callable[[], None] = lambda: None
        """Forgets the routes, so that they are computed again."""
        self.wake: Callable[[], None] = lambda: None
        """Wakes everything that waits to be sent."""
        self._unanswered: set[bytes] = set()
        """Public queues with messages for which the directory did not tell whether they are ours."""
        self.unclaimed: Callable[[], Sequence[bytes]] = lambda: ()
        """Returns the queues whose messages wait until the directory tells whether they are ours."""
        self.settle: Callable[[bytes], None] = lambda identifier: None
        """Called when the directory has answered about one of these queues."""
        self.commit: Callable[[], None] = lambda: None
        """Commits what was sent late."""
        self._late = 0

    # --- starting and stopping ------------------------------------------------------------------------------

    def site_identifier(self) -> bytes | None:
        """The site that the configuration names, or the only one there is. Waits for the directory.

        Raises:
            DsError: there is no such site.
        """
        if not self._settings.site:
            _, sites = find_all(self.directory, ObjectClass.SITE, None, ("identifier",))
            return sites[0].identifier if len(sites) == 1 else None
        named = (Expression("name", Relation.EQUALS, self._settings.site),)
        result, site = self.directory.read(ObjectClass.SITE, named, ("identifier",))
        if result is DirectoryResult.DIRECTORY_NOT_CONNECTED:
            return None  # a caller that needs it cannot go on anyway
        if site is None:
            raise DsError(f"The directory has no site {self._settings.site}: {self._reason(result)}")
        return site.identifier

    def connect(self) -> None:
        """Connect to the domain, if possible. Waits."""
        if self._active is not None:
            self._open.enter_context(self._active.held())
            self._active.initialize()

    def start(self, manager: QueueManager) -> Recovered:
        """Start the queue manager in its domain. Waits for the directory.

        Raises:
            MQError: the directory refuses it, or this is its first start and there is no directory.
        """
        self._manager = manager
        manager.directory.online_check_s = self._settings.recheck_s
        try:
            manager.settings.site_identifier = self.site_identifier()
            found = manager.start(provisioning=None)
        except (DsError, NoDsError, MachineNotFoundError) as error:
            if self._active is None:
                raise
            raise type(error)(f"{error} {explain(self._active)}") from error
        record = manager.core.record
        if not record.site_identifier_list:
            _log.warning("this host is in no site, so others find no way to it: name one in directory.site")
        return found

    def go_live(self) -> None:
        """Stop waiting for the directory."""
        assert self._manager is not None
        events, directory = self._manager.directory, self.directory
        directory.go_live()
        directory.lost = events.went_away
        events.remembered = directory.remembered
        events.deleted_here = directory.deleted_here
        events.apart = self._apart
        events.gone = self._went_away
        read_around = events.came_online

        def came_online() -> None:
            read_around()
            _log.info("the directory is back")
            self.look_again()
            self.wake()

        events.came_online = came_online
        if self._manager.core.directory_offline:
            self._went_away()
        self._watching = asyncio.get_running_loop().create_task(self._watch())
        self._watching.add_done_callback(raise_again)

    def _went_away(self) -> None:
        why = "" if self._active is None else explained(self._active.connection.last_trouble)
        _log.warning("the directory does not answer; what is known goes on meanwhile. %s", why)

    def _apart(self, action: Callable[[], None]) -> None:
        self.directory.soon(self._run_apart(action))

    async def _run_apart(self, action: Callable[[], None]) -> None:
        try:
            await self.directory.ask(action, anew=True)
        except MQError as error:
            _log.error("the directory could not be read again: %s", error)

    # --- what others change ---------------------------------------------------------------------------------

    def look_again(self) -> None:
        """Take over all changes of others now."""
        self._mark = None
        self._look_now.set()

    async def _watch(self) -> None:
        """Periodically check for changes of others; the first time, and when asked to, read everything."""
        while True:
            self._look_now.clear()
            try:
                await self._settle_unclaimed()
                await self._catch_up()
            except (MsmqError, OSError) as error:
                _log.warning("what others have changed in the directory could not be read: %s", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._look_now.wait(), self._settings.watch_s)

    async def _catch_up(self) -> None:
        assert self._manager is not None
        manager, core = self._manager, self._manager.core
        if core.directory_offline or self._active is None:
            return
        active = self._active
        _, changed = await self.directory.run(lambda: active.changes(self._mark))
        if changed is None or (changed.mark == self._mark and not changed.everything):
            return
        self.directory.forget(None if changed.everything else changed.classes)
        if changed.everything or changed.classes & _ROUTES or core.record.identifier in changed.identifiers:
            await self.directory.ask(manager.directory.read_again, anew=True)
            self.forget_ways()
        if changed.everything or ObjectClass.QUEUE in changed.classes:
            await self._take_over_queues(changed)
        if not self._look_now.is_set():  # otherwise everything was asked for meanwhile
            self._mark = changed.mark

    async def _take_over_queues(self, changed: Changed) -> None:
        """Take over queues of ours that others have changed or created."""
        assert self._manager is not None
        mending, events = self._manager.mending, self._manager.directory

        def few() -> list[DirectoryObject]:
            read = [events.read(ObjectClass.QUEUE, by_identifier(guid))[1] for guid in changed.identifiers]
            return [item for item in read if item is not None and mending.is_ours(item)]

        many = changed.everything or len(changed.identifiers) > _FEW

        def catch_up() -> list[str]:
            found = mending.published() if many else few()
            # A queue that an application is creating is added by its own call.
            return mending.catch_up([item for item in found if not self.directory.is_creating(item)])

        told = await self.directory.ask(catch_up, anew=True)
        # Messages are judged by what was just taken over, until the directory is asked again for them.
        for guid in [queue.identifier for queue in mending.public] if many else changed.identifiers:
            self.directory.drop(reading(ObjectClass.QUEUE, by_identifier(guid), ("security",)))
        for what in told:
            _log.info("%s", what)
        if changed.everything:
            self._warn(await self.directory.ask(mending.differences))

    @staticmethod
    def _warn(found: Sequence[Difference]) -> None:
        if found:
            _log.warning(
                "this host and the directory differ in %d queues, for example %s (%s); `msmq directory check` lists "
                "them",
                len(found),
                found[0].queue,
                found[0].kind,
            )

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        await self.directory.close()
        await asyncio.to_thread(self._open.close)

    # --- what must not wait ---------------------------------------------------------------------------------

    async def ask(self, call: Callable[[], _T], *, anew: bool = False) -> _T:
        """Make a call of an application, which must not wait long for a slow directory."""
        return await self.directory.ask(call, anew=anew, limit_s=OPERATION_S)

    async def change(self, call: Callable[[], _T], *, anew: bool = False) -> _T:
        return await self.directory.change(call, anew=anew, limit_s=OPERATION_S)

    def holds_up(self, connection: Connection, event: MessagesReceived) -> bool:
        """Whether messages have to wait, for the directory to identify their senders or for earlier messages that
        wait."""
        waiting = self._parked.get(connection)
        needed = [] if waiting is not None else self._unknown_senders(event)
        if waiting is None and not needed:
            return False
        connection.hold(event.messages.size)
        if waiting is not None:
            waiting.append(event)
        else:
            self._parked[connection] = [event]
            self.directory.soon(self._let_in(connection, needed))
        return True

    def _unknown_senders(self, event: MessagesReceived) -> list[Question]:
        assert self._manager is not None
        if self._manager.core.directory_offline:
            return []
        messages, credentials = event.messages, self._manager.credentials
        needed: list[ReadingOf | None] = [
            (ObjectClass.QUEUE, by_identifier(guid), None) for guid in self._unknown_queues(event)
        ]
        needed += [
            credentials.needed_for(messages.message(index))
            for index, proof in enumerate(messages.proofs)
            if proof
        ]
        questions = {reading(*question) for question in needed if question is not None}
        return [question for question in questions if not self.directory.knows(question)]

    def _unknown_queues(self, event: MessagesReceived) -> list[bytes]:
        """Identifiers of public queues that messages name and that are not here: others may have created them."""
        assert self._manager is not None
        core, messages = self._manager.core, event.messages
        own = core.own_identifiers
        seen: set[tuple[int, bytes]] = set()
        found: dict[bytes, None] = {}
        for index, (flags, name) in enumerate(zip(messages.user_flags, messages.names, strict=True)):
            key = (flags & DESTINATION_FLAGS, name)
            if key in seen or messages.addresses[index] not in own:
                continue
            seen.add(key)
            queue = messages.message(index).user.destination_queue
            if isinstance(queue, bytes) and queue not in core.by_identifier:
                found[queue] = None
        return list(found)

    async def _let_in(self, connection: Connection, needed: list[Question]) -> None:
        await self.directory.load(*needed)
        waiting = self._parked[connection]
        while waiting:
            event = waiting.pop(0)
            more = self._unknown_senders(event)
            if more:  # for messages that came meanwhile
                await self.directory.load(*more)
            for guid in self._unknown_queues(event):
                await self._claim(guid)
            connection.let_go(event.messages.size)
            self.take(connection, event)
        del self._parked[connection]

    def later(self, destination: str, send: Callable[[], None]) -> bool:
        """Send an acknowledgment when the directory has told the host of its public queue. Returns whether the
        directory is asked. Acknowledgments cannot wait for that, and nobody has asked for their queue before."""
        assert self._manager is not None
        with suppress(MsmqError):
            name = parse_format_name(destination)
            if (
                isinstance(name, PublicName)
                and not self._manager.core.directory_offline
                and self._late < _MOST_LATE
            ):
                self._late += 1
                self.directory.soon(self._send_late(name, send))
                return True
        return False

    async def _send_late(self, name: PublicName, send: Callable[[], None]) -> None:
        assert self._manager is not None
        outgoing = self._manager.queues.outgoing
        try:
            with suppress(MsmqError):
                await self.directory.ask(lambda: outgoing.locate(name))
            send()
            self.commit()
        finally:
            self._late -= 1

    def undecided(self, guid: bytes) -> bool:
        """Whether a public queue that is not here may be ours, and the directory could not be asked."""
        assert self._manager is not None
        return self._manager.core.directory_offline or guid in self._unanswered

    async def _settle_unclaimed(self) -> None:
        assert self._manager is not None
        for guid in {*self.unclaimed(), *self._unanswered}:
            if not self._manager.core.directory_offline:
                await self._claim(guid)

    async def _claim(self, guid: bytes) -> None:
        """Create a queue that messages name, if the directory has it as one of ours."""
        assert self._manager is not None
        mending = self._manager.mending
        known = guid in self._manager.core.by_identifier
        try:
            queue = None if known else await self.directory.ask(lambda: mending.adopt_by_identifier(guid))
        except MQError as error:
            self._unanswered.add(guid)
            _log.warning("messages for the public queue %s have to wait: %s", guid_text(guid), error)
            return
        self._unanswered.discard(guid)
        if queue is not None:
            _log.info("adopted %s, which others have made in the directory", queue.pathname)
        self.settle(guid)

    def may_seal(self, packet: UserMessage, again: Callable[[], None]) -> bool:
        """Whether the keys of a destination have been looked up; ``again`` is called when they are there."""
        assert self._manager is not None
        if packet.user.queue_manager_address == NULL_GUID:
            return True  # it is unknown whose keys to use, which is dealt with elsewhere
        needed = self._manager.credentials.needed_to_seal(packet)
        if needed is None or self.directory.knows(reading(*needed)):
            return True
        if not self._manager.core.directory_offline:
            self.directory.soon(self._get_keys(reading(*needed), again))
        return False

    async def _get_keys(self, question: Question, again: Callable[[], None]) -> None:
        await self.directory.load(question)
        if self.directory.knows(question):
            again()

    def _reason(self, result: DirectoryResult) -> str:
        return self._active.last_failure if self._active is not None else result.value

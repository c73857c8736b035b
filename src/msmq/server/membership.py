"""A host in a domain: its directory over LDAP, and everything that would otherwise wait for it.

The queue manager starts in a thread, where it may wait: there it is published or takes over what the directory has of
it. From then on :class:`msmq.directory.cached.CachedDirectory` answers. Two things cannot say "later" themselves and
are kept back here until the directory has spoken: messages whose sender is not known yet, and bodies that are to be
encrypted with keys nobody has asked for yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from msmq.directory.cached import CachedDirectory, DomainDirectory, Question, reading
from msmq.directory.threads import find_all
from msmq.directory.troubles import explain
from msmq.errors import DsError, MachineNotFoundError, MQError, NoDsError
from msmq.manager.directory import DirectoryResult, Expression, ObjectClass, Relation
from msmq.manager.ledger.recovered import Recovered
from msmq.manager.queue_manager import QueueManager
from msmq.security.sid import Sid
from msmq.server.directory_settings import ConfigError, DirectorySettings
from msmq.server.inbound.connection import Connection
from msmq.transfer.events import MessagesReceived
from msmq.wire.guid import NULL_GUID
from msmq.wire.message import UserMessage

if TYPE_CHECKING:
    from msmq.directory.active_directory import ActiveDirectory

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def reach(settings: DirectorySettings) -> ActiveDirectory:
    """The directory of the domain, not connected yet.

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
    """One host in one domain."""

    def __init__(self, settings: DirectorySettings, directory: DomainDirectory | None = None) -> None:
        """``directory`` stands in for Active Directory."""
        self._settings = settings
        self._active = reach(settings) if directory is None else None
        self.directory = CachedDirectory(directory or self._active)  # type: ignore[arg-type]  # one of them is there
        self._manager: QueueManager | None = None
        self._machine: Sid | None = None
        self._parked: dict[Connection, list[MessagesReceived]] = {}
        self._open = ExitStack()
        self.take: Callable[[Connection, MessagesReceived], None] = lambda connection, event: None
        """Where messages go that were kept back."""
        self.wake: Callable[[], None] = lambda: None
        """Lets everything that waits to be sent try again."""

    # --- starting and stopping ------------------------------------------------------------------------------

    def site_identifier(self) -> bytes | None:
        """The site that the configuration names, or the only one there is. It waits for the directory.

        Raises:
            DsError: there is no such site.
        """
        if not self._settings.site:
            _, sites = find_all(self.directory, ObjectClass.SITE, None, ("identifier",))
            return sites[0].identifier if len(sites) == 1 else None
        named = (Expression("name", Relation.EQUALS, self._settings.site),)
        result, site = self.directory.read(ObjectClass.SITE, named, ("identifier",))
        if result is DirectoryResult.DIRECTORY_NOT_CONNECTED:
            return None  # whoever needs it cannot go on anyway
        if site is None:
            raise DsError(f"The directory has no site {self._settings.site}: {self._reason(result)}")
        return site.identifier

    def computer_sid(self, computer: str) -> Sid | None:
        """The account of this computer, if the directory has told it."""
        return self._machine

    def connect(self) -> None:
        """Reach the domain, if it can be reached. It waits."""
        if self._active is not None:
            self._open.enter_context(self._active.held())
            self._active.initialize()

    def start(self, manager: QueueManager) -> Recovered:
        """Start the queue manager in its domain. It waits for the directory.

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
        if self._active is not None:
            self._machine = self._active.computer_sid(record.computer_name)
        if not record.site_identifier_list:
            _log.warning("this host is in no site, so others find no way to it: name one in directory.site")
        return found

    def go_live(self) -> None:
        """From now on nothing waits."""
        assert self._manager is not None
        events, directory = self._manager.directory, self.directory
        directory.go_live()
        directory.lost = events.went_away
        events.remembered = directory.remembered
        events.apart = self._apart
        read_around = events.came_online

        def came_online() -> None:
            read_around()
            _log.info("the directory is back")
            self.wake()

        events.came_online = came_online
        if self._manager.core.directory_offline and self._active is not None:
            _log.warning("no domain controller answers: %s", explain(self._active))

    def _apart(self, action: Callable[[], None]) -> None:
        self.directory.soon(self._run_apart(action))

    async def _run_apart(self, action: Callable[[], None]) -> None:
        try:
            await self.directory.ask(action, anew=True)
        except MQError as error:
            _log.error("the directory could not be read again: %s", error)

    async def stop(self) -> None:
        await self.directory.close()
        await asyncio.to_thread(self._open.close)

    # --- what must not wait ---------------------------------------------------------------------------------

    async def ask(self, call: Callable[[], _T]) -> _T:
        return await self.directory.ask(call)

    async def change(self, call: Callable[[], _T], *, anew: bool = False) -> _T:
        return await self.directory.change(call, anew=anew)

    def holds_up(self, connection: Connection, event: MessagesReceived) -> bool:
        """Whether messages must wait until the directory has told who their senders are, or for others that do."""
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
        needed = [
            credentials.needed_for(messages.message(index))
            for index, proof in enumerate(messages.proofs)
            if proof
        ]
        questions = {reading(*question) for question in needed if question is not None}
        return [question for question in questions if not self.directory.knows(question)]

    async def _let_in(self, connection: Connection, needed: list[Question]) -> None:
        await self.directory.load(*needed)
        waiting = self._parked[connection]
        while waiting:
            event = waiting.pop(0)
            more = self._unknown_senders(event)
            if more:  # of messages that came behind
                await self.directory.load(*more)
            connection.let_go(event.messages.size)
            self.take(connection, event)
        del self._parked[connection]

    def may_seal(self, packet: UserMessage, again: Callable[[], None]) -> bool:
        """Whether the keys of a destination were asked for; ``again`` is called when they are there."""
        assert self._manager is not None
        if packet.user.queue_manager_address == NULL_GUID:
            return True  # nobody knows whose keys; that is for others to say
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

"""Resolving differences between public queues and their objects in the directory.

A queue that others created below our object in the directory, as Windows' console does, or that was in a lost data
directory, is adopted: others find it and send to it, so it has to exist here. A queue that the directory has lost is
not deleted here automatically: the operator decides, and may also publish it again
(:class:`msmq.manager.differences.Choice`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msmq.errors import IllegalOperationError, MQError, NoDsError, QueueNotFoundError
from msmq.manager.access.guard import Guard
from msmq.manager.chores import Chore
from msmq.manager.core import Core
from msmq.manager.differences import COMPARED, Choice, Difference, differences
from msmq.manager.directory import (
    DirectoryEvents,
    DirectoryObject,
    DirectoryResult,
    Expression,
    ListsQueues,
    ObjectClass,
    Relation,
    adopt,
    by_identifier,
    queue_object,
)
from msmq.manager.model import QueueType
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest, Queues, directory_error
from msmq.security.access import QueueManagerOperation, Token


class Mending:
    """The operations, which may wait for the directory."""

    def __init__(self, core: Core, queues: Queues, directory: DirectoryEvents, guard: Guard) -> None:
        self.core = core
        self.queues = queues
        self.directory = directory
        self.guard = guard

    @property
    def public(self) -> list[Queue]:
        return [queue for queue in self.core.by_path.values() if queue.queue_type is QueueType.PUBLIC]

    def published(self) -> Sequence[DirectoryObject]:
        """The queues that the directory has below our object; none if others have deleted the object.

        Raises:
            NoDsError: the directory does not answer.
        """
        if not self.core.directory_integrated or not isinstance(self.directory.directory, ListsQueues):
            return ()
        result, found = self.directory.directory.queues_of(self.core.record.computer_name)
        if result is DirectoryResult.OBJECT_NOT_FOUND:
            return ()
        if result is not DirectoryResult.SUCCESS:
            raise NoDsError("The directory does not tell which queues this host has there.")
        return found

    def differences(self) -> list[Difference]:
        """The differences between this host and the directory; see :meth:`published`."""
        there = self.published()
        return differences(map(queue_object, self.public), there)

    def catch_up(self, items: Sequence[DirectoryObject]) -> list[str]:
        """Take over what others have changed or created. Returns what was done, for the log. Queues here that the
        directory does not have are left alone."""
        told = []
        for item in items:
            own = self.core.by_identifier.get(item.identifier)
            try:
                if own is None or own.identifier != item.identifier:
                    told.append(
                        f"adopted {self.adopt(item).pathname}, which others have made in the directory"
                    )
                elif differences([queue_object(own)], [item]) or _rights_differ(own, item):
                    self._take_over(own, item)
                    told.append(f"took over what others have changed of {own.pathname}")
            except MQError as error:
                told.append(f"{item.attributes.get('pathname')} stays as it is: {error}")
        return told

    def adopt(self, item: DirectoryObject) -> Queue:
        """Create a queue here that the directory has; an existing one of this name takes its identifier."""
        path = self.queues.local_path(item.attributes["pathname"])
        queue = self.core.by_path.get(str(path).lower())
        if queue is None:
            request = QueueRequest(str(path), transactional=item.attributes["transactional"])
            queue = self.queues.create(request, skip_directory=True)
            queue.security = item.attributes.get("security") or queue.security
            self._rename(queue, item.identifier, remember=False)
        elif queue.identifier != item.identifier:
            self._rename(queue, item.identifier)
        self._take_over(queue, item)
        return queue

    def adopt_by_identifier(self, identifier: bytes) -> Queue | None:
        """Create a queue that somebody sends to by its identifier, if the directory has it below our object.

        Raises:
            NoDsError: the directory does not say whether it is.
        """
        if self.core.directory_offline:
            raise NoDsError("The directory cannot be asked whose queue that is.")
        result, item = self.directory.read(ObjectClass.QUEUE, by_identifier(identifier))
        if result not in (DirectoryResult.SUCCESS, DirectoryResult.OBJECT_NOT_FOUND):
            raise NoDsError(f"The directory does not tell whose queue that is: {result.value}.")
        return self.adopt(item) if item is not None and self.is_ours(item) else None

    def is_ours(self, item: DirectoryObject) -> bool:
        computer = str(item.attributes["pathname"]).partition("\\")[0].lower()
        return computer == self.core.record.computer_name.lower()

    def _take_over(self, queue: Queue, item: DirectoryObject) -> None:
        adopt(queue, item, keep=("pathname", "transactional"))
        self.queues.write(queue)

    def _rename(self, queue: Queue, identifier: bytes, *, remember: bool = True) -> None:
        """Give a queue the identifier that the directory has for it. Senders that use the old one still reach it."""
        self.core.unregister(queue)
        if remember and any(queue.identifier):
            queue.former_identifiers = (*queue.former_identifiers, queue.identifier)
        queue.made_again(identifier)
        self.core.register(queue)
        self.queues.write(queue)

    # --- what an operator chooses -------------------------------------------------------------------------------

    def mend(
        self, path: str, choice: Choice, caller: Token | None = None, *, discard: bool = False
    ) -> Chore | None:
        """Resolve a difference of a queue as the operator chose. Returns the chore of a deletion. ``discard`` allows
        deleting a queue here that has messages.

        Raises:
            MQError: it cannot be done; nothing has changed.
        """
        self.guard.check_manager(caller, QueueManagerOperation.SET_PROPERTIES)
        full = str(self.queues.local_path(path))
        do: dict[Choice, Callable[[], None]] = {
            Choice.PUBLISH: lambda: self._publish(self._here(full)),
            Choice.ADOPT: lambda: self._adopted(full),
            Choice.DELETE_THERE: lambda: self._delete_there(full),
            Choice.TAKE_THEIRS: lambda: self._take_over(self._here(full), self._there(full)),
            Choice.WRITE_OURS: lambda: self._write_ours(self._here(full)),
        }
        if choice is Choice.DELETE_HERE:
            return self._delete_here(self._here(full), caller, discard)
        do[choice]()
        return None

    def _here(self, path: str) -> Queue:
        queue = self.core.by_path.get(path.lower())
        if queue is None or queue.queue_type is not QueueType.PUBLIC:
            raise QueueNotFoundError(f"There is no public queue {path} on this host.")
        return queue

    def _there(self, path: str) -> DirectoryObject:
        named = (Expression("pathname", Relation.EQUALS, path),)
        result, item = self.directory.read(ObjectClass.QUEUE, named)
        if result is not DirectoryResult.SUCCESS or item is None:
            raise directory_error(
                result, f"{path} could not be read from the directory", self.directory.reason
            )
        return item

    def _adopted(self, path: str) -> None:
        self.adopt(self._there(path))

    def _publish(self, queue: Queue) -> None:
        result, identifier = self.directory.create(queue_object(queue))
        if result is not DirectoryResult.SUCCESS or identifier is None:
            what = f"{queue.pathname} could not be published"
            raise directory_error(result, what, self.directory.reason)
        result, item = self.directory.read(ObjectClass.QUEUE, by_identifier(identifier))
        self._rename(queue, identifier)  # the directory is not asked after this, so nothing is done twice
        if result is DirectoryResult.SUCCESS and item is not None:
            self._take_over(queue, item)

    def _write_ours(self, queue: Queue) -> None:
        listed = tuple(name for name in COMPARED if name != "transactional")
        result = self.directory.write(queue_object(queue), listed)
        if result is not DirectoryResult.SUCCESS:
            what = f"{queue.pathname} could not be written to the directory"
            raise directory_error(result, what, self.directory.reason)

    def _delete_here(self, queue: Queue, caller: Token | None, discard: bool) -> Chore:
        count = sum(len(member.positions) for member in queue.family)
        if count and not discard:
            raise IllegalOperationError(
                f"{queue.pathname} holds {count} messages, with its journal and subqueues. Take them out, publish the "
                "queue again, or say --discard-messages."
            )
        chore = self.queues.delete(queue, caller, skip_directory=True)
        self.directory.deleted_here(queue_object(queue))
        return chore

    def _delete_there(self, path: str) -> None:
        if path.lower() in self.core.by_path:
            raise IllegalOperationError(f"{path} is here too; delete it with `msmq queue delete`.")
        result = self.directory.delete(self._there(path))
        if result is not DirectoryResult.SUCCESS:
            what = f"{path} could not be deleted from the directory"
            raise directory_error(result, what, self.directory.reason)


def _rights_differ(queue: Queue, item: DirectoryObject) -> bool:
    """Whether the directory has another list of rights than the one that was last taken over or written."""
    given = item.attributes.get("security")
    if not given:
        return False
    old = queue.security
    adopted = Queue(0, queue.pathname, queue.queue_type, security=old)
    adopt(adopted, DirectoryObject(ObjectClass.QUEUE, {"security": given}))
    return adopted.security != old

"""Bringing public queues and their objects in the directory together again.

A queue that others made below our object in the directory, as Windows' console does, or that a lost data directory left
there, is adopted: others find it and send to it, so it has to be here. What the directory has lost is never deleted
here: that is for the operator to say, who may also have it published again (:class:`msmq.manager.differences.Choice`).
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
    """The operations. Whoever calls them can wait for the directory."""

    def __init__(self, core: Core, queues: Queues, directory: DirectoryEvents, guard: Guard) -> None:
        self.core = core
        self.queues = queues
        self.directory = directory
        self.guard = guard

    @property
    def public(self) -> list[Queue]:
        return [queue for queue in self.core.by_path.values() if queue.queue_type is QueueType.PUBLIC]

    def published(self) -> Sequence[DirectoryObject]:
        """What the directory has below our object; nothing, if others have deleted that.

        Raises:
            NoDsError: it does not answer.
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
        """Where the two disagree; see :meth:`published`."""
        there = self.published()
        return differences(map(queue_object, self.public), there)

    def catch_up(self, items: Sequence[DirectoryObject]) -> list[str]:
        """Take over what others have changed or made; gives what was done, for the log. Queues here that the directory
        does not have are left alone."""
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
        """Have a queue here that the directory has; one of this name that is here already becomes it."""
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
        """Have a queue here that somebody sends to by its identifier, if the directory says that it is ours.

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
        """Give a queue the identifier that the directory has for it. Senders that still use the old one reach it."""
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
        """Do what was chosen about a queue; a deletion gives the chore that does it. ``discard`` says that messages of
        a queue that is deleted here may go with it.

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
        self._rename(queue, identifier)  # nothing is asked behind this, so nothing is done twice
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
    """Whether the directory has another list of rights than was last taken over from there or written."""
    given = item.attributes.get("security")
    if not given:
        return False
    old = queue.security
    adopted = Queue(0, queue.pathname, queue.queue_type, security=old)
    adopt(adopted, DirectoryObject(ObjectClass.QUEUE, {"security": given}))
    return adopted.security != old

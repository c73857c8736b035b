"""Public queues of other hosts: showing, changing and creating them in the directory.

Their host notices the changes itself. Rights are checked twice: here for the caller, by the descriptor of the queue,
and by the directory for the account of this computer.
"""

from __future__ import annotations

from typing import Any

from msmq.errors import QueueNotFoundError
from msmq.manager.access.guard import Guard
from msmq.manager.core import Core
from msmq.manager.directory import (
    QUEUE_ATTRIBUTES,
    DirectoryEvents,
    DirectoryObject,
    DirectoryResult,
    Expression,
    ObjectClass,
    Relation,
    adopt,
    by_identifier,
)
from msmq.manager.model import QueueType
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest, check_label, directory_error
from msmq.security.access import QueueManagerOperation, QueueOperation, Token
from msmq.wire.names import PublicName, QueueKind, QueuePath


class Elsewhere:
    """The operations, which may wait for the directory."""

    def __init__(self, core: Core, directory: DirectoryEvents, guard: Guard) -> None:
        self.core = core
        self.directory = directory
        self.guard = guard

    def is_elsewhere(self, path: QueuePath) -> bool:
        """Whether a path names a public queue on another host, which the directory may have."""
        own = (
            ".",
            self.core.record.computer_name.lower(),
            self.core.record.qualified_computer_name.lower(),
        )
        public = path.kind is QueueKind.PUBLIC and not path.suffix and path.subqueue is None
        return public and self.core.directory_integrated and path.computer.lower() not in own

    def find(self, name: PublicName | QueuePath) -> Queue:
        """A public queue with its properties in the directory. It is not a queue of this host.

        Raises:
            QueueNotFoundError: the directory does not know it.
            NoDsError, DsError: the directory could not be asked.
        """
        if isinstance(name, PublicName):
            conditions = by_identifier(name.queue)
        else:
            path = str(QueuePath(name.computer, name.kind, name.name))
            conditions = (Expression("pathname", Relation.EQUALS, path),)
        result, item = self.directory.read(ObjectClass.QUEUE, conditions)
        if item is None and self.core.directory_offline:
            result = DirectoryResult.DIRECTORY_NOT_CONNECTED  # only queues of this host were searched
        if result in (DirectoryResult.DIRECTORY_NOT_CONNECTED, DirectoryResult.GENERIC_ERROR):
            raise directory_error(result, f"{name} could not be looked up")
        if result is not DirectoryResult.SUCCESS or item is None:
            raise QueueNotFoundError(f"The directory has no public queue {name}.")
        queue = Queue(0, item.attributes["pathname"], QueueType.PUBLIC)
        queue.identifier = item.identifier
        adopt(queue, item)
        return queue

    def look(self, name: PublicName | QueuePath, caller: Token | None = None) -> Queue:
        """A queue, if the caller may see its properties."""
        queue = self.find(name)
        self.guard.check_queue(caller, queue, QueueOperation.GET_PROPERTIES)
        return queue

    def change(
        self, name: PublicName | QueuePath, wanted: dict[str, Any], caller: Token | None = None
    ) -> Queue:
        """Change properties of a queue in the directory. Returns the changed queue."""
        queue = self.find(name)
        self.guard.check_queue(caller, queue, QueueOperation.SET_PROPERTIES)
        check_label(wanted.get("label", ""))
        values = {"identifier": queue.identifier, "pathname": queue.pathname, **wanted}
        result = self.directory.write(
            DirectoryObject(ObjectClass.QUEUE, values), tuple(wanted), caller=caller
        )
        if result is not DirectoryResult.SUCCESS:
            what = f"{queue.pathname} could not be changed in the directory"
            raise directory_error(result, what, self.directory.reason)
        for attribute, value in wanted.items():
            setattr(queue, attribute, value)
        return queue

    def create(self, path: QueuePath, request: QueueRequest, caller: Token | None = None) -> Queue:
        """Create a queue of another host in the directory, where that host finds it."""
        self.guard.check_manager(caller, QueueManagerOperation.CREATE_QUEUE)
        check_label(request.label)
        values = {
            name: value
            for name in QUEUE_ATTRIBUTES
            if (value := getattr(request, name, None)) is not None and name != "security"
        }
        if request.security:
            values["security"] = request.security
        values["pathname"] = str(path)
        result, identifier = self.directory.create(DirectoryObject(ObjectClass.QUEUE, values), caller=caller)
        if result is not DirectoryResult.SUCCESS or identifier is None:
            what = f"{path} could not be made in the directory"
            raise directory_error(result, what, self.directory.reason)
        return self.find(PublicName(identifier))

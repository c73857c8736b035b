"""The access checks at every open and every administrative event (MS-MQDMPR 3.1.1.2, ruling 9).

A caller of None is the queue manager itself, or a protocol that has checked already; everybody else comes with a
token. Queues are guarded by their own descriptor, subqueues and journals by that of their queue. The system queues and
the outgoing queues have none and are guarded by the descriptor of the queue manager; nobody else may access the queues
that it uses itself. A descriptor that cannot be read allows nothing. For sending to a public queue the descriptor in
the directory counts (MS-MQQB 3.1.5.8.3), or that of this host if the directory does not tell.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msmq.errors import AccessDeniedError, DecodeError
from msmq.manager.core import Core
from msmq.manager.directory import DirectoryEvents, ObjectClass, by_identifier
from msmq.manager.model import QueueAccessType, QueueType
from msmq.manager.queues.queue import OutgoingQueue, Queue
from msmq.security.access import (
    REQUIRED_RIGHTS,
    Operation,
    QueueManagerOperation,
    QueueOperation,
    Token,
    check_access,
)
from msmq.security.descriptor import SecurityDescriptor

_TAKING: Final = frozenset({QueueAccessType.RECEIVE, QueueAccessType.RECEIVE_ADMIN, QueueAccessType.MOVE})
_INTERNAL_QUEUES: Final = ("order_queue$", "notify_queue$")

_ON_MANAGER: Final = {
    QueueOperation.GET_PROPERTIES: QueueManagerOperation.GET_PROPERTIES,
    QueueOperation.GET_PERMISSIONS: QueueManagerOperation.GET_PERMISSIONS,
}
"""The operations on the queue manager that stand for those on a queue without a descriptor; all others change its
properties."""


class Guard:
    """The access checks."""

    def __init__(self, core: Core, directory: DirectoryEvents) -> None:
        self.core = core
        self._directory = directory

    def check_manager(self, caller: Token | None, operation: QueueManagerOperation) -> None:
        """Raise AccessDeniedError unless ``caller`` may do this to the queue manager."""
        if caller is not None:
            _guarded(
                self.core.record.security, caller, operation, "the queue manager", "msmq manager acl set"
            )

    def check_queue(self, caller: Token | None, queue: Queue, operation: QueueOperation) -> None:
        """Raise AccessDeniedError unless ``caller`` may do this to ``queue``."""
        if caller is None:
            return
        self._check_internal(queue)
        if queue.root.security:
            path, security = queue.root.pathname, self._security(queue.root, operation)
            _guarded(security, caller, operation, path, f"msmq queue acl set '{path}'")
        else:
            self.check_manager(caller, _ON_MANAGER.get(operation, QueueManagerOperation.SET_PROPERTIES))

    def _security(self, queue: Queue, operation: QueueOperation) -> bytes:
        if (
            operation is not QueueOperation.WRITE_MESSAGE
            or queue.queue_type is not QueueType.PUBLIC
            or self.core.directory_offline
        ):
            return queue.security
        _, found = self._directory.read(ObjectClass.QUEUE, by_identifier(queue.identifier), ("security",))
        published: bytes | None = None if found is None else found.attributes.get("security")
        return published or queue.security

    def check_open(self, caller: Token | None, queue: Queue, access: QueueAccessType) -> None:
        """Raise AccessDeniedError unless ``caller`` may open ``queue`` with this access."""
        if caller is None:
            return
        self._check_internal(queue)
        core = self.core
        taking = access in _TAKING
        if isinstance(queue, OutgoingQueue):
            # Whoever may send to the destination may send here; messages of others may only be read by the
            # administrator.
            if access is not QueueAccessType.SEND:
                self.check_manager(caller, QueueManagerOperation.SET_PROPERTIES)
        elif queue in (core.dead_letter_queue, core.transactional_dead_letter_queue):
            receive = QueueManagerOperation.RECEIVE_DEADLETTER_MESSAGE
            self.check_manager(caller, receive if taking else QueueManagerOperation.PEEK_DEADLETTER_MESSAGE)
        elif queue is core.journal_queue:
            receive = QueueManagerOperation.RECEIVE_JOURNAL_MESSAGE
            self.check_manager(caller, receive if taking else QueueManagerOperation.PEEK_JOURNAL_MESSAGE)
        elif access is QueueAccessType.SEND:
            self.check_queue(caller, queue, QueueOperation.WRITE_MESSAGE)
        elif not taking:
            self.check_queue(caller, queue, QueueOperation.PEEK_MESSAGE)
        elif queue is queue.root.journal:
            self.check_queue(caller, queue, QueueOperation.RECEIVE_JOURNAL_MESSAGE)
        else:
            self.check_queue(caller, queue, QueueOperation.RECEIVE_MESSAGE)

    @staticmethod
    def _check_internal(queue: Queue) -> None:
        if queue.root.queue_type is QueueType.SYSTEM and queue.root.pathname.lower().endswith(
            _INTERNAL_QUEUES
        ):
            raise AccessDeniedError(f"{queue.pathname} belongs to the queue manager.")


def _guarded(security: bytes, caller: Token, operation: Operation, what: str, command: str) -> None:
    """Check access, and make a refusal say who lacks which right and how it is granted."""
    try:
        _check(security, caller, operation)
    except AccessDeniedError as error:
        if error.detail:
            raise
        right = str(REQUIRED_RIGHTS[operation].name).lower().replace("_", "-")
        raise AccessDeniedError(
            f"{caller.user} has not the right {right} to {what}; its owner gives it with "
            f"`{command} --allow {caller.user}={right}`."
        ) from None


@lru_cache(maxsize=256)
def _check(security: bytes, caller: Token, operation: Operation) -> None:
    """Like check_access, for repeated checks of the same. Refusals are not cached."""
    check_access(_descriptor(security), caller, operation)


@lru_cache(maxsize=256)
def _descriptor(security: bytes) -> SecurityDescriptor:
    try:
        return SecurityDescriptor.decode(security)
    except DecodeError as error:
        raise AccessDeniedError(f"The security descriptor is damaged: {error}") from error

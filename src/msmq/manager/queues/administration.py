"""Looking at and changing the properties and the security of queues and of the queue manager.

Every call is checked as a whole before anything is changed: the caller's rights, then each property by its table,
then, for a published object, the directory. Changes are stored, with their time in ModifyTime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msmq.errors import (
    IllegalOperationError,
    InvalidOwnerError,
    PrivilegeNotHeldError,
    PropertyNotallowedError,
)
from msmq.manager.access.guard import Guard
from msmq.manager.core import Core
from msmq.manager.directory import DirectoryEvents, DirectoryResult, directory_object, queue_object
from msmq.manager.ledger.attributes import change
from msmq.manager.mailbox.retries import Retry
from msmq.manager.model import QueueType
from msmq.manager.queues.management import machine_properties, queue_properties
from msmq.manager.queues.properties import (
    CONTENTS,
    MACHINE,
    PROPID_Q_OBJ_SECURITY,
    QUEUE,
    SECURITY_PROPIDS,
    SETTABLE_ON_MACHINE,
    UNCHANGING,
    read_machine,
    read_queue,
)
from msmq.manager.queues.queue import OpenQueueDescriptor, Queue
from msmq.manager.queues.queues import Queues, directory_error
from msmq.security.access import Privilege, QueueManagerOperation, QueueOperation, Token
from msmq.security.descriptor import SecurityDescriptor, decode_security_property
from msmq.wire.access_masks import SecurityInformation
from msmq.wire.properties import Checked, ObjectType, Use, check_properties
from msmq.wire.variant import Variant

_OWNERS: Final = SecurityInformation.OWNER | SecurityInformation.GROUP
VISIBLE: Final = _OWNERS | SecurityInformation.DACL
"""The parts of a descriptor that are read and written by default: all but the audit list."""


class Administration:
    """The administrative events."""

    def __init__(self, core: Core, queues: Queues, directory: DirectoryEvents, guard: Guard) -> None:
        self.core = core
        self.queues = queues
        self.directory = directory
        self.guard = guard

    # --- queues ---------------------------------------------------------------------------------------------

    def get_properties(
        self, queue: Queue, propids: Sequence[int], caller: Token | None = None
    ) -> tuple[Variant, ...]:
        """Properties of a queue, in the order asked for."""
        self.guard.check_queue(caller, queue, QueueOperation.GET_PROPERTIES)
        return read_queue(queue, self.core.record, propids)

    def set_properties(
        self, queue: Queue, propids: Sequence[int], values: Sequence[Variant], caller: Token | None = None
    ) -> tuple[int, ...]:
        """Change properties of a queue. Returns MQ_OK or a remark for each."""
        self.guard.check_queue(caller, queue, QueueOperation.SET_PROPERTIES)
        private = queue.queue_type is not QueueType.PUBLIC
        checked = check_properties(
            ObjectType.QUEUE, Use.SET, propids, values, private=private, contents=CONTENTS
        )
        allowed = QUEUE.keys() - UNCHANGING - SECURITY_PROPIDS
        wanted = {
            QUEUE[propid].attribute: QUEUE[propid].take(value)
            for propid, value in _accepted(checked, allowed)
        }
        self._change_queue(queue, wanted, caller)
        return checked.statuses

    def set_retry(self, queue: Queue, retry: Retry, caller: Token | None = None) -> None:
        """Set the policy for rejected messages of a queue. The subqueue for poison is created now, because there may
        be no room for it when it is needed."""
        self.guard.check_queue(caller, queue, QueueOperation.SET_PROPERTIES)
        if queue.parent is not None or not queue.security:
            raise IllegalOperationError(f"{queue.pathname} has no properties of its own.")
        if retry.check().poison_subqueue:
            self.queues.subqueue(queue, retry.poison_subqueue)
        old = queue.subqueue_collection.get(queue.retry.poison_subqueue.lower())
        self.queues.change(queue, retry=retry)
        if old is not None:
            self.queues.drop_empty_subqueue(old)

    def set_reader_retry(self, descriptor: OpenQueueDescriptor, retry: Retry) -> None:
        """Set one reader's policy for messages that it rejects."""
        queue = descriptor.queue
        assert queue is not None
        if retry.check().poison_subqueue:
            self.queues.subqueue(queue.root, retry.poison_subqueue)
        descriptor.retry = retry

    def get_security(
        self,
        queue: Queue,
        information: SecurityInformation = VISIBLE,
        caller: Token | None = None,
    ) -> bytes:
        """The parts of a queue's descriptor that ``information`` names, self-relative."""
        _check_audit(information, caller)
        self.guard.check_queue(caller, queue, QueueOperation.GET_PERMISSIONS)
        return SecurityDescriptor.decode(queue.root.security).select(information).encode()

    def set_security(
        self,
        queue: Queue,
        information: SecurityInformation,
        security: bytes,
        caller: Token | None = None,
    ) -> None:
        """Replace the parts of a queue's descriptor that ``information`` names."""
        given = decode_security_property(PROPID_Q_OBJ_SECURITY, security)
        _check_audit(information, caller)
        if information & _OWNERS:
            self.guard.check_queue(caller, queue, QueueOperation.TAKE_OWNERSHIP)
        if information & SecurityInformation.DACL:
            self.guard.check_queue(caller, queue, QueueOperation.CHANGE_PERMISSIONS)
        _check_owner(information, given, caller)
        old = SecurityDescriptor.decode(queue.root.security)
        self._change_queue(queue, {"security": old.update(information, given).encode()}, caller)

    def _change_queue(self, queue: Queue, wanted: dict[str, Any], caller: Token | None) -> None:
        """Publish new values of a public queue, then take them over and store them."""
        if queue.parent is not None or not queue.security:
            raise IllegalOperationError(f"{queue.pathname} has no properties of its own.")
        wanted["modify_time"] = self.core.now_s
        if queue.queue_type is QueueType.PUBLIC:
            item = queue_object(queue)
            item.attributes.update(wanted)
            self._publish(self.directory.write(item, tuple(wanted), caller=caller), queue.pathname)
        self.queues.change(queue, **wanted)

    def _publish(self, result: DirectoryResult, what: str) -> None:
        if result is not DirectoryResult.SUCCESS:
            raise directory_error(
                result, f"{what} could not be changed in the directory", self.directory.reason
            )

    def watch_queue(
        self, queue: Queue, propids: Sequence[int], caller: Token | None = None
    ) -> tuple[Variant, ...]:
        """Management properties of a queue (MS-MQMQ 2.3.12)."""
        self.guard.check_queue(caller, queue, QueueOperation.GET_PROPERTIES)
        return queue_properties(self.core, queue, propids)

    # --- the queue manager ----------------------------------------------------------------------------------

    def get_manager_properties(
        self, propids: Sequence[int], caller: Token | None = None
    ) -> tuple[Variant, ...]:
        """Properties of the queue manager, in the order asked for."""
        self.guard.check_manager(caller, QueueManagerOperation.GET_PROPERTIES)
        return read_machine(self.core.record, propids)

    def set_manager_properties(
        self, propids: Sequence[int], values: Sequence[Variant], caller: Token | None = None
    ) -> tuple[int, ...]:
        """Change properties of the queue manager. Returns MQ_OK or a remark for each."""
        self.guard.check_manager(caller, QueueManagerOperation.SET_PROPERTIES)
        checked = check_properties(ObjectType.MACHINE, Use.SET, propids, values, contents=CONTENTS)
        wanted = {
            MACHINE[propid].attribute: MACHINE[propid].take(value)
            for propid, value in _accepted(checked, SETTABLE_ON_MACHINE)
        }
        self._change_manager(wanted, caller)
        return checked.statuses

    def watch_manager(self, propids: Sequence[int], caller: Token | None = None) -> tuple[Variant, ...]:
        """Management properties of the queue manager (MS-MQMQ 2.3.11)."""
        self.guard.check_manager(caller, QueueManagerOperation.GET_PROPERTIES)
        return machine_properties(self.core, propids)

    def get_manager_security(
        self, information: SecurityInformation = VISIBLE, caller: Token | None = None
    ) -> bytes:
        """The parts of the queue manager's descriptor that ``information`` names, self-relative."""
        _check_audit(information, caller)
        self.guard.check_manager(caller, QueueManagerOperation.GET_PERMISSIONS)
        return SecurityDescriptor.decode(self.core.record.security).select(information).encode()

    def set_manager_security(
        self, information: SecurityInformation, security: bytes, caller: Token | None = None
    ) -> None:
        """Replace the parts of the queue manager's descriptor that ``information`` names."""
        given = decode_security_property(PROPID_Q_OBJ_SECURITY, security)
        _check_audit(information, caller)
        if information & _OWNERS:
            self.guard.check_manager(caller, QueueManagerOperation.TAKE_OWNERSHIP)
        if information & SecurityInformation.DACL:
            self.guard.check_manager(caller, QueueManagerOperation.CHANGE_PERMISSIONS)
        _check_owner(information, given, caller)
        old = SecurityDescriptor.decode(self.core.record.security)
        self._change_manager({"security": old.update(information, given).encode()}, caller)

    def _change_manager(self, wanted: dict[str, Any], caller: Token | None) -> None:
        wanted["modify_time"] = self.core.now_s
        if self.core.directory_integrated:
            item = directory_object(self.core.record)
            item.attributes.update(wanted)
            self._publish(self.directory.write(item, tuple(wanted), caller=caller), "The queue manager")
        change(self.core, **wanted)


def _accepted(checked: Checked, allowed: frozenset[int] | set[int]) -> list[tuple[int, Any]]:
    for row, _ in checked.accepted:
        if row.id not in allowed:
            raise PropertyNotallowedError(f"{row.name} cannot be changed.")
    return [(row.id, variant.value) for row, variant in checked.accepted]


def _check_audit(information: SecurityInformation, caller: Token | None) -> None:
    """Check the privilege for the audit list, which no right on an object opens."""
    if (
        information & SecurityInformation.SACL
        and caller is not None
        and Privilege.SECURITY not in caller.privileges
    ):
        raise PrivilegeNotHeldError("The audit list needs SeSecurityPrivilege.")


def _check_owner(information: SecurityInformation, given: SecurityDescriptor, caller: Token | None) -> None:
    """Check that the new owner is the caller or one of the caller's groups: ownership is taken, not given away."""
    if information & SecurityInformation.OWNER and (
        given.owner is None or (caller is not None and not caller.has(given.owner))
    ):
        raise InvalidOwnerError("The new owner must be the caller, or a group the caller belongs to.")

"""The life of queues: create, delete, open, close, purge (MS-MQDMPR 3.1.7.1.3 to 3.1.7.1.7, 3.1.7.1.33).

Callers come with a token, which is checked before anything changes; None is the queue manager itself. Three things are
defined here that the specification leaves open: a public queue is first removed from the directory, so that nothing is
lost if the directory refuses; readers that wait at a deleted queue are told; and a purge does not remove messages that
a transaction is still sending, which become available at its commit like everything sent after the purge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from msmq.errors import (
    AccessDeniedError,
    DsError,
    IllegalFormatnameError,
    IllegalPropertyValueError,
    IllegalQueuePathnameError,
    InvalidHandleError,
    MQError,
    NoDsError,
    PrivilegeNotHeldError,
    QueueExistsError,
    QueueNotAvailableError,
    QueueNotFoundError,
    SharingViolationError,
    StaleHandleError,
    UnsupportedAccessModeError,
    UnsupportedFormatnameOperationError,
)
from msmq.manager.access.default_descriptor import (
    Circumstances,
    decode_supplied,
    ruled_descriptor,
    specified_descriptor,
)
from msmq.manager.access.guard import Guard
from msmq.manager.chores import SLICE, Chore
from msmq.manager.core import Core
from msmq.manager.directory import (
    DirectoryEvents,
    DirectoryResult,
    ObjectClass,
    by_identifier,
    queue_object,
)
from msmq.manager.ledger.queue_records import queue_record
from msmq.manager.ledger.recovered import NUMBER_MASK
from msmq.manager.mailbox.mailbox import Mailbox, purge_reason
from msmq.manager.mailbox.positions import START, PositionState
from msmq.manager.messages.readers import Reading
from msmq.manager.model import (
    ORDER_QUEUE_NUMBER,
    UNLIMITED,
    QueueAccessType,
    QueuePrivacyLevel,
    QueueShareMode,
    QueueType,
)
from msmq.manager.queues.outgoing_queues import OutgoingQueues, Purpose, is_http
from msmq.manager.queues.queue import OpenQueueDescriptor, OutgoingQueue, Queue, finish_wait
from msmq.manager.queues.resolution import Naming
from msmq.security.access import Privilege, QueueManagerOperation, QueueOperation, Token
from msmq.security.sid import Sid
from msmq.wire.classes import MessageClass
from msmq.wire.declare import bytes_of
from msmq.wire.guid import NULL_GUID
from msmq.wire.names import (
    ConnectorName,
    DirectName,
    FormatName,
    MachineName,
    MulticastName,
    MultipleElementName,
    PublicName,
    QueueKind,
    QueuePath,
    QueueTarget,
    SuffixType,
    is_read_only,
    target_of,
)

FIRST_QUEUE_NUMBER: Final = 16
"""Smaller numbers are for the queue manager's own queues."""
DELETING: Final = "deleting/"
"""The beginning of the names of values that record deleted queues with messages that are still to be removed."""
_QUEUE_BYTES: Final = 16_384
"""An upper limit for the size of a queue's attributes in the ledger."""
MOST_LABEL_CHARACTERS: Final = 124

_ADMIN_ACCESS: Final = (QueueAccessType.RECEIVE_ADMIN, QueueAccessType.PEEK_ADMIN)
_RECEIVING: Final = (QueueAccessType.RECEIVE, QueueAccessType.RECEIVE_ADMIN)
"""The access types that take messages out of a local and of an outgoing queue; a purge is a receive of everything."""


@dataclass(slots=True)
class QueueRequest:
    """The properties of a new queue; the defaults are those of Set Queue Defaults (3.1.7.1.33)."""

    pathname: str
    label: str = ""
    type: bytes = NULL_GUID
    journaling: bool = False
    quota_kb: int = UNLIMITED
    journal_quota_kb: int = UNLIMITED
    authentication: bool = False
    privacy_level: QueuePrivacyLevel = QueuePrivacyLevel.OPTIONAL
    transactional: bool = False
    multicast_address: str | None = None
    security: bytes | None = None
    base_priority: int = 0


class Queues:
    """QueueCollection and the open descriptors."""

    def __init__(
        self,
        core: Core,
        mailbox: Mailbox,
        reading: Reading,
        naming: Naming,
        directory: DirectoryEvents,
        guard: Guard,
        *,
        strict_default_security: bool = False,
        computer_sid: Callable[[str], Sid | None] = lambda computer: None,
    ) -> None:
        """``computer_sid`` returns the SID of a computer's account from the directory (MS-MQDSSM 3.1.6.14)."""
        self.core = core
        self.mailbox = mailbox
        self.reading = reading
        self.naming = naming
        self.directory = directory
        self.guard = guard
        self.default_descriptor = specified_descriptor if strict_default_security else ruled_descriptor
        self.computer_sid = computer_sid
        self.outgoing = OutgoingQueues(core, naming, directory, self.take_number, self.write)
        self.adopt: Callable[[bytes], Queue | None] = lambda identifier: None
        """Creates a public queue here that only the directory has, if it is ours; set by the queue manager."""
        self.descriptors: dict[int, OpenQueueDescriptor] = {}
        self._next_number = FIRST_QUEUE_NUMBER
        # The upper half of a handle tells during which run of the queue manager it was made.
        self._epoch = (int.from_bytes(core.environment.random_bytes(4), "little") | 1) << 32 & (1 << 63) - 1

    # --- create ---------------------------------------------------------------------------------------------

    def create(
        self, request: QueueRequest, caller: Token | None = None, *, skip_directory: bool = False
    ) -> Queue:
        """Create Queue. A public queue is published first; if that fails there is no queue."""
        self.guard.check_manager(caller, QueueManagerOperation.CREATE_QUEUE)
        core = self.core
        path = self.local_path(request.pathname)
        if path.subqueue is not None or path.suffix:
            raise IllegalQueuePathnameError(
                "Subqueues and journals come with their queue and are not created."
            )
        if str(path).lower() in core.by_path:
            raise QueueExistsError(f"{path} exists already.")
        check_label(request.label)
        if request.multicast_address:
            MulticastName.parse_address(request.multicast_address)
        queue = self._new(request, path, caller)
        if queue.queue_type is QueueType.PUBLIC and not skip_directory:
            self._publish(queue, caller)
        elif queue.queue_type is QueueType.PUBLIC:
            queue.identifier = core.environment.random_bytes(16)
        self._add(queue)
        return queue

    def create_connector(self, foreign: bytes, caller: Token | None = None) -> tuple[Queue, Queue]:
        """Create the two queues that keep messages for a foreign system until its connector application takes them,
        one for transactional messages. They are known by their format names and published nowhere."""
        self.guard.check_manager(caller, QueueManagerOperation.CREATE_QUEUE)
        names = (str(ConnectorName(foreign)), str(ConnectorName(foreign, SuffixType.XACTONLY)))
        if names[0].lower() in self.core.by_path:
            raise QueueExistsError(f"{names[0]} exists already.")
        security = self._security(None, caller)
        plain, transactional = (Queue(self.take_number(), name, QueueType.CONNECTOR) for name in names)
        plain.identifier = foreign
        transactional.transactional = True
        for queue in (plain, transactional):
            queue.create_time = queue.modify_time = self.core.now_s
            queue.security = security
            self._add(queue)
        return plain, transactional

    def _add(self, queue: Queue) -> None:
        """Add a queue with its journal to QueueCollection, and store both."""
        self.write(queue)  # first: if the store is full there is no queue
        self.core.register(queue)
        if queue.journal is not None:
            self.core.queues[queue.journal.number] = queue.journal

    def local_path(self, text: str) -> QueuePath:
        """Parse a path on this computer, which may also be written as a dot."""
        path = QueuePath.parse(text)
        own = self.core.record.computer_name
        if path.computer not in (".", own) and path.computer.lower() not in (
            own.lower(),
            self.core.record.qualified_computer_name.lower(),
        ):
            raise IllegalQueuePathnameError(f"{path.computer} is another computer; this one is {own}.")
        return QueuePath(own, path.kind, path.name, path.subqueue, path.suffix)

    def _new(self, request: QueueRequest, path: QueuePath, caller: Token | None) -> Queue:
        core = self.core
        kind = {QueueKind.PRIVATE: QueueType.PRIVATE, QueueKind.SYSTEM: QueueType.SYSTEM}.get(path.kind)
        queue = Queue(self.take_number(), str(path), kind or QueueType.PUBLIC)
        for name in (
            "label", "type", "journaling", "quota_kb", "journal_quota_kb", "authentication",
            "privacy_level", "transactional", "multicast_address", "base_priority",
        ):  # fmt: skip
            setattr(queue, name, getattr(request, name))
        queue.qualified_pathname = str(
            QueuePath(core.record.qualified_computer_name or path.computer, path.kind, path.name)
        )
        queue.create_time = queue.modify_time = core.now_s
        queue.security = self._security(request.security, caller)
        if queue.queue_type is QueueType.PRIVATE:
            queue.base_priority = 0
            queue.identifier = core.environment.random_bytes(16)
            queue.private_queue_number = self._free_private_number()
        queue.journal = self._journal_of(queue)
        return queue

    def _security(self, security: bytes | None, caller: Token | None) -> bytes:
        """Create Default Queue Security Descriptor (3.1.7.1.3.1)."""
        core = self.core
        supplied = decode_supplied(security)
        if supplied.sacl is not None and caller is not None and Privilege.SECURITY not in caller.privileges:
            raise PrivilegeNotHeldError("An audit list can be given only with SeSecurityPrivilege.")
        machine = self.computer_sid(core.record.computer_name) if core.directory_integrated else None
        given = Circumstances(caller, core.directory_integrated, machine, core.srmp_http_support)
        return self.default_descriptor(supplied, given).encode()

    def _journal_of(self, queue: Queue) -> Queue:
        journal = Queue(self.take_number(), f"{queue.pathname};JOURNAL", QueueType.SYSTEM, parent=queue)
        journal.transactional = queue.transactional
        return journal

    def restore_number(self, highest: int) -> None:
        """Continue above the numbers of recovered queues."""
        self._next_number = max(self._next_number, highest + 1)

    def take_number(self) -> int:
        number = self._next_number
        self._next_number += 1
        return number

    def _free_private_number(self) -> int:
        """The lowest free number from 5 on: 4 is the order queue's."""
        number = ORDER_QUEUE_NUMBER + 1
        while number in self.core.by_private_number:
            number += 1
        return number

    def _publish(self, queue: Queue, caller: Token | None) -> None:
        if not self.core.directory_integrated and not self.directory.exists:
            raise NoDsError("Public queues live in the directory; this queue manager is in workgroup mode.")
        result, identifier = self.directory.create(queue_object(queue), caller=caller)
        if result is not DirectoryResult.SUCCESS or identifier is None:
            raise directory_error(result, f"{queue.pathname} could not be published", self.directory.reason)
        queue.identifier = identifier
        result, item = self.directory.read(
            ObjectClass.QUEUE, by_identifier(identifier), ("full_path", "directory_path")
        )
        if result is DirectoryResult.SUCCESS and item is not None:
            queue.full_path = item.attributes["full_path"]
            queue.directory_path = item.attributes["directory_path"]

    def write(self, queue: Queue) -> None:
        """Write a queue's attributes to the ledger, with those of its journal and subqueues."""
        queue = queue.parent or queue
        self.core.ledger.put_value(f"queue/{queue.number}", queue_record(queue))

    def change(self, queue: Queue, **wanted: Any) -> None:
        """Set and write attributes of a queue, all or none."""
        check_label(wanted.get("label", ""))
        old = {name: getattr(queue, name) for name in wanted}
        try:
            for name, value in wanted.items():
                setattr(queue, name, value)
            self.write(queue)
        except MQError:
            for name, value in old.items():
                setattr(queue, name, value)
            raise

    def subqueue(self, queue: Queue, name: str) -> Queue:
        """The subqueue of this name, created when it is first needed."""
        found = queue.subqueue_collection.get(name.lower())
        if found is None:
            found = Queue(self.take_number(), f"{queue.pathname};{name}", queue.queue_type, parent=queue)
            found.transactional = queue.transactional
            found.create_time = found.modify_time = self.core.now_s
            found.queue_manager = queue.queue_manager
            queue.subqueue_collection[name.lower()] = found
            try:
                self.write(queue)
            except MQError:
                del queue.subqueue_collection[name.lower()]
                raise
            self.core.queues[found.number] = found
        return found

    # --- delete and purge -----------------------------------------------------------------------------------

    def delete(self, queue: Queue, caller: Token | None = None, *, skip_directory: bool = False) -> Chore:
        """Delete Queue, with its journal, its subqueues and all messages in them. After the first event nobody finds
        it any more, even after a crash; very many messages are removed a slice at a time, also after a restart."""
        if queue.parent is not None:
            raise UnsupportedFormatnameOperationError(
                "Subqueues and journals go with their queue and not alone."
            )
        if queue.number < FIRST_QUEUE_NUMBER:
            raise AccessDeniedError(f"{queue.pathname} belongs to the queue manager.")
        self.guard.check_queue(caller, queue, QueueOperation.DELETE)
        return self.core.chores.start(self._deleting(queue, caller, skip_directory))

    def _deleting(self, queue: Queue, caller: Token | None, skip_directory: bool) -> Iterator[int]:
        family, core = queue.family, self.core
        count = sum(len(member.positions) for member in family)
        event = None
        if count <= SLICE:
            entries = [entry for member in family for entry in member.positions]
            letters = self.mailbox.letters_bytes(
                [entry.size for entry in entries], bytes(entry.marks for entry in entries)
            )
            event = core.event_with_room(_QUEUE_BYTES + letters, 2 + 3 * count)
        at_once = event is not None  # otherwise a slice at a time, with the room that there is
        record = queue_record(queue)
        with event or core.event(_QUEUE_BYTES, 2, freeing=True):
            if queue.queue_type is QueueType.PUBLIC and not skip_directory:
                result = self.directory.delete(queue_object(queue), caller=caller)
                if result is not DirectoryResult.SUCCESS:
                    what = f"{queue.pathname} could not be removed from the directory"
                    raise directory_error(result, what, self.directory.reason)
            if not at_once:
                core.ledger.put_value(f"{DELETING}{queue.number}", record)
            core.ledger.drop_value(f"queue/{queue.number}")
            self.reading.transactions.forget_queues(family)
            core.unregister(queue)
            while at_once and self._remove_some(family):
                pass
            self._abandon(family)
        if at_once:
            yield count
        yield from self.finish_deleting(queue)

    def _remove_some(self, family: list[Queue]) -> int:
        """Remove a slice of the messages of deleted queues. Returns how many were removed."""
        for member in family:
            ids = [entry.lookup_id for entry in islice(member.positions, SLICE)]
            if ids:
                return self.mailbox.remove(member, ids, MessageClass.NACK_Q_DELETED)
        return 0

    def finish_deleting(self, queue: Queue) -> Iterator[int]:
        """Remove the remaining messages of a deleted queue, a slice at a time."""
        family, core = queue.family, self.core
        while count := self._remove_some(family):
            yield count
        with core.event(0, 1, freeing=True):
            core.ledger.drop_value(f"{DELETING}{queue.number}")
        for member in family:
            core.queues.pop(member.number, None)
            self.mailbox.expiries.forget(member)

    @staticmethod
    def _abandon(family: list[Queue]) -> None:
        """Detach the open descriptors from their queue; only then wake readers, which might come back at once."""
        readers = [reader for member in family for reader in member.waiting]
        for member in family:
            for descriptor in member.open_descriptors:
                descriptor.queue = None
            member.open_descriptors.clear()
            member.waiting.clear()
        for reader in readers:
            finish_wait(reader, QueueNotAvailableError.code)

    def purge(self, queue: Queue, caller: Token | None = None) -> Chore:
        """Purge Queue: available messages are removed, held ones are removed when they are released, and later ones
        stay. Very many messages are removed a slice at a time."""
        self.guard.check_open(caller, queue, _RECEIVING[isinstance(queue, OutgoingQueue)])
        return self.core.chores.start(self._purging(queue))

    def _purging(self, queue: Queue) -> Iterator[int]:
        last, behind, positions = self.core.last_sequential_id, START, queue.positions
        while queue.number in self.core.queues and (found := positions.available(behind, SLICE).ids):
            behind = found[-1]
            if behind & NUMBER_MASK > last:
                behind |= NUMBER_MASK  # all other messages of this priority came later too
            ids = [lookup_id for lookup_id in found if lookup_id & NUMBER_MASK <= last]
            removed = self.mailbox.remove(queue, ids, purge_reason(queue))
            # Not before: a full disk may have refused the purge, and then what is held stays, too.
            positions.change_states(PositionState.LOCKED, PositionState.PURGE_PENDING, last)
            yield removed
        positions.change_states(PositionState.LOCKED, PositionState.PURGE_PENDING, last)

    def purge_opened(self, descriptor: OpenQueueDescriptor) -> Chore:
        """Purge the queue of a descriptor, if it was opened for receiving."""
        if descriptor.access_type not in _RECEIVING:
            raise AccessDeniedError("A queue is purged through a descriptor that may receive from it.")
        if descriptor.queue is None:
            raise QueueNotAvailableError("The queue was deleted.")
        return self.purge(descriptor.queue)

    # --- open -----------------------------------------------------------------------------------------------

    def open(
        self,
        format_name: str,
        access: QueueAccessType,
        share_mode: QueueShareMode = QueueShareMode.DENY_NONE,
        caller: Token | None = None,
        purpose: Purpose = Purpose.APPLICATION,
    ) -> OpenQueueDescriptor:
        """Open Queue. Rights are checked before a subqueue is made; anybody may send to other hosts."""
        name = self.naming.expand(format_name)
        if name is None:
            raise IllegalFormatnameError(f"A distribution list of {format_name} cannot be resolved.")
        if isinstance(name, MultipleElementName):
            return self._open_many(name, access, share_mode, caller)
        check_operation(name, access)
        queue = self.naming.find(name) or self._open_subqueue(name, access, caller)
        if queue is None and isinstance(name, PublicName) and self.core.directory_integrated:
            with suppress(NoDsError):  # what is known without the directory may be enough
                queue = self.adopt(name.queue)
        if queue is None:
            queue = self._outgoing_for(name, access, purpose)
        elif isinstance(queue, OutgoingQueue):
            self.outgoing.opened(queue, name, purpose)
        if (
            isinstance(queue, OutgoingQueue) != (access in _ADMIN_ACCESS)
            and access is not QueueAccessType.SEND
        ):
            raise UnsupportedAccessModeError("Outgoing queues are read with admin access, and only they are.")
        self.guard.check_open(caller, queue, access)
        check_sharing(queue, access, share_mode)
        descriptor = self._descriptor(access, share_mode, queue, str(name))
        queue.open_descriptors.append(descriptor)
        return descriptor

    def _descriptor(
        self, access: QueueAccessType, share_mode: QueueShareMode, queue: Queue | None, name: str
    ) -> OpenQueueDescriptor:
        handle = self._epoch | self.core.next_handle()
        descriptor = OpenQueueDescriptor(handle, self.core.next_handle(), access, share_mode, queue, name)
        self.descriptors[handle] = descriptor
        return descriptor

    def resolve(self, handle: int) -> OpenQueueDescriptor:
        """The descriptor of a handle, if it is open and was made since the queue manager started."""
        descriptor = self.descriptors.get(handle)
        if descriptor is not None:
            return descriptor
        if handle >> 32 and handle >> 32 != self._epoch >> 32:
            raise StaleHandleError("The queue manager was restarted after this queue was opened.")
        raise InvalidHandleError("No open queue has this handle.")

    def _open_many(
        self,
        name: MultipleElementName,
        access: QueueAccessType,
        share_mode: QueueShareMode,
        caller: Token | None,
    ) -> OpenQueueDescriptor:
        if access is not QueueAccessType.SEND:
            raise UnsupportedFormatnameOperationError(
                "Several queues at once can only be opened for sending."
            )
        if share_mode is not QueueShareMode.DENY_NONE:
            raise UnsupportedAccessModeError("Several queues at once cannot be opened exclusively.")
        parent = self._descriptor(access, share_mode, None, str(name))
        parent.multiple = True
        try:
            for element in name.elements:
                parent.children.append(self.open(str(element), access, share_mode, caller))
        except BaseException:
            self.close(parent)
            raise
        return parent

    def _open_subqueue(self, name: FormatName, access: QueueAccessType, caller: Token | None) -> Queue | None:
        """Open a subqueue of a queue of ours, and create it if necessary."""
        if not isinstance(name, DirectName) or target_of(name) is not QueueTarget.SUBQUEUE:
            return None
        base = self.naming.find(
            DirectName(name.protocol, name.address, name.kind, name.queue, port=name.port)
        )
        if base is None or name.subqueue is None:
            return None
        self.guard.check_open(caller, base, access)
        return self.subqueue(base, name.subqueue)

    def _outgoing_for(self, name: FormatName, access: QueueAccessType, purpose: Purpose) -> OutgoingQueue:
        """Open a queue on another host: messages for it are kept here until they are sent."""
        if access is not QueueAccessType.SEND:
            raise QueueNotFoundError(f"There is no queue {name} on this computer.")
        return self.outgoing.for_name(name, purpose)

    # --- close ----------------------------------------------------------------------------------------------

    def close(self, descriptor: OpenQueueDescriptor) -> None:
        """Close Queue: close its cursors, and cancel every read that waits. Does nothing the second time."""
        if self.descriptors.pop(descriptor.handle, None) is None:
            return
        if descriptor.multiple:
            for child in descriptor.children:
                self.close(child)
            return
        if descriptor.queue is None:
            return
        queue = descriptor.queue
        self.reading.close(descriptor)
        queue.open_descriptors.remove(descriptor)
        descriptor.queue = None  # a closed descriptor reads no more, even if somebody still has it
        self.drop_empty_subqueue(queue)

    def drop_empty_subqueue(self, queue: Queue) -> None:
        """Remove a subqueue that is not open, is empty, and is not the target of a move or a policy. Opening it
        creates it again."""
        parent = queue.parent
        if parent is None or queue is parent.journal or queue.open_descriptors or len(queue.positions):
            return
        name = queue.pathname.rpartition(";")[2].lower()
        policies = (parent.retry, *(each.retry for each in parent.open_descriptors))
        if self.reading.transactions.is_target(queue) or any(
            policy is not None and policy.poison_subqueue.lower() == name for policy in policies
        ):
            return
        del parent.subqueue_collection[name]
        try:
            self.write(parent)
        except MQError:
            parent.subqueue_collection[name] = queue  # the disk is full: the next close tries again
        else:
            del self.core.queues[queue.number]
            self.mailbox.expiries.forget(queue)


def check_label(label: str) -> None:
    """Refuse a label that is longer than PROPID_Q_LABEL allows (MS-MQMQ 2.3.1.8), in UTF-16 units."""
    if len(bytes_of(label)) > 2 * MOST_LABEL_CHARACTERS:
        raise IllegalPropertyValueError(
            f"The label of a queue has at most {MOST_LABEL_CHARACTERS} characters."
        )


def check_operation(name: FormatName, access: QueueAccessType) -> None:
    """Refuse names that can only be sent to, or only be read from, for other access."""
    sending = access is QueueAccessType.SEND
    if not sending and (is_http(name) or isinstance(name, MulticastName)):
        raise UnsupportedFormatnameOperationError(f"{name} can only be opened for sending.")
    if sending and (isinstance(name, MachineName) or is_read_only(name)):
        raise UnsupportedFormatnameOperationError(f"{name} cannot be opened for sending.")


def check_sharing(queue: Queue, access: QueueAccessType, share_mode: QueueShareMode) -> None:
    """Refuse access that exclusive readers exclude (3.1.7.1.5)."""
    receive, exclusive = QueueAccessType.RECEIVE, QueueShareMode.DENY_RECEIVE
    for other in queue.open_descriptors:
        theirs = other.share_mode is exclusive
        if theirs and other.access_type is receive:
            denied = share_mode is exclusive or access is receive
        elif theirs and other.access_type in (QueueAccessType.PEEK, QueueAccessType.PEEK_ADMIN):
            denied = access is receive
        elif not theirs and other.access_type is receive:
            denied = share_mode is exclusive
        else:
            denied = False
        if denied:
            raise SharingViolationError(f"{queue.pathname} is open in a way that excludes this.")


def directory_error(result: DirectoryResult, what: str, reason: str = "") -> MQError:
    """The error for a directory that refused; ``reason`` is its own explanation."""
    if result is DirectoryResult.DIRECTORY_NOT_CONNECTED:
        return NoDsError(f"{what}: the directory cannot be reached. {reason}".rstrip())
    if result is DirectoryResult.OBJECT_ALREADY_EXISTS:
        return QueueExistsError(
            f"{what}: the directory has such a queue already. `msmq directory check` tells more, `msmq directory "
            "repair` takes it over or deletes it."
        )
    if result is DirectoryResult.OBJECT_NOT_FOUND:
        return DsError(
            f"{what}: the directory has no such queue, or not any more. `msmq directory check` tells more, `msmq "
            "directory repair` publishes it again or deletes it here."
        )
    return DsError(f"{what}: {reason or result.value + '.'}")

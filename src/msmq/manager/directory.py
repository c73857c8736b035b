"""The directory events (MS-MQDMPR 3.1.7.1.18 to 3.1.7.1.25, 3.1.6.1, 3.1.6.2), and working while the directory is
away.

A :class:`Directory` is implemented in another room: Active Directory over LDAP, or a local one for workgroups. These
events are between it and the queue manager. They notice when it cannot be reached, answer reads about this host from
memory meanwhile, check every minute whether it is back, and then take over what has changed.

Objects are exchanged as :class:`DirectoryObject`: a class name and attributes named as in the data model.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from msmq.manager.core import Core, Timer
from msmq.manager.ledger.attributes import save
from msmq.manager.ledger.queue_records import queue_record
from msmq.manager.model import (
    ConnectedNetwork,
    DirectoryElement,
    Enterprise,
    QueueManagerRecord,
    QueueType,
    RoutingLink,
    Site,
    User,
)
from msmq.manager.queues.queue import Queue
from msmq.security.access import Token
from msmq.security.descriptor import SecurityDescriptor

ONLINE_CHECK_S: Final = 60


class DirectoryResult(Enum):
    """DirectoryOperationResult: every event answers with one of these."""

    SUCCESS = "Success"
    GENERIC_ERROR = "GenericError"
    DIRECTORY_NOT_CONNECTED = "DirectoryNotConnected"
    OBJECT_NOT_FOUND = "ObjectNotFound"
    ATTRIBUTE_NOT_FOUND = "AttributeNotFound"
    END_OF_DATA = "EndOfData"
    OBJECT_ALREADY_EXISTS = "ObjectAlreadyExists"


class ObjectClass(Enum):
    QUEUE_MANAGER = "QueueManager"
    QUEUE = "Queue"
    ENTERPRISE = "Enterprise"
    SITE = "Site"
    ROUTING_LINK = "RoutingLink"
    CONNECTED_NETWORK = "ConnectedNetwork"
    USER = "User"


@dataclass(slots=True)
class DirectoryObject:
    """An object of the directory: its class, its attributes, and its identifier among them."""

    object_class: ObjectClass
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def identifier(self) -> bytes:
        identifier: bytes = self.attributes["identifier"]
        return identifier

    def only(self, attributes: Sequence[str] | None) -> DirectoryObject:
        """A copy with the attributes of a list, or with all of them."""
        names = self.attributes if attributes is None else attributes
        return DirectoryObject(self.object_class, {name: self.attributes[name] for name in names})


class Relation(Enum):
    """The operators of an attribute-filter expression."""

    EQUALS = "EQUALS"
    NOT_EQUALS = "NOT-EQUALS"
    LESS_THAN = "LESS-THAN"
    GREATER_THAN = "GREATER-THAN"
    LESS_THAN_OR_EQUAL = "LESS-THAN-OR-EQUAL"
    GREATER_THAN_OR_EQUAL = "GREATER-THAN-OR-EQUAL"


_OPERATORS: Final[Mapping[Relation, Callable[[Any, Any], bool]]] = {
    Relation.EQUALS: operator.eq,
    Relation.NOT_EQUALS: operator.ne,
    Relation.LESS_THAN: operator.lt,
    Relation.GREATER_THAN: operator.gt,
    Relation.LESS_THAN_OR_EQUAL: operator.le,
    Relation.GREATER_THAN_OR_EQUAL: operator.ge,
}


class Expression(NamedTuple):
    """One attribute-filter expression; a filter is several of them that must all hold."""

    attribute: str
    relation: Relation
    value: Any

    def holds(self, attributes: Mapping[str, Any]) -> bool:
        value = attributes.get(self.attribute)
        return value is not None and _OPERATORS[self.relation](value, self.value)


Filter = Sequence[Expression]


def by_identifier(identifier: bytes) -> Filter:
    return (Expression("identifier", Relation.EQUALS, identifier),)


def matches(attributes: Mapping[str, Any], conditions: Filter | None) -> bool:
    return all(expression.holds(attributes) for expression in conditions or ())


class SortKey(NamedTuple):
    """Attribute-sort-order: a higher priority sorts first, zero does not take part."""

    priority: int
    ascending: bool = True


class Directory(Protocol):
    """MS-MQDSSM 3.1.6, as the queue manager uses it. No call raises: a failure is a result.

    ``caller`` is the user on whose behalf something is changed; None is the queue manager itself. The directory
    chooses the identifier and the distinguished name of a new object and records the time of its last change.
    """

    def create(
        self, item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> tuple[DirectoryResult, bytes | None]: ...

    def delete(self, item: DirectoryObject, caller: Token | None) -> DirectoryResult: ...

    def read(
        self, object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
    ) -> tuple[DirectoryResult, DirectoryObject | None]: ...

    def read_begin(
        self,
        object_class: ObjectClass,
        conditions: Filter | None,
        attributes: Sequence[str] | None,
        sort_order: Mapping[str, SortKey] | None,
    ) -> tuple[DirectoryResult, int | None]: ...

    def read_next(self, query: int) -> tuple[DirectoryResult, DirectoryObject | None]: ...

    def read_end(self, query: int) -> DirectoryResult: ...

    def write(
        self, item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> DirectoryResult: ...

    def resolve_distribution_list(
        self, guid: bytes, domain: str | None
    ) -> tuple[DirectoryResult, Sequence[str]]: ...


@runtime_checkable
class ListsQueues(Protocol):
    """A directory that can return all public queues of a computer at once."""

    def queues_of(self, computer: str) -> tuple[DirectoryResult, Sequence[DirectoryObject]]: ...


class NoDirectory:
    """The directory of a host that has none."""

    def create(
        self, item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> tuple[DirectoryResult, bytes | None]:
        return DirectoryResult.DIRECTORY_NOT_CONNECTED, None

    def delete(self, item: DirectoryObject, caller: Token | None) -> DirectoryResult:
        return DirectoryResult.DIRECTORY_NOT_CONNECTED

    def read(
        self, object_class: ObjectClass, conditions: Filter | None, attributes: Sequence[str] | None
    ) -> tuple[DirectoryResult, DirectoryObject | None]:
        return DirectoryResult.DIRECTORY_NOT_CONNECTED, None

    def read_begin(
        self,
        object_class: ObjectClass,
        conditions: Filter | None,
        attributes: Sequence[str] | None,
        sort_order: Mapping[str, SortKey] | None,
    ) -> tuple[DirectoryResult, int | None]:
        return DirectoryResult.DIRECTORY_NOT_CONNECTED, None

    def read_next(self, query: int) -> tuple[DirectoryResult, DirectoryObject | None]:
        return DirectoryResult.DIRECTORY_NOT_CONNECTED, None

    def read_end(self, query: int) -> DirectoryResult:
        return DirectoryResult.DIRECTORY_NOT_CONNECTED

    def write(
        self, item: DirectoryObject, attributes: Sequence[str] | None, caller: Token | None
    ) -> DirectoryResult:
        return DirectoryResult.DIRECTORY_NOT_CONNECTED

    def resolve_distribution_list(
        self, guid: bytes, domain: str | None
    ) -> tuple[DirectoryResult, Sequence[str]]:
        return DirectoryResult.DIRECTORY_NOT_CONNECTED, ()


class Change(Enum):
    """The kinds of change notifications to other queue managers."""

    QUEUE_CREATION = "QueueCreation"
    QUEUE_DELETION = "QueueDeletion"
    QUEUE_UPDATE = "QueueUpdate"
    QUEUE_MANAGER_UPDATE = "QueueManagerUpdate"


# --- elements of the data model as directory objects --------------------------------------------------------

QUEUE_ATTRIBUTES: Final = (
    "identifier",
    "label",
    "type",
    "pathname",
    "qualified_pathname",
    "journaling",
    "quota_kb",
    "journal_quota_kb",
    "authentication",
    "privacy_level",
    "transactional",
    "multicast_address",
    "security",
    "base_priority",
    "create_time",
    "modify_time",
    "full_path",
    "directory_path",
    "scope",
)

Published = QueueManagerRecord | Enterprise | Site | RoutingLink | ConnectedNetwork | User

CLASS_OF: Final[Mapping[type[DirectoryElement], ObjectClass]] = {
    QueueManagerRecord: ObjectClass.QUEUE_MANAGER,
    Enterprise: ObjectClass.ENTERPRISE,
    Site: ObjectClass.SITE,
    RoutingLink: ObjectClass.ROUTING_LINK,
    ConnectedNetwork: ObjectClass.CONNECTED_NETWORK,
    User: ObjectClass.USER,
}
_VOLATILE: Final = frozenset({"site_gate_collection"})

Element = TypeVar("Element", bound=Published)


def directory_attributes(element: Published) -> dict[str, Any]:
    """The Directory attributes of an element. DirectoryServerType is left out for hosts that are not directory
    servers."""
    names = {entry.name for entry in fields(element)} - _VOLATILE
    if isinstance(element, QueueManagerRecord) and not element.directory_server:
        names.discard("directory_server_type")
    return {name: getattr(element, name) for name in sorted(names)}


def directory_object(element: Published) -> DirectoryObject:
    return DirectoryObject(CLASS_OF[type(element)], directory_attributes(element))


def queue_object(queue: Queue) -> DirectoryObject:
    return DirectoryObject(ObjectClass.QUEUE, {name: getattr(queue, name) for name in QUEUE_ATTRIBUTES})


def element_of(kind: type[Element], item: DirectoryObject) -> Element:
    """The element that a directory object describes; attributes that were not read keep their defaults."""
    known = {entry.name for entry in fields(kind)} - _VOLATILE
    return kind(**{name: value for name, value in item.attributes.items() if name in known})


def adopt(target: Published | Queue, item: DirectoryObject, *, keep: Collection[str] = ()) -> None:
    """Copy the attributes of a directory object to an element of ours, except ``keep`` and the identifier."""
    known = set(QUEUE_ATTRIBUTES if isinstance(target, Queue) else directory_attributes(target))
    if item.attributes.get("directory_server"):
        known.add("directory_server_type")
    for name, value in item.attributes.items():
        if name in known and name != "identifier" and name not in keep:
            if name == "security" and isinstance(target, Queue):
                value = _with_own_owner(target.security, value)
            setattr(target, name, value)


def _with_own_owner(ours: bytes, theirs: bytes) -> bytes:
    """A queue's descriptor from the directory with our own owner: the directory lets only the account of this host own
    what it creates, so its owner is not the owner of the queue."""
    if not ours or not theirs:
        return theirs or ours
    own = SecurityDescriptor.decode(ours)
    return replace(SecurityDescriptor.decode(theirs), owner=own.owner, group=own.group).encode()


# --- the events ---------------------------------------------------------------------------------------------


Remembered = Callable[[ObjectClass, Filter | None, Sequence[str] | None], DirectoryObject | None]


class DirectoryEvents:
    """The events, on one directory that may come and go."""

    def __init__(
        self,
        core: Core,
        directory: Directory | None,
        notify: Callable[[Change, DirectoryObject], None] | None = None,
    ) -> None:
        self.core = core
        self.directory: Directory = NoDirectory() if directory is None else directory
        self._send_notification = notify
        self._online_timer: Timer | None = None
        self.online_check_s: float = ONLINE_CHECK_S
        self.came_online: Callable[[], None] = lambda: None
        """Called when the directory is back and our attributes were taken over from it."""
        self.read_around: Callable[[], None] = lambda: None
        """Reads the objects that our object refers to; set by the initialization."""
        self.gone: Callable[[], None] = lambda: None
        """Called when the directory cannot be reached any more."""
        self.remembered: Remembered = lambda object_class, conditions, attributes: None
        """Returns the last known state of an object while the directory is away; set by the owner of the cache."""
        self.deleted_here: Callable[[DirectoryObject], None] = lambda item: None
        """Called with a queue that was deleted on this host only."""
        self.apart: Callable[[Callable[[], None]], None] = lambda action: action()
        """Runs timer actions that ask the directory; set by a server that must not wait for it."""

    @property
    def exists(self) -> bool:
        """Whether this host was given a directory at all, reachable or not."""
        return not isinstance(self.directory, NoDirectory)

    @property
    def reason(self) -> str:
        """The directory's reason for refusing the last change, if it tells."""
        told: str = getattr(self.directory, "last_failure", "")
        return told

    # --- writing --------------------------------------------------------------------------------------------

    def create(
        self,
        item: DirectoryObject,
        attributes: Sequence[str] | None = None,
        *,
        caller: Token | None = None,
    ) -> tuple[DirectoryResult, bytes | None]:
        """Create Directory Object. Returns the identifier that the directory chose."""
        if _is_public_queue(item):
            self._notify(Change.QUEUE_CREATION, item)
        result, identifier = self.directory.create(item, attributes, self._context(caller))
        return self._seen(result), identifier

    def delete(self, item: DirectoryObject, *, caller: Token | None = None) -> DirectoryResult:
        """Delete Directory Object."""
        if _is_public_queue(item):
            self._notify(Change.QUEUE_DELETION, item)
        return self._seen(self.directory.delete(item, self._context(caller)))

    def write(
        self,
        item: DirectoryObject,
        attributes: Sequence[str] | None = None,
        *,
        caller: Token | None = None,
    ) -> DirectoryResult:
        """Write Directory. Other hosts are notified after it has succeeded."""
        result = self._seen(self.directory.write(item, attributes, self._context(caller)))
        if result is DirectoryResult.SUCCESS:
            if _is_public_queue(item):
                self._notify(Change.QUEUE_UPDATE, item)
            elif item.object_class is ObjectClass.QUEUE_MANAGER:
                self._notify(Change.QUEUE_MANAGER_UPDATE, item)
                if item.identifier == self.core.record.identifier:
                    self.core.record.modify_time = self.core.now_s
                    save(self.core)
        return result

    def _notify(self, change: Change, item: DirectoryObject) -> None:
        """Send Change Notification (MS-MQCN 3.3.4.1), if the enterprise has queue managers that need it."""
        enterprise = self.core.enterprise
        wanted = enterprise is not None and enterprise.non_ldap_capable_queue_manager_notification
        if wanted and self._send_notification is not None:
            self._send_notification(change, item)

    def _context(self, caller: Token | None) -> Token | None:
        """The user to ask the directory for: with weakened security it is always the queue manager."""
        enterprise = self.core.enterprise
        return None if enterprise is not None and enterprise.weakened_security else caller

    # --- reading --------------------------------------------------------------------------------------------

    def read(
        self,
        object_class: ObjectClass,
        conditions: Filter | None,
        attributes: Sequence[str] | None = None,
        *,
        force: bool = False,
    ) -> tuple[DirectoryResult, DirectoryObject | None]:
        """Read Directory. While it is away, our own objects are answered from memory, and others from the last known
        state."""
        if force:
            return self.directory.read(object_class, conditions, attributes)
        if not self.core.directory_offline:
            result, found = self.directory.read(object_class, conditions, attributes)
            if self._seen(result) is not DirectoryResult.DIRECTORY_NOT_CONNECTED:
                return result, found
        else:
            result, found = self._read_offline(object_class, conditions)
        if found is None:
            found = self.remembered(object_class, conditions, attributes)
            result = result if found is None else DirectoryResult.SUCCESS
        return result, found

    def _read_offline(
        self, object_class: ObjectClass, conditions: Filter | None
    ) -> tuple[DirectoryResult, DirectoryObject | None]:
        if object_class is ObjectClass.QUEUE:
            for queue in self.core.by_path.values():
                item = queue_object(queue)
                if matches(item.attributes, conditions):
                    return DirectoryResult.SUCCESS, item
            return DirectoryResult.OBJECT_NOT_FOUND, None
        if object_class is ObjectClass.QUEUE_MANAGER:
            own = directory_object(self.core.record)
            if matches(own.attributes, conditions):
                return DirectoryResult.SUCCESS, own
        return DirectoryResult.DIRECTORY_NOT_CONNECTED, None

    def read_element(self, kind: type[Element], identifier: bytes) -> Element | None:
        """Read Directory for one element; None if that fails."""
        result, item = self.read(CLASS_OF[kind], by_identifier(identifier))
        return element_of(kind, item) if result is DirectoryResult.SUCCESS and item is not None else None

    def read_begin(
        self,
        object_class: ObjectClass,
        conditions: Filter | None,
        attributes: Sequence[str] | None = None,
        sort_order: Mapping[str, SortKey] | None = None,
    ) -> tuple[DirectoryResult, int | None]:
        """Read Directory Begin."""
        return self.directory.read_begin(object_class, conditions, attributes, sort_order)

    def read_next(self, query: int) -> tuple[DirectoryResult, DirectoryObject | None]:
        """Read Directory Next; EndOfData when everything was given."""
        return self.directory.read_next(query)

    def read_end(self, query: int) -> DirectoryResult:
        """Read Directory End."""
        return self.directory.read_end(query)

    def resolve_distribution_list(
        self, guid: bytes, domain: str | None
    ) -> tuple[DirectoryResult, Sequence[str]]:
        return self.directory.resolve_distribution_list(guid, domain)

    # --- keeping up with the directory ----------------------------------------------------------------------

    def start_update_timers(self, sites_s: float, site_gates_s: float) -> None:
        """Start the Directory Sites Update Timer and the Directory Site Gates Update Timer."""
        self.core.every(sites_s, lambda: self.apart(self.update_sites))
        self.core.every(site_gates_s, lambda: self.apart(self.update_site_gates))

    def read_again(self) -> None:
        """Take over our object and what it refers to, which others have changed."""
        result, own = self.read(ObjectClass.QUEUE_MANAGER, by_identifier(self.core.record.identifier))
        if result is DirectoryResult.SUCCESS and own is not None:
            adopt(self.core.record, own, keep=("public_encryption_key_list", "public_signing_key_list"))
            save(self.core)
            self.read_around()

    def update_sites(self) -> None:
        """Directory Sites Update (3.1.6.1)."""
        for site in self.core.sites:
            self._refresh(site)

    def update_site_gates(self) -> None:
        """Directory Site Gates Update (3.1.6.2)."""
        for site in self.core.sites:
            for gate in site.site_gate_collection:
                self._refresh(gate)

    def _refresh(self, element: Site | QueueManagerRecord) -> None:
        result, item = self.read(CLASS_OF[type(element)], by_identifier(element.identifier))
        if result is DirectoryResult.SUCCESS and item is not None:
            adopt(element, item)

    # --- being offline --------------------------------------------------------------------------------------

    def _seen(self, result: DirectoryResult) -> DirectoryResult:
        """Note if the directory cannot be reached. A workgroup has none to lose."""
        if result is DirectoryResult.DIRECTORY_NOT_CONNECTED:
            self.went_away()
        return result

    def went_away(self) -> None:
        """Note that the directory cannot be reached, and check from time to time whether it is back."""
        if self.core.directory_integrated:
            before, self.core.directory_offline = self.core.directory_offline, True
            self._start_online_timer()
            if not before:
                self.gone()

    def _start_online_timer(self) -> None:
        if self._online_timer is None:
            deadline = self.core.environment.now() + self.online_check_s
            self._online_timer = self.core.timers.start(deadline, self._online_timer_expired)

    def _online_timer_expired(self) -> None:
        self._online_timer = None
        self.apart(self.check_online)

    def check_online(self) -> None:
        """Check Directory Online: take over what has changed meanwhile, or check again in a minute."""
        core = self.core
        own_identifier = by_identifier(core.record.identifier)
        result, own = self.read(ObjectClass.QUEUE_MANAGER, own_identifier, force=True)
        if result is not DirectoryResult.SUCCESS or own is None:
            self._start_online_timer()
            return
        ours = [queue for queue in core.by_path.values() if queue.queue_type is QueueType.PUBLIC]
        published = self._read_queues(ours)
        if published is None:
            self._start_online_timer()
            return
        adopt(core.record, own)
        save(core)
        core.directory_offline = False
        for queue in ours:
            item = published.get(queue.identifier)
            if item is not None:
                adopt(queue, item)
                core.ledger.put_value(f"queue/{queue.number}", queue_record(queue))
        self.came_online()

    def _read_queues(self, queues: Sequence[Queue]) -> dict[bytes, DirectoryObject] | None:
        """The directory's objects of our public queues, by identifier; None if it is away again. As there may be very
        many queues, one query is used if the directory allows that."""
        if queues and isinstance(self.directory, ListsQueues):
            result, found = self.directory.queues_of(self.core.record.computer_name)
            return {item.identifier: item for item in found} if result is DirectoryResult.SUCCESS else None
        published: dict[bytes, DirectoryObject] = {}
        for queue in queues:
            result, item = self.read(ObjectClass.QUEUE, by_identifier(queue.identifier), force=True)
            if result is DirectoryResult.DIRECTORY_NOT_CONNECTED:
                return None
            if result is DirectoryResult.SUCCESS and item is not None:
                published[queue.identifier] = item
        return published


def _is_public_queue(item: DirectoryObject) -> bool:
    """Whether an object is a public queue; only public queues have objects of their own."""
    path = item.attributes.get("pathname", "").lower()
    return item.object_class is ObjectClass.QUEUE and "\\private$\\" not in path

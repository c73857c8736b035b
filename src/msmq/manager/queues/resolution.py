"""Finding queues by their format names (MS-MQDMPR 3.1.7.1.26, 3.1.7.3.8, and the look-up of 3.1.7.1.5)."""

from __future__ import annotations

from collections import deque
from ipaddress import ip_address

from msmq.errors import IllegalFormatnameError
from msmq.manager.core import Core
from msmq.manager.directory import (
    DirectoryEvents,
    DirectoryResult,
    Expression,
    ObjectClass,
    Relation,
    by_identifier,
)
from msmq.manager.model import QueueManagerRecord, QueueType
from msmq.manager.queues.queue import Queue
from msmq.wire.guid import guid_text
from msmq.wire.names import (
    ConnectorName,
    DirectName,
    DistributionListName,
    FormatName,
    MachineName,
    MultipleElementName,
    PrivateName,
    Protocol,
    PublicName,
    QueueKind,
    QueuePath,
    QueueTarget,
    parse_format_name,
    target_of,
)
from msmq.wire.names.direct import HTTP_DEFAULT_PORT

_MAX_EXPANSION = 10_000


class Naming:
    """Finds queues by their names."""

    def __init__(self, core: Core, directory: DirectoryEvents) -> None:
        self.core = core
        self.directory = directory
        self.local_addresses: set[str] = set()
        """IP addresses of this host, set by the server; loopback addresses need not be listed."""
        self.loopback_is_local = True
        """False if several queue managers share a computer, each with its own loopback address."""

    # --- this host ------------------------------------------------------------------------------------------

    def is_local(self, name: DirectName) -> bool:
        """Whether a direct name leads to this computer."""
        host = name.host.lower()
        if host in (".", "localhost") or host in self.local_addresses:
            return True
        if name.protocol is Protocol.OS or name.protocol in HTTP_DEFAULT_PORT:
            own = (self.core.record.computer_name.lower(), self.core.record.qualified_computer_name.lower())
            if host in own:
                return True
        try:
            return self.loopback_is_local and ip_address(host).is_loopback
        except ValueError:
            return False

    def find(self, name: FormatName) -> Queue | None:
        """The queue of this host with this name: a queue, its journal, a subqueue, or an outgoing queue."""
        queue = self._base_queue(name)
        target = target_of(name)
        if queue is None:
            return self._system_queue(name, target) or self.core.outgoing.get(str(name).lower())
        if target is QueueTarget.QUEUE_JOURNAL:
            return queue.journal
        if target is QueueTarget.SUBQUEUE:
            assert isinstance(name, DirectName)
            return queue.subqueue_collection.get((name.subqueue or "").lower())
        return queue

    def _base_queue(self, name: FormatName) -> Queue | None:
        core = self.core
        if isinstance(name, DirectName):
            if name.kind is QueueKind.SYSTEM or not self.is_local(name):
                return None
            mark = "private$\\" if name.kind is QueueKind.PRIVATE else ""
            return core.by_path.get(f"{core.record.computer_name}\\{mark}{name.queue}".lower())
        if isinstance(name, PublicName):
            return self._of_type(name.queue, QueueType.PUBLIC)
        if isinstance(name, PrivateName) and name.computer in core.own_identifiers:
            return core.by_private_number.get(name.queue_id)
        if isinstance(name, ConnectorName):
            plain = self._of_type(name.guid, QueueType.CONNECTOR)
            transactional = target_of(name) is QueueTarget.TRANSACTIONAL_CONNECTOR
            return core.by_path.get(str(name).lower()) if transactional else plain
        return None

    def _of_type(self, identifier: bytes, queue_type: QueueType) -> Queue | None:
        """A queue by identifier and type. Private queues have identifiers too, but must not be reached by them."""
        queue = self.core.by_identifier.get(identifier)
        return queue if queue is not None and queue.queue_type is queue_type else None

    def _system_queue(self, name: FormatName, target: QueueTarget) -> Queue | None:
        core = self.core
        ours = (isinstance(name, MachineName) and name.computer in core.own_identifiers) or (
            isinstance(name, DirectName) and self.is_local(name)
        )
        if not ours:
            return None
        return {
            QueueTarget.MACHINE_JOURNAL: core.journal_queue,
            QueueTarget.DEAD_LETTER: core.dead_letter_queue,
            QueueTarget.TRANSACTIONAL_DEAD_LETTER: core.transactional_dead_letter_queue,
        }.get(target)

    # --- Get Queue Path -------------------------------------------------------------------------------------

    def queue_path(self, text: str) -> tuple[str, str]:
        """Get Queue Path: the path name (empty if none is known) and the machine name of a format name."""
        name = parse_format_name(text)
        if isinstance(name, DirectName):
            if name.protocol in HTTP_DEFAULT_PORT:
                return "", name.host
            return text.partition(":")[2], name.address_specification
        if isinstance(name, PublicName):
            result, item = self.directory.read(ObjectClass.QUEUE, by_identifier(name.queue))
            if result is DirectoryResult.SUCCESS and item is not None:
                path: str = item.attributes["pathname"]
                return path, path.partition("\\")[0]
        elif isinstance(name, PrivateName):
            return self._private_path(name)
        raise IllegalFormatnameError(f"No path is known for {text}.")

    def published(self, path: QueuePath) -> tuple[str, str] | None:
        """The format name and host of a public queue in the directory; None if the directory does not have the path."""
        if path.kind is not QueueKind.PUBLIC:
            return None
        wanted = (
            Expression("pathname", Relation.EQUALS, str(QueuePath(path.computer, path.kind, path.name))),
        )
        result, item = self.directory.read(ObjectClass.QUEUE, wanted)
        if result is not DirectoryResult.SUCCESS or item is None:
            return None
        qualified: str = item.attributes.get("qualified_pathname") or str(path)
        return f"PUBLIC={guid_text(item.attributes['identifier'])}", qualified.partition("\\")[0]

    def _private_path(self, name: PrivateName) -> tuple[str, str]:
        core = self.core
        if name.computer in core.own_identifiers:
            queue = core.by_private_number.get(name.queue_id)
            if queue is None or queue.queue_type is not QueueType.PRIVATE:
                return "", core.record.computer_name
            return queue.pathname, core.record.computer_name
        host = self.directory.read_element(QueueManagerRecord, name.computer)
        if host is None:
            raise IllegalFormatnameError(f"The directory knows no computer of {name}.")
        return "", host.computer_name

    # --- Expand Format Name ---------------------------------------------------------------------------------

    def expand(self, text: str) -> FormatName | None:
        """Expand Format Name: resolve distribution lists and drop duplicates. None if a list cannot be resolved."""
        name = parse_format_name(text)
        if not isinstance(name, MultipleElementName | DistributionListName):
            return name
        elements = [str(element) for element in getattr(name, "elements", (name,))]
        singles = self._without_lists(elements)
        if singles is None:
            return None
        unique: dict[str, str] = {}
        for element in singles:
            unique.setdefault(element.lower(), element)
        ordered = [unique[key] for key in sorted(unique)]
        return parse_format_name(",".join(ordered)) if ordered else None

    def _without_lists(self, elements: list[str]) -> list[str] | None:
        """Replace each list by its members, which go to the end and are expanded themselves, each once."""
        singles: list[str] = []
        seen: set[bytes] = set()
        pending = deque(elements)
        while pending:
            text = pending.popleft()
            name = parse_format_name(text)
            if not isinstance(name, DistributionListName):
                singles.append(text)
                continue
            if name.guid in seen:
                continue
            seen.add(name.guid)
            result, members = self.directory.resolve_distribution_list(name.guid, name.domain)
            total = len(singles) + len(pending) + len(members)
            if result is not DirectoryResult.SUCCESS or total > _MAX_EXPANSION:
                return None
            pending.extend(members)
        return singles

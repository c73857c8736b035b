"""Initialization (MS-MQDMPR 3.1.3): how a queue manager finds its identity, its directory and its queues at the start.

:class:`Initialization` is the list of steps, in the order of the specification. ``begin`` runs before the queues are
restored, because their names need the computer's; ``end`` when everything is there. The identity, which the local
security authority tells on Windows, is given by the server, and the operator's choices are in :class:`Settings`.

A host that cannot reach its directory at an ordinary start works with what it kept and takes over the rest
when the directory is back. Provisioning without a directory fails: nothing was kept yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from msmq.errors import DsError, MachineNotFoundError, MQError, NoDsError
from msmq.manager.access.keys import KeyRing, generate_key
from msmq.manager.core import Core
from msmq.manager.directory import (
    DirectoryEvents,
    DirectoryObject,
    DirectoryResult,
    Expression,
    ObjectClass,
    Relation,
    adopt,
    by_identifier,
    directory_object,
    element_of,
)
from msmq.manager.ledger.attributes import VALUE, restore, save
from msmq.manager.model import (
    DEFAULT_TIME_TO_REACH_QUEUE_S,
    ORDER_QUEUE_NUMBER,
    ConnectedNetwork,
    Enterprise,
    OutgoingState,
    QueueManagerRecord,
    QueueType,
    Site,
)
from msmq.manager.queues.queue import Queue
from msmq.security.access import default_queue_manager_descriptor
from msmq.security.policy import CryptoPolicy
from msmq.security.sid import ADMINISTRATORS, Sid
from msmq.wire.guid import NULL_GUID, guid_text

RETRY_TIMER_S: Final = 120
SITES_UPDATE_S: Final = 12 * 3600
SITE_GATES_UPDATE_S: Final = 3600
DIRECTORY_SERVER_LIST_UPDATE_S: Final = 24 * 3600

QUEUE_MANAGER_VERSION: Final = "6.0"
"""The version we announce: that of the Message Queuing whose protocols these are."""

DEAD_LETTER, DEAD_XACT, JOURNAL, ORDER, NOTIFY = 1, 2, 3, 4, 5
"""Numbers of the queue manager's own queues in the ledger."""

KEYS: Final = "keys"
_NOT_CONNECTED: Final = DirectoryResult.DIRECTORY_NOT_CONNECTED


@dataclass(slots=True)
class Identity:
    """The identity of a host, which the local security authority tells on Windows.

    Peers recognize old systems by the version of the operating system, which is that of the Windows we behave like.
    """

    computer_name: str
    dns_domain_name: str = ""
    domain_guid: bytes = NULL_GUID
    operating_system_version: str = "10.0"


@dataclass(slots=True)
class Settings:
    """The operator's choices. None means unchanged, and False on a new host."""

    directory_integrated: bool | None = None
    site_identifier: bytes | None = None
    hardened_security: bool | None = None
    srmp_http_support: bool | None = None
    srmp_pgm_support: bool | None = None
    express_limit_bytes: int = 1 << 30
    local_addresses: frozenset[str] = field(default_factory=frozenset)
    sites_update_s: float = SITES_UPDATE_S
    site_gates_update_s: float = SITE_GATES_UPDATE_S
    directory_server_list_update_s: float = DIRECTORY_SERVER_LIST_UPDATE_S
    find_directory_servers: Callable[[str], Sequence[str]] = lambda domain: ()
    """Asks DNS for the hosts of ``_ldap._tcp.dc._msdcs.<domain>``."""
    strict_default_security: bool = False
    """New queues get the descriptor of the specification instead of ours (see
    :mod:`msmq.manager.access.default_descriptor`)."""
    computer_sid: Callable[[str], Sid | None] = lambda computer: None
    """Returns the SID of a computer's account from the directory (MS-MQDSSM 3.1.6.14)."""
    make_keys: bool = False
    """A host without keys makes them when it starts, in a directory or not."""
    crypto: CryptoPolicy = field(default_factory=CryptoPolicy)
    """Which signatures and ciphers are accepted, and how keys are kept."""
    send_insecure_nacks: bool = False
    """Also send refusals that tell strangers something about this host (MS-MQQB 3.1.7.15)."""
    local_directory: bool = False
    """The directory is a workgroup's own: it tells our identity and routes, and we do not publish there."""
    longest_time_to_reach_queue_s: int = DEFAULT_TIME_TO_REACH_QUEUE_S
    """No message may take longer to its queue, whatever its sender asks for (note 12)."""


_KEYS: Final = ("public_encryption_key_list", "public_signing_key_list")
_OURS: Final = (*_KEYS, "queue_manager_version", "operating_system_type")
"""The attributes that the host knows better than an older object of this computer in the directory."""


class Initialization:
    """The steps of one start."""

    def __init__(
        self, core: Core, directory: DirectoryEvents, identity: Callable[[], Identity], settings: Settings
    ) -> None:
        self.core = core
        self.directory = directory
        self.identity = identity
        self.settings = settings
        self.keys = KeyRing()
        self._domain = ""

    def begin(self, values: dict[str, Any], *, provisioning: bool) -> None:
        """Do everything that comes before the queues. ``values`` are those of the ledger."""
        core = self.core
        restore(core, values.get(VALUE))
        self.keys = KeyRing.from_value(values.get(KEYS))
        self._apply_settings()
        self._learn_identity()
        if core.record.identifier == NULL_GUID:
            self._be_born()
        if provisioning:
            core.last_domain = b""
        if core.directory_integrated and provisioning:
            self._provision()
        elif self.settings.make_keys and not self.keys.exchange:
            self._make_keys()
        if core.directory_integrated:
            self._synchronize(provisioning)
            self._start_timers()
        elif self.settings.local_directory:
            self._join()
        save(core)

    def end(self) -> None:
        """Remember the domain, when everything has been restored."""
        core = self.core
        core.last_domain = core.machine_domain_id if any(core.machine_domain_id) else b""
        save(core)

    # --- who we are -----------------------------------------------------------------------------------------

    def _apply_settings(self) -> None:
        core, settings = self.core, self.settings
        for name in ("directory_integrated", "hardened_security", "srmp_http_support", "srmp_pgm_support"):
            wanted = getattr(settings, name)
            if wanted is not None:
                setattr(core, name, wanted)
        core.hardened_at_next_start = core.hardened_security
        core.longest_time_to_reach_queue_s = settings.longest_time_to_reach_queue_s

    def _learn_identity(self) -> None:
        core, identity = self.core, self.identity()
        self._domain = identity.dns_domain_name
        core.machine_domain_id = identity.domain_guid
        core.record.computer_name = identity.computer_name
        name, domain = identity.computer_name, identity.dns_domain_name
        core.record.qualified_computer_name = f"{name}.{domain}" if domain else name
        core.record.operating_system_version = identity.operating_system_version
        if core.directory_integrated and not core.record.queue_manager_version:
            core.record.queue_manager_version = QUEUE_MANAGER_VERSION

    def _be_born(self) -> None:
        record = self.core.record
        known = self._read_by_name() if self.settings.local_directory else None
        record.identifier = self.core.environment.random_bytes(16) if known is None else known.identifier
        record.create_time = record.modify_time = self.core.now_s
        record.security = default_queue_manager_descriptor(ADMINISTRATORS, ADMINISTRATORS).encode()

    def _read_by_name(self) -> DirectoryObject | None:
        named = (Expression("computer_name", Relation.EQUALS, self.core.record.computer_name),)
        return self.directory.read(ObjectClass.QUEUE_MANAGER, named)[1]

    def join_again(self) -> None:
        """Take over changes of a workgroup's directory."""
        self._join()
        save(self.core)

    def _join(self) -> None:
        """Take over what a workgroup's directory says about us, if it knows us."""
        own, record = self._read_by_name(), self.core.record
        if own is None:
            record.routing_server = False  # in case an earlier directory said so
            record.site_identifier_list = ()
            record.out_routing_server_identifier_list = record.in_routing_server_identifier_list = ()
            return
        if own.identifier != record.identifier:
            raise DsError(
                f"The directory knows {record.computer_name} as {guid_text(own.identifier)}, but this queue manager "
                f"is {guid_text(record.identifier)} since its first start. Write that GUID into the directory."
            )
        adopt(record, own)
        self._read_around()

    # --- provisioning ---------------------------------------------------------------------------------------

    def _provision(self) -> None:
        core, record = self.core, self.core.record
        core.initialization_retry_timer_duration_s = RETRY_TIMER_S
        site = self.settings.site_identifier
        if site is not None and site not in record.site_identifier_list:
            record.site_identifier_list += (site,)
        self.find_directory_servers()
        self._make_keys()

    def _make_keys(self) -> None:
        core, record = self.core, self.core.record
        environment = core.environment
        make = environment.generate_key or partial(generate_key, random_bytes=environment.random_bytes)
        self.keys = KeyRing.generate(make)
        core.ledger.put_value(KEYS, self.keys.to_value())
        record.public_encryption_key_list = self.keys.public_encryption_key_list()
        record.public_signing_key_list = self.keys.public_signing_key_list()

    def find_directory_servers(self) -> None:
        """Add the domain controllers that DNS knows to DirectoryServerList."""
        found = self.settings.find_directory_servers(self._domain)
        self.core.directory_server_list = tuple(dict.fromkeys((*self.core.directory_server_list, *found)))

    def _publish(self) -> None:
        """Create our object. The directory chooses its identifier, which is ours from now on."""
        core = self.core
        result, identifier = self.directory.create(directory_object(core.record))
        if result is DirectoryResult.OBJECT_ALREADY_EXISTS:
            self._take_over()
            return
        if result is not DirectoryResult.SUCCESS or identifier is None:
            raise refusal(result, "This queue manager could not be published")
        core.record = replace(core.record, identifier=identifier)
        result, own = self._read_own()
        if own is None:
            raise refusal(result, "What was published of this queue manager could not be read again")
        if own.attributes.get("public_encryption_key_list") != core.record.public_encryption_key_list:
            self._renew(own)  # the object existed before: the directory does not always say so
        else:
            adopt(core.record, own)

    def _take_over(self) -> None:
        """Take over the object of this computer, which is left from an earlier installation or an unfinished
        provisioning."""
        core = self.core
        named = (Expression("computer_name", Relation.EQUALS, core.record.computer_name),)
        result, found = self.directory.read(ObjectClass.QUEUE_MANAGER, named)
        if result is not DirectoryResult.SUCCESS or found is None:
            raise refusal(result, "The object of this computer could not be read from the directory")
        core.record = replace(core.record, identifier=found.identifier)
        self._renew(found)

    def _renew(self, own: DirectoryObject) -> None:
        """Take over our object, except for what provisioning has just made, which is written to it."""
        record, site = self.core.record, self.settings.site_identifier
        made: tuple[str, ...] = _OURS
        if site is not None and site not in own.attributes["site_identifier_list"]:
            made = ("site_identifier_list", *_OURS)
        adopt(record, own, keep=made)
        result = self.directory.write(directory_object(record), made)
        if result is not DirectoryResult.SUCCESS:
            raise refusal(result, "The keys of this queue manager could not be published")

    # --- the directory --------------------------------------------------------------------------------------

    def _read_own(self) -> tuple[DirectoryResult, DirectoryObject | None]:
        return self.directory.read(ObjectClass.QUEUE_MANAGER, by_identifier(self.core.record.identifier))

    def _synchronize(self, provisioning: bool) -> None:
        """Take over what the directory says about us, or publish ourselves."""
        result, own = self._read_own()
        if result is _NOT_CONNECTED and not provisioning:
            return
        if result is DirectoryResult.SUCCESS and own is not None:
            if provisioning:
                self._renew(own)
            else:
                self._follow(own)
        elif result is DirectoryResult.OBJECT_NOT_FOUND and provisioning:
            self._publish()
        elif result is DirectoryResult.OBJECT_NOT_FOUND and (again := self._read_by_name()) is not None:
            self._become(again)
        else:
            raise refusal(result, "This queue manager's object could not be read from the directory")
        self._read_around()

    def _follow(self, own: DirectoryObject) -> None:
        """Take over what the directory says about us, except for our keys: others would encrypt with keys that nobody
        has. If the directory does not let us correct them, a check of the directory reports it."""
        record = self.core.record
        if self.keys.exchange:
            record.public_encryption_key_list = self.keys.public_encryption_key_list()
            record.public_signing_key_list = self.keys.public_signing_key_list()
        keep = _KEYS if self.keys.exchange else ()
        wrong = any(own.attributes.get(name) != getattr(record, name) for name in keep)
        adopt(record, own, keep=keep)
        if wrong:
            self.directory.write(directory_object(record), _KEYS)

    def _become(self, own: DirectoryObject) -> None:
        """Take a new identifier, because our object was lost and somebody has joined this host again. The old
        identifier still means us, for messages that are under way."""
        core = self.core
        core.former_identifiers = (*core.former_identifiers, core.record.identifier)
        core.record = replace(core.record, identifier=own.identifier)
        self._renew(own)

    def _read_around(self) -> None:
        """Read the objects that our object refers to, and the enterprise."""
        core, record, read = self.core, self.core.record, self.directory.read_element
        core.sites = [site for guid in record.site_identifier_list if (site := read(Site, guid))]
        core.out_routing_servers = self._routing_servers(record.out_routing_server_identifier_list)
        core.in_routing_servers = self._routing_servers(record.in_routing_server_identifier_list)
        core.connected_networks = [
            read(ConnectedNetwork, guid) or ConnectedNetwork(guid)
            for guid in record.connected_network_identifier_list
        ]
        self._read_enterprise()

    def _routing_servers(self, identifiers: Sequence[bytes]) -> list[QueueManagerRecord]:
        servers = (self.directory.read_element(QueueManagerRecord, guid) for guid in identifiers)
        return [server for server in servers if server is not None]

    def _read_enterprise(self) -> None:
        """Read the enterprise. One without the attribute for change notifications is old and needs them."""
        wanted = "non_ldap_capable_queue_manager_notification"
        result, found = self.directory.read(ObjectClass.ENTERPRISE, None, (wanted,))
        if result is DirectoryResult.ATTRIBUTE_NOT_FOUND:
            self.core.enterprise = Enterprise(non_ldap_capable_queue_manager_notification=True)
        elif result is DirectoryResult.SUCCESS and found is not None:
            _, whole = self.directory.read(ObjectClass.ENTERPRISE, None)
            self.core.enterprise = element_of(Enterprise, whole or found)
        elif result not in (DirectoryResult.OBJECT_NOT_FOUND, _NOT_CONNECTED):
            raise refusal(result, "The enterprise could not be read from the directory")

    def _start_timers(self) -> None:
        settings = self.settings
        self.directory.start_update_timers(settings.sites_update_s, settings.site_gates_update_s)
        self.core.every(settings.directory_server_list_update_s, self._update_directory_servers)
        self.directory.came_online = self.directory.read_around = self._read_around

    def _update_directory_servers(self) -> None:
        self.find_directory_servers()
        save(self.core)


def refusal(result: DirectoryResult, what: str) -> MQError:
    """The error for a directory that failed to do what initialization needs."""
    if result is _NOT_CONNECTED:
        return NoDsError(f"{what}: the directory cannot be reached.")
    if result is DirectoryResult.OBJECT_NOT_FOUND:
        return MachineNotFoundError(
            f"{what}: there is none. Join this host again with `msmq directory join`, then start it."
        )
    return DsError(f"{what}: {result.value}.")


# --- our own queues -----------------------------------------------------------------------------------------


def create_system_queues(core: Core) -> None:
    """Create the queues of the queue manager: dead letters and journal, which applications read, and those for order
    acknowledgments and change notifications, which they never see."""
    host = core.record.computer_name
    core.dead_letter_queue = _system_queue(core, DEAD_LETTER, f"{host}\\system$;DEADLETTER")
    core.transactional_dead_letter_queue = _system_queue(
        core, DEAD_XACT, f"{host}\\system$;DEADXACT", transactional=True
    )
    core.journal_queue = _system_queue(core, JOURNAL, f"{host}\\system$;JOURNAL")
    _system_queue(core, ORDER, f"{host}\\private$\\order_queue$", private_queue_number=ORDER_QUEUE_NUMBER)
    _system_queue(core, NOTIFY, f"{host}\\private$\\notify_queue$")


def _system_queue(
    core: Core, number: int, path: str, *, transactional: bool = False, private_queue_number: int = 0
) -> Queue:
    queue = Queue(number, path, QueueType.SYSTEM)
    queue.transactional = transactional
    queue.private_queue_number = private_queue_number
    core.register(queue)
    return queue


def set_outgoing_states(core: Core) -> None:
    """Lock outgoing queues on a hardened host, which sends only HTTP; on others, unlock those that were locked for
    that."""
    for queue in core.outgoing.values():
        if queue.state is OutgoingState.LOCKED and not core.hardened_security:
            queue.state = OutgoingState.WAITING
        elif core.hardened_security and not is_http_text(queue.destination_format_name):
            queue.state = OutgoingState.LOCKED


def is_http_text(format_name: str) -> bool:
    return format_name.upper().startswith(("DIRECT=HTTP:", "DIRECT=HTTPS:"))

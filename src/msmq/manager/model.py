"""The elements of the abstract data model (MS-MQDMPR 3.1.1) that are plain data: enumerations and records.

Each attribute keeps the specification's name, snake-cased. :mod:`msmq.manager.ledger.attributes` and
:mod:`msmq.manager.ledger.queue_records` store those that survive a restart or are published in the directory; all
others are volatile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING, Final

from msmq.errors import PropertyNotallowedError
from msmq.wire.guid import NULL_GUID
from msmq.wire.identifiers import SequenceInfo

if TYPE_CHECKING:
    from msmq.manager.queues.queue import OutgoingQueue

UNLIMITED: Final = 0xFFFFFFFF
DEFAULT_QUEUE_MANAGER_QUOTA_KB: Final = 0x00100000
DEFAULT_TIME_TO_REACH_QUEUE_S: Final = 345_600
ORDER_QUEUE_NUMBER: Final = 4


class DirectoryElement:
    """DirectoryObject (3.1.1): an element with an Identifier, which it gets once and keeps."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        if name == "identifier" and getattr(self, name, NULL_GUID) not in (NULL_GUID, value):
            raise PropertyNotallowedError(f"The Identifier of a {type(self).__name__} never changes.")
        object.__setattr__(self, name, value)

    def made_again(self, identifier: bytes) -> None:
        """Give the element the identifier of a new object in the directory, because the old object was lost. The
        caller takes care of everything that names the element by the old identifier."""
        object.__setattr__(self, "identifier", identifier)


class QueueType(Enum):
    """Queue.QueueType; journals belong to their queue and are SYSTEM like the queues the manager makes itself."""

    PRIVATE = "Private"
    PUBLIC = "Public"
    SYSTEM = "System"
    CONNECTOR = "Connector"


class QueuePrivacyLevel(IntEnum):
    """Queue.PrivacyLevel: which messages a queue accepts. The values are those of PROPID_Q_PRIV_LEVEL."""

    NONE = 0
    OPTIONAL = 1
    BODY = 2


class QueueScope(Enum):
    SITE = "Site"
    ENTERPRISE = "Enterprise"


class OutgoingState(Enum):
    """OutgoingQueue.State."""

    CONNECTED = "Connected"
    DISCONNECTED = "Disconnected"
    DISCONNECTING = "Disconnecting"
    INACTIVE = "Inactive"
    LOCKED = "Locked"
    NEED_VALIDATION = "NeedValidation"
    WAITING = "Waiting"
    ON_HOLD = "OnHold"


class ConnectionStatus(Enum):
    """ConnectionHistory.Status: the result of an attempt to connect."""

    IN_PROCESS = "InProcess"
    ESTABLISH_PACKET_RECEIVED = "EstablishPacketReceived"
    ESTABLISHED = "Established"
    UNKNOWN_FAILURE = "UnknownFailure"
    PING_FAILURE = "PingFailure"
    SOCKET_CREATE_FAILURE = "SocketCreateFailure"
    SOCKET_BIND_FAILURE = "SocketBindFailure"
    SOCKET_CONNECT_FAILURE = "SocketConnectFailure"
    TCP_NOT_ENABLED = "TcpNotEnabled"
    SOCKET_SEND_FAILURE = "SocketSendFailure"
    CONNECTION_NOT_READY = "ConnectionNotReady"
    DNS_FAILURE = "DnsFailure"
    CERTIFICATE_VALIDATION_FAILURE = "CertificateValidationFailure"
    CONNECTION_LIMIT_REACHED = "ConnectionLimitReached"
    CONNECTION_REFUSED = "ConnectionRefused"
    ROUTING_DATA_NOT_AVAILABLE = "RoutingDataNotAvailable"
    LOW_RESOURCE = "LowResource"


@dataclass(frozen=True, slots=True)
class ConnectionHistoryEntry:
    """One record of OutgoingQueue.ConnectionHistory."""

    status: ConnectionStatus
    connection_history_time: int
    error: int = 0
    address_list: tuple[str, ...] = ()


class QueueManagerState(Enum):
    STOPPED = "Stopped"
    INITIALIZING = "Initializing"
    READY = "Ready"
    STOPPING = "Stopping"


class OperatingSystemType(Enum):
    """QueueManager.OperatingSystemType; a host that is not Windows is foreign by definition."""

    FOREIGN = "Foreign"
    WIN95 = "Win95"
    WIN_CLIENT = "WinClient"
    WIN_SERVER = "WinServer"
    WIN_ENT = "WinEnt"
    OTHER = "Other"

    @property
    def server_class(self) -> bool:
        """Whether a peer counts as a server; the RC flag of a Ping states that it does not (MS-MQQB 2.2.7)."""
        return self in (OperatingSystemType.WIN_SERVER, OperatingSystemType.WIN_ENT)


class DirectoryServerType(Enum):
    """Meaningful only while QueueManager.DirectoryServer is True."""

    STANDALONE = "Standalone"
    BACKUP_SITE_CONTROLLER = "BackupSiteController"
    PRIMARY_SITE_CONTROLLER = "PrimarySiteController"
    PRIMARY_ENTERPRISE_CONTROLLER = "PrimaryEnterpriseController"


class QueueAccessType(Enum):
    """The purposes for which a queue can be opened; the admin kinds are for outgoing queues."""

    RECEIVE = "ReceiveAccess"
    SEND = "SendAccess"
    PEEK = "PeekAccess"
    MOVE = "MoveAccess"
    RECEIVE_ADMIN = "ReceiveAdminAccess"
    PEEK_ADMIN = "PeekAdminAccess"


class QueueShareMode(Enum):
    DENY_NONE = "DenyNone"
    DENY_RECEIVE = "DenyReceive"


class RemoteReadState(Enum):
    NONE = "None"
    OPENED = "Opened"
    READY_FOR_READ = "ReadyForRead"


class MessageSeekAction(Enum):
    FIRST = "SeekFirst"
    PREVIOUS = "SeekPrevious"
    CURRENT = "SeekCurrent"
    NEXT = "SeekNext"
    LAST = "SeekLast"


class EnqueueStatus(IntEnum):
    """The result of an Enqueue Message event."""

    OK = 0
    QUEUE_QUOTA = 1
    QUEUE_MANAGER_QUOTA = 2
    TIMED_OUT = 3


class OperationType(Enum):
    ENQUEUE = auto()
    DEQUEUE = auto()
    MOVE = auto()


@dataclass(slots=True)
class OutgoingTransferInfo:
    """Statistics of the transactional stream of one outgoing queue (3.1.1.4)."""

    outgoing_queue: OutgoingQueue | None = field(default=None, repr=False, compare=False)
    eod_first_non_ack: SequenceInfo = field(default_factory=lambda: SequenceInfo(0, 0, 0))
    eod_last_non_ack: SequenceInfo = field(default_factory=lambda: SequenceInfo(0, 0, 0))
    eod_last_ack: SequenceInfo = field(default_factory=lambda: SequenceInfo(0, 0, 0))
    eod_next_seq: SequenceInfo = field(default_factory=lambda: SequenceInfo(0, 0, 0))
    eod_last_ack_count: int = 0
    eod_no_ack_count: int = 0
    eod_no_read_count: int = 0
    eod_resend_count: int = 0
    eod_last_ack_time: int = 0
    eod_resend_time: int = 0
    eod_resend_interval_s: int = 0


@dataclass(slots=True)
class IncomingTransactionalTransferInfo:
    """The progress of a remote sender's transactional stream into one queue (3.1.1.5). Durable, because delivery
    exactly once depends on it."""

    format_name: str
    sender_identifier: bytes
    sequence_identifier: int = 0
    sequence_number: int = 0
    last_access_time: int = 0
    reject_count: int = 0


@dataclass(slots=True)
class Enterprise(DirectoryElement):
    """The MSMQ enterprise (3.1.1.6)."""

    identifier: bytes = NULL_GUID
    name: str = ""
    weakened_security: bool = False
    non_ldap_capable_queue_manager_notification: bool = False
    default_time_to_live_s: int = DEFAULT_TIME_TO_REACH_QUEUE_S
    old_directory: bool = False
    security: bytes = b""


@dataclass(slots=True)
class Site(DirectoryElement):
    """A site (3.1.1.7); ``site_gate_collection`` is volatile and refreshed from the directory."""

    identifier: bytes = NULL_GUID
    name: str = ""
    primary_site_controller: str = ""
    intra_site_replication_interval_s: int = 2
    inter_site_replication_interval_s: int = 10
    full_path: str = ""
    foreign_site: bool = False
    public_signing_key_list: bytes = b""
    migrated_from_msmq10: bool = False
    security: bytes = b""
    site_gate_collection: list[QueueManagerRecord] = field(default_factory=list)


MAX_LINK_COST: Final = 999_999


@dataclass(slots=True)
class RoutingLink(DirectoryElement):
    """A link between two sites (3.1.1.8). Sites and gates are known by their identifiers (ruling D26)."""

    identifier: bytes = NULL_GUID
    description: str = ""
    full_path: str = ""
    actual_cost: int = 1
    site1_identifier: bytes = NULL_GUID
    site2_identifier: bytes = NULL_GUID
    site_gate_identifier_list: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.actual_cost <= MAX_LINK_COST:
            raise ValueError(f"a link costs 1 to {MAX_LINK_COST}, not {self.actual_cost}")


@dataclass(slots=True)
class ConnectedNetwork(DirectoryElement):
    """A network that queue managers share (3.1.1.9)."""

    identifier: bytes = NULL_GUID
    name: str = ""
    security: bytes = b""


@dataclass(slots=True)
class User(DirectoryElement):
    """A user and the certificates they sign with (3.1.1.15)."""

    identifier: bytes = NULL_GUID
    security_identifier: bytes = b""
    certificate_digest_list: tuple[bytes, ...] = ()
    certificates: bytes = b""


@dataclass(frozen=True, slots=True)
class InternalCertificate:
    """A certificate the queue manager made for a user (3.1.1.19)."""

    certificate: bytes
    user: User


@dataclass(slots=True)
class QueueManagerRecord(DirectoryElement):
    """What is known and published of a queue manager, ours or another's (3.1.1.1, the Directory attributes)."""

    identifier: bytes = NULL_GUID
    computer_name: str = ""
    queue_manager_version: str = ""
    operating_system_version: str = ""
    operating_system_type: OperatingSystemType = OperatingSystemType.FOREIGN
    qualified_computer_name: str = ""
    create_time: int = 0
    modify_time: int = 0
    queue_manager_quota_kb: int = DEFAULT_QUEUE_MANAGER_QUOTA_KB
    journal_quota_kb: int = UNLIMITED
    foreign_system: bool = False
    full_path: str = ""
    site_identifier_list: tuple[bytes, ...] = ()
    connected_network_identifier_list: tuple[bytes, ...] = ()
    out_routing_server_identifier_list: tuple[bytes, ...] = ()
    in_routing_server_identifier_list: tuple[bytes, ...] = ()
    directory_server: bool = False
    remote_access_server: bool = False
    routing_server: bool = False
    supporting_server: bool = False
    directory_server_type: DirectoryServerType = DirectoryServerType.STANDALONE
    public_encryption_key_list: bytes = b""
    public_signing_key_list: bytes = b""
    security: bytes = b""
    clustered: bool = False

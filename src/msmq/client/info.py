"""What a queue manager reports about itself, its queues and their figures.

The fields of these classes are those of the messages of the channel, by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from datetime import UTC, datetime
from enum import IntEnum
from functools import cache, partial
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from msmq.api.generated import msmq_pb2 as pb

_T = TypeVar("_T")

UNLIMITED: Final = 0xFFFFFFFF
"""The quota that means "no limit"."""


class QueueKind(IntEnum):
    """The kind of a queue."""

    PRIVATE = 0
    PUBLIC = 1
    SYSTEM = 2
    CONNECTOR = 3
    JOURNAL = 4
    SUBQUEUE = 5


def report(kind: type[_T], *given: Any, **known: Any) -> _T:
    """Make an object of this class from a message of the channel, or from several that have its fields together.
    ``known`` are the values of fields that are called otherwise there."""
    for name, convert in _converters(kind).items():  # type: ignore[arg-type]  # every class is hashable
        for each in given:
            if name not in known and hasattr(each, name):
                known[name] = convert(getattr(each, name))
    return kind(**known)


@cache
def _converters(kind: type) -> dict[str, Callable[[Any], Any]]:
    return {name: _converter(hint) for name, hint in get_type_hints(kind).items()}


def _converter(hint: Any) -> Callable[[Any], Any]:
    """Return the function that makes a value of this type."""
    if get_origin(hint) is tuple:
        convert = _converter(get_args(hint)[0])
        return lambda values: tuple(map(convert, values))
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(report, hint)
    return _time if hint is datetime else hint


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue of the server's computer."""

    path: str
    format_name: str
    kind: QueueKind
    transactional: bool
    label: str
    type: str
    journaling: bool
    quota_kb: int
    journal_quota_kb: int
    authenticated_only: bool
    privacy_level: int
    base_priority: int
    multicast_address: str
    identifier: str
    created_time: datetime
    modified_time: datetime
    messages: int
    bytes: int
    journal_messages: int
    journal_bytes: int
    subqueues: tuple[str, ...]
    open_handles: int
    retry_delay_ms: int
    max_deliveries: int
    poison_subqueue: str
    paused_messages: int
    """Rejected messages that are hidden until their retry delay is over."""
    poisoned_total: int
    """Messages that were rejected too often, counted since the queue manager started."""


ERRORS: Final = {
    "UnknownFailure": "the session failed for an unknown reason",
    "PingFailure": "the host did not answer the ping",
    "SocketCreateFailure": "no socket could be made here",
    "SocketBindFailure": "the local address could not be used",
    "SocketConnectFailure": "nobody accepts connections there, or a firewall is between",
    "TcpNotEnabled": "TCP is switched off",
    "SocketSendFailure": "the connection broke",
    "ConnectionNotReady": "the host accepted the connection and did not answer",
    "DnsFailure": "the name of the host could not be resolved",
    "CertificateValidationFailure": "what encryption needs is missing",
    "ConnectionLimitReached": "too many connections",
    "ConnectionRefused": "the host refused the session",
    "RoutingDataNotAvailable": "the directory does not say how to get there",
    "LowResource": "this computer is short of memory or disk",
}
"""The meaning of each status of a connection attempt."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to connect to another host."""

    time: datetime
    status: str
    error: int
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OutgoingInfo:
    """An outgoing queue: messages on their way to one destination."""

    format_name: str
    state: str
    explanation: str
    next_hops: tuple[str, ...]
    messages: int
    bytes: int
    unacknowledged: int
    unreceived: int
    attempts: tuple[Attempt, ...]

    @property
    def last_error(self) -> str:
        """The status with which the last connection attempt failed; empty if it did not fail."""
        last = self.attempts[-1].status if self.attempts else ""
        return "" if last in ("Established", "InProcess", "EstablishPacketReceived") else last

    @property
    def last_error_words(self) -> str:
        """The last error in words; empty if there was none."""
        return ERRORS.get(self.last_error, self.last_error)


@dataclass(frozen=True, slots=True)
class Resources:
    """The system resources that a queue manager uses; a limit of 0 means that there is none."""

    descriptors: int
    descriptor_limit: int
    connections: int
    threads: int
    tasks: int


@dataclass(frozen=True, slots=True)
class ManagerInfo:
    """The queue manager."""

    computer_name: str
    identifier: str
    product: str
    online: bool
    directory_integrated: bool
    quota_kb: int
    journal_quota_kb: int
    bytes: int
    messages: int
    dead_letter_queue: str
    transactional_dead_letter_queue: str
    journal_queue: str
    caller: str
    caller_groups: tuple[str, ...]
    losses: tuple[str, ...]
    resources: Resources


@dataclass(frozen=True, slots=True)
class AccessEntry:
    """One entry of an access list. ``rights`` are bits of :mod:`msmq.wire.access_masks`."""

    sid: str
    rights: int
    allow: bool = True
    name: str = ""

    def to_proto(self) -> pb.AccessEntry:
        return pb.AccessEntry(allow=self.allow, sid=self.sid, rights=self.rights)


@dataclass(frozen=True, slots=True)
class Security:
    """The owner of an object, and who may do what with it."""

    owner: str
    entries: tuple[AccessEntry, ...]
    sddl: str


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The place of a queue."""

    here: bool
    """True if the queue is on the server's computer; then the rest is empty."""
    host: str
    format_name: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A public queue about which a computer and its directory disagree."""

    kind: str
    """``only here``, ``only in the directory``, ``another identifier`` or ``other values``."""
    queue: str
    detail: str
    choices: tuple[str, ...]
    """The ways to resolve the difference."""


@dataclass(frozen=True, slots=True)
class PropertyValue:
    """A property by its number and name in MS-MQMQ 2.3. ``values`` has one text, or one for each element of a
    vector."""

    id: int
    name: str
    type: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that identifies a user as the sender of signed messages."""

    certificate: bytes
    digest: bytes
    sid: str
    subject: str
    issuer: str
    expires_time: datetime
    internal: bool


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token that lets its owner connect over TCP."""

    name: str
    sid: str
    created_time: datetime


@dataclass(frozen=True, slots=True)
class AccountInfo:
    """A local account, for users who read queues of this host from other computers."""

    name: str
    sid: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AlarmRule:
    """A rule that says when somebody wants an alarm."""

    name: str
    kind: str
    """One of :data:`msmq.api.alarm_rules.KINDS`."""
    threshold: float = 0.0
    """Messages, seconds or bytes. The alarm is raised above it, or below it for free space on the disk."""
    queue: str = "*"
    """A pattern for the names of queues."""
    for_s: float = 0.0
    """How long the condition must have held."""
    webhooks: tuple[str, ...] = ()
    mail_to: tuple[str, ...] = ()

    def to_proto(self) -> pb.AlarmRule:
        return pb.AlarmRule(
            name=self.name, kind=self.kind, threshold=self.threshold, queue=self.queue, for_s=self.for_s,
            webhooks=self.webhooks, mail_to=self.mail_to,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """Figures of one queue."""

    path: str
    messages: int
    bytes: int
    journal_messages: int
    arrived_total: int
    removed_total: int
    waiting_readers: int


@dataclass(frozen=True, slots=True)
class Session:
    """A session with another host."""

    peer: str
    incoming: bool


@dataclass(frozen=True, slots=True)
class Statistics:
    """Figures of one moment; totals count since the queue manager started."""

    time: datetime
    started_time: datetime
    messages: int
    bytes: int
    express_bytes: int
    arrived_total: int
    removed_total: int
    transactions: int
    sessions: tuple[Session, ...]
    queues: tuple[QueueStatistics, ...]
    outgoing: tuple[OutgoingInfo, ...]


def figures(given: pb.Statistics) -> Statistics:
    """Read figures, whose times are in milliseconds."""
    times = {"time": _time(given.time_ms / 1000), "started_time": _time(given.started_ms / 1000)}
    return report(Statistics, given, **times)

"""A message before it is sent, and the things that it may refer to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, Flag
from typing import Any

from msmq.security.outbound import Signer
from msmq.wire.headers import NULL_GUID


class Door(Flag):
    """The ways into a queue manager. Each can carry some things that others cannot."""

    MANAGER = 1
    """An application's message, handed to the queue manager in its own process."""
    CLIENT = 2
    """An application's message, sent with the Python client."""
    WIRE = 4
    """A packet from the host of its sender."""
    FORWARDED = 8
    """A packet that other hosts have passed on."""


class Delivery(Enum):
    EXPRESS = "express"
    RECOVERABLE = "recoverable"
    TRANSACTIONAL = "transactional"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The world that messages refer to."""

    host: bytes
    """The GUID of the queue manager to which messages are sent."""
    source: bytes
    """The GUID of the queue manager from which they come; the same for a local application."""
    computer: str = "host"
    """The name that direct names use for the destination host."""
    destinations: tuple[str, ...] = ()
    """Format names of queues that exist."""
    listeners: tuple[str, ...] = ()
    """Format names of queues that exist and may get acknowledgments and answers."""
    dead_letter_queues: tuple[str, ...] = ()
    """Paths of queues on the sender's computer that may get its dead letters."""
    unreachable: str = "192.0.2.1"
    """An address at which nobody answers; this one is reserved for documentation."""
    largest_body: int = 4_190_000
    """The size of the largest body: with every optional header, a packet still stays within its limit."""
    signer: Signer | None = None
    """Signs packets; without one, none are signed."""


@dataclass(frozen=True, slots=True)
class Security:
    """The content of a SecurityHeader."""

    sender: bytes = b""
    sender_is_queue_manager: bool = False
    certificate: bytes = b""
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """One message. Times are in seconds; None means the default for senders that say nothing. Empty text names no
    queue."""

    destination: str
    body: bytes = b""
    body_type: int = 0
    label: str = ""
    extension: bytes = b""
    application_tag: int = 0
    correlation_id: bytes = bytes(20)
    message_class: int = 0
    priority: int = 3
    delivery: Delivery = Delivery.RECOVERABLE
    time_to_reach_queue_s: int | None = None
    time_to_be_received_s: int | None = None
    acknowledgements: int = 0
    """The bits PA, PR, NA and NR."""
    admin_queue: str = ""
    response_queue: str = ""
    journal: bool = False
    dead_letter: bool = False
    dead_letter_queue: str = ""
    peekable_when_locked: bool = False
    connector_type: bytes = NULL_GUID
    trace: bool = False
    tracing_queue: bytes = NULL_GUID
    security: Security = field(default_factory=Security)
    algorithms: tuple[int, int] | None = None
    """HashAlgorithm and EncryptionAlgorithm, None for the usual ones."""
    soap: tuple[str, str] = ("", "")
    """The header and the body of the SoapHeader."""
    destination_list: tuple[str, ...] = ()
    admin_list: tuple[str, ...] = ()
    response_list: tuple[str, ...] = ()
    # Only packets have these.
    hops: int = 0
    spelled_out: bool = False
    """True if private queues are named with the GUID of their host even where the packet gives it elsewhere."""
    numbers: tuple[int, int] = (0, 0)
    """Numbers of an administration and a response queue on the destination's host, 0 for none. Beside a direct name,
    which does not tell the GUID of its host, they name nothing."""
    spare_room: int = 0
    """How many bytes AllocationBodySize exceeds MessageSize."""
    final_ack_required: bool = False
    connector_queue_manager: bytes = NULL_GUID
    chosen: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """The option that was drawn from each menu."""

    @property
    def transactional(self) -> bool:
        return self.delivery is Delivery.TRANSACTIONAL

    def changed(self, **changes: Any) -> Draft:
        """Return a copy with other values."""
        values = {name: getattr(self, name) for name in Draft.__dataclass_fields__}
        return Draft(**(values | changes))

"""Messages as applications write and read them."""

from __future__ import annotations

import json
from asyncio import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import IntEnum, IntFlag
from math import ceil
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from msmq.api.generated import msmq_pb2 as pb
from msmq.api.packet_columns import PacketColumns
from msmq.manager.messages.message import Message as Properties
from msmq.manager.messages.message import SenderIdentifierType
from msmq.manager.messages.serialize import deserialize
from msmq.manager.model import DEFAULT_TIME_TO_REACH_QUEUE_S
from msmq.security.sid import Sid
from msmq.wire.bodies import Body, Formatter, read_as, read_headers, read_value, text_of, write_body
from msmq.wire.classes import MessageClass
from msmq.wire.guid import guid_from_text, guid_text
from msmq.wire.headers import DEFAULT_PRIORITY, INFINITE
from msmq.wire.layout import body_of
from msmq.wire.message import UserMessage

if TYPE_CHECKING:
    from msmq.client.receiver import Receiver


class Delivery(IntEnum):
    """How well the queue managers protect a message."""

    DEFAULT = 0
    """Recoverable; to a transactional queue of this computer, in a transaction of its own."""
    EXPRESS = 1
    """Kept in memory: quick, and lost when the queue manager stops."""
    RECOVERABLE = 2
    """Kept on disk."""
    TRANSACTIONAL = 3
    """Kept on disk, delivered exactly once and in order. It gets a transaction of its own unless it is sent in one."""


class Acknowledge(IntFlag):
    """The acknowledgments that a sender wants in its administration queue."""

    NONE = 0
    ARRIVAL = 1
    RECEIVE = 2
    NO_ARRIVAL = 4
    NO_RECEIVE = 8
    FULL_REACH_QUEUE = ARRIVAL | NO_ARRIVAL
    FULL_RECEIVE = RECEIVE | NO_ARRIVAL | NO_RECEIVE
    NACK_REACH_QUEUE = NO_ARRIVAL
    NACK_RECEIVE = NO_ARRIVAL | NO_RECEIVE


class Privacy(IntEnum):
    """How the body is encrypted on its way."""

    NONE = 0
    BASE = 1
    ENHANCED = 3
    AES = 5


def id_text(message_id: bytes) -> str:
    """A message identifier the way MSMQ shows it: GUID, backslash, number."""
    return f"{guid_text(message_id[:16])}\\{int.from_bytes(message_id[16:20], 'little')}"


def id_bytes(given: bytes | str) -> bytes:
    """Return the twenty bytes of a message identifier, which may be given as :func:`id_text` writes it."""
    if isinstance(given, bytes):
        if len(given) != 20:
            raise ValueError("A message identifier has twenty bytes.")
        return given
    guid, separator, number = given.partition("\\")
    if not separator or not number.isdecimal() or int(number) >> 32:
        raise ValueError(f"{given!r} is no message identifier, which looks like GUID\\number.")
    return guid_from_text(guid) + int(number).to_bytes(4, "little")


class Receipt(NamedTuple):
    """The receipt for a sent message: it is in its queue, or safely on its way there."""

    queue_manager: bytes
    ordinal: int
    lookup_id: int
    """Its position in a queue of this computer, or in the outgoing queue."""

    @property
    def message_id(self) -> bytes:
        """The identifier in twenty bytes; an answer carries them as its correlation_id."""
        return self.queue_manager + self.ordinal.to_bytes(4, "little")

    @property
    def id(self) -> str:
        """The message identifier as text."""
        return id_text(self.message_id)


@dataclass(slots=True)
class Message:
    """A message to send.

    A body may be bytes, text, a number, a truth value, a UUID, a Decimal, a datetime, or a dict or list, which becomes
    JSON; ``formatter`` chooses one of System.Messaging's formats instead. Unless told otherwise a message is kept on
    disk, and goes to the dead-letter queue of this computer if it cannot be delivered.
    """

    body: Body = b""
    label: str = ""
    body_type: int | None = None
    """A VARTYPE; None takes the usual one for the body."""
    delivery: Delivery = Delivery.DEFAULT
    priority: int | None = None
    """0 to 7; None means 3. Messages of the highest priority are received first."""
    correlation_id: bytes = b""
    """Twenty bytes, usually the ``message_id`` of the message that this one answers."""
    response_queue: str = ""
    admin_queue: str = ""
    acknowledgements: Acknowledge = Acknowledge.NONE
    time_to_reach_queue: timedelta | float | None = None
    """Seconds within which it must reach its queue."""
    time_to_be_received: timedelta | float | None = None
    """Seconds within which it must be received."""
    journal: bool = False
    """Keep a copy in the journal of this computer."""
    dead_letter: bool = True
    """Keep it in the dead-letter queue of this computer if it cannot be delivered."""
    dead_letter_queue: str = ""
    """A queue of the application's own, used instead."""
    extension: bytes = b""
    application_tag: int = 0
    message_class: int = 0
    trace: bool = False
    authenticate: bool = False
    """Sign it with the internal certificate that the queue manager made for this user."""
    privacy: Privacy = Privacy.NONE
    peekable_when_locked: bool = False
    sender_certificate: bytes = b""
    connector_type: bytes = b""
    formatter: Formatter | str = Formatter.NATIVE
    """How the body is written: ``native``, ``activex``, ``xml``, ``binary`` or ``json``."""

    def with_(self, **changes: Any) -> Message:
        """Return a copy of the message with other properties."""
        return replace(self, **changes)

    def to_proto(self) -> pb.Message:
        """Write the message in the form of the channel."""
        made = self.to_kind()
        (
            made.body, made.body_type, made.label, made.extension, made.application_tag, made.correlation_id,
            made.priority, made.delivery, made.time_to_reach_queue_s, made.time_to_be_received_s,
            made.acknowledgements, made.journal, made.dead_letter,
        ) = self.own()  # type: ignore[assignment]  # fmt: skip  # the numbers of Delivery are the same
        for name, said in (
            ("priority", self.priority),
            ("time_to_reach_queue_s", self.time_to_reach_queue),
            ("time_to_be_received_s", self.time_to_be_received),
        ):
            if said is None:
                made.ClearField(name)
        return made

    def to_kind(self) -> pb.Message:
        """Write only what messages of one kind have in common: everything but the columns of :meth:`own`."""
        return pb.Message(
            response_queue=self.response_queue,
            admin_queue=self.admin_queue,
            dead_letter_queue=self.dead_letter_queue,
            message_class=self.message_class,
            trace=self.trace,
            authenticate=self.authenticate,
            privacy_level=int(self.privacy),
            peekable_when_locked=self.peekable_when_locked,
            sender_certificate=self.sender_certificate,
            connector_type=self.connector_type,
        )

    def own(self) -> Own:
        """Return body and its type, label, extension, application tag, correlation identifier, priority, delivery, time
        to reach the queue and time to be received, acknowledgments, journaling and dead-lettering. They are columns
        of their own when many messages travel together."""
        body, body_type = write_body(self.body, self.formatter, self.body_type)
        reach, received = self.time_to_reach_queue, self.time_to_be_received
        return (
            body,
            body_type,
            self.label,
            self.extension,
            self.application_tag,
            self.correlation_id,
            DEFAULT_PRIORITY if self.priority is None else self.priority,
            self.delivery,
            DEFAULT_TIME_TO_REACH_QUEUE_S if reach is None else _seconds(reach),
            INFINITE if received is None else _seconds(received),
            self.acknowledgements,
            self.journal,
            self.dead_letter,
        )


Own = tuple[bytes, int, str, bytes, int, bytes, int, int, int, int, int, bool, bool]
"""The values of a message that have columns of their own; see :meth:`Message.own`."""
kind_of: Final = attrgetter(
    "response_queue", "admin_queue", "dead_letter_queue", "message_class", "trace", "authenticate", "privacy",
    "peekable_when_locked", "sender_certificate", "connector_type",
)  # fmt: skip
"""Returns what messages of one kind have in common; see :meth:`Message.to_kind`."""


_LARGEST: Final = 0xFFFFFFFF
_TEXTS: Final = ("label", "response_queue", "admin_queue", "dead_letter_queue")
_BYTES: Final = ("correlation_id", "extension", "sender_certificate", "connector_type")
_NUMBERS: Final = (
    "body_type",
    "priority",
    "delivery",
    "acknowledgements",
    "application_tag",
    "message_class",
)
_TIMES: Final = ("time_to_reach_queue", "time_to_be_received")


def blamed(message: Message, error: Exception) -> Exception:
    """The error of a message that cannot be written, by the property that is wrong; else the error itself."""
    for names, fits, wanted in (
        (_TEXTS, _is_text, "a text"),
        (_BYTES, lambda value: isinstance(value, bytes | bytearray | memoryview), "bytes"),
        (_NUMBERS, _is_number, f"a whole number from 0 to {_LARGEST}"),
        (_TIMES, _is_time, f"a number of seconds from 0 to {_LARGEST}, or a timedelta"),
    ):
        for name in names:
            value = getattr(message, name)
            if not fits(value):
                kind = TypeError if isinstance(error, TypeError) else ValueError
                return kind(f"{name} is {value!r}, and has to be {wanted}.")
    return error


def _is_text(value: object) -> bool:
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int) and 0 <= value <= _LARGEST)


def _is_time(value: object) -> bool:
    if isinstance(value, timedelta):
        value = value.total_seconds()
    return value is None or (isinstance(value, int | float) and 0 <= value <= _LARGEST)


def _seconds(time: timedelta | float) -> int:
    """Round up to whole seconds, so that a message does not live shorter than its sender asks."""
    return ceil(time.total_seconds() if isinstance(time, timedelta) else time)


NOTHING_MORE: Final = pb.Remark()
"""What the queue manager adds to most messages: nothing."""


class QueuedMessage:
    """A message from a queue with everything that can be read of it. Its packet is decoded when it is needed."""

    __slots__ = ("_arrived_s", "_data", "_packet", "_properties", "_receiver", "_rest", "lookup_id", "queue")

    def __init__(
        self,
        queue: str,
        lookup_id: int,
        arrived_s: int,
        data: bytes,
        rest: pb.Remark | pb.Delivered = NOTHING_MORE,
        receiver: Receiver | None = None,
    ) -> None:
        self.queue = queue
        """The queue it came from."""
        self.lookup_id = lookup_id
        """Its position in the queue."""
        self._arrived_s = arrived_s
        self._data = data
        self._rest = rest
        self._receiver = receiver
        self._packet: UserMessage | None = None
        self._properties: Properties | None = None

    @classmethod
    def delivered(cls, given: pb.Delivered, queue: str, receiver: Receiver | None = None) -> Self:
        """Make a message of a delivery of one."""
        return cls(queue, given.lookup_id, given.arrived_time, given.packet, given, receiver)

    @classmethod
    def all_of(cls, given: PacketColumns, queue: str, receiver: Receiver | None = None) -> list[Self]:
        """Make messages of a delivery of several."""
        rest = {remark.index: remark for remark in given.remarks}
        rows = zip(given.lookup_ids, given.arrived_times, given.packets, strict=True)
        if not rest:
            return [cls(queue, one, arrived_s, data, NOTHING_MORE, receiver) for one, arrived_s, data in rows]
        return [
            cls(queue, one, arrived_s, data, rest.get(index, NOTHING_MORE), receiver)
            for index, (one, arrived_s, data) in enumerate(rows)
        ]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.label!r} from {self.queue}>"

    @property
    def parts(self) -> tuple[str, int, int, bytes, pb.Remark | pb.Delivered, Receiver | None]:
        """The arguments from which it was made."""
        return self.queue, self.lookup_id, self._arrived_s, self._data, self._rest, self._receiver

    @property
    def packet(self) -> UserMessage:
        """The packet as it travelled."""
        if self._packet is None:
            self._packet = UserMessage.route(self._data)
        return self._packet

    @property
    def properties(self) -> Properties:
        """Everything that the packet says, by the names of MS-MQDMPR 3.1.1.12."""
        if self._properties is None:
            self._properties = deserialize(self.packet)
        return self._properties

    # --- what the sender said -----------------------------------------------------------------------------------

    @property
    def body(self) -> bytes:
        # Most readers want nothing else; the queue manager has checked the packet.
        return body_of(self._data) if self._packet is None else self._packet.body

    @property
    def body_type(self) -> int:
        """A VARTYPE; 0 if the sender gave none."""
        return self.packet.properties.body_type

    @property
    def value(self) -> Any:
        """The body as the sender's formatter wrote it: text, a number, a date, a UUID, a list, a dict. Bytes if the
        body does not show what it is, or does not match its type."""
        return read_value(self.body_type, self.body)

    def value_as(self, formatter: Formatter | str) -> Any:
        """Read the body as ``formatter`` writes it, whatever its type says; raises `DecodeError` if it is not in that
        format."""
        return read_as(formatter, self.body_type, self.body)

    @property
    def text(self) -> str:
        """The body as text; raises ValueError if it is not text."""
        found = text_of(self.body_type, self.body)
        if found is None:
            raise ValueError("The body is not text.")
        return found

    def json(self) -> Any:
        """The body read as JSON."""
        return json.loads(self.text)

    @property
    def label(self) -> str:
        return self.packet.label

    @property
    def priority(self) -> int:
        return self.packet.priority

    @property
    def delivery(self) -> Delivery:
        if self.transactional:
            return Delivery.TRANSACTIONAL
        return Delivery.RECOVERABLE if self.packet.recoverable else Delivery.EXPRESS

    @property
    def transactional(self) -> bool:
        return self.packet.transactional

    @property
    def correlation_id(self) -> bytes:
        return self.packet.properties.correlation_id

    @property
    def extension(self) -> bytes:
        return self.packet.extension

    @property
    def headers(self) -> dict[str, str]:
        """The headers that NServiceBus or Rebus wrote into the extension; empty if there are none."""
        return read_headers(self.extension) or {}

    @property
    def application_tag(self) -> int:
        return self.packet.properties.application_tag

    @property
    def message_class(self) -> int:
        """The class of the message; for a dead letter, the reason why it is one."""
        return self._rest.dead_letter_class or self.packet.properties.message_class

    @property
    def class_name(self) -> str:
        """The class by name: NORMAL, the kind of an acknowledgment, or the reason of a dead letter."""
        try:
            return MessageClass(self.message_class).name
        except ValueError:
            return f"{self.message_class:#06x}"

    @property
    def dead_letter_reason(self) -> str:
        """Why the message is in a dead-letter queue, in words; empty for every other message."""
        return self._rest.dead_letter_reason

    @property
    def response_queue(self) -> str:
        """The format name of the queue for answers; empty if there is none."""
        return self.properties.response_queue_format_name

    @property
    def admin_queue(self) -> str:
        return self.properties.administration_queue_format_name

    @property
    def acknowledgements(self) -> Acknowledge:
        return Acknowledge(int(self.properties.acknowledgements_requested))

    @property
    def destination(self) -> str:
        """The format name it was sent to."""
        return self.properties.destination_queue_format_name

    @property
    def connector_type(self) -> bytes:
        """The GUID of the application that connects to the foreign system the message comes from; empty if there is
        none."""
        found = self.properties.connector_type_identifier
        return found if any(found) else b""

    @property
    def journal(self) -> bool:
        return self.properties.positive_journaling_requested

    @property
    def dead_letter(self) -> bool:
        return self.properties.negative_journaling_requested

    @property
    def first_in_transaction(self) -> bool:
        return self.properties.first_in_transaction

    @property
    def last_in_transaction(self) -> bool:
        return self.properties.last_in_transaction

    # --- what queue managers said -------------------------------------------------------------------------------

    @property
    def message_id(self) -> bytes:
        """The identifier in twenty bytes; an answer carries them as its correlation_id."""
        return self.packet.identifier.encode()

    @property
    def id(self) -> str:
        """The message identifier as text."""
        return id_text(self.message_id)

    @property
    def sent_time(self) -> datetime:
        return datetime.fromtimestamp(self.packet.user.sent_time, UTC)

    @property
    def arrived_time(self) -> datetime:
        return datetime.fromtimestamp(self._arrived_s, UTC)

    @property
    def returned_count(self) -> int:
        """How often a reader gave it back; a message that returns again and again is poison."""
        return self._rest.returned_count

    @property
    def sender(self) -> str:
        """The SID of the sender, as the message says; trust it only if it is ``authenticated``."""
        properties = self.properties
        if properties.sender_identifier_type != SenderIdentifierType.SID or not properties.sender_identifier:
            return ""
        return str(Sid.decode(properties.sender_identifier))

    @property
    def authenticated(self) -> bool:
        """True if the queue manager has verified a signature."""
        return self._rest.authenticated

    def reply(self, body: Body = b"", **properties: Any) -> Message:
        """Make an answer to this message, to be sent to its ``response_queue``."""
        return Message(body, correlation_id=self.message_id, **properties)


class ReceivedMessage(QueuedMessage):
    """A message from a queue that can be acknowledged or rejected."""

    __slots__ = ()

    def acknowledge(self) -> Future[None]:
        """Report it as handled: the message leaves the queue. Await the result to know that this is durable."""
        return self._held_by().acknowledge(self)

    async def reject(self, subqueue: str = "") -> None:
        """Report it as not handled: the message goes back to its position, or to a subqueue."""
        await self._held_by().reject(self, subqueue=subqueue)

    def _held_by(self) -> Receiver:
        if self._receiver is None:
            raise RuntimeError("This message is not waiting for an acknowledgment.")
        return self._receiver

"""The UserMessage packet (MS-MQMQ 2.2.20): one whole message, kept as the bytes in which it arrived.

A message is its ``data``: headers are read from it on demand, and to send the message on is to send ``data``. It can be
read in three depths. :meth:`UserMessage.kept` reads nothing at first; it is for packets that were checked when they
came. :meth:`UserMessage.route` checks BaseHeader and UserHeader, which is all a router needs.
:meth:`UserMessage.decode` checks every header up to the exact end of the packet, as a receiver must do before it trusts
any of them. Label, extension and body are cut out only when asked for.

The checks are two functions, :func:`check_front` and :func:`check_rest`, which return what they read on the way.

Order on the wire: Base, User, [Transaction], [Security], MessageProperties, [Debug], [SRMPEnvelope, Compound], [Soap],
[MultiQueueFormat], [Session]; the flags of Base and User say which of the bracketed ones are present.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple, Self

from msmq.errors import DecodeError, EncodeError, LabelTooLongError
from msmq.wire.classes import APPLICATION_CLASS_MASK
from msmq.wire.declare import bytes_of, text_of, together, truncated
from msmq.wire.headers import (
    BASE_DH,
    BASE_IN,
    BASE_SH,
    BASE_TR,
    MAX_HOP_COUNT,
    MAX_LABEL_LENGTH,
    MAX_PACKET_SIZE,
    SIGNATURE,
    USER_AH,
    USER_CQ,
    USER_HH,
    USER_MP,
    USER_MQ,
    USER_RECOVERABLE,
    USER_SH,
    USER_TH,
    VERSION,
    BaseHeader,
    MessagePropertiesHeader,
    UserHeader,
    content_ends,
    queues_end,
)
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.layout import BASE, PROPERTIES, USER, asks_of, class_of, reader, user_flags
from msmq.wire.multi_queue import MultiQueueFormatHeader
from msmq.wire.optional_headers import (
    DebugHeader,
    SecurityHeader,
    SessionHeader,
    SoapHeader,
    TransactionHeader,
)
from msmq.wire.srmp import CompoundMessageHeader, SRMPEnvelopeHeader

MIN_SIZE: Final = BaseHeader.SIZE + UserHeader.SIZE + MessagePropertiesHeader.SIZE
_BASE_FLAGS: Final = BASE["flags"]
_PACKET_SIZE: Final = BASE["packet_size"]
_SOURCE: Final = slice(USER["source_queue_manager"], USER["queue_manager_address"])
_NUMBER: Final = slice(USER["message_id"], USER["flags"])
_BASE_SPECIAL: Final = BASE_IN | BASE_SH | BASE_TR
_LABEL: Final = MessagePropertiesHeader.SIZE
_ENCRYPTED: Final = 0x20  # SecurityHeader.Flags.EB
_CHECKED_PROPERTIES: Final = {
    "flags", "label_length", "message_size", "allocation_body_size", "privacy_level", "extension_size",
}  # fmt: skip
_USER_RARE: Final = USER_AH | USER_HH | USER_MQ
_PRESENCE: Final = USER_TH | USER_SH | USER_MP | USER_CQ | USER_MQ | USER_AH | USER_HH


_read_two_headers = together(BaseHeader, UserHeader)
_front_at: Final = reader(
    (BaseHeader, {spec.name for spec in BaseHeader.FIELDS} - {"reserved"}),
    (UserHeader, {spec.name for spec in UserHeader.FIELDS}),
)
_flags_of: Final = reader((BaseHeader, {"flags"}), (UserHeader, {"flags"}))
_properties_at: Final = reader((MessagePropertiesHeader, _CHECKED_PROPERTIES))
_HEADERS: Final = frozenset({"base", "user"})
_ENDS: Final = frozenset({"_user_end", "size"})


class _Rare(NamedTuple):
    """The headers that few messages have."""

    debug: DebugHeader | None = None
    envelope: SRMPEnvelopeHeader | None = None
    compound: CompoundMessageHeader | None = None
    soap: SoapHeader | None = None
    multi_queue: MultiQueueFormatHeader | None = None


_NONE_RARE: Final = _Rare()


class UserMessage:
    """A message as it travels. It is made by :meth:`decode`, :meth:`route`, :meth:`kept` or :meth:`build`."""

    __slots__ = (
        "_label_end",
        "_properties",
        "_properties_offset",
        "_rare",
        "_security",
        "_session",
        "_transaction",
        "_user_end",
        "base",
        "data",
        "size",
        "user",
    )

    data: bytes
    size: int
    """The bytes that the message takes on the wire, with its SessionHeader."""
    base: BaseHeader
    user: UserHeader
    _properties: MessagePropertiesHeader | None
    _transaction: TransactionHeader | None
    _security: SecurityHeader | None
    _session: SessionHeader | None
    _rare: _Rare
    _user_end: int
    _properties_offset: int
    _label_end: int

    @classmethod
    def route(cls, data: bytes, *, trailing: bool = False) -> Self:
        """Read the first two headers of a whole packet; the others are read on demand.

        ``trailing`` allows further bytes after the message, as remote read appends them.
        """
        self = cls.kept(data)
        front = check_front(data, trailing=trailing)
        self.size, self._user_end = size, _ = front[:2]
        if len(data) != size:
            self.data = data[:size]
        return self

    @classmethod
    def kept(cls, data: bytes) -> Self:
        """Wrap a packet that was checked before; everything in it is read on demand."""
        self = object.__new__(cls)
        self.data = data
        self._properties = None
        return self

    def __getattr__(self, name: str) -> Any:
        """Read what is missing of the first two headers."""
        if name in _HEADERS:
            self.base, self.user = _read_two_headers(self.data)
            self.user.read_queues(self.data, BaseHeader.SIZE)
        elif name in _ENDS:
            self.size, self._user_end = check_front(self.data)[:2]
        else:
            raise AttributeError(f"a message has no {name}")
        return object.__getattribute__(self, name)

    @classmethod
    def decode(cls, data: bytes, *, trailing: bool = False) -> Self:
        """Check every header of the packet."""
        self = cls.route(data, trailing=trailing)
        self._walk()
        return self

    def _walk(self) -> MessagePropertiesHeader:
        """Read everything after the UserHeader."""
        data = self.data
        base_flags, flags = _flags_of(data)
        rest = check_rest(data, base_flags, flags, self._user_end)
        self._transaction, self._security, self._rare, self._session, offset, self._label_end = rest[:6]
        self._properties_offset = offset
        self._properties = properties = MessagePropertiesHeader.decode(data, offset)
        return properties

    @property
    def transaction(self) -> TransactionHeader | None:
        if not user_flags(self.data)[0] & USER_TH:
            return None
        self._properties or self._walk()
        return self._transaction

    @property
    def source(self) -> bytes:
        """UserHeader.SourceQueueManager."""
        return self.data[_SOURCE]

    @property
    def number(self) -> int:
        """UserHeader.MessageID."""
        return int.from_bytes(self.data[_NUMBER], "little")

    @property
    def security(self) -> SecurityHeader | None:
        self._properties or self._walk()
        return self._security

    @property
    def properties(self) -> MessagePropertiesHeader:
        return self._properties or self._walk()

    @property
    def asks(self) -> int:
        """MessagePropertiesHeader.Flags: the acknowledgments that are asked for."""
        return asks_of(self.data) if self._properties is None else self._properties.flags

    @property
    def message_class(self) -> int:
        """MessageClass, without reading the rest of the message."""
        return class_of(self.data) if self._properties is None else self._properties.message_class

    @property
    def session(self) -> SessionHeader | None:
        self._properties or self._walk()
        return self._session

    @property
    def rare(self) -> _Rare:
        """The debug, SRMP, Soap and MultiQueueFormat headers together."""
        self._properties or self._walk()
        return self._rare

    @property
    def debug(self) -> DebugHeader | None:
        return self.rare.debug

    @property
    def envelope(self) -> SRMPEnvelopeHeader | None:
        return self.rare.envelope

    @property
    def compound(self) -> CompoundMessageHeader | None:
        return self.rare.compound

    @property
    def soap(self) -> SoapHeader | None:
        return self.rare.soap

    @property
    def multi_queue(self) -> MultiQueueFormatHeader | None:
        return self.rare.multi_queue

    @property
    def user_end(self) -> int:
        """Where the UserHeader ends; a TransactionHeader would begin there."""
        return self._user_end

    @property
    def properties_offset(self) -> int:
        """Where the MessagePropertiesHeader begins."""
        self._properties or self._walk()
        return self._properties_offset

    @property
    def label(self) -> str:
        """The label without its terminator, up to the first null."""
        if not (self._properties or self._walk()).label_length:
            return ""
        text = text_of(self.data[self._properties_offset + _LABEL : self._label_end - 2])
        return text.partition("\0")[0] if "\0" in text else text

    @property
    def extension_offset(self) -> int:
        self._properties or self._walk()
        return self._label_end

    @property
    def extension(self) -> bytes:
        size = (self._properties or self._walk()).extension_size
        return self.data[self._label_end : self._label_end + size] if size else b""

    @property
    def body_offset(self) -> int:
        size = (self._properties or self._walk()).extension_size
        return self._label_end + size

    @property
    def body(self) -> bytes:
        properties = self._properties or self._walk()
        start = self._label_end + properties.extension_size
        return self.data[start : start + properties.message_size]

    @property
    def allocated_body(self) -> bytes:
        """The body with all the space that is reserved for it. This is the ciphertext of a sender that gives the clear
        size in MessageSize."""
        start = self.body_offset
        return self.data[start : start + self.properties.allocation_body_size]

    @property
    def identifier(self) -> MessageIdentifier:
        return MessageIdentifier(self.source, self.number)

    @property
    def transactional(self) -> bool:
        return bool(self.user.flags & USER_TH)

    @property
    def recoverable(self) -> bool:
        return bool(self.user.flags & USER_RECOVERABLE)

    @property
    def priority(self) -> int:
        """The priority, which is zero for a transactional message, whatever its BaseHeader says."""
        return 0 if self.user.flags & USER_TH else self.base.flags & 7

    def forwarded(self) -> UserMessage | None:
        """Return the message with one more hop, or None if that would be one too many."""
        if self.user.hop_count >= MAX_HOP_COUNT:
            return None
        data = bytearray(self.data)
        data[USER["flags"]] += 1  # the count is the low five bits and is below its limit
        return UserMessage.route(bytes(data))

    def with_session(self, session: SessionHeader | None) -> UserMessage:
        """Return the message with another SessionHeader at its end, or with none."""
        data = bytearray(self.data[: self.base.packet_size])
        if session is None:
            data[_BASE_FLAGS] &= ~BASE_SH
        else:
            data[_BASE_FLAGS] |= BASE_SH
            data += session.write()
        return UserMessage.route(bytes(data))

    def decrypted(self, body: bytes) -> UserMessage:
        """Return the message with its body in the clear and Flags.EB 0, as its destination queue keeps it.

        All other bytes stay as they came, because a signature may cover them.
        """
        offset, start = self.properties_offset, self.body_offset
        old_end = start + self.properties.allocation_body_size + 3 & ~3
        new_end = start + len(body) + 3 & ~3
        data = bytearray(self.data[:start]) + body
        data += bytes(new_end - len(data)) + self.data[old_end:]
        data[_PACKET_SIZE : _PACKET_SIZE + 4] = (self.base.packet_size + new_end - old_end).to_bytes(
            4, "little"
        )
        for field in ("message_size", "allocation_body_size"):
            size = offset + PROPERTIES[field]
            data[size : size + 4] = len(body).to_bytes(4, "little")
        transaction = self.transaction
        data[self._user_end + (0 if transaction is None else len(transaction.write()))] &= ~_ENCRYPTED
        return UserMessage.decode(bytes(data))

    @classmethod
    def build(
        cls,
        *,
        base: BaseHeader,
        user: UserHeader,
        properties: MessagePropertiesHeader,
        label: str = "",
        extension: bytes = b"",
        body: bytes = b"",
        transaction: TransactionHeader | None = None,
        security: SecurityHeader | None = None,
        debug: DebugHeader | None = None,
        envelope: SRMPEnvelopeHeader | None = None,
        compound: CompoundMessageHeader | None = None,
        soap: SoapHeader | None = None,
        multi_queue: MultiQueueFormatHeader | None = None,
        session: SessionHeader | None = None,
    ) -> UserMessage:
        """Build a message from its headers; sizes, lengths and presence bits in the given headers are set here."""
        data = encode_user_message(
            base, user, properties, label, extension, body,
            transaction, security, debug, envelope, compound, soap, multi_queue, session,
        )  # fmt: skip
        return cls.route(data)


Front = tuple[int, int, int, int, bytes, bytes, int, int, int, int]
Rest = tuple[TransactionHeader | None, SecurityHeader | None, _Rare, SessionHeader | None, int, int, int, int]


def check_front(data: bytes, *, trailing: bool = False) -> Front:
    """Check BaseHeader and UserHeader. Returns the size of the message with its SessionHeader, the end of the
    UserHeader, and the values of both headers."""
    try:
        (
            version, base_flags, signature, size, time_to_reach_queue_s,
            source, address, time_to_be_received_s, sent_time, message_id, flags,
        ) = _front_at(data)  # fmt: skip
    except struct.error:
        raise DecodeError(f"a message needs {MIN_SIZE} bytes, {len(data)} are here", len(data)) from None
    if version != VERSION or signature != SIGNATURE or not MIN_SIZE <= size <= MAX_PACKET_SIZE:
        BaseHeader.decode(data).check()
        raise DecodeError(
            f"a UserMessage takes at least {MIN_SIZE} bytes, PacketSize says {size}", _PACKET_SIZE
        )
    whole = size
    if base_flags & _BASE_SPECIAL:
        if base_flags & BASE_IN:
            raise DecodeError("Flags.IN on a user message", _BASE_FLAGS)
        if base_flags & BASE_TR and not base_flags & BASE_DH:
            raise DecodeError("Flags.TR without a DebugHeader", _BASE_FLAGS)
        if base_flags & BASE_SH:
            whole += SessionHeader.SIZE
    if len(data) != whole and (len(data) < whole or not trailing):
        raise DecodeError(f"the packet says {whole} bytes and has {len(data)}", _PACKET_SIZE)
    return (
        whole, queues_end(data, flags, BaseHeader.SIZE, size), base_flags, time_to_reach_queue_s,
        source, address, time_to_be_received_s, sent_time, message_id, flags,
    )  # fmt: skip


def check_rest(data: bytes, base_flags: int, flags: int, cursor: int) -> Rest:
    """Check everything from ``cursor``, the end of the UserHeader, to the exact end of the packet. Takes the flags of
    both headers before. Returns the optional headers, where the MessagePropertiesHeader begins and where the label
    ends, and of the properties their flags and the privacy level."""
    limit = len(data) - SessionHeader.SIZE if base_flags & BASE_SH else len(data)
    transaction = security = session = None
    if flags & USER_TH:
        transaction, cursor = TransactionHeader.read(data, cursor, limit)
    if flags & USER_SH:
        security, cursor = SecurityHeader.read(data, cursor, limit)
    offset = cursor
    try:
        asks, label_length, message_size, room, privacy_level, extension_size = _properties_at(data, offset)
    except struct.error:
        raise truncated(MessagePropertiesHeader, data, offset) from None
    label_end, cursor = content_ends(data, offset, limit, label_length, message_size, room, extension_size)
    rare = _NONE_RARE
    if base_flags & BASE_DH or flags & _USER_RARE:
        rare, cursor = _read_rare(data, base_flags, flags, cursor, limit)
    if cursor != limit:
        raise DecodeError(f"the headers end at {cursor}, PacketSize says {limit}", cursor)
    if base_flags & BASE_SH:
        session, _ = SessionHeader.read(data, limit, limit + SessionHeader.SIZE)
    return transaction, security, rare, session, offset, label_end, asks, privacy_level


def _read_rare(data: bytes, base_flags: int, flags: int, cursor: int, limit: int) -> tuple[_Rare, int]:
    debug = envelope = compound = soap = multi_queue = None
    if base_flags & BASE_DH:
        debug, cursor = DebugHeader.read(data, cursor, limit)
    if flags & USER_AH:
        envelope, cursor = SRMPEnvelopeHeader.read(data, cursor, limit)
        compound, cursor = CompoundMessageHeader.read(data, cursor, limit)
    if flags & USER_HH:
        soap, cursor = SoapHeader.read(data, cursor, limit)
    if flags & USER_MQ:
        multi_queue, cursor = MultiQueueFormatHeader.read(data, cursor, limit)
    return _Rare(debug, envelope, compound, soap, multi_queue), cursor


def encode_user_message(
    base: BaseHeader,
    user: UserHeader,
    properties: MessagePropertiesHeader,
    label: str = "",
    extension: bytes = b"",
    body: bytes = b"",
    transaction: TransactionHeader | None = None,
    security: SecurityHeader | None = None,
    debug: DebugHeader | None = None,
    envelope: SRMPEnvelopeHeader | None = None,
    compound: CompoundMessageHeader | None = None,
    soap: SoapHeader | None = None,
    multi_queue: MultiQueueFormatHeader | None = None,
    session: SessionHeader | None = None,
) -> bytes:
    """Encode a message; see :meth:`UserMessage.build`, which returns the message itself."""
    user_flags = user.flags & ~_PRESENCE | USER_MP
    base_flags = base.flags & ~(BASE_IN | BASE_SH | BASE_DH)
    if user.connector_type is not None:
        user_flags |= USER_CQ
    middle = []
    if transaction is not None:
        if not user_flags & USER_RECOVERABLE:
            raise EncodeError("a transactional message is recoverable: Flags.DM must be 1")
        user_flags |= USER_TH
        base_flags &= ~7  # the priority of a transactional message is always 0
        middle.append(transaction.write())
    if security is not None:
        user_flags |= USER_SH
        middle.append(security.write())
    text = bytes_of(label + "\0") if label else b""
    _set_lengths(properties, label, text, extension, body)
    tail = b"".join((text, extension, body))
    # The space reserved for a body may be larger than the body; the rest of it and the padding are zero bytes.
    room = properties.allocation_body_size - len(body)
    middle += (properties.encode(), tail, bytes(room + -(len(tail) + room) % 4))
    if debug is not None:
        base_flags |= BASE_DH
        middle.append(debug.write())
    if envelope is not None or compound is not None:
        if envelope is None or compound is None:
            raise EncodeError("a message that came over HTTP has both an envelope and a compound header")
        user_flags |= USER_AH
        middle += (envelope.write(), compound.write())
    if soap is not None:
        user_flags |= USER_HH
        middle.append(soap.write())
    if multi_queue is not None:
        user_flags |= USER_MQ
        middle.append(multi_queue.write())
    if base_flags & BASE_TR and debug is None:
        raise EncodeError("Flags.TR asks for a DebugHeader")
    user.flags = user_flags
    user.check_writable()
    packet = user.write() + b"".join(middle)
    base.flags = base_flags | BASE_SH if session is not None else base_flags
    base.packet_size = BaseHeader.SIZE + len(packet)
    if base.packet_size > MAX_PACKET_SIZE:
        raise EncodeError(
            f"the packet would take {base.packet_size} bytes, above the limit of {MAX_PACKET_SIZE}"
        )
    if session is not None:
        packet += session.write()
    return base.encode() + packet


def _set_lengths(
    properties: MessagePropertiesHeader, label: str, text: bytes, extension: bytes, body: bytes
) -> None:
    """Set the lengths; a larger AllocationBodySize set by the caller is kept."""
    if len(text) > 2 * MAX_LABEL_LENGTH:
        raise LabelTooLongError
    if "\0" in label:
        raise EncodeError("a label holds no null")
    if properties.message_class & ~APPLICATION_CLASS_MASK:
        raise EncodeError(f"the message class {properties.message_class:#06x} uses bits outside 0xe1ff")
    properties.label_length = len(text) // 2
    properties.extension_size = len(extension)
    properties.message_size = len(body)
    if properties.allocation_body_size < len(body):
        properties.allocation_body_size = len(body)

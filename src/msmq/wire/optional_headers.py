"""The optional headers of a UserMessage (MS-MQMQ 2.2.20.4 to 2.2.20.8), in wire order."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from msmq.errors import DecodeError, EncodeError
from msmq.wire.declare import Bits, Wire, bytes_of, padded, rounded_up, text_of, u16, u32, u64, wire

DEFAULT_WINDOW_SIZE: Final = 0x0040


@wire(
    "MS-MQMQ 2.2.20.5",
    size=20,
    names={"tx_sequence_id": "TxSequenceID", "connector_qm_guid": "ConnectorQMGuid"},
)
class TransactionHeader(Wire):
    """Makes a message transactional and gives its place in the sequence.

    ``tx_sequence_id`` is the 64-bit number by which sequences are compared; see
    :class:`msmq.wire.identifiers.TxSequenceID`.
    """

    flags: u32 = 0
    tx_sequence_id: u64 = 0
    tx_sequence_number: u32 = 1
    previous_tx_sequence_number: u32 = 0
    connector_qm_guid: bytes | None = None

    has_connector_qm_guid = Bits("flags", 0, 1, "CG")
    final_ack_required = Bits("flags", 1, 1, "FA")
    first_message = Bits("flags", 2, 1, "FM")
    last_message = Bits("flags", 3, 1, "LM")
    transaction_id = Bits("flags", 4, 20, "ID")

    @classmethod
    def read(cls, data: bytes, offset: int = 0, limit: int | None = None) -> tuple[Self, int]:
        if limit is None:
            limit = len(data)
        header = cls.decode(data, offset)
        end = offset + cls.SIZE
        if header.flags & 1:
            header.connector_qm_guid = data[end : end + 16]
            end += 16
        if end > limit:
            raise DecodeError("the packet ends inside the TransactionHeader", limit)
        if header.tx_sequence_number == 0:
            where = cls.at("tx_sequence_number", offset)
            raise DecodeError("TxSequenceNumber is zero; sequences count from one", where)
        if header.previous_tx_sequence_number == 0xFFFFFFFF:
            where = cls.at("previous_tx_sequence_number", offset)
            raise DecodeError("PreviousTxSequenceNumber leaves no room for this message", where)
        return header, end

    def write(self) -> bytes:
        tail = self.connector_qm_guid
        if bool(self.flags & 1) != (tail is not None) or len(tail or bytes(16)) != 16:
            raise EncodeError("Flags.CG is set exactly when a ConnectorQMGuid of 16 bytes is given")
        if not self.tx_sequence_number or self.previous_tx_sequence_number == 0xFFFFFFFF:
            raise EncodeError("TxSequenceNumber counts from 1 and its predecessor stays below 0xFFFFFFFF")
        return self.encode() + (tail or b"")


class SenderIdType:
    """The values of SecurityHeader.Flags.ST: what SecurityID holds."""

    NONE: Final = 0
    SID: Final = 1
    QUEUE_MANAGER: Final = 2


_EB: Final = 0x0020
_CLAIMS: Final = 0x0F10  # AU and AS


class ProviderInfo(NamedTuple):
    """The cryptographic provider of a signature that was not made by the default one (2.2.20.6)."""

    provider_type: int
    provider_name: str

    @classmethod
    def decode(cls, data: bytes) -> ProviderInfo:
        if len(data) < 6 or len(data) & 1:
            raise DecodeError(f"ProviderInfo cannot be {len(data)} bytes long")
        text = text_of(data[4:])
        name, end, _ = text.partition("\0")
        if not end:
            raise DecodeError("the provider name is not terminated")
        return cls(int.from_bytes(data[:4], "little"), name)

    def encode(self) -> bytes:
        if not 0 <= self.provider_type <= 0xFFFFFFFF:
            raise EncodeError(f"ProviderType takes 32 bits; {self.provider_type} does not fit")
        return struct.pack("<I", self.provider_type) + bytes_of(self.provider_name + "\0")


@wire("MS-MQMQ 2.2.20.6", size=16)
class SecurityHeader(Wire):
    """Sender, key, signature and certificate. The five sizes, not Flags.AI, tell which items are present.

    AU and AS of a received packet are claims of the sender and are never trusted.
    """

    flags: u16 = 0
    sender_id_size: u16 = 0
    encryption_key_size: u16 = 0
    signature_size: u16 = 0
    sender_cert_size: u32 = 0
    provider_info_size: u32 = 0
    security_id: bytes = b""
    encryption_key: bytes = b""
    signature: bytes = b""
    sender_cert: bytes = b""
    provider_info: bytes = b""

    sender_id_type = Bits("flags", 0, 4, "ST")
    authenticated = Bits("flags", 4, 1, "AU")
    body_encrypted = Bits("flags", 5, 1, "EB")
    default_provider = Bits("flags", 6, 1, "DE")
    has_security_data = Bits("flags", 7, 1, "AI")
    authentication_signature_type = Bits("flags", 8, 4, "AS")

    @classmethod
    def read(cls, data: bytes, offset: int = 0, limit: int | None = None) -> tuple[Self, int]:
        if limit is None:
            limit = len(data)
        header = cls.decode(data, offset)
        cursor = start = offset + cls.SIZE
        size = header.sender_id_size
        if size:
            header.security_id = data[cursor : cursor + size]
            cursor += size + 3 & ~3
        if (
            header.encryption_key_size
            or header.signature_size
            or header.sender_cert_size
            or header.provider_info_size
        ):
            cursor = header._read_credentials(data, cursor)
        if cursor > limit:
            raise DecodeError("SecurityData does not fit the packet", offset)
        if cursor == start:
            raise DecodeError("a SecurityHeader with nothing in it", offset)
        if not _sender_fits(header.flags, header.security_id):
            raise DecodeError(
                f"a sender id of {size} bytes does not fit Flags.ST {header.sender_id_type}", offset
            )
        if header.sender_cert_size > 0xFFFF:
            where = cls.at("sender_cert_size", offset)
            raise DecodeError(f"SenderCertSize {header.sender_cert_size} is above 0xFFFF", where)
        if header.provider_info_size:
            ProviderInfo.decode(header.provider_info)
        return header, cursor

    def _read_credentials(self, data: bytes, cursor: int) -> int:
        """Read the items of signed or encrypted messages. A slice ends with the data, so the sizes need no check
        before."""
        self.encryption_key = data[cursor : cursor + self.encryption_key_size]
        cursor += self.encryption_key_size + 3 & ~3
        self.signature = data[cursor : cursor + self.signature_size]
        cursor += self.signature_size + 3 & ~3
        self.sender_cert = data[cursor : cursor + self.sender_cert_size]
        cursor += self.sender_cert_size + 3 & ~3
        self.provider_info = data[cursor : cursor + self.provider_info_size]
        return cursor + (self.provider_info_size + 3 & ~3)

    def write(self) -> bytes:
        """Encode the header; its five sizes are set from the items."""
        sender = self.security_id
        self.sender_id_size = len(sender)
        if self.flags & _CLAIMS:
            raise EncodeError(
                "Flags.AU and AS are for the receiver to set once it has verified the signature"
            )
        if not _sender_fits(self.flags, sender):
            raise EncodeError(
                f"a sender id of {len(sender)} bytes does not fit Flags.ST {self.sender_id_type}"
            )
        if self.encryption_key or self.signature or self.sender_cert or self.provider_info:
            credentials = self._write_credentials()
        elif sender:
            self.encryption_key_size = self.signature_size = self.sender_cert_size = (
                self.provider_info_size
            ) = 0
            credentials = b""
        else:
            raise EncodeError("a SecurityHeader needs at least one item")
        return self.encode() + sender + bytes(-len(sender) % 4) + credentials

    def _write_credentials(self) -> bytes:
        """Encode the items of signed or encrypted messages; most messages have only a sender."""
        self.encryption_key_size = len(self.encryption_key)
        self.signature_size = len(self.signature)
        self.sender_cert_size = len(self.sender_cert)
        self.provider_info_size = len(self.provider_info)
        if self.encryption_key and not self.flags & _EB:
            raise EncodeError("an encryption key is given but Flags.EB says that the body is clear")
        if self.sender_cert_size > 0xFFFF:
            raise EncodeError(f"a sender certificate of {self.sender_cert_size} bytes is above 0xFFFF")
        items = (self.encryption_key, self.signature, self.sender_cert, self.provider_info)
        return b"".join(map(padded, items))


def _sender_fits(flags: int, sender: bytes) -> bool:
    """True if the sender has the form that Flags.ST states.

    Revision and size of a SID (MS-DTYP 2.4.2.2) are checked here, before anybody relies on its sub-authority count.
    """
    kind = flags & 0xF
    size = len(sender)
    if kind == SenderIdType.SID:
        return size >= 8 and sender[0] == 1 and sender[1] <= 15 and size == 8 + 4 * sender[1]
    return size == (16 if kind == SenderIdType.QUEUE_MANAGER else 0) and kind <= SenderIdType.QUEUE_MANAGER


@wire("MS-MQMQ 2.2.20.8", size=4)
class DebugHeader(Wire):
    """Names the queue that collects the trace reports of this message."""

    flags: u16 = 0
    reserved: u16 = 0
    queue_identifier: bytes | None = None

    queue_type = Bits("flags", 0, 2, "QT")

    @classmethod
    def read(cls, data: bytes, offset: int = 0, limit: int | None = None) -> tuple[Self, int]:
        if limit is None:
            limit = len(data)
        header = cls.decode(data, offset)
        end = offset + cls.SIZE
        if header.queue_type > 1:
            raise DecodeError(f"Flags.QT {header.queue_type} is not defined", offset)
        if header.queue_type:
            header.queue_identifier = data[end : end + 16]
            end += 16
        if end > limit:
            raise DecodeError("the packet ends inside the DebugHeader", limit)
        return header, end

    def write(self) -> bytes:
        tail = self.queue_identifier
        if self.queue_type != int(tail is not None) or len(tail or bytes(16)) != 16:
            raise EncodeError("Flags.QT is 1 exactly when a QueueIdentifier of 16 bytes is given")
        return self.encode() + (tail or b"")


_SECTION = struct.Struct("<HHI")


def read_text_section(data: bytes, offset: int, limit: int, what: str) -> tuple[int, int, str, int]:
    """Read a section of id, reserved word, length in WCHARs and terminated text, as in Soap and SRMP headers.

    Returns id, reserved word, text and the end rounded up to four. A section of length zero has no text.
    """
    if limit - offset < 8:
        raise DecodeError(f"the packet ends inside {what}", offset)
    identifier, reserved, length = _SECTION.unpack_from(data, offset)
    start = offset + 8
    end = start + 2 * length
    if rounded_up(end) > limit:
        raise DecodeError(f"{what} of {length} characters does not fit the packet", offset + 4)
    if length and (data[end - 2] or data[end - 1]):
        raise DecodeError(f"{what} is not terminated", end - 2)
    text = text_of(data[start : max(end - 2, start)])
    return identifier, reserved, text, rounded_up(end)


def write_text_section(identifier: int, reserved: int, text: str) -> bytes:
    encoded = bytes_of(text + "\0")
    try:
        head = _SECTION.pack(identifier, reserved, len(encoded) // 2)
    except struct.error:
        raise EncodeError(
            f"a section id or reserved word does not fit 16 bits: {identifier}, {reserved}"
        ) from None
    return padded(head + encoded)


SOAP_HEADER_SECTION: Final = 0x0320
SOAP_BODY_SECTION: Final = 0x0384


@dataclass(slots=True)
class SoapHeader:
    """Two application texts (MS-MQMQ 2.2.20.7), each in a section of its own.

    The body section begins at the next multiple of four, like all headers; the specification does not say so.
    """

    header: str = ""
    body: str = ""
    reserved: int = 0
    reserved1: int = 0

    @classmethod
    def read(cls, data: bytes, offset: int = 0, limit: int | None = None) -> tuple[Self, int]:
        if limit is None:
            limit = len(data)
        section, reserved, header, cursor = read_text_section(data, offset, limit, "the SoapHeader's header")
        if section != SOAP_HEADER_SECTION:
            raise DecodeError(f"HeaderSectionID is {section:#06x}, not 0x0320", offset)
        section, reserved1, body, end = read_text_section(data, cursor, limit, "the SoapHeader's body")
        if section != SOAP_BODY_SECTION:
            raise DecodeError(f"BodySectionID is {section:#06x}, not 0x0384", cursor)
        return cls(header, body, reserved, reserved1), end

    def write(self) -> bytes:
        return write_text_section(SOAP_HEADER_SECTION, self.reserved, self.header) + write_text_section(
            SOAP_BODY_SECTION, self.reserved1, self.body
        )


@wire("MS-MQMQ 2.2.20.4", size=16)
class SessionHeader(Wire):
    """Counts and acknowledges packets of one session; alone in a SessionAck or at the end of a UserMessage."""

    ack_sequence_number: u16 = 0
    recoverable_msg_ack_seq_number: u16 = 0
    recoverable_msg_ack_flags: u32 = 0
    user_msg_sequence_number: u16 = 0
    recoverable_msg_seq_number: u16 = 0
    window_size: u16 = DEFAULT_WINDOW_SIZE
    reserved: u16 = 0

    @classmethod
    def read(cls, data: bytes, offset: int = 0, limit: int | None = None) -> tuple[Self, int]:
        if limit is not None and limit - offset < cls.SIZE:
            raise DecodeError("the packet ends inside the SessionHeader", offset)
        header = cls.decode(data, offset)
        if not header.window_size:
            raise DecodeError("WindowSize is zero", cls.at("window_size", offset))
        return header, offset + cls.SIZE

    def write(self) -> bytes:
        if not self.window_size:
            raise EncodeError("WindowSize is at least 1: a closed window would never open again")
        return self.encode()

    @property
    def acknowledged_recoverables(self) -> list[int]:
        """The recoverable sequence numbers that this header confirms to be on disk, wrapped to 16 bits."""
        base, flags = self.recoverable_msg_ack_seq_number, self.recoverable_msg_ack_flags
        return [(base + bit) & 0xFFFF for bit in range(32) if flags >> bit & 1]

"""Encode and decode QUEUE_FORMAT for RPC (MS-MQMQ 2.2.7 to 2.2.10, IDL in 5).

The union repeats m_qft as its discriminant; its arm is aligned like a pointer, the widest value that an arm begins
with. Decoding refuses undefined numbers; ``QueueFormat.to_name`` checks that suffix, flags and type agree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msmq.errors import DecodeError, EncodeError
from msmq.wire.ndr import NdrReader, NdrWriter
from msmq.wire.queue_format import ARM_CLASSES, Arm, DLId, MulticastId, ObjectId, QueueFormat, QueueFormatType

_GUIDS = (QueueFormatType.PUBLIC, QueueFormatType.MACHINE, QueueFormatType.CONNECTOR)


def encode_queue_format(value: QueueFormat, ndr64: bool = False) -> bytes:
    """Encode one QUEUE_FORMAT as a stream of its own."""
    writer = NdrWriter(ndr64)
    write_queue_format(writer, value)
    writer.resolve()
    return writer.getvalue()


def decode_queue_format(data: bytes | bytearray | memoryview, ndr64: bool = False) -> QueueFormat:
    """Decode a QUEUE_FORMAT that takes up all of ``data``."""
    reader = NdrReader(data, ndr64)
    value = read_queue_format(reader)
    reader.resolve()
    reader.end()
    return value()


def write_queue_format(writer: NdrWriter, value: QueueFormat) -> None:
    """Write a QUEUE_FORMAT; its pointees follow with the writer's ``resolve``."""
    if type(value.arm) is not ARM_CLASSES[value.type]:
        raise EncodeError(f"a {value.type.name} queue format cannot hold this {type(value.arm).__name__}")
    writer.align(writer.pointer_size)
    writer.u8(value.type)
    writer.u8(value.suffix_and_flags)
    writer.u16(value.reserved)
    # a union is aligned like its widest arm, including its discriminant (MS-RPCE 2.2.5.3.4.4)
    if writer.ndr64:
        writer.align(writer.pointer_size)
    writer.u8(value.type)
    if value.arm is not None:
        writer.align(writer.pointer_size)
    match value.arm:
        case bytes(guid):
            writer.guid(guid)
        case str(name):
            writer.pointer(partial(writer.wide_string, name))
        case ObjectId(lineage, uniquifier):
            writer.guid(lineage)
            writer.u32(uniquifier)
        case DLId(guid, domain):
            writer.guid(guid)
            writer.pointer(None if domain is None else partial(writer.wide_string, domain))
        case MulticastId(address, port):
            writer.u32(address)
            writer.u32(port)
    writer.end_structure(writer.pointer_size)


def read_queue_format(reader: NdrReader) -> Callable[[], QueueFormat]:
    """Read a QUEUE_FORMAT; the thunk returns it once the reader's ``resolve`` was called."""
    reader.align(reader.pointer_size)
    qft, suffix_and_flags, reserved = reader.u8(), reader.u8(), reader.u16()
    if reader.ndr64:
        reader.align(reader.pointer_size)
    discriminant = reader.u8()
    if qft != discriminant:
        raise DecodeError(f"m_qft {qft} but union discriminant {discriminant}", reader.offset)
    try:
        kind = QueueFormatType(qft)
    except ValueError:
        raise DecodeError(f"m_qft {qft} is no QUEUE_FORMAT_TYPE", reader.offset) from None
    if kind is not QueueFormatType.UNKNOWN:
        reader.align(reader.pointer_size)
    arm = _read_arm(reader, kind)
    reader.end_structure(reader.pointer_size)
    return lambda: QueueFormat.from_members(qft, suffix_and_flags, arm(), reserved)


def _read_arm(reader: NdrReader, kind: QueueFormatType) -> Callable[[], Arm]:
    if kind is QueueFormatType.UNKNOWN:
        return lambda: None
    if kind in _GUIDS:
        guid = reader.guid()
        return lambda: guid
    if kind is QueueFormatType.PRIVATE:
        object_id = ObjectId(reader.guid(), reader.u32())
        return lambda: object_id
    if kind is QueueFormatType.DL:
        dl_guid, domain = reader.guid(), reader.pointer(reader.wide_string)
        return lambda: DLId(dl_guid, domain())
    if kind is QueueFormatType.MULTICAST:
        multicast_id = MulticastId(reader.u32(), reader.u32())
        return lambda: multicast_id
    return reader.ref_pointer(reader.wide_string)

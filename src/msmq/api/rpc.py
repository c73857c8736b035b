"""The methods of ``msmq.proto``, read from its descriptor, for servers and clients.

A method's handler is the attribute of the same name in snake case. So only the messages have to be generated, and a
method without a handler is noticed when the server is made, not when it is called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, cast

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from msmq.api.fields import apart, fields_in, lead
from msmq.api.generated import msmq_pb2
from msmq.api.packet_columns import PacketColumns

SERVICES: Final = ("Messages", "Administration")
MAX_MESSAGE_BYTES: Final = 64 << 20
"""gRPC's usual limit is four megabytes, which one message can reach; a batch may be larger."""

CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
)


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the channel."""

    service: str
    name: str
    attribute: str
    client_streaming: bool
    server_streaming: bool
    serialize_request: Callable[[Any], bytes]
    deserialize_request: Callable[[bytes], Any]
    serialize_reply: Callable[[Any], bytes]
    deserialize_reply: Callable[[bytes], Any]

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"

    @property
    def kind(self) -> str:
        """``unary_unary`` and so on, as gRPC names its functions."""
        return "_".join(
            "stream" if side else "unary" for side in (self.client_streaming, self.server_streaming)
        )


def _written(serialize: Callable[[Any], bytes], message: Any) -> bytes:
    """Serialize a message; one that is serialized already, in parts, is joined."""
    return b"".join(message) if message.__class__ is list else serialize(message)


class Sent(NamedTuple):
    """A request of SendStream. Large bodies are not in its columns but beside them, as they came."""

    request: msmq_pb2.SendStreamRequest
    bodies: list[memoryview]


def _sent(data: bytes) -> Sent:
    batch, columns = msmq_pb2.SendStreamRequest.BATCH_FIELD_NUMBER, msmq_pb2.SendBatch.COLUMNS_FIELD_NUMBER
    rest, bodies = apart(data, batch, columns, msmq_pb2.Columns.BODIES_FIELD_NUMBER)
    return Sent(msmq_pb2.SendStreamRequest.FromString(rest), bodies)


def _replies(reply: Any) -> Callable[[bytes], Any]:
    """Make the function that reads replies of a kind. Those with packets are read as :class:`PacketColumns`."""
    packets = reply.DESCRIPTOR.fields_by_name.get("packets")
    if packets is None or packets.message_type is not msmq_pb2.Packets.DESCRIPTOR:
        return cast(Callable[[bytes], Any], reply.FromString)
    number = packets.number

    def read(data: bytes) -> Any:
        if not data.startswith(lead(number, 0)[:1]):
            return reply.FromString(data)
        ((_, value),) = fields_in(memoryview(data))
        return PacketColumns.read(value)

    return read


def _method(descriptor: MethodDescriptor) -> Method:
    request, reply = GetMessageClass(descriptor.input_type), GetMessageClass(descriptor.output_type)
    return Method(
        descriptor.containing_service.full_name,
        descriptor.name,
        re.sub(r"(?<!^)([A-Z])", r"_\1", descriptor.name).lower(),
        descriptor.client_streaming,
        descriptor.server_streaming,
        partial(_written, request.SerializeToString),
        _sent if request is msmq_pb2.SendStreamRequest else request.FromString,
        partial(_written, reply.SerializeToString),
        _replies(reply),
    )


def methods() -> Iterator[Method]:
    """All methods of the channel."""
    for service in SERVICES:
        for descriptor in msmq_pb2.DESCRIPTOR.services_by_name[service].methods:
            yield _method(descriptor)


def service_names() -> list[str]:
    return [msmq_pb2.DESCRIPTOR.services_by_name[service].full_name for service in SERVICES]

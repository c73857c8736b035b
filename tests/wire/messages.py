"""Whole messages for tests of packets, trailers and sections, made with the builders."""

from __future__ import annotations

from typing import Any

from msmq.wire.headers import BaseHeader, MessagePropertiesHeader, QueueName
from msmq.wire.message import UserMessage
from msmq.wire.srmp import CompoundMessageHeader, SRMPEnvelopeHeader
from tests.wire import builders

ENVELOPE = "<se:Envelope/>"
POST = b"POST /msmq/private$/orders HTTP/1.1\r\nContent-Length: 8\r\n\r\norder 66"


def message(
    destination: QueueName = "OS:host\\private$\\orders",
    *,
    time_to_reach_queue_s: int = 60,
    label: str = "An order",
    extension: bytes = b"ext",
    body: bytes = b"order 66",
    **headers: Any,
) -> UserMessage:
    """A recoverable message; ``headers`` are the optional ones that ``UserMessage.build`` takes."""
    return UserMessage.build(
        base=BaseHeader(time_to_reach_queue_s=time_to_reach_queue_s),
        user=builders.user_header(destination, recoverable=True),
        properties=MessagePropertiesHeader(correlation_id=builders.OTHER + b"\x01\0\0\0", body_type=8),
        label=label,
        extension=extension,
        body=body,
        **headers,
    )


def srmp_headers() -> dict[str, Any]:
    """The two headers of a message that came over HTTP; the last eight bytes of the request are its body."""
    return {
        "envelope": SRMPEnvelopeHeader(ENVELOPE, 0x0190),
        "compound": CompoundMessageHeader(0x01F4, msg_body_size=8, msg_body_offset=len(POST) - 8, data=POST),
    }

"""Explain in one sentence what a packet does in its session, for people who read it decoded.

Requests and responses have the same form: the caller knows from the direction which one a packet is, and gives its
``role``.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msmq.wire.bodies.text import read_text
from msmq.wire.classes import MessageClass
from msmq.wire.delivery import format_name
from msmq.wire.describe import Description, is_encrypted
from msmq.wire.message import UserMessage
from msmq.wire.packets import (
    ConnectionParameters,
    EstablishConnection,
    OrderAckBody,
    Ping,
    SessionAck,
    order_ack_body,
)


class Role(Enum):
    """Whether a packet is a request, a response, or cannot be told."""

    REQUEST = "request"
    RESPONSE = "response"
    UNKNOWN = ""


FATES: Final = {
    MessageClass.ACK_REACH_QUEUE: "reached its queue",
    MessageClass.ACK_RECEIVE: "was read by its receiver",
    MessageClass.NACK_BAD_DST_Q: "found no such queue",
    MessageClass.NACK_DELETED: "was deleted on its way",
    MessageClass.NACK_REACH_QUEUE_TIMEOUT: "did not reach its queue in time",
    MessageClass.NACK_Q_EXCEED_QUOTA: "found its queue full",
    MessageClass.NACK_ACCESS_DENIED: "was refused: its sender may not write to the queue",
    MessageClass.NACK_HOP_COUNT_EXCEEDED: "passed too many routing servers",
    MessageClass.NACK_BAD_SIGNATURE: "was refused for its signature",
    MessageClass.NACK_BAD_ENCRYPTION: "could not be decrypted",
    MessageClass.NACK_NOT_TRANSACTIONAL_Q: "was transactional but its queue is not",
    MessageClass.NACK_NOT_TRANSACTIONAL_MSG: "was not transactional but its queue is",
    MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER: "uses a cryptographic provider its receiver lacks",
    MessageClass.NACK_Q_DELETED: "was lost when its queue was deleted",
    MessageClass.NACK_Q_PURGED: "was lost when its queue was purged",
    MessageClass.NACK_RECEIVE_TIMEOUT: "was not read in time",
    MessageClass.NACK_RECEIVE_REJECTED: "was rejected by its receiver",
}
"""What happened to the message that an acknowledgment of this class answers."""


def explain(description: Description, role: Role = Role.UNKNOWN) -> str:
    """Say in one sentence what a packet does."""
    packet = description.decoded
    if isinstance(packet, Ping):
        return _ping(packet, role)
    if isinstance(packet, EstablishConnection):
        return _establish(packet, role)
    if isinstance(packet, ConnectionParameters):
        return _parameters(packet, role)
    if isinstance(packet, SessionAck):
        return _session_ack(packet)
    if description.packet == "UserMessage":
        return _message(packet)
    return _order_ack(packet)


def _ping(ping: Ping, role: Role) -> str:
    if role is Role.REQUEST:
        return "Asks by UDP whether a queue manager is there and would take a session."
    if ping.refused:
        return "Answers the ping: a queue manager is here, but it takes no session from this caller now."
    if role is Role.RESPONSE:
        return "Answers the ping: a queue manager is here and would take a session."
    return "Asks, or answers, whether a queue manager is there and would take a session."


def _establish(packet: EstablishConnection, role: Role) -> str:
    if packet.internal.connection_refused:
        return "Refuses the session; the initiator closes the connection."
    if role is Role.RESPONSE:
        return "Accepts the session and sends the initiator's own words back."
    known = any(packet.header.server_guid)
    whom = "names the queue manager it wants" if known else "takes whichever queue manager is at this address"
    if role is Role.REQUEST:
        return f"Opens a session: the initiator says who it is and {whom}."
    return "Opens a session, or accepts one: it names the two queue managers."


def _parameters(packet: ConnectionParameters, role: Role) -> str:
    if packet.internal.connection_refused:
        return "Refuses the session; the connection is closed."
    header = packet.header
    terms = (
        f"confirm within {header.ack_timeout_ms / 1000:g} s or the session ends, "
        f"at most {header.window_size} unconfirmed packets"
    )
    if role is Role.RESPONSE:
        return f"Answers with its own terms ({terms}); from here on messages may flow."
    return f"Proposes the terms of the session: {terms}."


def _session_ack(packet: SessionAck) -> str:
    count = packet.session.ack_sequence_number
    arrived = f"{count} message{'s have' if count != 1 else ' has'} arrived over this session"
    stored = packet.session.acknowledged_recoverables
    if stored:
        numbers = ", ".join(map(str, stored))
        return f"Confirms that {arrived}; safe on disk: recoverable {numbers}."
    return f"Confirms that {arrived}, so the sender may forget {'it' if count == 1 else 'them'}."


def _message(message: UserMessage) -> str:
    number = message.properties.message_class
    fate = FATES.get(number)  # type: ignore[call-overload]  # an int finds its IntEnum
    target = format_name(message.user, message.user.destination_reference, message.user.destination_queue)
    where = target or "a queue it does not name"
    if fate is not None:
        return f"Tells {where} that an earlier message {fate}."
    if number == MessageClass.REPORT:
        return f"Reports to {where} on the way of a traced message."
    label = f" “{message.label}”" if message.label else ""
    return f"Carries {_manner(message)} message{label} to {where}: {_content(message)}."


def _manner(message: UserMessage) -> str:
    if message.transactional:
        return "a transactional"
    return "a recoverable" if message.recoverable else "an express"


def _content(message: UserMessage) -> str:
    size = message.properties.message_size
    if not size:
        return "no body"
    if is_encrypted(message):
        return f"{size:,} encrypted bytes"
    found = read_text(message.properties.body_type, message.body)
    return f"{size:,} bytes" if found is None else f"{len(found.text):,} characters of {found.kind}"


def _order_ack(message: UserMessage) -> str:
    body = order_ack_body(message)
    if isinstance(body, OrderAckBody):
        number = body.tx_sequence_number
        return f"Tells the sender that everything up to number {number} of its sequence arrived in order."
    code = message.properties.message_class
    fate = FATES.get(code)  # type: ignore[call-overload]  # an int finds its IntEnum
    return (
        f"Tells the sender that transactional message {body.message_id} (number {body.tx_sequence_number} "
        f"of its sequence) {fate or f'ended with class {code:#06x}'}."
    )

"""Report messages (MS-MQQB 3.1.5.8.9, 3.1.7.1.7): tracing the route of messages that ask for it.

Each queue manager that sends or takes such a message tells the public queue it names. That is off by default, because
the sender of a message decides where the report goes.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from msmq.errors import MsmqError
from msmq.manager.messages.message import Message
from msmq.manager.model import QueueAccessType
from msmq.manager.queue_manager import QueueManager
from msmq.manager.queues.outgoing_queues import Purpose
from msmq.wire.classes import MessageClass
from msmq.wire.delivery import format_name
from msmq.wire.guid import NULL_GUID, guid_text
from msmq.wire.headers import BASE_TR, BaseHeader
from msmq.wire.layout import reader
from msmq.wire.message import UserMessage

_base_flags: Final = reader((BaseHeader, {"flags"}))

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Tracing:
    """Sends reports."""

    def __init__(self, manager: QueueManager) -> None:
        self._manager = manager

    def received(self, packet: UserMessage) -> None:
        """Report that a message was taken, for a queue of this host or to be forwarded."""
        if packet.base.flags & BASE_TR:
            self._report(packet, _body(packet))

    def sent(self, data: bytes, address: str) -> None:
        """Report that a message was sent to a host."""
        if _base_flags(data)[0] & BASE_TR:
            packet = UserMessage.route(data)
            hops = (
                f"<NEXT HOP>{address}</NEXT HOP>\r\n<HOP COUNT>{packet.user.hop_count:02X} </HOP COUNT>\r\n"
            )
            self._report(packet, _body(packet) + hops)

    def _report(self, packet: UserMessage, body: str) -> None:
        debug = packet.debug
        if debug is None or debug.queue_identifier in (None, NULL_GUID):
            return
        name = f"PUBLIC={guid_text(debug.queue_identifier or NULL_GUID)}"
        report = Message(
            body=body.encode("utf-16-le"),
            label=label(packet, self._manager.core.now_s),
            message_class=MessageClass.REPORT,
        )
        with suppress(MsmqError):  # without a queue, a route or room the report is dropped
            queues = self._manager.queues
            descriptor = queues.open(name, QueueAccessType.SEND, purpose=Purpose.COURTESY)
            try:
                self._manager.posting.send(descriptor, report)
            finally:
                queues.close(descriptor)


def label(packet: UserMessage, now_s: int) -> str:
    """The label of a report: the sender and number of the message, and the time. The specification has the same words
    for sending."""
    user = packet.user
    source = guid_text(user.source_queue_manager)
    number = f"{source[:4]}:{user.message_id:08X}:{user.hop_count:02X}"
    return f"{number} received by {source} at {_time_date(now_s)}"


def _time_date(now_s: int) -> str:
    """A time in UTC, and in English on every host."""
    now = datetime.fromtimestamp(now_s, UTC)
    half = "AM" if now.hour < 12 else "PM"
    day, month = _DAYS[now.weekday()], _MONTHS[now.month - 1]
    return f"{(now.hour + 11) % 12 + 1:02}:{now:%M:%S} {half} {day},{month} {now:%d %y}"


def _body(packet: UserMessage) -> str:
    user = packet.user
    queue = format_name(user, user.destination_reference, user.destination_queue) or ""
    number = f"<MESSAGE ID>{user.message_id:08X}</MESSAGE ID>\r\n"
    return f"{number}<TARGET QUEUE>{queue}</TARGET QUEUE>\r\n"

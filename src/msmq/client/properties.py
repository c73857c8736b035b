"""Names of properties and settings, declared for type checkers; and the error for an unknown name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import TypedDict

from msmq.client.message import Acknowledge, Delivery, Privacy
from msmq.wire.bodies import Formatter


class MessageProperties(TypedDict, total=False):
    """The properties a body may be sent with: the fields of :class:`~msmq.client.message.Message`."""

    label: str
    body_type: int | None
    delivery: Delivery
    priority: int | None
    correlation_id: bytes
    response_queue: str
    admin_queue: str
    acknowledgements: Acknowledge
    time_to_reach_queue: timedelta | float | None
    time_to_be_received: timedelta | float | None
    journal: bool
    dead_letter: bool
    dead_letter_queue: str
    extension: bytes
    application_tag: int
    message_class: int
    trace: bool
    authenticate: bool
    privacy: Privacy
    peekable_when_locked: bool
    sender_certificate: bytes
    connector_type: bytes
    formatter: Formatter | str


class QueueSettings(TypedDict, total=False):
    """The settings of a queue, given when it is created or changed later."""

    label: str
    type: str
    journaling: bool
    quota_kb: int
    journal_quota_kb: int
    authenticated_only: bool
    privacy_level: int
    base_priority: int
    multicast_address: str
    retry_delay_ms: int
    max_deliveries: int
    poison_subqueue: str


def check_names(given: Mapping[str, object], known: Collection[str]) -> None:
    """Raise a TypeError for the first unknown name; it suggests the known one that was probably meant."""
    for name in given:
        if name not in known:
            meant = get_close_matches(name, known, 1)
            hint = f"did you mean {meant[0]!r}?" if meant else f"there are {', '.join(known)}."
            raise TypeError(f"There is no property {name!r}; {hint}")

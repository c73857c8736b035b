"""Messages of every kind for tests that count them: each begins with a body that is given, or with its number, and
everything else is drawn from :mod:`msmq.testing.traffic`.

None of them ends by itself, for whoever counts on it would wait in vain.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from random import Random
from typing import Any

from msmq.client.message import ReceivedMessage
from msmq.testing.traffic import Delivery, Door, Draft, Surroundings, Traffic

ENDINGS = tuple(product(("time_to_reach_queue_s", "time_to_be_received_s"), ("short", "zero")))
DIGITS = 6


class Mail:
    """Drafts of messages to a queue."""

    def __init__(
        self,
        door: Door,
        destination: str,
        seed: int = 0,
        *,
        everything: bool = True,
        listeners: tuple[str, ...] = (),
        largest_body: int = 5_000,
    ) -> None:
        world = Surroundings(
            bytes(range(16)),
            bytes(range(16)),
            listeners=listeners,
            unreachable="127.0.0.99",
            largest_body=largest_body,
        )
        self._traffic = Traffic(Random(seed), world, door, everything=everything, without=ENDINGS)
        self._destination = destination
        self._count = 0

    def numbered(
        self, transactional: bool = False, *, delivery: Delivery | None = None, more: bytes | None = None
    ) -> Draft:
        """The next message, whose body begins with its number; ``more`` takes the place of what is drawn behind it."""
        drawn = self.draft(b"", transactional, delivery=delivery)
        number, self._count = self._count, self._count + 1
        return drawn.changed(body=b"%0*d" % (DIGITS, number) + (self._body() if more is None else more))

    def draft(
        self, body: bytes, transactional: bool = False, *, delivery: Delivery | None = None, **given: Any
    ) -> Draft:
        """A message with a body. Without transactions it is express or recoverable, by chance if nothing is said."""
        chance = self._traffic.rng.choice((Delivery.EXPRESS, Delivery.RECOVERABLE))
        kind = Delivery.TRANSACTIONAL if transactional else delivery or chance
        return self._traffic.draft(destination=self._destination, body=body, delivery=kind, **given)

    def _body(self) -> bytes:
        return self._traffic.draft(destination=self._destination).body


def rank(draft: Draft) -> int:
    """What stands before what in a queue: by priority, where there is any."""
    return 0 if draft.transactional else -draft.priority


def in_order(drafts: Iterable[Draft]) -> list[Draft]:
    """As they stand in their queue when they came in this order."""
    return sorted(drafts, key=rank)


def number_of(message: ReceivedMessage) -> int:
    return int(message.body[:DIGITS])


def check_properties(draft: Draft, message: ReceivedMessage) -> None:
    """A message says what its draft does."""
    for name in (
        "body",
        "body_type",
        "label",
        "extension",
        "application_tag",
        "correlation_id",
        "message_class",
    ):
        assert getattr(message, name) == getattr(draft, name), name
    assert message.priority == (0 if draft.transactional else draft.priority)
    assert message.admin_queue == draft.admin_queue
    assert message.response_queue == draft.response_queue
    assert message.destination.casefold() == draft.destination.casefold()
    assert message.acknowledgements == draft.acknowledgements
    assert (message.journal, message.dead_letter) == (draft.journal, draft.dead_letter)
    assert message.delivery.name == draft.delivery.name
    assert message.connector_type == (draft.connector_type if any(draft.connector_type) else b"")

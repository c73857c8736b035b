"""Removing outgoing queues that no application asked for, when they have been empty for a while.

Whoever can reach this host can cause it to create outgoing queues, by naming administration queues of any host. So
their number is limited (:mod:`msmq.manager.queues.outgoing_queues`), and unused ones are removed here.
"""

from __future__ import annotations

import logging
from collections import Counter

from msmq.manager.queues.queues import Queues
from msmq.server.outbound.outgoing import Outgoing

_log = logging.getLogger(__name__)


class Incidental:
    """Removes unused incidental queues periodically."""

    def __init__(self, queues: Queues, outgoing: Outgoing, idle_s: int) -> None:
        self._queues = queues
        self._outgoing = outgoing
        self._idle_s = idle_s
        self._empty_since: dict[int, int] = {}
        self._reported = 0
        queues.outgoing.make_room = self.make_room

    def keep_house(self, now_s: int) -> None:
        """Remove queues that have been empty for long enough, and log if there were too many."""
        kept: dict[int, int] = {}
        for queue in self._queues.outgoing.incidental:
            if queue.active:
                continue
            since = self._empty_since.get(queue.number, now_s)
            if now_s - since < self._idle_s or not self._outgoing.discard(queue):
                kept[queue.number] = since
        self._empty_since = kept
        self._report()

    def make_room(self) -> None:
        """Remove all empty queues, because there are too many."""
        for queue in self._queues.outgoing.incidental:
            self._outgoing.discard(queue)

    def _report(self) -> None:
        refused = self._queues.outgoing.refused
        if refused != self._reported:
            incidental = self._queues.outgoing.incidental
            causes = Counter(queue.cause for queue in incidental).most_common(1)
            _log.warning(
                "%d acknowledgments or messages in transit found no outgoing queue: there are %d already that no "
                "application asked for, %d of them because of what %s sent (max_incidental_queues)",
                refused - self._reported,
                len(incidental),
                *((causes[0][1], causes[0][0] or "this host") if causes else (0, "nobody")),
            )
            self._reported = refused

"""Does the long work of the queue manager (:mod:`msmq.manager.chores`) while others are served.

The next slice begins when the records of the last one are durable, so that a purge never has more under way than the
disk takes, and after a turn of the loop, in which others are served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from msmq.errors import MQError
from msmq.manager.chores import Chores
from msmq.server.group_commit import GroupCommit

_log = logging.getLogger(__name__)


class LongWork:
    """Does slice after slice until nothing is left to do.

    ``failed`` is called with an internal error, after which the state of the queue manager cannot be trusted.
    """

    def __init__(self, chores: Chores, commit: GroupCommit, failed: Callable[[Exception], None]) -> None:
        self._chores = chores
        self._commit = commit
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._planned = False
        self._stopped = False
        chores.wake = self._plan
        if chores.pending:  # a queue deleted before the last stop still has messages
            self._plan()

    def stop(self) -> None:
        """Stop. Work that has to continue after the next start is in the ledger."""
        self._stopped = True

    def _plan(self) -> None:
        if not self._planned and not self._stopped:
            self._planned = True
            self._commit.when_durable(self._soon)

    def _soon(self) -> None:
        self._loop.call_soon(self._step)

    def _step(self) -> None:
        self._planned = False
        if self._stopped:
            return
        try:
            self._chores.step()
        except MQError as error:  # usually a full disk; the caller that waits for this work is told
            _log.error("Long work ended before its time: %s", error)
        except Exception as error:
            self.stop()
            self._failed(error)
            return
        if self._chores.pending:
            self._plan()
        else:
            self._commit.request()

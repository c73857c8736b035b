"""The starts of a queue manager, by which clients notice that its data were restored from a backup.

Lookup identifiers contain increasing numbers, and a queue manager records ahead which ones it may assign. When its
data are replaced by an older copy, it assigns some of them again to other messages: a client that remembers how far it
has read would skip these, or remove them by mistake. So every start has an *incarnation*, a random identifier, which
is recorded with the number above which its own numbers begin. A number known from an incarnation still means the same
message if this queue manager has had that incarnation and its next one began at or above the number. An older copy has
neither the incarnation nor such high numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msmq.manager.core import Core

KEY: Final = "lineage"
_MOST: Final = 1_000
"""How many starts are remembered. Numbers from earlier ones count as unknown."""


class Lineage:
    """The starts of one queue manager, the current one last."""

    def __init__(self, core: Core, recovered: Mapping[str, Any]) -> None:
        self._starts: dict[str, int] = {str(name): int(above) for name, above in recovered.get(KEY, ())}
        self.incarnation = core.environment.random_bytes(16).hex()
        self._starts[self.incarnation] = core.last_sequential_id
        for name in list(self._starts)[:-_MOST]:
            del self._starts[name]
        core.ledger.put_value(KEY, list(self._starts.items()))

    def holds(self, incarnation: str, number: int) -> bool:
        """Whether a number assigned in an incarnation, or before it, still means the same message."""
        names = list(self._starts)
        if incarnation not in self._starts:
            return False
        following = names[names.index(incarnation) + 1 :]
        return not following or number <= self._starts[following[0]]

"""The starts of a queue manager, by which a copy of its data that was put back is known.

Lookup identifiers have numbers that only rise, and a queue manager writes down ahead which it may give out. When its
data are replaced by an older copy it gives some of them again, to other messages: whoever remembers how far it has read
would step over these, or remove them in the belief that they are others. So every start has an *incarnation*, a random
identifier, and is written down with the number above which its own begin. A number that somebody knows from an
incarnation is still that of the same message if that incarnation is among those of this queue manager, and the next one
began above the number. A copy that was made before has neither the incarnation nor numbers so high.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msmq.manager.core import Core

KEY: Final = "lineage"
_MOST: Final = 1_000
"""Starts that are remembered. What is known from before them counts as unknown."""


class Lineage:
    """The starts of one queue manager, this one last."""

    def __init__(self, core: Core, recovered: Mapping[str, Any]) -> None:
        self._starts: dict[str, int] = {str(name): int(above) for name, above in recovered.get(KEY, ())}
        self.incarnation = core.environment.random_bytes(16).hex()
        self._starts[self.incarnation] = core.last_sequential_id
        for name in list(self._starts)[:-_MOST]:
            del self._starts[name]
        core.ledger.put_value(KEY, list(self._starts.items()))

    def holds(self, incarnation: str, number: int) -> bool:
        """Whether a number that was given out in some incarnation, or before it, still means the same message."""
        names = list(self._starts)
        if incarnation not in self._starts:
            return False
        following = names[names.index(incarnation) + 1 :]
        return not following or number <= self._starts[following[0]]

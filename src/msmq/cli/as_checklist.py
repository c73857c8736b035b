"""The verdicts of ``msmq decode --checklist``, as text or as JSON lines, with the packets that could not be decoded."""

from __future__ import annotations

import json
import sys

from msmq.capture.checklist import Checklist
from msmq.capture.cutter import Damage
from msmq.capture.inputs import Found
from msmq.cli.as_json import JsonWriter
from msmq.cli.as_text import TextWriter, safe
from msmq.wire.describe import Description
from msmq.wire.explain import Role

_SAID = {True: "yes", False: "no", None: "-"}


class ChecklistWriter:
    """Writes damage as the other writer does, and instead of packets what they show of the checklist."""

    def __init__(self, damaged: TextWriter | JsonWriter) -> None:
        self._damaged = damaged
        self._as_json = isinstance(damaged, JsonWriter)
        self._checklist = Checklist()

    @property
    def failed(self) -> bool:
        """True if a row that is in the capture is not as it should be."""
        return any(verdict.good is False for verdict in self._checklist.verdicts())

    def packet(self, number: int, found: Found, offset: int, description: Description, role: Role) -> None:
        if found.origin is not None:
            self._checklist.take(description, found.origin)

    def damage(self, number: int, found: Found, damage: Damage, at: int | None) -> None:
        self._damaged.damage(number, found, damage, at)

    def end(self, words: str) -> None:
        for row, good, shown in self._checklist.verdicts():
            if self._as_json:
                verdict = {"row": row, "good": good, "words": shown}
                sys.stdout.write(json.dumps(verdict, separators=(", ", ": ")) + "\n")
            else:
                sys.stdout.write(f"row {row:2}  {_SAID[good]:3}  {safe(shown)}\n")
        sys.stdout.flush()
        self._damaged.end(words)

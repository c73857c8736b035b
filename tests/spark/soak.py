"""How long the soaks go on, and what they tell at their end."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

LONGEST: Final = 4
"""At most so many times the minutes are waited for the kills."""


@dataclass(frozen=True)
class Soak:
    """A soak goes on for some minutes, and then until there were enough kills. A computer on which that takes more than
    four times the minutes is too slow for it, which is told and is no success."""

    minutes: float
    kills: int
    began: float = field(default_factory=time.monotonic)

    @property
    def took(self) -> float:
        """The minutes since it began."""
        return (time.monotonic() - self.began) / 60

    def goes_on(self, kills: int) -> bool:
        """True as long as it has not had both its minutes and its kills."""
        return self.took < self.minutes or (kills < self.kills and self.took < LONGEST * self.minutes)

    def end(self, kills: Counter[str], verdict: str) -> None:
        """Tell what was killed and what came of it; too few kills end the program with status 1."""
        told = ", ".join(f"{what} {count}" for what, count in kills.most_common())
        print(f"{kills.total()} kills in {self.took:.0f} minutes ({told}): {verdict}", flush=True)
        if kills.total() < self.kills:
            sys.exit(f"{self.kills} kills were wanted, and this computer was too slow for them.")


def arguments(about: str | None) -> argparse.ArgumentParser:
    """The arguments that every soak takes."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument(
        "--kills", type=int, default=100, help=f"at least, within {LONGEST} times the minutes"
    )
    parser.add_argument("--seed", type=int, default=1)
    return parser

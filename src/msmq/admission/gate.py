"""The gate: how many connections there may be, and who has to go when there are too many.

All doors of a process share one gate, because they share its memory and its file descriptors: sessions of other queue
managers, applications, remote readers. A connection belongs to an address, which on a unix socket is a user. It is
*opening* until it has done what its door is for (a session is open, a first call was made), and there is little time
for that. Then it is open, and may belong to an account too; while nothing is under way on it, it is idle.

A limit that is passed costs somebody the connection, and preferably not the newcomer, who may be honest: whoever holds
a door shut by filling it could otherwise do so for ever. The greediest address pays first, with the connection that has
been opening longest, then with the one that has been idle longest; where all the room is taken an account pays like an
address. What is at work is never cut off; when everything is, the newcomer is turned away. How often that happens is
told once a minute, with counts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

TELL_S: Final = 60.0
_MOST_ADDRESSES: Final = 1_000
"""So many addresses are counted by themselves; whoever has more of them has no need to be named."""


class Guest(Protocol):
    """A connection."""

    @property
    def idle_since_s(self) -> float | None:
        """Since when nothing has been under way on it, by the clock of the gate; None while something is."""

    def show_out(self, reason: str) -> None:
        """It has to go."""


class Clock(Protocol):
    """What the gate wants of an event loop."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], object]) -> Any: ...


@dataclass(frozen=True, slots=True)
class Crowding:
    """How many connections there may be."""

    connections: int = 10_000
    per_address: int = 1_000
    opening: int = 500
    opening_s: float = 20.0
    descriptors: int = sys.maxsize
    """File descriptors from this number on are not for connections: the process needs a few for itself."""
    at_once: int = 1_024
    """So many a door may accept before the gate sees the first of them; they must not take the last descriptors."""


class Gate:
    """Lets connections in and shows them out."""

    def __init__(
        self,
        crowding: Crowding,
        clock: Callable[[], Clock],
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.crowding = crowding
        self._clock = clock
        self._tell = tell
        self._addresses: dict[Guest, str] = {}
        self._accounts: dict[Guest, str] = {}
        self._of: dict[str, dict[Guest, None]] = {}
        """The connections of an address, and those of an account."""
        self._since: dict[Guest, float] = {}
        """Those that are opening, the oldest first."""
        self._opening_of: dict[str, dict[Guest, None]] = {}
        self._reasons: Counter[str] = Counter()
        self._blamed: Counter[str] = Counter()
        self._told_s: float | None = None
        self._telling = self._sweeping = False

    @property
    def inside(self) -> int:
        """How many connections there are."""
        return len(self._addresses)

    @property
    def opening(self) -> int:
        return len(self._since)

    def enter(self, guest: Guest, address: str, descriptor: int = 0) -> bool:
        """Let a connection in, at the expense of another one if need be; False turns it away."""
        crowding = self.crowding
        self._addresses[guest] = address
        self._of.setdefault(address, {})[guest] = None
        self._since[guest] = self._clock().time()
        self._opening_of.setdefault(address, {})[guest] = None
        if len(self._of[address]) > crowding.per_address:
            self._cost([address], guest, f"more than {crowding.per_address} of one address")
        if len(self._since) > crowding.opening and guest in self._since:
            greediest = max(self._opening_of, key=lambda each: len(self._opening_of[each]))
            self._cost([greediest], guest, f"more than {crowding.opening} that do nothing yet")
        if guest in self._since and self.inside > crowding.connections:
            self._cost(self._greedy(address), guest, f"more than {crowding.connections} in all")
        elif guest in self._since and descriptor >= crowding.descriptors:
            self._cost(self._greedy(address), guest, "hardly a file descriptor is left")
        if guest not in self._since:
            return False
        self._sweep_later()
        return True

    def opened(self, guest: Guest, account: str = "") -> None:
        """A connection has done what its door is for, in the name of an account if that is known."""
        if self._since.pop(guest, None) is not None:
            _remove(self._opening_of, self._addresses[guest], guest)
            if account:
                self._accounts[guest] = account
                self._of.setdefault(account, {})[guest] = None

    def leave(self, guest: Guest) -> None:
        """A connection is gone."""
        address = self._addresses.pop(guest, None)
        if address is None:
            return
        _remove(self._of, address, guest)
        if guest in self._accounts:
            _remove(self._of, self._accounts.pop(guest), guest)
        if self._since.pop(guest, None) is not None:
            _remove(self._opening_of, address, guest)

    def _greedy(self, address: str) -> Iterable[str]:
        """The addresses with at least as many connections as this one, those with most of them first."""
        own = len(self._of[address])
        found = [each for each, guests in self._of.items() if len(guests) >= own]
        return sorted(found, key=lambda each: -len(self._of[each]))

    def _cost(self, addresses: Iterable[str], newcomer: Guest, reason: str) -> None:
        """Somebody has to go: one of the first of these addresses that can spare a connection, or the newcomer."""
        for address in addresses:
            victim = next((one for one in self._opening_of.get(address, ()) if one is not newcomer), None)
            victim = victim or self._idlest(address)
            if victim is not None:
                self._dismiss(victim, reason)
                return
        self._blame(newcomer, reason)

    def _idlest(self, address: str) -> Guest | None:
        idle = [
            (since_s, number, guest)
            for number, guest in enumerate(self._of[address])
            if guest not in self._since and (since_s := guest.idle_since_s) is not None
        ]
        return min(idle)[2] if idle else None

    def _dismiss(self, guest: Guest, reason: str) -> None:
        self._blame(guest, reason)
        guest.show_out(reason)

    def _blame(self, guest: Guest, reason: str) -> None:
        """Count a connection that has to go; it is not here any more."""
        address = self._addresses[guest]
        self.leave(guest)
        self._reasons[reason] += 1
        if address in self._blamed or len(self._blamed) < _MOST_ADDRESSES:
            self._blamed[address] += 1
        if not self._telling:
            self._telling = True
            clock = self._clock()
            wait_s = 0.0 if self._told_s is None else max(self._told_s + TELL_S - clock.time(), 0.0)
            clock.call_later(wait_s, self._tell_counts)

    # --- as time goes by ----------------------------------------------------------------------------------------

    def _sweep_later(self) -> None:
        if self._since and not self._sweeping:
            self._sweeping = True
            clock = self._clock()
            due_s = next(iter(self._since.values())) + self.crowding.opening_s
            clock.call_later(max(due_s - clock.time(), 0.0), self._sweep)

    def _sweep(self) -> None:
        """Show those out who have been opening for too long."""
        self._sweeping = False
        late_s = self._clock().time() - self.crowding.opening_s
        for guest in [guest for guest, since_s in self._since.items() if since_s <= late_s]:
            self._dismiss(guest, f"nothing done in {self.crowding.opening_s:g} s")
        self._sweep_later()

    def _tell_counts(self) -> None:
        self._telling = False
        self._told_s = self._clock().time()
        reasons = ", ".join(f"{count} because {reason}" for reason, count in self._reasons.most_common())
        address, most = self._blamed.most_common(1)[0]
        total = self._reasons.total()
        self._tell(f"{total} connections turned away or closed: {reasons}; {most} of them from {address}")
        self._reasons.clear()
        self._blamed.clear()


def _remove(table: dict[str, dict[Guest, None]], address: str, guest: Guest) -> None:
    guests = table[address]
    del guests[guest]
    if not guests:
        del table[address]

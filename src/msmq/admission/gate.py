"""The gate: limits the number of connections, and decides which one is closed when there are too many.

All doors of a process share one gate, because they share its memory and its file descriptors: sessions of other queue
managers, applications, remote readers. A connection belongs to an address, which on a unix socket is a user. It is
*opening* until it has been put to use (a session is open, a first call was made), for which there is little time. Then
it is open, and may also belong to an account; while nothing is under way on it, it is idle.

When a limit is exceeded one connection is closed, preferably not the newest, which may be an honest one: otherwise an
attacker could keep a door shut for ever by filling it. The address with most connections loses one first: the one that
has been opening longest, or else the one that has been idle longest; when there are too many in all, accounts count
like addresses. A connection with work under way is never closed; if all have some, the newest is turned away. Closed
connections are reported once a minute, with counts.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

TELL_S: Final = 60.0
_MOST_ADDRESSES: Final = 1_000
"""The most addresses that are counted separately in a report."""


class Guest(Protocol):
    """A connection."""

    @property
    def idle_since_s(self) -> float | None:
        """Since when nothing has been under way on it, by the clock of the gate; None if something is."""

    def show_out(self, reason: str) -> None:
        """Close the connection."""


class Timer(Protocol):
    """What an event loop returns for a call in the future."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """What the gate needs of an event loop."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer: ...


@dataclass(frozen=True, slots=True)
class Crowding:
    """The limits of the gate."""

    connections: int = 10_000
    per_address: int = 1_000
    opening: int = 500
    opening_s: float = 20.0
    descriptors: int = sys.maxsize
    """File descriptors from this number on are not for connections: the process needs a few itself."""
    at_once: int = 1_024
    """The most connections that a door may accept before the gate sees the first; they must not use up the
    descriptors."""


class Gate:
    """Admits connections and closes them."""

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
        """The connections of each address and of each account."""
        self._since: dict[Guest, float] = {}
        """Since when connections have been opening, the oldest first."""
        self._opening_of: dict[str, dict[Guest, None]] = {}
        self._reasons: Counter[str] = Counter()
        self._blamed: Counter[str] = Counter()
        self._told_s: float | None = None
        self._telling: Timer | None = None
        self._sweeping: Timer | None = None

    @property
    def inside(self) -> int:
        """The number of connections."""
        return len(self._addresses)

    @property
    def opening(self) -> int:
        return len(self._since)

    def enter(self, guest: Guest, address: str, descriptor: int = 0) -> bool:
        """Admit a connection, closing another one if necessary. Returns False if it is turned away."""
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
        """Note that a connection has been put to use, and the account it belongs to, if known."""
        if self._since.pop(guest, None) is not None:
            _remove(self._opening_of, self._addresses[guest], guest)
            if account:
                self._accounts[guest] = account
                self._of.setdefault(account, {})[guest] = None

    def leave(self, guest: Guest) -> None:
        """Remove a connection that has closed."""
        address = self._addresses.pop(guest, None)
        if address is None:
            return
        _remove(self._of, address, guest)
        if guest in self._accounts:
            _remove(self._of, self._accounts.pop(guest), guest)
        if self._since.pop(guest, None) is not None:
            _remove(self._opening_of, address, guest)

    def _greedy(self, address: str) -> Iterable[str]:
        """The addresses and accounts with at least as many connections as this address, those with most first."""
        own = len(self._of[address])
        found = [each for each, guests in self._of.items() if len(guests) >= own]
        return sorted(found, key=lambda each: -len(self._of[each]))

    def _cost(self, addresses: Iterable[str], newcomer: Guest, reason: str) -> None:
        """Close a connection of the first of these addresses that can spare one, or turn the newcomer away."""
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
        """Count a connection that has to be closed, and remove it."""
        address = self._addresses[guest]
        self.leave(guest)
        self._reasons[reason] += 1
        if address in self._blamed or len(self._blamed) < _MOST_ADDRESSES:
            self._blamed[address] += 1
        if self._telling is None:
            clock = self._clock()
            wait_s = 0.0 if self._told_s is None else max(self._told_s + TELL_S - clock.time(), 0.0)
            self._telling = clock.call_later(wait_s, self._tell_counts)

    # --- as time goes by ----------------------------------------------------------------------------------------

    def _sweep_later(self) -> None:
        if self._since and self._sweeping is None:
            clock = self._clock()
            due_s = next(iter(self._since.values())) + self.crowding.opening_s
            self._sweeping = clock.call_later(max(due_s - clock.time(), 0.0), self._sweep)

    def _sweep(self) -> None:
        """Close connections that have been opening for too long."""
        self._sweeping = None
        late_s = self._clock().time() - self.crowding.opening_s
        for guest in [guest for guest, since_s in self._since.items() if since_s <= late_s]:
            self._dismiss(guest, f"nothing done in {self.crowding.opening_s:g} s")
        self._sweep_later()

    def close(self) -> None:
        """Stop watching connections, and tell what was not told yet."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        if self._telling is not None:
            self._telling.cancel()
            self._tell_counts()

    def _tell_counts(self) -> None:
        self._telling = None
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

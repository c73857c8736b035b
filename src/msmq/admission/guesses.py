"""Protection against guessing: after repeated wrong attempts callers have to wait, longer each time, and the log says
who tried, from where and why it failed.

Wrong passwords and tokens are counted for each account and address, for each address, and, if the operator wants
accounts locked, for each account. With an account, an IPv6 address counts as its /64 network: a host may have any
number of addresses there and try one password from each. During a wait no secret is checked, not even the right one,
so an attempt tells nothing; it does not prolong the wait either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final

FREE: Final = 3
"""The wrong attempts for an account at an address that cost no wait, only a line in the log."""
FREE_OF_ADDRESS: Final = 20
LONGEST_S: Final = 60.0
FORGET_S: Final = 900.0
_MOST: Final = 10_000
_LINES: Final = 30
_MINUTE_S: Final = 60.0


@lru_cache(maxsize=1_024)
def place_of(address: str) -> str:
    """The part of an address that its host cannot change at will: the address itself, or the /64 network of a routed
    IPv6 address. Link-local addresses and unix sockets belong to neighbours and users."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address) or found.is_link_local or found.is_loopback:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> 64 << 64)}/64"


@dataclass(frozen=True, slots=True)
class LockOut:
    """Lock an account for a while after this many wrong attempts in a row, from wherever they come; 0 for never."""

    after: int = 0
    seconds: float = 900.0


@dataclass(slots=True)
class _Misses:
    count: int
    last_s: float


class Guesses:
    """Remembers wrong attempts."""

    def __init__(
        self, clock: Callable[[], float], tell: Callable[[str], None], lock_out: LockOut | None = None
    ) -> None:
        self._clock = clock
        self._tell = tell
        self.lock_out = lock_out or LockOut()
        self._misses: dict[tuple[str, str], _Misses] = {}
        """By account and place, by address alone, and by account alone, the oldest first; "" stands for any."""
        self._minute_s = self._clock() - _MINUTE_S
        self._lines = self._unsaid = 0

    def wait_s(self, account: str, address: str) -> float:
        """The time until an attempt is considered again; 0 if it is now. The account "" stands for a token."""
        account = account.casefold()
        waits = [
            self._left((account, place_of(address)), FREE) if account else 0.0,
            self._left(("", address), FREE_OF_ADDRESS),
        ]
        locked = self._misses.get((account, ""))
        if account and locked is not None and 0 < self.lock_out.after <= locked.count:
            waits.append(self.lock_out.seconds - (self._clock() - locked.last_s))
        return max(waits)

    def _left(self, key: tuple[str, str], free: int) -> float:
        misses = self._misses.get(key)
        if misses is None or misses.count < free:
            return 0.0
        wait_s = min(2.0 ** min(misses.count - free, 10), LONGEST_S)
        return max(wait_s - (self._clock() - misses.last_s), 0.0)

    def failed(self, account: str, address: str, reason: str) -> None:
        """Count a wrong attempt."""
        keys = {("", address)}
        place = place_of(address) if account else address
        if account:
            keys |= {(account.casefold(), place), (account.casefold(), "")}
        for key in sorted(keys):
            self._count(key)
        count = self._misses[account.casefold(), place].count
        self._say(f"{account[:64]!r} at {address} is not let in, attempt {count}: {reason}")

    def succeeded(self, account: str, address: str) -> None:
        """Forget the wrong attempts for an account after a right one. Those of the address stay, since they may have
        been for other accounts."""
        found = self._misses.pop((account.casefold(), place_of(address)), None)
        self._misses.pop((account.casefold(), ""), None)
        if found is not None and found.count >= FREE:
            self._say(f"{account[:64]!r} at {address} is let in, after {found.count} wrong attempts")

    def _count(self, key: tuple[str, str]) -> None:
        now_s, misses = self._clock(), self._misses.pop(key, None)
        if misses is None or now_s - misses.last_s > FORGET_S:
            misses = _Misses(0, now_s)
        misses.count, misses.last_s = misses.count + 1, now_s
        self._misses[key] = misses
        while len(self._misses) > _MOST:
            self._misses.pop(next(iter(self._misses)))

    def _say(self, line: str) -> None:
        """Log a line, up to a limit for each minute: an attacker with many addresses must not fill the log either."""
        now_s = self._clock()
        if now_s - self._minute_s >= _MINUTE_S:
            self._minute_s, self._lines = now_s, 0
        self._lines += 1
        if self._lines > _LINES:
            self._unsaid += 1
            return
        unsaid, self._unsaid = self._unsaid, 0
        self._tell(f"{line} ({unsaid} lines like this were left out)" if unsaid else line)

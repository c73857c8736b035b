"""Limits for answers that nobody reads: their bytes for one address and for all.

A connection that does not read gets no further answers. But one address may have many such connections, and many
addresses even more: when too much waits, the connection with the largest unread answers, of the address or of all, is
closed.
"""

from __future__ import annotations

from collections import Counter

from msmq.admission.gate import Guest


class Unread:
    """Counts the bytes that slow readers have not taken yet."""

    def __init__(self, per_address: int, in_all: int) -> None:
        self._per_address = per_address
        self._in_all = in_all
        self._sizes: dict[Guest, tuple[str, int]] = {}
        self._of: Counter[str] = Counter()
        self.total = 0

    def owe(self, guest: Guest, address: str, size: int) -> None:
        """Note how many bytes wait for a connection; 0 when it has read everything or is closed."""
        _, before = self._sizes.pop(guest, ("", 0))
        self.total += size - before
        self._of[address] += size - before
        if size:
            self._sizes[guest] = address, size
        elif not self._of[address]:
            del self._of[address]
        if self._of[address] > self._per_address:
            self._dismiss(address)
        if self.total > self._in_all:
            self._dismiss(None)

    def _dismiss(self, address: str | None) -> None:
        sizes = {one: size for one, (of, size) in self._sizes.items() if address in (None, of)}
        most = max(sizes, key=sizes.__getitem__)
        self.owe(most, self._sizes[most][0], 0)
        most.show_out("it does not read its answers")

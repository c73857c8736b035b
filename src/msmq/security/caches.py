"""Caches of keys and certificates, from which old entries are removed (MS-MQQB 3.1.1.3, 3.1.6.10 to 3.1.6.13).

All of them follow one rule. A cache that is full drops the older half of its entries. A timer is started when an entry
is added and none runs; when it expires, entries older than the lifetime are removed, and if any are left the timer is
started again for the oldest one, a minute late.

Windows up to Server 2003 kept the keys of the base provider apart. Here one list is enough, because the provider is
part of the key of an entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from msmq.security.encryption import SessionKey
from msmq.wire.certificates import UserSignCert

_GRACE_MS: Final = 60_000


class Cached(Protocol):
    """An entry of a cache, with its time."""

    @property
    def cached_time_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class CachedSymmetricKey:
    """CachedSymmetricKey (MS-MQQB 3.1.1.3.3). SymmetricKey is the key together with its level and algorithm."""

    remote_qm_guid: bytes
    crypto_service_provider: str
    crypto_algorithm: int
    encrypted_symmetric_key: bytes
    symmetric_key: SessionKey
    cached_time_ms: int


@dataclass(frozen=True, slots=True)
class CachedUserCert:
    """CachedUserCert (MS-MQQB 3.1.1.3.4): a certificate whose owner was looked up in the directory."""

    user_cert: UserSignCert
    security_id: bytes
    cached_time_ms: int


@dataclass(frozen=True, slots=True)
class CachedPublicKeys:
    """RemoteQMPublicKey (MS-MQQB 3.1.1.3.1): the MQDSPUBLICKEYS of a destination, as the directory has it."""

    public_keys: bytes
    cached_time_ms: int


Key = TypeVar("Key")
Entry = TypeVar("Entry", bound=Cached)


class AgingCache(Generic[Key, Entry]):
    """One cache and its cleanup timer. A size of 0 keeps nothing."""

    def __init__(self, size: int, lifetime_ms: int) -> None:
        self.size = size
        self.lifetime_ms = lifetime_ms
        self.deadline_ms: int | None = None
        """When the cleanup timer expires; None while it does not run."""
        self._entries: dict[Key, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, key: Key) -> Entry | None:
        return self._entries.get(key)

    def add(self, key: Key, entry: Entry) -> None:
        """Add an entry that is new now. Entries are kept in the order of their addition."""
        if not self.size:
            return
        self._entries.pop(key, None)
        if len(self._entries) >= self.size:
            for old in list(self._entries)[: max(self.size // 2, 1)]:
                del self._entries[old]
        self._entries[key] = entry
        if self.deadline_ms is None:
            self.deadline_ms = entry.cached_time_ms + self.lifetime_ms

    def handle_timer(self, now_ms: int) -> None:
        """Remove old entries if the cleanup timer has expired."""
        if self.deadline_ms is None or now_ms < self.deadline_ms:
            return
        oldest_ms = now_ms - self.lifetime_ms
        self._entries = {
            key: entry for key, entry in self._entries.items() if entry.cached_time_ms >= oldest_ms
        }
        self.deadline_ms = None
        if self._entries:
            first_ms = min(entry.cached_time_ms for entry in self._entries.values())
            self.deadline_ms = first_ms + self.lifetime_ms + _GRACE_MS

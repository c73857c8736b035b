"""Caches of keys and certificates that forget (MS-MQQB 3.1.1.3, 3.1.6.10 to 3.1.6.13).

All of them follow one rule. A cache that is full drops the older half of its entries. A timer is started when an
entry comes and none runs; when it goes off, what is older than the lifetime goes, and if anything is left the timer
is started again for the oldest entry, a minute late.

Windows up to Server 2003 kept the keys of the base provider apart. One list does, because the provider is part of
the key it is searched by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from msmq.security.encryption import SessionKey
from msmq.wire.certificates import UserSignCert

_GRACE_MS: Final = 60_000


class Cached(Protocol):
    """What a cache can hold: it knows when it came."""

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
    """CachedUserCert (MS-MQQB 3.1.1.3.4): whose certificate it is was looked up in the directory."""

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
        """When the cleanup timer goes off; None while it does not run."""
        self._entries: dict[Key, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, key: Key) -> Entry | None:
        return self._entries.get(key)

    def add(self, key: Key, entry: Entry) -> None:
        """Keep an entry that is new now; entries are kept in the order they came."""
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
        """Let the cleanup timer go off, if its time has come."""
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

"""The attributes of LocalQueueManager that survive a restart (MS-MQDMPR 3.1.1.1), as one value of the ledger.

Three kinds: Directory attributes are those of :class:`QueueManagerRecord` and are published too; Persistent
ones are listed here; all others are volatile and start anew. SequentialID and the transactions are persistent
as well and have records of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from typing import Any, Final

from msmq.errors import IllegalPropertyValueError, MQError, PropertyNotallowedError
from msmq.manager.core import Core
from msmq.manager.model import DirectoryServerType, OperatingSystemType, QueueManagerRecord

VALUE: Final = "queue manager"

DIRECTORY: Final = tuple(entry.name for entry in fields(QueueManagerRecord))
PERSISTENT: Final = (
    "former_identifiers",
    "last_domain",
    "directory_server_list",
    "directory_integrated",
    "srmp_http_support",
    "srmp_pgm_support",
    "hardened_at_next_start",
    "initialization_retry_timer_duration_s",
)


def _identifiers(texts: list[str]) -> tuple[bytes, ...]:
    return tuple(map(bytes.fromhex, texts))


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "identifier": bytes.fromhex,
    "security": bytes.fromhex,
    "public_encryption_key_list": bytes.fromhex,
    "public_signing_key_list": bytes.fromhex,
    "site_identifier_list": _identifiers,
    "connected_network_identifier_list": _identifiers,
    "out_routing_server_identifier_list": _identifiers,
    "in_routing_server_identifier_list": _identifiers,
    "operating_system_type": OperatingSystemType,
    "directory_server_type": DirectoryServerType,
    "last_domain": bytes.fromhex,
    "former_identifiers": _identifiers,
    "directory_server_list": tuple,
}
"""How stored values are read back; those that are not here are stored as they are."""

_ENUMERATIONS: Final = {
    "operating_system_type": OperatingSystemType,
    "directory_server_type": DirectoryServerType,
}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_plain(member) for member in value]
    return value.value if isinstance(value, Enum) else value


def save(core: Core) -> None:
    """Write all these attributes to the ledger."""
    kept = {name: _plain(getattr(core.record, name)) for name in DIRECTORY}
    kept |= {name: _plain(getattr(core, name)) for name in PERSISTENT}
    if not core.record.directory_server:
        del kept["directory_server_type"]
    core.ledger.put_value(VALUE, kept)


def restore(core: Core, kept: dict[str, Any] | None) -> None:
    """Restore what :func:`save` wrote; attributes added by a later version keep their defaults."""
    for name, value in (kept or {}).items():
        read = _READERS.get(name)
        setattr(core.record if name in DIRECTORY else core, name, value if read is None else read(value))
    core.hardened_security = core.hardened_at_next_start


def change(core: Core, **values: Any) -> None:
    """Set and store attributes. HardenedSecurity takes effect at the next start (note 7)."""
    checked = {name: _checked(name, value) for name, value in values.items()}
    old = _exchange(core, checked)
    try:
        save(core)
    except MQError:
        _exchange(core, old)
        raise


def _exchange(core: Core, values: dict[str, Any]) -> dict[str, Any]:
    """Set attributes. Returns the old values."""
    old = {}
    for name, value in values.items():
        where = core.record if name in DIRECTORY else core
        attribute = "hardened_at_next_start" if name == "hardened_security" else name
        old[name] = getattr(where, attribute)
        setattr(where, attribute, value)
    return old


def _checked(name: str, value: Any) -> Any:
    if name not in (*DIRECTORY, *PERSISTENT, "hardened_security") or name == "identifier":
        raise PropertyNotallowedError(f"{name} cannot be set.")
    kind = _ENUMERATIONS.get(name)
    if kind is None:
        return value
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(member.value for member in kind)
        raise IllegalPropertyValueError(f"{name} is one of {names}, not {value}.") from None

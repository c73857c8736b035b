"""Search filters (RFC 4515) for the six operators of an attribute filter.

A value is escaped byte by byte except for plain letters, digits and a few harmless marks, so nothing in a name can end
a value or begin another condition. LDAP has no strict comparison; ``a < v`` is asked as ``a <= v and not a = v``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msmq.manager.directory import Relation

_HARMLESS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,")

_FORMS: Final = {
    Relation.EQUALS: "({name}={value})",
    Relation.NOT_EQUALS: "(!({name}={value}))",
    Relation.LESS_THAN: "(&({name}<={value})(!({name}={value})))",
    Relation.GREATER_THAN: "(&({name}>={value})(!({name}={value})))",
    Relation.LESS_THAN_OR_EQUAL: "({name}<={value})",
    Relation.GREATER_THAN_OR_EQUAL: "({name}>={value})",
}


def escape(value: bytes) -> str:
    return "".join(chr(byte) if byte in _HARMLESS else f"\\{byte:02x}" for byte in value)


def condition(name: str, relation: Relation, value: bytes) -> str:
    return _FORMS[relation].format(name=name, value=escape(value))


def conjunction(conditions: Iterable[str]) -> str:
    """Join conditions with "and"; a single one stays as it is."""
    parts = list(conditions)
    return parts[0] if len(parts) == 1 else f"(&{''.join(parts)})"


def of_class(ldap_class: str) -> str:
    return f"(objectClass={ldap_class})"

"""Rules for texts and flags that several tables use."""

from __future__ import annotations

import re

from msmq.wire.access_masks import SecurityInformation
from msmq.wire.names import MsmqVersion, MulticastName, QueuePath, parse_format_name
from msmq.wire.properties.model import Rule, each, parses

# RFC 4514 distinguishedName. A pair is a backslash with a special character or two hexadecimal digits; a
# value neither starts with a space or "#" nor ends with a space, unless they are escaped.
_PAIR = r"\\(?:[ \"#+,;<=>\\]|[0-9A-Fa-f]{2})"
_LEAD = rf"(?:{_PAIR}|[^\0 #\"+,;<>\\])"
_MIDDLE = rf"(?:{_PAIR}|[^\0\"+,;<>\\])"
_TRAIL = rf"(?:{_PAIR}|[^\0 \"+,;<>\\])"
_TYPE = r"(?:[A-Za-z][A-Za-z0-9-]*|[0-9]+(?:\.[0-9]+)*)"
_ATTRIBUTE = rf"{_TYPE}=(?:#(?:[0-9A-Fa-f]{{2}})+|(?:{_LEAD}(?:{_MIDDLE}*{_TRAIL})?)?)"
_DISTINGUISHED_NAME = re.compile(rf"{_ATTRIBUTE}(?:[,+]{_ATTRIBUTE})*")

# The RFC 4516 ldapurl of an object: attributes, scope and filter have no place in a path.
_LDAP_URL = re.compile(r"LDAP://[^/?#\s]*/([^?]+)", re.IGNORECASE)

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_FQDN = re.compile(rf"{_LABEL}(?:\.{_LABEL})+")


def is_distinguished_name(text: str) -> bool:
    """True if ``text`` is a distinguishedName of RFC 4514 with at least one part."""
    return _DISTINGUISHED_NAME.fullmatch(text) is not None


def is_ldap_url(text: str) -> bool:
    """True if ``text`` is the LDAP URL of an object: ``LDAP://server/CN=q,CN=msmq,DC=corp``."""
    found = _LDAP_URL.fullmatch(text)
    return found is not None and is_distinguished_name(found[1])


def is_fqdn(text: str) -> bool:
    """True if ``text`` is a host name with its domain."""
    return len(text) <= 255 and _FQDN.fullmatch(text) is not None


def _allows_path(value: object, version: MsmqVersion) -> bool:
    assert isinstance(value, str)
    QueuePath.parse(value, version=version)
    return True


def _allows_dns_path(value: object, version: MsmqVersion) -> bool:
    assert isinstance(value, str)
    return is_fqdn(QueuePath.parse(value, version=version).computer)


def _allows_format_name(value: object, version: MsmqVersion) -> bool:
    assert isinstance(value, str)
    parse_format_name(value, version=version)
    return True


PATH_NAME = Rule("a queue path name", _allows_path)
DNS_PATH_NAME = Rule("a queue path name with the computer's full DNS name", _allows_dns_path)
FORMAT_NAME = Rule("a format name", _allows_format_name)
DISTINGUISHED_NAME = Rule(
    "a distinguished name", lambda value, _version: isinstance(value, str) and is_distinguished_name(value)
)
DISTINGUISHED_NAMES = each(DISTINGUISHED_NAME)
LDAP_URL = Rule("an LDAP URL", lambda value, _version: isinstance(value, str) and is_ldap_url(value))
FQDN = Rule("a full DNS name", lambda value, _version: isinstance(value, str) and is_fqdn(value))
MULTICAST_ADDRESS = parses("a multicast address with a port", MulticastName.parse_address)
NOT_EMPTY = Rule("a text that is not empty", lambda value, _version: bool(value))
SECURITY_INFORMATION = Rule(
    "a combination of the four SECURITY_INFORMATION bits",
    lambda value, _version: isinstance(value, int) and not value & ~int(SecurityInformation.ALL),
)

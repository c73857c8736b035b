"""Parse and print the short texts in property values that have a grammar (MS-MQMQ 2.3 and appendix B).

Parsers raise MQ_ERROR_ILLEGAL_PROPERTY_VALUE; each parser has a matching printer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias

from msmq.errors import IllegalPropertyValueError
from msmq.wire.guid import guid_from_text, guid_text
from msmq.wire.names.common import MsmqVersion
from msmq.wire.names.direct import is_ipv4, is_ipv6

UNC = "\\\\"

# --- PROPID_MGMT_QUEUE_NEXTHOPS (2.3.12.12) -------------------------------------------------------

NextHop: TypeAlias = IPv4Address | IPv6Address | bytes
"""The next hop of messages: an IP address, or the GUID of a foreign site."""


def parse_next_hop(text: str) -> NextHop:
    """Parse ``IP=10.0.0.2``, ``IPv6=fe80::1`` or ``FOREIGN=<guid>``."""
    prefix, _, rest = text.partition("=")
    match prefix.upper() if prefix.isascii() else "":
        case "IP" if is_ipv4(rest):
            return IPv4Address(rest)
        case "IPV6" if is_ipv6(rest):
            return IPv6Address(rest)
        case "FOREIGN" if len(rest) <= 36:
            try:
                return guid_from_text(rest)
            except ValueError:
                pass
    raise IllegalPropertyValueError("A next hop is IP=<IPv4 address>, IPv6=<IPv6 address> or FOREIGN=<GUID>")


def next_hop_text(hop: NextHop) -> str:
    match hop:
        case IPv4Address():
            return f"IP={hop}"
        case IPv6Address():
            return f"IPv6={hop}"
        case _:
            return f"FOREIGN={guid_text(hop)}"


# --- PROPID_MGMT_QUEUE_CONNECTION_HISTORY, the list of addresses (2.3.12.25) ----------------------

_HISTORY_ADDRESS = re.compile(r"\\\\([A-Za-z]+)|([0-9]{1,3}(?:\.[0-9]{1,3}){3})")


def parse_history_address(text: str) -> str:
    """Parse ``\\\\srv`` or ``10.0.0.1``: the computer's name, letters only, or its dotted address."""
    found = _HISTORY_ADDRESS.fullmatch(text)
    if found is None:
        raise IllegalPropertyValueError(
            "A history address is \\\\ and letters, or four dotted decimal numbers"
        )
    return found[1] or found[2]


def history_address_text(host: str) -> str:
    return host if host[:1].isdigit() else UNC + host


# --- PROPID_MGMT_MSMQ_DSSERVER (2.3.11.3) ---------------------------------------------------------


def parse_ds_server(text: str) -> str:
    """Parse ``\\\\dc1``. Returns the directory server's name. The terminating null is not part of ``text``."""
    name = text.removeprefix(UNC)
    if not name or name == text or "," in name or "\0" in name:
        raise IllegalPropertyValueError("A directory server is \\\\ and a name without commas and nulls")
    return name


def ds_server_text(name: str) -> str:
    return UNC + name


# --- PROPID_QM_MACHINE_TYPE (2.3.2.15, appendix B notes 29 and 30) --------------------------------

_MACHINE_TYPE_SYSTEM = re.compile(
    r"Windows (?P<os_type>.*) (?P<os_version>[0-9]*\.[0-9]*) \(Build (?P<os_build>[0-9]*), (?P<platform>.*)"
)
_MACHINE_TYPE_MSMQ = re.compile(r"(?P<msmq_version>[0-9]*\.[0-9]*) \(Build (?P<msmq_build>[0-9]*)\)")


@dataclass(frozen=True, slots=True)
class MachineType:
    """The description of an operating system and its MSMQ. Numbers stay text, because the grammar lets them be
    empty.
    """

    os_type: str
    os_version: str
    os_build: str
    platform: str
    msmq_version: str
    msmq_build: str

    def __str__(self) -> str:
        return (
            f"Windows {self.os_type} {self.os_version} (Build {self.os_build}, {self.platform})"
            f" - MSMQ {self.msmq_version} (Build {self.msmq_build})"
        )


def parse_machine_type(text: str, *, version: MsmqVersion = MsmqVersion.V6) -> MachineType | None:
    """Parse the description; returns None for an empty one, which MSMQ 3.0 and later allow."""
    if not text and version >= MsmqVersion.V3:
        return None
    # Split at the right first: then both patterns match or fail in one pass, however long the text is.
    system, _, msmq = text.rpartition(") - MSMQ ")
    found_msmq = _MACHINE_TYPE_MSMQ.fullmatch(msmq)
    found_system = _MACHINE_TYPE_SYSTEM.fullmatch(system) if found_msmq else None
    if found_msmq is None or found_system is None or not (text.isascii() and text.isprintable()):
        raise IllegalPropertyValueError(
            "A machine type looks like: Windows NT 5.0 (Build 2195, x86) - MSMQ 2.0 (Build 641)"
        )
    return MachineType(**found_system.groupdict(), **found_msmq.groupdict())

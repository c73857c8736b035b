"""Finding domain controllers in the DNS (MS-ADTS 6.3.2, RFC 2782).

Controllers register themselves as services, once for the whole domain and once for each site they serve. Those of our
own site come first, if we know it; a global catalog is a service of the forest. Among records of the same priority one
is drawn by weight, so that many hosts spread over many controllers.

Anybody may have forged an answer of the DNS. A server that must prove itself by Kerberos cannot lie about its name. A
server that only has a certificate gets our password only if its name is inside the domain.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, Final

import dns.exception
import dns.nameserver
import dns.rdatatype
import dns.resolver

from msmq.directory.settings import LDAP_PORT, Protection, Server, Settings

_PATIENCE_S: Final = 4.0


def servers_of(settings: Settings) -> list[Server]:
    """The servers of ``settings.domain`` in the order to try them, each once.

    Raises:
        OSError: the DNS knows none, or does not answer.
    """
    found: dict[str, Server] = {}
    trouble: Exception | None = None
    for name in _service_names(settings):
        try:
            for server in _look_up(name, settings):
                found.setdefault(server.name, server)
        except dns.exception.DNSException as error:
            trouble = error
    if not found:
        raise OSError(f"the DNS has no controllers of {settings.domain}: {trouble}") from trouble
    return list(found.values())


def _service_names(settings: Settings) -> Iterable[str]:
    within = [f"{settings.site}._sites.", ""] if settings.site else [""]
    for site in within:
        if settings.catalog:
            yield f"_gc._tcp.{site}{settings.domain}."
        else:
            yield f"_ldap._tcp.{site}dc._msdcs.{settings.domain}."


def _look_up(name: str, settings: Settings) -> Sequence[Server]:
    resolver = dns.resolver.Resolver(configure=not settings.name_servers)
    if settings.name_servers:
        resolver.nameservers = [
            dns.nameserver.Do53Nameserver(address, port) for address, port in settings.name_servers
        ]
    answer = resolver.resolve(name, dns.rdatatype.SRV, lifetime=_PATIENCE_S)
    return [
        Server(name, *_ports(record.port, settings))
        for record in in_order(answer)
        if _is_believed(name := str(record.target).rstrip("."), settings)
    ]


def _is_believed(name: str, settings: Settings) -> bool:
    inside = f".{name}".lower().endswith(f".{settings.domain}".lower())
    return inside or settings.protection is Protection.SEAL


def _ports(port: int, settings: Settings) -> tuple[None, int | None, int | None]:
    """Address and ports of a server. A record tells the port without TLS, so with TLS the usual ports are taken."""
    if settings.protection is Protection.TLS:
        return None, None, None
    return (None, None, port) if settings.catalog else (None, port if port != LDAP_PORT else None, None)


def in_order(records: Iterable[Any], draw: random.Random | None = None) -> list[Any]:
    """Records with lower priority numbers first; those of the same priority in random order by weight (RFC 2782)."""
    chance = draw or random.Random()
    by_priority: dict[int, list[Any]] = {}
    for record in records:
        by_priority.setdefault(record.priority, []).append(record)
    ordered = []
    for _, equals in sorted(by_priority.items()):
        # A weight is a rate: ordering by exponential waiting times equals drawing by weight without putting back.
        ordered += sorted(equals, key=lambda record: chance.expovariate(1) / (record.weight or 0.01))
    return ordered

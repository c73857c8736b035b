"""Problems with a directory, explained so that an operator can act upon them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from msmq.directory.active_directory import ActiveDirectory

REMEDIES: Final = (
    (
        r"[Cc]lock skew|KRB_AP_ERR_SKEW",
        "The clocks of this host and of the domain controller differ by more than five minutes: set this one, for "
        "example with chrony.",
    ),
    (
        r"[Tt]icket expired|TKT_EXPIRED|[Cc]redentials? (have |has )?expired|context (has )?expired",
        "The Kerberos ticket has expired, and nobody renews it: use directory.keytab, which needs no renewal, or "
        "run what fills directory.ticket_cache more often (`kinit -R`, k5start).",
    ),
    (
        r"insufficientAccessRights|00000005|ACCESS_DENIED",
        "The account may not do this. Let an administrator run `msmq directory join` with an account that may, or "
        "give this one the right to create mSMQConfiguration objects below its computer, and mSMQQueue objects below "
        "CN=msmq.",
    ),
    (
        r"invalidCredentials|[Pp]reauthentication failed|password is incorrect|LOGON_FAILURE",
        "The domain does not believe the account: the password or the keytab is wrong, or older than the account's "
        "last change of password.",
    ),
    (
        r"not found in Kerberos database|S_PRINCIPAL_UNKNOWN",
        "Kerberos does not know such a name: the names in directory.servers must be the full DNS names of domain "
        "controllers, and directory.principal an account of the domain.",
    ),
    (
        r"[Cc]annot (contact|find) .*KDC|KDC has no support|krb5\.conf|[Nn]o credentials|No Kerberos credentials|"
        r"[Kk]eytab",
        "Kerberos gets no ticket: look at /etc/krb5.conf (default_realm, kdc) and at directory.keytab; `kinit -k -t "
        "KEYTAB PRINCIPAL` shows the same.",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|certificate",
        "The certificate of the domain controller is not trusted: name who signed it in "
        "directory.certificate_authority, and the server by the name in the certificate.",
    ),
    (
        r"constraintViolation|objectClassViolation|undefinedAttributeType|invalidAttributeSyntax",
        "The directory does not take such a value; the number in its words is a Windows error code (`net helpmsg`).",
    ),
    (
        r"unwillingToPerform|busy|unavailable",
        "The domain controller cannot do this now, or not at all: is it a read-only one, or does another one hold the "
        "role? Name others in directory.servers.",
    ),
    (
        r"strongerAuthRequired",
        "The domain controller wants a protected connection: set directory.protection to seal, tls or start-tls.",
    ),
    (
        r"has no dNSHostName",
        "The account of the computer does not say its DNS name, by which others find it: let an administrator run "
        "`msmq directory join`, which writes it.",
    ),
    (
        r"needs its server object",
        "Let an administrator run `msmq directory join --routing-server`, which makes it in every site.",
    ),
    (
        r"noSuchObject|NO_OBJECT",
        "An object is missing: the account of this computer, or CN=MsmqServices below CN=Services in "
        "the configuration. An administrator makes the first with `samba-tool computer create NAME` or by joining the "
        "host to the domain, the second with the setup of Message Queuing.",
    ),
    (
        r"the DNS has no controllers",
        "Nobody says where the domain controllers are: is directory.domain right, and does this host ask a DNS server "
        "that knows the domain (`dig SRV _ldap._tcp.dc._msdcs.DOMAIN`)? Or name them in directory.servers.",
    ),
    (
        r"no global catalog",
        "The forest has several domains, and what belongs to others is in the global catalog: does one of the servers "
        "have it, and is port 3268 (3269 for tls) open?",
    ),
    (
        r"answers too slowly",
        "Try again; if it stays so, look at the load of the domain controllers and at the network to them, or name "
        "nearer ones in directory.servers.",
    ),
    (
        r"refused|timed out|terminated|reset by peer|unreachable|[Nn]ame or service not known|getaddrinfo|socket",
        "No domain controller can be reached: are the names in directory.servers right, do they resolve, and is port "
        "389 (636 for tls) open?",
    ),
)
"""Patterns for the messages of servers and libraries, and what to do about each. The first one that fits counts."""


def remedy(reason: str) -> str:
    """What to do about a failure; "" if that is not known."""
    return next((what for pattern, what in REMEDIES if re.search(pattern, reason)), "")


def explain(directory: ActiveDirectory) -> str:
    """Why the last request failed, and what to do about it."""
    return explained(directory.last_failure or directory.connection.last_trouble)


def explained(reason: str) -> str:
    """A reason, followed by what to do about it."""
    return f"{reason.rstrip('.')}. {remedy(reason)}".strip() if reason else ""

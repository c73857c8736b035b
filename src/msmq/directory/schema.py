"""The conversion tables (MS-MQDSSM 2.2.2, 3.1.6.10, 3.1.6.11, 3.1.6.20): one declaration per attribute.

An :class:`Attribute` says in which LDAP attributes a directory attribute of the data model is kept, how its value is
written and read, and its default. Attributes whose conversion needs more than the value itself (another object,
another attribute) have no codec; :mod:`msmq.directory.conversion` knows them by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, Final

from msmq.directory import values
from msmq.directory.values import Codec
from msmq.manager.directory import ObjectClass
from msmq.manager.model import (
    DEFAULT_QUEUE_MANAGER_QUOTA_KB,
    DEFAULT_TIME_TO_REACH_QUEUE_S,
    UNLIMITED,
    OperatingSystemType,
    QueuePrivacyLevel,
)
from msmq.wire.guid import NULL_GUID

REQUIRED: Final = object()
"""Stands for a default: an object without the attribute cannot be read."""


class Use(Flag):
    """What an attribute is used for, beside being read."""

    READ = 0
    CREATE = auto()
    WRITE = auto()
    FILTER = auto()
    KEPT = CREATE | WRITE
    ALL = CREATE | WRITE | FILTER


@dataclass(frozen=True, slots=True)
class Attribute:
    """A directory attribute: its name in the data model and here, its LDAP attributes, its conversion."""

    title: str
    name: str
    ldap: tuple[str, ...]
    codec: Codec | None
    default: Any
    use: Use = Use.ALL


@dataclass(frozen=True, slots=True)
class Kind:
    """A class of objects."""

    object_class: ObjectClass
    ldap_class: str
    attributes: tuple[Attribute, ...]
    unsupported: frozenset[str] = frozenset()
    """Attributes that may not even be asked for."""
    elsewhere: tuple[Attribute, ...] = ()
    """Attributes that are kept on another object, as those of a queue manager on its computer."""

    def find(self, name: str) -> Attribute | None:
        return next((entry for entry in (*self.attributes, *self.elsewhere) if entry.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        """All directory attributes of 3.1.6.20 except the unsupported ones."""
        return tuple(entry.name for entry in (*self.attributes, *self.elsewhere))


def ldap_attributes(kind: Kind, names: Iterable[str]) -> list[tuple[str, str]]:
    """Create LDAP Attribute List (3.1.6.10): pairs of names; attributes without a row in the tables are left out."""
    wanted = set(names)
    return [(entry.name, ldap) for entry in kind.attributes if entry.name in wanted for ldap in entry.ldap]


def _identifier() -> Attribute:
    return Attribute("Identifier", "identifier", ("objectGUID",), values.GUID, REQUIRED, Use.FILTER)


def _full_path() -> Attribute:
    return Attribute("FullPath", "full_path", ("distinguishedName",), values.TEXT, REQUIRED, Use.FILTER)


def _times() -> tuple[Attribute, Attribute]:
    return (
        Attribute("CreateTime", "create_time", ("whenCreated",), values.TIME, REQUIRED, Use.FILTER),
        Attribute("ModifyTime", "modify_time", ("whenChanged",), values.TIME, REQUIRED, Use.FILTER),
    )


def _security() -> Attribute:
    return Attribute("Security", "security", ("nTSecurityDescriptor",), None, REQUIRED, Use.READ)


QUEUE_MANAGER: Final = Kind(
    ObjectClass.QUEUE_MANAGER,
    "mSMQConfiguration",
    (
        _identifier(),
        Attribute("ComputerName", "computer_name", ("distinguishedName",), None, REQUIRED, Use.FILTER),
        Attribute("QueueManagerVersion", "queue_manager_version", ("mSMQComputerTypeEx",), values.TEXT, ""),
        Attribute(
            "OperatingSystemType",
            "operating_system_type",
            ("mSMQOSType",),
            values.OPERATING_SYSTEM,
            OperatingSystemType.OTHER,
        ),
        *_times(),
        Attribute(
            "QueueManagerQuota",
            "queue_manager_quota_kb",
            ("mSMQQuota",),
            values.DWORD,
            DEFAULT_QUEUE_MANAGER_QUOTA_KB,
        ),
        Attribute("JournalQuota", "journal_quota_kb", ("mSMQJournalQuota",), values.DWORD, UNLIMITED),
        Attribute("ForeignSystem", "foreign_system", ("mSMQForeign",), values.BOOLEAN, False),
        _full_path(),
        Attribute("SiteIdentifierList", "site_identifier_list", ("mSMQSites",), values.GUIDS, ()),
        Attribute(
            "OutRoutingServerIdentifierList",
            "out_routing_server_identifier_list",
            ("mSMQOutRoutingServers",),
            None,
            (),
            Use.KEPT,
        ),
        Attribute(
            "InRoutingServerIdentifierList",
            "in_routing_server_identifier_list",
            ("mSMQInRoutingServers",),
            None,
            (),
            Use.KEPT,
        ),
        Attribute("RoutingServer", "routing_server", ("mSMQRoutingServices",), values.BOOLEAN, False),
        Attribute("DirectoryServer", "directory_server", ("mSMQDsServices",), values.BOOLEAN, False),
        Attribute(
            "DirectoryServerType",
            "directory_server_type",
            ("mSMQDsServices", "mSMQServiceType"),
            None,
            None,
            Use.READ,
        ),
        Attribute("RemoteAccessServer", "remote_access_server", ("mSMQServiceType",), None, False, Use.READ),
        Attribute(
            "SupportingServer", "supporting_server", ("mSMQDependentClientServices",), values.BOOLEAN, False
        ),
        Attribute(
            "PublicEncryptionKeyList",
            "public_encryption_key_list",
            ("mSMQEncryptKey",),
            values.OCTETS,
            b"",
        ),
        _security(),
    ),
    frozenset({"connected_network_identifier_list"}),
    (
        Attribute(
            "QualifiedComputerName",
            "qualified_computer_name",
            ("dNSHostName",),
            values.TEXT,
            REQUIRED,
            Use.READ,
        ),
        Attribute(
            "PublicSigningKeyList",
            "public_signing_key_list",
            ("mSMQSignCertificates",),
            values.OCTETS,
            b"",
            Use.READ,
        ),
        Attribute("Clustered", "clustered", ("servicePrincipalName",), None, False, Use.READ),
        Attribute(
            "OperatingSystemVersion",
            "operating_system_version",
            ("operatingSystemVersion",),
            values.TEXT,
            "",
            Use.READ,
        ),
    ),
)

QUEUE: Final = Kind(
    ObjectClass.QUEUE,
    "mSMQQueue",
    (
        _identifier(),
        Attribute("Label", "label", ("mSMQLabelEx",), values.TEXT, ""),
        *_times(),
        Attribute("Type", "type", ("mSMQQueueType",), values.GUID, NULL_GUID),
        Attribute(
            "Pathname", "pathname", ("distinguishedName", "mSMQQueueNameExt"), None, REQUIRED, Use.FILTER
        ),
        Attribute(
            "QualifiedPathname",
            "qualified_pathname",
            ("distinguishedName", "mSMQQueueNameExt"),
            None,
            REQUIRED,
            Use.READ,
        ),
        Attribute("Journaling", "journaling", ("mSMQJournal",), values.BOOLEAN, False),
        Attribute("Quota", "quota_kb", ("mSMQQueueQuota",), values.DWORD, UNLIMITED),
        Attribute("JournalQuota", "journal_quota_kb", ("mSMQQueueJournalQuota",), values.DWORD, UNLIMITED),
        Attribute("Authentication", "authentication", ("mSMQAuthenticate",), values.BOOLEAN, False),
        Attribute(
            "PrivacyLevel",
            "privacy_level",
            ("mSMQPrivacyLevel",),
            values.PRIVACY,
            QueuePrivacyLevel.OPTIONAL,
        ),
        Attribute(
            "Transactional",
            "transactional",
            ("mSMQTransactional",),
            values.BOOLEAN,
            False,
            Use.CREATE | Use.FILTER,
        ),
        Attribute("MulticastAddress", "multicast_address", ("MSMQ-MulticastAddress",), values.TEXT, ""),
        _security(),
        Attribute("BasePriority", "base_priority", ("mSMQBasePriority",), values.INTEGER, 0),
        _full_path(),
        Attribute("DirectoryPath", "directory_path", ("distinguishedName",), None, REQUIRED, Use.READ),
    ),
)

ENTERPRISE: Final = Kind(
    ObjectClass.ENTERPRISE,
    "mSMQEnterpriseSettings",
    (
        _identifier(),
        Attribute("Name", "name", (), None, REQUIRED, Use.READ),
        Attribute("WeakenedSecurity", "weakened_security", ("mSMQNameStyle",), values.BOOLEAN, False),
        Attribute(
            "NonLDAPCapableQueueManagerNotification",
            "non_ldap_capable_queue_manager_notification",
            ("mSMQCSPName",),
            values.YES_NO,
            True,
        ),
        Attribute(
            "DefaultTimeToLive",
            "default_time_to_live_s",
            ("mSMQLongLived",),
            values.DWORD,
            DEFAULT_TIME_TO_REACH_QUEUE_S,
        ),
        Attribute("OldDirectory", "old_directory", ("mSMQVersion",), values.VERSION, True),
        _security(),
    ),
)

SITE: Final = Kind(
    ObjectClass.SITE,
    "site",
    (
        _identifier(),
        Attribute("Name", "name", ("cn",), values.TEXT, REQUIRED, Use.FILTER),
        Attribute(
            "IntraSiteReplicationInterval",
            "intra_site_replication_interval_s",
            ("mSMQInterval1",),
            values.DWORD,
            2,
        ),
        Attribute(
            "InterSiteReplicationInterval",
            "inter_site_replication_interval_s",
            ("mSMQInterval2",),
            values.DWORD,
            10,
        ),
        _full_path(),
        Attribute("ForeignSite", "foreign_site", ("mSMQSiteForeign",), values.BOOLEAN, False),
        Attribute("MigratedFromMsmq10", "migrated_from_msmq10", ("mSMQNt4Stub",), values.FLAG, False),
        _security(),
    ),
    frozenset({"primary_site_controller", "public_signing_key_list", "public_signing_key"}),
)

ROUTING_LINK: Final = Kind(
    ObjectClass.ROUTING_LINK,
    "mSMQSiteLink",
    (
        _identifier(),
        Attribute("Description", "description", ("description",), values.TEXT, ""),
        _full_path(),
        Attribute("ActualCost", "actual_cost", ("mSMQCost",), values.DWORD, REQUIRED),
        Attribute("Site1Identifier", "site1_identifier", ("mSMQSite1",), None, REQUIRED),
        Attribute("Site2Identifier", "site2_identifier", ("mSMQSite2",), None, REQUIRED),
        Attribute(
            "SiteGateIdentifierList", "site_gate_identifier_list", ("mSMQSiteGates",), None, (), Use.KEPT
        ),
    ),
)

USER: Final = Kind(
    ObjectClass.USER,
    "user",
    (
        _identifier(),
        Attribute(
            "SecurityIdentifier", "security_identifier", ("objectSid",), values.OCTETS, REQUIRED, Use.FILTER
        ),
        Attribute(
            "CertificateDigestList",
            "certificate_digest_list",
            ("mSMQDigests",),
            values.GUIDS,
            (),
            Use.WRITE | Use.FILTER,
        ),
        Attribute(
            "Certificates",
            "certificates",
            ("mSMQSignCertificates",),
            values.OCTETS,
            b"",
            Use.WRITE | Use.FILTER,
        ),
        _full_path(),
    ),
)

KINDS: Final[Mapping[ObjectClass, Kind]] = {
    kind.object_class: kind for kind in (QUEUE_MANAGER, QUEUE, ENTERPRISE, SITE, ROUTING_LINK, USER)
}

SETTINGS_OF_CONFIGURATION: Final = {
    "mSMQQMID": "objectGUID",
    "mSMQServices": "mSMQServiceType",
    "mSMQRoutingService": "mSMQRoutingServices",
    "mSMQDsService": "mSMQDsServices",
    "mSMQDependentClientService": "mSMQDependentClientServices",
}
"""The attributes of mSMQSettings that repeat one of mSMQConfiguration (3.1.6.1.1.3)."""

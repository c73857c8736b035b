"""The conversion tables (MS-MQDSSM 2.2.2, 3.1.6.10, 3.1.6.20) against the specification and a real schema."""

from __future__ import annotations

import pytest

from msmq.directory import schema
from msmq.directory.schema import Kind, ldap_attributes
from msmq.manager.directory import ObjectClass
from tests.directory.support import CONFIGURATION, Domain, parse_ldif

ATTRIBUTES = {
    schema.QUEUE: """distinguishedName mSMQAuthenticate mSMQBasePriority mSMQJournal mSMQLabelEx
        MSMQ-MulticastAddress mSMQPrivacyLevel mSMQQueueJournalQuota mSMQQueueNameExt mSMQQueueQuota mSMQQueueType
        mSMQTransactional objectGUID nTSecurityDescriptor whenChanged whenCreated""",
    schema.QUEUE_MANAGER: """distinguishedName mSMQComputerTypeEx mSMQDependentClientServices mSMQDsServices
        mSMQEncryptKey mSMQForeign mSMQInRoutingServers mSMQJournalQuota mSMQOSType mSMQOutRoutingServers mSMQQuota
        mSMQRoutingServices mSMQServiceType mSMQSites nTSecurityDescriptor objectGUID whenChanged whenCreated""",
    schema.ENTERPRISE: "mSMQCSPName mSMQLongLived mSMQNameStyle mSMQVersion nTSecurityDescriptor objectGUID",
    schema.SITE: """cn distinguishedName mSMQInterval1 mSMQInterval2 mSMQNt4Stub mSMQSiteForeign
        nTSecurityDescriptor objectGUID""",
    schema.ROUTING_LINK: "description distinguishedName mSMQCost mSMQSite1 mSMQSite2 mSMQSiteGates objectGUID",
    schema.USER: "distinguishedName mSMQDigests mSMQSignCertificates objectGUID objectSid",
}
"""2.4, but for what is kept on the computer."""

TITLES = {
    schema.QUEUE_MANAGER: """Identifier ComputerName QueueManagerVersion OperatingSystemType QualifiedComputerName
        CreateTime ModifyTime DirectoryServerType RemoteAccessServer QueueManagerQuota JournalQuota ForeignSystem
        FullPath SiteIdentifierList OutRoutingServerIdentifierList InRoutingServerIdentifierList RoutingServer
        DirectoryServer SupportingServer PublicEncryptionKeyList PublicSigningKeyList Security Clustered
        OperatingSystemVersion""",
    schema.QUEUE: """Identifier Label CreateTime ModifyTime Type Pathname QualifiedPathname Journaling Quota
        JournalQuota Authentication PrivacyLevel Transactional MulticastAddress Security BasePriority FullPath
        DirectoryPath""",
    schema.ENTERPRISE: """Identifier Name WeakenedSecurity NonLDAPCapableQueueManagerNotification DefaultTimeToLive
        OldDirectory Security""",
    schema.SITE: """Identifier Name IntraSiteReplicationInterval InterSiteReplicationInterval FullPath ForeignSite
        MigratedFromMsmq10 Security""",
    schema.ROUTING_LINK: """Identifier Description FullPath ActualCost Site1Identifier Site2Identifier
        SiteGateIdentifierList""",
    schema.USER: "Identifier SecurityIdentifier CertificateDigestList Certificates FullPath",
}
"""3.1.6.20, but for what Active Directory does not support."""


def marked(rows: dict[Kind, str]) -> list[object]:
    return [
        pytest.param(kind, marks=[pytest.mark.spec(*row.split())] if row else [], id=kind.object_class.value)
        for kind, row in rows.items()
    ]


@pytest.mark.parametrize(
    "kind",
    marked(
        {
            schema.QUEUE: "DSSM-2.2.2-a",
            schema.QUEUE_MANAGER: "DSSM-2.2.2-b",
            schema.SITE: "DSSM-2.2.2-d",
            schema.ENTERPRISE: "DSSM-2.2.2-e",
        }
    ),
)
def test_the_attributes_of_a_class_are_in_a_real_schema(domain: Domain, kind: Kind) -> None:
    used = {ldap for entry in kind.attributes for ldap in entry.ldap}
    assert used == set(ATTRIBUTES[kind].split())
    schema_dn = f"CN=Schema,{CONFIGURATION}"
    names = "".join(f"(lDAPDisplayName={name})" for name in sorted(used))
    found = parse_ldif(domain.controller.ldapsearch(schema_dn, "lDAPDisplayName", conditions=f"(|{names})"))
    assert {entry["lDAPDisplayName"][0].decode() for entry in found} == used
    allowed = _allowed(domain, kind.ldap_class)
    assert used <= allowed


def _allowed(domain: Domain, ldap_class: str) -> set[str]:
    """What objects of a class may have, with all the classes it comes from."""
    fields = ("mayContain", "systemMayContain", "mustContain", "systemMustContain")
    links = ("subClassOf", "auxiliaryClass", "systemAuxiliaryClass")
    allowed: set[str] = set()
    todo, seen = [ldap_class], set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        (entry,) = parse_ldif(
            domain.controller.ldapsearch(
                f"CN=Schema,{CONFIGURATION}",
                *fields,
                *links,
                conditions=f"(&(objectClass=classSchema)(lDAPDisplayName={name}))",
            )
        )
        allowed |= {value.decode() for attribute in fields for value in entry.get(attribute, [])}
        todo += [value.decode() for attribute in links for value in entry.get(attribute, [])]
    return allowed


@pytest.mark.spec("DSSM-2.4-b")
def test_the_test_controller_has_the_whole_schema(domain: Domain) -> None:
    counts = {}
    for kind in ("classSchema", "attributeSchema"):
        text = domain.controller.ldapsearch(
            f"CN=Schema,{CONFIGURATION}", "cn", conditions=f"(&(objectClass={kind})(lDAPDisplayName=msmq*))"
        )
        counts[kind] = len(parse_ldif(text))
    assert counts == {"classSchema": 8, "attributeSchema": 59}


@pytest.mark.parametrize(
    "kind",
    marked(
        {
            schema.QUEUE_MANAGER: "DSSM-3.1.6.20.1-a",
            schema.QUEUE: "DSSM-3.1.6.20.2-a",
            schema.ENTERPRISE: "DSSM-3.1.6.20.3-a",
            schema.SITE: "DSSM-3.1.6.20.4-a",
            schema.ROUTING_LINK: "DSSM-3.1.6.20.5-a",
            schema.USER: "DSSM-3.1.6.20.6-a",
        }
    ),
)
def test_the_directory_attributes_of_a_class(kind: Kind) -> None:
    titles = [entry.title for entry in (*kind.attributes, *kind.elsewhere)]
    assert sorted(titles) == sorted(TITLES[kind].split())


@pytest.mark.spec("DSSM-3.1.6.20-a")
def test_all_tables_are_the_specifications() -> None:
    assert set(schema.KINDS) == set(ObjectClass) - {ObjectClass.CONNECTED_NETWORK}
    for kind in schema.KINDS.values():
        assert {entry.title for entry in (*kind.attributes, *kind.elsewhere)} == set(TITLES[kind].split())


TABLE = {
    schema.QUEUE_MANAGER: {
        "Identifier": "objectGUID",
        "ComputerName": "distinguishedName",
        "QueueManagerVersion": "mSMQComputerTypeEx",
        "OperatingSystemType": "mSMQOSType",
        "CreateTime": "whenCreated",
        "ModifyTime": "whenChanged",
        "QueueManagerQuota": "mSMQQuota",
        "JournalQuota": "mSMQJournalQuota",
        "ForeignSystem": "mSMQForeign",
        "FullPath": "distinguishedName",
        "SiteIdentifierList": "mSMQSites",
        "OutRoutingServerIdentifierList": "mSMQOutRoutingServers",
        "InRoutingServerIdentifierList": "mSMQInRoutingServers",
        "RoutingServer": "mSMQRoutingServices",
        "DirectoryServer": "mSMQDsServices",
        "DirectoryServerType": "mSMQDsServices mSMQServiceType",
        "RemoteAccessServer": "mSMQServiceType",
        "SupportingServer": "mSMQDependentClientServices",
        "PublicEncryptionKeyList": "mSMQEncryptKey",
        "Security": "nTSecurityDescriptor",
    },
    schema.QUEUE: {
        "Identifier": "objectGUID",
        "Label": "mSMQLabelEx",
        "CreateTime": "whenCreated",
        "ModifyTime": "whenChanged",
        "Type": "mSMQQueueType",
        "Pathname": "distinguishedName mSMQQueueNameExt",
        "QualifiedPathname": "distinguishedName mSMQQueueNameExt",
        "Journaling": "mSMQJournal",
        "Quota": "mSMQQueueQuota",
        "JournalQuota": "mSMQQueueJournalQuota",
        "Authentication": "mSMQAuthenticate",
        "PrivacyLevel": "mSMQPrivacyLevel",
        "Transactional": "mSMQTransactional",
        "MulticastAddress": "MSMQ-MulticastAddress",
        "Security": "nTSecurityDescriptor",
        "BasePriority": "mSMQBasePriority",
        "FullPath": "distinguishedName",
        "DirectoryPath": "distinguishedName",
    },
    schema.ENTERPRISE: {
        "Identifier": "objectGUID",
        "Name": "",
        "WeakenedSecurity": "mSMQNameStyle",
        "NonLDAPCapableQueueManagerNotification": "mSMQCSPName",
        "DefaultTimeToLive": "mSMQLongLived",
        "OldDirectory": "mSMQVersion",
        "Security": "nTSecurityDescriptor",
    },
    schema.SITE: {
        "Identifier": "objectGUID",
        "Name": "cn",
        "IntraSiteReplicationInterval": "mSMQInterval1",
        "InterSiteReplicationInterval": "mSMQInterval2",
        "FullPath": "distinguishedName",
        "ForeignSite": "mSMQSiteForeign",
        "MigratedFromMsmq10": "mSMQNt4Stub",
        "Security": "nTSecurityDescriptor",
    },
    schema.ROUTING_LINK: {
        "Identifier": "objectGUID",
        "Description": "description",
        "FullPath": "distinguishedName",
        "ActualCost": "mSMQCost",
        "Site1Identifier": "mSMQSite1",
        "Site2Identifier": "mSMQSite2",
        "SiteGateIdentifierList": "mSMQSiteGates",
    },
    schema.USER: {
        "Identifier": "objectGUID",
        "SecurityIdentifier": "objectSid",
        "CertificateDigestList": "mSMQDigests",
        "Certificates": "mSMQSignCertificates",
        "FullPath": "distinguishedName",
    },
}
"""3.1.6.10."""


@pytest.mark.parametrize(
    "kind",
    marked(
        {
            schema.QUEUE_MANAGER: "DSSM-3.1.6.10.1-a DSSM-3.1.6.10.1-b DSSM-3.1.6.10.1-c",
            schema.QUEUE: "DSSM-3.1.6.10.2-a DSSM-3.1.6.10.2-b DSSM-3.1.6.10.2-c",
            schema.ROUTING_LINK: "DSSM-3.1.6.10.5-a",
            schema.USER: "DSSM-3.1.6.10.6-a",
            schema.SITE: "DSSM-3.1.6.10.4-a",  # whose "Foreign" is ForeignSite of the data model
            schema.ENTERPRISE: "",
        }
    ),
)
def test_the_ldap_attributes_of_each_attribute(kind: Kind) -> None:
    assert {entry.title for entry in kind.attributes} == set(TABLE[kind])
    for entry in kind.attributes:
        assert [ldap for _, ldap in ldap_attributes(kind, [entry.name])] == TABLE[kind][entry.title].split()
        assert {name for name, _ in ldap_attributes(kind, [entry.name])} <= {entry.name}


@pytest.mark.spec("DSSM-3.1.6.10.1-d")
def test_what_the_computer_has_is_not_asked_of_the_queue_manager() -> None:
    names = [entry.name for entry in schema.QUEUE_MANAGER.elsewhere]
    assert len(names) == 4
    assert ldap_attributes(schema.QUEUE_MANAGER, names) == []


@pytest.mark.spec("DSSM-3.1.6.10-a")
def test_an_unknown_name_has_no_pair() -> None:
    assert ldap_attributes(schema.QUEUE, ["nonsense", "label"]) == [("label", "mSMQLabelEx")]

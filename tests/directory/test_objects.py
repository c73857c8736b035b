"""The events "... Using LDAP" (MS-MQDSSM 3.1.3, 3.1.6.12 to 3.1.6.19)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from msmq.directory.connection import CachedConnection
from msmq.directory.exchange import Entry
from msmq.directory.objects import Objects, by_guid
from msmq.directory.results import DirectoryFailure
from msmq.directory.settings import Password, Settings
from msmq.manager.directory import DirectoryResult, ObjectClass
from msmq.security.descriptor import SecurityDescriptor
from tests.directory.support import CONFIGURATION, ENTERPRISE_DN, Domain

NOT_CONNECTED = DirectoryResult.DIRECTORY_NOT_CONNECTED
GUID = uuid4().bytes_le
NOBODY = Settings((), Password("nobody", ""))


class Scripted(CachedConnection):
    """A connection whose answers are known."""

    def __init__(self, *answers: list[Entry] | DirectoryFailure) -> None:
        super().__init__(NOBODY)
        self.answers = list(answers)
        self.asked: list[tuple[str, Sequence[str]]] = []

    def prepare(self) -> None:
        self.ref_count += 1

    def shut_down(self) -> None:
        self.ref_count -= 1

    def search(self, base: str, *, attributes: Sequence[str], **_: Any) -> list[Entry]:
        self.asked.append((base, attributes))
        answer = self.answers.pop(0)
        if isinstance(answer, DirectoryFailure):
            raise answer
        return answer

    def pages(self, base: str, *, attributes: Sequence[str], **_: Any) -> Iterator[list[Entry]]:
        yield self.search(base, attributes=attributes)


def root(**contexts: str) -> Entry:
    given: Mapping[str, Sequence[bytes]] = {
        name.lower(): [value.encode()] for name, value in contexts.items()
    }
    return Entry("", given)


@pytest.mark.spec("DSSM-3.1.3-e", "DSSM-3.1.3-d", "DSSM-3.1.3-b", "DSSM-3.1.3-g", "DSSM-3.1.1.5-a")
def test_initialization(domain: Domain) -> None:
    directory = type(domain.directory)(domain.settings(), domain.trace)
    assert directory.connection.handle is None
    assert directory.connection.ref_count == 0
    assert directory.initialize()
    assert directory.objects.configuration_naming_context == CONFIGURATION
    (search,) = domain.trace.sent("searchRequest")
    assert search.dn == ""
    assert search.controls == []
    assert search.fields == {
        "scope": 0,
        "deref": 0,
        "size_limit": 0,
        "time_limit": 0,
        "types_only": False,
        "attributes": ["*"],
        "filter": "(objectClass=*)",
    }
    assert domain.trace.requests[-1].operation == "unbindRequest"
    assert directory.connection.ref_count == 0
    assert directory.connection.handle is None
    domain.trace.clear()
    assert directory.read(ObjectClass.ENTERPRISE, None, ("identifier",))[0] is DirectoryResult.SUCCESS
    # What was learnt is used and not asked for again.
    searches = domain.trace.sent("searchRequest")
    assert searches
    assert all(search.dn.endswith(f",{CONFIGURATION}") for search in searches)


@pytest.mark.spec("DSSM-3.1.3-a")
@pytest.mark.parametrize("event", ["create", "delete", "get", "search", "set", "set_security"])
def test_nothing_before_initialization(event: str) -> None:
    objects = Objects(CachedConnection(NOBODY))
    arguments: dict[str, tuple[Any, ...]] = {
        "create": ("DC=x", "y", "z", {}),
        "delete": ("DC=x",),
        "get": ("DC=x", b"", []),
        "search": ("site", [], []),
        "set": ("DC=x", b"", {}),
        "set_security": ("DC=x", b"", SecurityDescriptor()),
    }
    with pytest.raises(DirectoryFailure) as caught:
        getattr(objects, event)(*arguments[event])
    assert caught.value.result is NOT_CONNECTED


@pytest.mark.spec("DSSM-3.1.3-c", "DSSM-1.5-a")
def test_initialization_without_a_directory() -> None:
    objects = Objects(CachedConnection(NOBODY))
    objects.initialize()
    assert objects.configuration_naming_context == ""
    assert objects.connection.ref_count == 0
    assert objects.connection.handle is None


@pytest.mark.spec("DSSM-2.2.1-j")
def test_names_end_with_the_root_domain() -> None:
    contexts = root(
        configurationNamingContext="CN=Configuration,DC=root",
        rootDomainNamingContext="DC=root",
        defaultNamingContext="DC=child,DC=root",
    )
    objects = Objects(Scripted([contexts]))
    objects.initialize()
    assert objects.names.queue("qm1\\q1") == "CN=q1,CN=msmq,CN=qm1,CN=Computers,DC=root"


@pytest.mark.spec("DSSM-3.1.3-f")
def test_a_root_that_cannot_be_read() -> None:
    failure = DirectoryFailure(DirectoryResult.GENERIC_ERROR)
    objects = Objects(Scripted(failure, failure))
    objects.initialize()
    assert objects.configuration_naming_context == ""
    with pytest.raises(DirectoryFailure) as caught:
        objects.get("DC=x", b"", [])
    assert caught.value.result is NOT_CONNECTED


def ready(*answers: list[Entry] | DirectoryFailure) -> tuple[Objects, Scripted]:
    connection = Scripted(
        [root(configurationNamingContext="CN=c,DC=x", rootDomainNamingContext="DC=x")], *answers
    )
    objects = Objects(connection)
    objects.initialize()
    connection.asked.clear()
    return objects, connection


@pytest.mark.spec("DSSM-3.1.6.9-i")
def test_values_that_come_in_ranges() -> None:
    """A list of 3,500 members, 1,500 at a time."""
    values = [b"CN=%d" % number for number in range(3500)]
    pages = [
        [Entry("CN=list", {"member;range=0-1499": values[:1500], "member": [], "objectguid": [GUID]})],
        [Entry("CN=list", {"member;range=1500-2999": values[1500:3000]})],
        [Entry("CN=list", {"member;range=3000-*": values[3000:]})],
    ]
    objects, connection = ready(*pages)
    assert objects.get("CN=list", b"", ["member"])["member"] == values
    assert [names[0] for _, names in connection.asked[1:]] == ["member;range=1500-*", "member;range=3000-*"]
    assert connection.ref_count == 0


@pytest.mark.spec("DSSM-3.1.6.14-a", "DSSM-3.1.6.14-c", "DSSM-3.1.6.14-f")
def test_values_in_the_order_of_the_list() -> None:
    found = Entry("CN=x", {"b": [b"2"], "a": [b"1"], "objectguid": [GUID], "distinguishedname": [b"CN=x"]})
    objects, _ = ready([found])
    values = objects.get("CN=x", b"", ["a", "missing", "b"])
    assert list(values.items()) == [
        ("a", [b"1"]),
        ("missing", []),
        ("b", [b"2"]),
        ("objectGUID", [GUID]),
        ("distinguishedName", [b"CN=x"]),
    ]


@pytest.mark.spec("DSSM-3.1.6.15-b", "DSSM-3.1.6.15-l")
def test_rows_of_a_search_are_aligned() -> None:
    found = [
        Entry("CN=x", {"a": [b"1"], "objectguid": [GUID], "distinguishedname": [b"CN=x"]}),
        Entry("CN=y", {"b": [b"2"], "objectguid": [GUID], "distinguishedname": [b"CN=y"]}),
    ]
    objects, _ = ready([], found)
    rows = objects.search("site", [], ["a", "b"])
    assert [list(row) for row in rows] == [["a", "b", "objectGUID", "distinguishedName"]] * 2
    assert [row["a"] for row in rows] == [[b"1"], []]


@pytest.mark.spec("DSSM-3.1.6.19-d", "DSSM-3.1.6.12-e", "DSSM-3.1.6.13-e")
@pytest.mark.parametrize(
    "event",
    [
        lambda objects: objects.create("DC=x", "y", "z", {}),
        lambda objects: objects.delete(guid=GUID),
        lambda objects: objects.delete("CN=y,DC=x"),
        lambda objects: objects.set("", GUID, {}),
        lambda objects: objects.get("", GUID, []),
    ],
    ids=["create", "delete-by-guid", "delete", "set", "get"],
)
def test_every_way_out_lets_the_connection_go(event: Callable[[Objects], object]) -> None:
    denied = DirectoryFailure(DirectoryResult.GENERIC_ERROR, "insufficientAccessRights (50)")
    objects, connection = ready(denied)
    with pytest.raises(DirectoryFailure) as caught:
        event(objects)
    assert caught.value.result is DirectoryResult.GENERIC_ERROR
    assert connection.ref_count == 0


@pytest.mark.spec("DSSM-3.1.6.15-g")
def test_a_place_that_is_missing(domain: Domain) -> None:
    objects = Objects(domain.directory.connection)
    objects.initialize()
    objects.configuration_naming_context = f"CN=missing,{CONFIGURATION}"
    with pytest.raises(DirectoryFailure) as caught:
        objects.search("mSMQSiteLink", [], [])
    assert caught.value.result is DirectoryResult.OBJECT_NOT_FOUND


@pytest.mark.spec("DSSM-3.1.6.19-b", "DSSM-3.1.6.19-f", "DSSM-3.1.6.14-d")
def test_finding_by_identifier(domain: Domain) -> None:
    guid = domain.look(ENTERPRISE_DN, "objectGUID")["objectGUID"][0]
    connection = domain.directory.connection
    with connection.use():
        handle = connection.handle
        domain.trace.clear()
        assert domain.directory.objects.find(guid) == ENTERPRISE_DN
        assert connection.handle is handle
        assert [request.dn for request in domain.trace.requests] == [f"<GUID={UUID(bytes_le=guid)}>"]
        assert by_guid(guid) == f"<GUID={UUID(bytes_le=guid)}>"
        with pytest.raises(DirectoryFailure) as caught:
            connection.search("", attributes=["cn"], subtree=True, conditions="(cn=MsmqServices)")
        assert caught.value.result is DirectoryResult.OBJECT_NOT_FOUND

        def hits(value: str) -> int:
            conditions = f"(objectGUID={value})"
            return len(
                connection.search(CONFIGURATION, attributes=["cn"], subtree=True, conditions=conditions)
            )

        assert hits("".join(f"\\{byte:02x}" for byte in guid)) == 1
        assert hits(UUID(bytes_le=guid).hex) == 0
    with pytest.raises(DirectoryFailure) as caught:
        domain.directory.objects.get("CN=missing,DC=msmq,DC=test", b"", [])
    assert caught.value.result is DirectoryResult.OBJECT_NOT_FOUND


def test_who_we_are(domain: Domain) -> None:
    sid = domain.look("CN=Administrator,CN=Users,DC=msmq,DC=test", "objectSid")["objectSid"][0]
    assert domain.directory.objects.account()[0].encode() == sid

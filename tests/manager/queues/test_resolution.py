"""From format names to queues, to paths, and from lists to their members."""

from __future__ import annotations

import pytest

from msmq.errors import IllegalFormatnameError
from msmq.manager.model import QueueManagerRecord
from msmq.manager.queues.queue import Queue
from msmq.manager.queues.queues import QueueRequest
from msmq.wire.guid import guid_text
from msmq.wire.names import QueuePath, parse_format_name
from tests.manager.domain import DomainHost, guid
from tests.manager.support import SEND, Host

ILLEGAL_FORMATNAME = 0xC00E001E


@pytest.fixture
def host() -> DomainHost:
    return DomainHost()


# --- which queue a name means --------------------------------------------------------------------------------


def found(host: Host, text: str) -> Queue | None:
    return host.manager.naming.find(parse_format_name(text))


@pytest.mark.parametrize(
    "place", ["OS:.", "OS:localhost", "OS:host", "OS:HOST.Corp.Example", "TCP:127.0.0.1", "TCP:10.1.2.3"]
)
def test_many_addresses_mean_this_host(host: DomainHost, place: str) -> None:
    queue = host.queue()
    host.manager.naming.local_addresses.add("10.1.2.3")
    assert found(host, f"DIRECT={place}\\Private$\\Orders") is queue
    assert found(host, f"DIRECT={place}\\private$\\orders;JOURNAL") is queue.journal
    assert found(host, f"DIRECT={place}\\orders") is None
    assert found(host, f"DIRECT={place}\\SYSTEM$;DEADXACT") is host.core.transactional_dead_letter_queue


def test_others_are_not_this_host(host: DomainHost) -> None:
    host.queue()
    for place in ("OS:other", "OS:host.other.example", "TCP:10.1.2.4", "OS:host2"):
        assert found(host, f"DIRECT={place}\\private$\\orders") is None
    assert found(host, "DIRECT=HTTP://host/MSMQ\\private$\\orders") is not None


def test_no_name_leads_to_a_deleted_queue(host: DomainHost) -> None:
    public = host.manager.queues.create(QueueRequest(".\\orders"))
    private = host.queue("secret")
    own = guid_text(host.core.record.identifier)
    names = [
        f"PUBLIC={guid_text(public.identifier)}",
        "DIRECT=OS:.\\orders",
        f"PRIVATE={own}\\{private.private_queue_number:08X}",
        "DIRECT=OS:.\\private$\\secret",
    ]
    assert [found(host, name) for name in names] == [public, public, private, private]
    for queue in (public, private):
        host.manager.queues.delete(queue)
    assert [found(host, name) for name in names] == [None] * 4


def test_identifiers_and_numbers_lead_to_queues_of_their_type_only(host: DomainHost) -> None:
    public = host.manager.queues.create(QueueRequest(".\\orders"))
    private = host.queue("secret")
    own = guid_text(host.core.record.identifier)
    assert found(host, f"PUBLIC={guid_text(public.identifier)}") is public
    assert found(host, f"PUBLIC={guid_text(private.identifier)}") is None
    assert found(host, f"CONNECTOR={guid_text(public.identifier)}") is None
    assert found(host, f"PRIVATE={own}\\{private.private_queue_number:08X}") is private
    assert found(host, f"PRIVATE={guid_text(guid())}\\{private.private_queue_number:08X}") is None
    assert found(host, f"MACHINE={own};DEADLETTER") is host.core.dead_letter_queue
    assert found(host, f"MACHINE={own};JOURNAL") is host.core.journal_queue
    assert found(host, f"MACHINE={guid_text(guid())};JOURNAL") is None


def test_outgoing_queues_and_subqueues_are_found_by_their_names(host: DomainHost) -> None:
    opened = host.manager.queues.open("DIRECT=OS:other\\q", SEND)
    assert found(host, "direct=os:OTHER\\Q") is opened.queue
    queue = host.queue()
    assert found(host, "DIRECT=OS:.\\private$\\orders;late") is None
    late = host.manager.queues.subqueue(queue, "late")
    assert found(host, "DIRECT=OS:.\\private$\\orders;LATE") is late


# --- Get Queue Path ------------------------------------------------------------------------------------------


@pytest.mark.spec("DMPR-3.1.7.1.26-b")
@pytest.mark.parametrize(
    ("name", "path", "machine"),
    [
        ("DIRECT=OS:h\\private$\\q", "h\\private$\\q", "h"),
        ("DIRECT=OS:h.corp\\q;sub", "h.corp\\q;sub", "h.corp"),
        ("DIRECT=TCP:10.0.0.1\\q", "10.0.0.1\\q", "10.0.0.1"),
        ("DIRECT=TCP:fe80::1\\q", "fe80::1\\q", "fe80::1"),
        ("DIRECT=http://h:80/msmq/q", "", "h"),
        ("DIRECT=HTTPS://h/MSMQ\\private$\\q", "", "h"),
    ],
)
def test_a_direct_name_carries_its_path(host: DomainHost, name: str, path: str, machine: str) -> None:
    assert host.manager.naming.queue_path(name) == (path, machine)


@pytest.mark.spec("DMPR-3.1.7.1.26-c")
def test_the_directory_knows_the_path_of_a_public_queue(host: DomainHost) -> None:
    queue = host.manager.queues.create(QueueRequest(".\\orders"))
    assert host.manager.naming.queue_path(f"PUBLIC={guid_text(queue.identifier)}") == ("HOST\\orders", "HOST")
    with pytest.raises(IllegalFormatnameError) as refused:
        host.manager.naming.queue_path(f"PUBLIC={guid_text(guid())}")
    assert refused.value.code == ILLEGAL_FORMATNAME


@pytest.mark.spec("DMPR-3.1.7.1.26-d")
def test_the_directory_knows_the_host_of_a_private_queue(host: DomainHost) -> None:
    own, other = host.core.record.identifier, guid()
    host.directory.put(QueueManagerRecord(other, "ELSEWHERE"))
    queue = host.queue()
    number = f"{queue.private_queue_number:08X}"
    path = host.manager.naming.queue_path
    assert path(f"PRIVATE={guid_text(own)}\\{number}") == (queue.pathname, "HOST")
    assert path(f"PRIVATE={guid_text(own)}\\00000FFF") == ("", "HOST")
    assert path(f"PRIVATE={guid_text(own)}\\00000004") == ("", "HOST"), "the order queue is no private queue"
    assert path(f"PRIVATE={guid_text(other)}\\{number}") == ("", "ELSEWHERE")
    with pytest.raises(IllegalFormatnameError) as refused:
        path(f"PRIVATE={guid_text(guid())}\\{number}")
    assert refused.value.code == ILLEGAL_FORMATNAME


@pytest.mark.spec("DMPR-3.1.7.1.26-a")
def test_known_names_have_a_path_and_the_others_are_illegal(host: DomainHost) -> None:
    public = host.manager.queues.create(QueueRequest(".\\orders"))
    private = host.queue("secret")
    own = guid_text(host.core.record.identifier)
    for name in (
        "DIRECT=OS:h\\q",
        f"PUBLIC={guid_text(public.identifier)}",
        f"PRIVATE={own}\\{private.private_queue_number:08X}",
    ):
        path, machine = host.manager.naming.queue_path(name)
        assert path
        assert machine
    for name in ("orders", "DIRECT=OS:h", f"MACHINE={own}", "MULTICAST=234.1.1.1:8001"):
        with pytest.raises(IllegalFormatnameError) as refused:
            host.manager.naming.queue_path(name)
        assert refused.value.code == ILLEGAL_FORMATNAME


# --- Expand Format Name --------------------------------------------------------------------------------------


def expanded(host: Host, text: str) -> str | None:
    name = host.manager.naming.expand(text)
    return None if name is None else str(name)


def distribution_list(host: DomainHost, *members: str) -> str:
    identifier = guid()
    host.directory.lists[identifier] = members
    return f"DL={guid_text(identifier)}"


@pytest.mark.spec("DMPR-3.1.7.3.8-a", "DMPR-3.1.7.3.8-b")
@pytest.mark.parametrize(
    "name", ["DIRECT=OS:h\\q", f"PUBLIC={guid_text(guid())}", "MULTICAST=234.1.1.1:8001"]
)
def test_a_single_name_is_itself(host: DomainHost, name: str) -> None:
    assert expanded(host, name) == name
    assert host.directory.asked("resolve_distribution_list") == []


@pytest.mark.spec("DMPR-3.1.7.3.8-c")
def test_lists_are_replaced_by_their_members_however_deep(host: DomainHost) -> None:
    inner = distribution_list(host, "DIRECT=OS:c\\q", "DIRECT=OS:d\\q")
    outer = distribution_list(host, inner, "DIRECT=OS:b\\q")
    assert expanded(host, f"{outer},DIRECT=OS:a\\q") == ",".join(f"DIRECT=OS:{n}\\q" for n in "abcd")

    circle = guid()
    name = f"DL={guid_text(circle)}"
    host.directory.lists[circle] = (name, "DIRECT=OS:a\\q", f"{name}@corp.example")
    assert expanded(host, name) == "DIRECT=OS:a\\q"


@pytest.mark.spec("DMPR-3.1.7.3.8-d")
def test_an_unknown_list_cannot_be_opened(host: DomainHost) -> None:
    unknown = f"DL={guid_text(guid())}"
    known = distribution_list(host, "DIRECT=OS:a\\q")
    assert expanded(host, unknown) is None
    assert expanded(host, f"{known},{unknown}") is None
    with pytest.raises(IllegalFormatnameError):
        host.manager.queues.open(unknown, SEND)
    host.directory.connected = False
    assert expanded(host, known) is None


@pytest.mark.spec("DMPR-3.1.7.3.8-e")
def test_elements_are_sorted_and_stand_once(host: DomainHost) -> None:
    name = host.manager.naming.expand("DIRECT=OS:B\\q,direct=os:b\\Q,DIRECT=OS:a\\q")
    assert name is not None
    assert str(name).lower() == "direct=os:a\\q,direct=os:b\\q"


@pytest.mark.spec("DMPR-3.1.7.3.8-f")
def test_what_remains_is_one_name_or_several(host: DomainHost) -> None:
    assert expanded(host, distribution_list(host, "DIRECT=OS:a\\q")) == "DIRECT=OS:a\\q"
    assert expanded(host, "DIRECT=OS:a\\q,DIRECT=OS:A\\q") == "DIRECT=OS:a\\q"
    several = distribution_list(host, "DIRECT=OS:b\\q", "DIRECT=OS:a\\q")
    assert expanded(host, several) == "DIRECT=OS:a\\q,DIRECT=OS:b\\q"
    assert expanded(host, distribution_list(host)) is None


def test_a_list_has_an_end(host: DomainHost) -> None:
    members = [f"DIRECT=OS:h{number}\\q" for number in range(10_001)]
    assert expanded(host, distribution_list(host, *members)) is None
    assert expanded(host, distribution_list(host, *members[:100])) is not None


def test_the_directory_knows_the_name_and_host_of_a_path(host: DomainHost) -> None:
    queue = host.manager.queues.create(QueueRequest("HOST\\orders"))
    published = host.manager.naming.published
    name, where = published(QueuePath.parse("HOST\\orders;late")) or ("", "")
    assert (name, where.partition(".")[0].upper()) == (f"PUBLIC={guid_text(queue.identifier)}", "HOST")
    assert published(QueuePath.parse("HOST\\absent")) is None
    assert published(QueuePath.parse("HOST\\private$\\orders")) is None

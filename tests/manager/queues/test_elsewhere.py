"""Public queues of other hosts, by what the directory has of them."""

from __future__ import annotations

import pytest

from msmq.errors import AccessDeniedError, NoDsError, QueueNotFoundError
from msmq.manager.directory import DirectoryObject, ObjectClass
from msmq.manager.queues.queues import QueueRequest
from msmq.security.access import Token
from msmq.security.descriptor import Ace, AceType, Acl, SecurityDescriptor
from msmq.security.sid import EVERYONE, Sid
from msmq.wire.names import PublicName, QueuePath
from tests.manager.domain import DomainHost, guid

PATH = QueuePath.parse("OTHER\\orders")
STRANGER = Token.authenticated(Sid.parse("S-1-5-21-1-2-3-1001"))


def other(host: DomainHost, rights: int = 0x20020) -> bytes:
    security = SecurityDescriptor(dacl=Acl.of(Ace(AceType.ACCESS_ALLOWED, rights, EVERYONE))).encode()
    values = {"identifier": guid(), "pathname": str(PATH), "label": "theirs", "security": security}
    return host.directory.put(DirectoryObject(ObjectClass.QUEUE, values)).identifier


def test_what_is_elsewhere() -> None:
    elsewhere = DomainHost().manager.elsewhere
    assert elsewhere.is_elsewhere(PATH)
    for path in (".\\q", "HOST\\q", "host.corp.example\\q", "OTHER\\private$\\q", "OTHER\\q;journal"):
        assert not elsewhere.is_elsewhere(QueuePath.parse(path)), path


def test_it_is_found_by_its_path_and_by_its_identifier() -> None:
    host = DomainHost()
    identifier = other(host)
    for name in (PATH, PublicName(identifier)):
        queue = host.manager.elsewhere.look(name, STRANGER)
        assert (queue.identifier, queue.label) == (identifier, "theirs")
    assert str(PATH).lower() not in host.core.by_path
    with pytest.raises(QueueNotFoundError):
        host.manager.elsewhere.look(QueuePath.parse("OTHER\\none"))


def test_nothing_is_said_to_be_missing_while_nobody_can_be_asked() -> None:
    host = DomainHost()
    other(host)
    host.directory.connected = False
    for path in (PATH, QueuePath.parse("OTHER\\none")):
        with pytest.raises(NoDsError, match="could not be looked up: the directory cannot be reached"):
            host.manager.elsewhere.look(path)


def test_it_is_changed_in_the_directory_by_who_may() -> None:
    host = DomainHost()
    identifier = other(host)
    elsewhere = host.manager.elsewhere
    with pytest.raises(AccessDeniedError):
        elsewhere.change(PATH, {"label": "x"}, STRANGER)
    assert elsewhere.change(PATH, {"label": "ours"}).label == "ours"
    stored = host.directory.find(ObjectClass.QUEUE, identifier=identifier)
    assert stored is not None
    assert stored.attributes["label"] == "ours"


def test_it_is_made_in_the_directory() -> None:
    host = DomainHost()
    made = host.manager.elsewhere.create(PATH, QueueRequest(str(PATH), label="new", quota_kb=5))
    assert (made.pathname, made.label, made.quota_kb) == (str(PATH), "new", 5)
    assert host.core.by_path.get(str(PATH).lower()) is None

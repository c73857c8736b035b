"""What has changed behind a mark, and that it costs little to ask."""

from __future__ import annotations

from msmq.directory.changes import Changed, Mark
from msmq.manager.directory import DirectoryResult, ObjectClass
from tests.directory.support import Domain, link


def since(domain: Domain, mark: Mark | None) -> Changed:
    result, changed = domain.directory.changes(mark)
    assert result is DirectoryResult.SUCCESS, domain.directory.last_failure
    assert changed is not None
    return changed


def test_the_first_look_knows_nothing_of_before(domain: Domain) -> None:
    changed = since(domain, None)
    assert changed.everything
    other = changed.mark._replace(controller="CN=another")
    assert since(domain, other).everything
    restored = changed.mark._replace(number=changed.mark.number + 1_000_000)
    assert since(domain, restored).everything


def test_each_kind_of_object_is_noticed(domain: Domain) -> None:
    host = domain.queue_manager()
    queue = domain.queue(host.attributes["computer_name"])
    mark = since(domain, None).mark
    domain.change(queue.attributes["full_path"], mSMQLabelEx="new")
    changed = since(domain, mark)
    assert not changed.everything
    assert ObjectClass.QUEUE in changed.classes
    assert queue.identifier in changed.identifiers
    domain.change(host.attributes["full_path"], mSMQQuota="5")
    changed = since(domain, changed.mark)
    assert host.identifier in changed.identifiers
    made = link(domain, 3)
    changed = since(domain, changed.mark)
    assert {ObjectClass.ROUTING_LINK, ObjectClass.SITE} <= changed.classes
    assert domain.directory.delete(made, None) is DirectoryResult.SUCCESS
    assert ObjectClass.ROUTING_LINK in since(domain, changed.mark).classes


def test_nothing_new_is_one_small_question(domain: Domain) -> None:
    mark = since(domain, None).mark
    for _ in range(10):  # others may write meanwhile
        domain.trace.clear()
        changed = since(domain, mark)
        if changed.mark == mark:
            break
        mark = changed.mark
    (asked,) = domain.trace.sent("searchRequest")
    assert (asked.dn, asked.fields["scope"]) == ("", 0)

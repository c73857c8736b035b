"""``msmq queue`` against a live daemon."""

from __future__ import annotations

import pytest

from tests.cli.support import Live

SHAPE = {
    "path": str, "format_name": str, "kind": str, "transactional": bool, "label": str, "type": str, "journaling": bool,
    "quota_kb": (int, type(None)), "journal_quota_kb": (int, type(None)), "authenticated_only": bool,
    "privacy_level": int, "base_priority": int, "multicast_address": str, "identifier": str, "created_time": str,
    "modified_time": str, "messages": int, "bytes": int, "journal_messages": int, "journal_bytes": int,
    "subqueues": list, "open_handles": int, "retry_delay_ms": int, "max_deliveries": int, "poison_subqueue": str,
    "paused_messages": int, "poisoned_total": int,
}  # fmt: skip


def test_create_with_everything(live: Live) -> None:
    queue = live.queue(
        "--transactional", "--label", "All orders", "--journal", "--quota", "100", "--journal-quota", "50",
        "--authenticated", "--privacy", "none", "--type", "557358D1-9150-9595-4997-B6E611EA26C6",
    )  # fmt: skip
    shown = live.object("queue", "show", queue)
    assert shown["path"].lower() == queue.replace(".", "host", 1)
    wanted = {
        "transactional": True, "label": "All orders", "journaling": True, "quota_kb": 100, "journal_quota_kb": 50,
        "authenticated_only": True, "privacy_level": 0, "type": "557358D1-9150-9595-4997-B6E611EA26C6",
        "kind": "private", "messages": 0,
    }  # fmt: skip
    assert {name: shown[name] for name in wanted} == wanted


def test_the_shape_of_json(live: Live) -> None:
    queue = live.queue()
    for shown in (
        live.object("queue", "show", queue),
        *live.objects("queue", "list", "--system", "--journals"),
    ):
        assert list(shown) == list(SHAPE)
        for name, kind in SHAPE.items():
            assert isinstance(shown[name], kind), (name, shown[name])


def test_list_for_people_and_programs(live: Live) -> None:
    queue = live.queue("--label", "counted")
    live.good("send", queue, "--body", "x", "--count", "3")
    found = {entry["path"].lower(): entry for entry in live.objects("queue", "list")}
    assert found[queue.replace(".", "host", 1).lower()]["messages"] == 3
    name = queue.rpartition("\\")[2]
    lines = live.good("queue", "list", f"*{name}").splitlines()
    assert lines[0].split() == ["queue", "label", "messages", "size", "journal", "kind"]
    assert lines[1].split()[1:3] == ["counted", "3"]
    assert lines[2] == "1 queue"
    kinds = {entry["kind"] for entry in live.objects("queue", "list", "--system", "--journals")}
    assert kinds == {"private", "system", "journal"}


def test_subqueues_are_listed_when_asked_for(live: Live) -> None:
    queue = live.queue()
    live.good("send", queue, "--body", "x")
    live.good("move", queue, f"{queue};later", "--all")
    assert live.object("queue", "show", queue)["subqueues"] == ["later"]
    pattern = f"*{queue.rpartition(chr(92))[2]};later"  # other tests have such subqueues too
    assert [e["kind"] for e in live.objects("queue", "list", pattern, "--subqueues")] == ["subqueue"]


def test_set_changes_what_is_named(live: Live) -> None:
    queue = live.queue("--label", "before", "--quota", "10")
    changed = live.object("queue", "set", queue, "--label", "after", "--journal")
    assert (changed["label"], changed["journaling"], changed["quota_kb"]) == ("after", True, 10)
    assert live.object("queue", "set", queue, "--quota", "none")["quota_kb"] is None
    assert "label          after" in live.good("queue", "show", queue)


def test_purge_and_delete(live: Live) -> None:
    queue = live.queue()
    live.good("send", queue, "--body", "x", "--count", "2")
    assert live.object("queue", "purge", queue) == {"queue": queue, "messages": 2}
    assert live.good("queue", "purge", queue, "--yes") == f"removed 0 messages from {queue}\n"
    assert live.object("queue", "delete", queue) == {"queue": queue, "deleted": True}
    assert "MQ_ERROR_QUEUE_NOT_FOUND" in live.bad("queue", "show", queue)


def test_access_lists(live: Live) -> None:
    queue = live.queue()
    live.good("queue", "acl", "set", queue, "--allow", "EVERYONE=send,peek", "--deny", "anonymous=send")
    shown = live.object("queue", "acl", "show", queue)
    assert set(shown) == {"owner", "entries", "sddl"}
    first = shown["entries"][0]
    assert first == {
        "sid": "S-1-5-7", "rights": 4, "allow": False, "name": "ANONYMOUS", "right_names": ["write-message"],
    }  # fmt: skip
    everyone = [entry for entry in shown["entries"] if entry["name"] == "EVERYONE"]
    assert [entry["rights"] for entry in everyone] == [6]
    live.good("queue", "acl", "set", queue, "--remove", "EVERYONE", "--owner", "BUILTIN_ADMINISTRATORS")
    shown = live.object("queue", "acl", "show", queue)
    assert shown["owner"] == "S-1-5-32-544"
    assert "EVERYONE" not in [entry["name"] for entry in shown["entries"]]
    assert "may not" in live.good("queue", "acl", "show", queue)
    live.good("queue", "acl", "set", queue, "--sddl", shown["sddl"])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("create", ".\\private$\\taken"), 1, "MQ_ERROR_QUEUE_EXISTS"),
        (("create", "nonsense"), 1, "MQ_ERROR_ILLEGAL_QUEUE_PATHNAME"),
        (("create", ".\\private$\\bad", "--quota", "much"), 2, "a size such as"),
        (("show", ".\\private$\\absent"), 1, "MQ_ERROR_QUEUE_NOT_FOUND"),
        (("set", ".\\private$\\absent", "--label", "x"), 1, "MQ_ERROR_QUEUE_NOT_FOUND"),
        (("set", ".\\private$\\taken"), 2, "nothing to change"),
        (("purge", ".\\private$\\absent"), 1, "MQ_ERROR_QUEUE_NOT_FOUND"),
        (("delete", ".\\private$\\absent"), 1, "MQ_ERROR_QUEUE_NOT_FOUND"),
        (("acl", "show", ".\\private$\\absent"), 1, "MQ_ERROR_QUEUE_NOT_FOUND"),
        (("acl", "set", ".\\private$\\taken"), 1, "Say what to change"),
        (("acl", "set", ".\\private$\\taken", "--allow", "EVERYONE"), 1, "WHO=RIGHTS"),
        (("acl", "set", ".\\private$\\taken", "--allow", "EVERYONE=fly"), 1, "no right 'fly'"),
        (("acl", "set", ".\\private$\\taken", "--allow", "nobody9=send"), 1, "is nobody"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_failures_are_one_line(live: Live, arguments: tuple[str, ...], code: int, says: str) -> None:
    live.run("queue", "create", ".\\private$\\taken")
    assert says in live.bad("queue", *arguments, code=code)


def test_what_becomes_of_rejected_messages(live: Live) -> None:
    queue = live.queue("--max-deliveries", "3", "--poison-subqueue", "poison")
    assert "comes back at once; after 3 times it goes to subqueue poison" in live.good("queue", "show", queue)
    (info,) = live.objects("queue", "set", queue, "--retry-delay", "500", "--poison-subqueue", "")
    assert (info["retry_delay_ms"], info["max_deliveries"], info["poison_subqueue"]) == (500, 3, "")
    assert (info["paused_messages"], info["poisoned_total"], info["subqueues"]) == (0, 0, [])
    assert "after 500 ms; after 3 times it goes to the dead-letter queue" in live.good("queue", "show", queue)
    assert "no name of a subqueue" in live.bad("queue", "set", queue, "--poison-subqueue", "a;b")


def test_properties_by_their_names_in_the_specification(live: Live) -> None:
    queue = live.queue("--label", "All orders")
    found = {given["name"]: given for given in live.objects("queue", "properties", queue)}
    assert found["PROPID_Q_LABEL"] == {
        "id": 108, "name": "PROPID_Q_LABEL", "type": "VT_LPWSTR", "values": ["All orders"],
    }  # fmt: skip
    lines = live.good("queue", "properties", queue).splitlines()
    assert lines[0].split() == ["property", "number", "type", "value"]
    assert ["PROPID_Q_LABEL", "108", "VT_LPWSTR", "All", "orders"] in [line.split() for line in lines]
    machine = {given["name"]: given["values"] for given in live.objects("manager", "properties")}
    assert machine["PROPID_QM_PATHNAME"] == ["HOST"]
    assert "PROPID_MGMT_MSMQ_TYPE" in live.good("manager", "properties")

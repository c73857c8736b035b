"""Definitions: what is exported, wiped and imported is there again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from msmq.client.connection import Connection
from msmq.client.info import AlarmRule
from msmq.web.definitions import DefinitionsError, access_list, bring, checked, diff, export, local
from tests.web.support import Live


@pytest.fixture
def here(live: Live) -> Iterator[Live]:
    """A host with a few queues that differ in everything."""
    live.queue("defined-a", transactional=True, label="A", journaling=True, quota_kb=500, retry_delay_ms=5)
    live.queue("defined-b", label="B \u00e9", privacy_level=1, max_deliveries=3, poison_subqueue="bad")
    live.do(lambda mq: mq.create_account("defined-user", ["S-1-5-32-545"]))
    live.do(
        lambda mq: mq.set_alarms([AlarmRule("defined-alarm", "depth", 7, "*defined*", 3, ("http://a/b",))])
    )
    closed = access_list(live.do(lambda mq: mq.security(".\\private$\\defined-a")).sddl).replace(
        "(A;;0x20024;;;WD)", ""
    )
    live.do(lambda mq: mq.set_security(".\\private$\\defined-b", sddl=closed))
    yield live
    live.do(lambda mq: mq.remove_account("defined-user"))
    live.do(lambda mq: mq.set_alarms([]))


def test_export_wipe_import_export_is_equal(here: Live) -> None:
    async def wipe(mq: Connection) -> None:
        for queue in await mq.queues():
            await mq.delete_queue(queue.path)
        for account in await mq.accounts():
            await mq.remove_account(account.name)
        await mq.set_alarms([])

    before = here.do(export)
    assert {"defined-a", "defined-b"} <= {queue["path"].rpartition("\\")[2] for queue in before["queues"]}
    here.do(wipe)
    wiped = here.do(export)
    assert (wiped["queues"], wiped["users"], wiped["alarms"]) == ([], [], [])
    changes, secrets = here.do(lambda mq: bring(mq, before))
    assert {change.what for change in changes} == {"create"}
    assert len(changes) == sum(len(before[part]) for part in ("queues", "users", "alarms"))
    assert list(secrets) == ["user defined-user"]
    assert here.do(export) == before
    assert here.do(lambda mq: diff(mq, before)) == []


def test_a_difference_is_told_and_then_mended(here: Live, admin: httpx.Client) -> None:
    wanted: dict[str, Any] = admin.get("/api/definitions").json()
    for queue in wanted["queues"]:
        if queue["path"].endswith("defined-a"):
            queue["label"], queue["quota_kb"] = "other", None
    wanted["queues"].append({"path": ".\\private$\\defined-c", "label": "new"})
    wanted["tokens"].append({"name": "defined", "sid": "S-1-5-21-1-2-3-77"})
    compared = admin.post("/api/definitions?dry_run=true", json=wanted).json()["changes"]
    told = {(each["what"], each["name"].rpartition("\\")[2]) for each in compared}
    assert told == {
        ("change", "defined-a label"),
        ("change", "defined-a quota_kb"),
        ("create", "defined-c"),
        ("create", "defined"),
    }
    assert admin.get("/api/queues?search=defined-c").json()["total"] == 0
    done = admin.post("/api/definitions", json=wanted).json()
    assert len(done["changes"]) == 4
    assert len(done["secrets"]["token defined"]) == 64
    assert admin.post("/api/definitions?dry_run=true", json=wanted).json()["changes"] == []
    wanted["queues"] = [queue for queue in wanted["queues"] if not queue["path"].endswith("defined-c")]
    (left,) = here.do(lambda mq: diff(mq, wanted))
    assert str(left).endswith("stays")
    here.do(lambda mq: mq.delete_queue(".\\private$\\defined-c"))
    here.do(lambda mq: mq.remove_token("defined"))


def test_a_queue_never_becomes_transactional(here: Live) -> None:
    document = {
        "openmsmq_definitions": 1,
        "queues": [{"path": ".\\private$\\defined-b", "transactional": True, "label": "no"}],
    }
    with pytest.raises(DefinitionsError, match="never changes"):
        here.do(lambda mq: bring(mq, document))
    assert here.do(lambda mq: mq.queue_info(".\\private$\\defined-b")).label == "B \u00e9", (
        "and nothing else did"
    )


def test_alarms_are_changed_and_others_stay(here: Live, admin: httpx.Client) -> None:
    wanted = {
        "openmsmq_definitions": 1,
        "alarms": [{"name": "defined-alarm", "threshold": 9}, {"name": "new", "kind": "down"}],
    }
    told = admin.post("/api/definitions?dry_run=true", json=wanted).json()["changes"]
    assert [(each["what"], each["name"]) for each in told if each["thing"] == "alarm"] == [
        ("change", "defined-alarm threshold"),
        ("create", "new"),
    ]
    assert admin.post("/api/definitions", json=wanted).status_code == 200
    rules = {rule["name"]: rule for rule in admin.get("/api/alarms").json()["rules"]}
    assert (rules["defined-alarm"]["threshold"], rules["defined-alarm"]["queue"]) == (9, "*defined*")
    assert rules["new"]["kind"] == "down"
    bad = {"openmsmq_definitions": 1, "alarms": [{"name": "worse", "kind": "nonsense"}]}
    assert admin.post("/api/definitions", json=bad).status_code == 400


def test_yaml_there_and_back(here: Live, admin: httpx.Client) -> None:
    here.do(lambda mq: mq.set_queue(".\\private$\\defined-a", label="A"))
    text = admin.get("/api/definitions.yaml")
    assert text.headers["content-type"].startswith("application/yaml")
    kind = {"content-type": "application/yaml"}
    changed = text.text.replace("label: A\n", "label: A2\n")
    answer = admin.post("/api/definitions", content=changed, headers=kind)
    assert [each["after"] for each in answer.json()["changes"]] == ["A2"], answer.text
    assert here.do(lambda mq: mq.queue_info(".\\private$\\defined-a")).label == "A2"
    for wrong in ("[: no", "a: &x [1]\nb: *x\n", "when: 2026-01-01\n", "!!python/object:os.system {}"):
        assert admin.post("/api/definitions", content=wrong, headers=kind).status_code == 400, wrong


@pytest.mark.parametrize(
    "document",
    [
        [], {}, {"openmsmq_definitions": 2}, {"openmsmq_definitions": 1, "queues": {}},
        {"openmsmq_definitions": 1, "queues": [{}]},
        {"openmsmq_definitions": 1, "queues": [{"path": "x", "colour": 1}]},
        {"openmsmq_definitions": 1, "triggers": []}, {"openmsmq_definitions": 1, "users": ["alice"]},
        {"openmsmq_definitions": 1, "users": [{"name": "a", "password": "b"}]},
        {"openmsmq_definitions": 1, "alarms": [{"name": "a"}, {"name": "a"}]},
        {"openmsmq_definitions": 1, "queues": [{"path": ".\\private$\\A"}, {"path": ".\\private$\\a"}]},
        {"openmsmq_definitions": 1, "queues": [{"path": "x", "quota_kb": "many"}]},
        {"openmsmq_definitions": 1, "queues": [{"path": "x", "label": None}]},
        {"openmsmq_definitions": 1, "queues": [{"path": "x", "sddl": 5}]},
        {"openmsmq_definitions": 1, "queues": ["x"]},
        {"openmsmq_definitions": 1, "manager": {"label": "x"}},
        {"openmsmq_definitions": 1, "manager": {"quota_kb": -1}},
        {"openmsmq_definitions": 1, "users": [{"name": "a", "groups": "b"}]},
        {"openmsmq_definitions": 1, "tokens": [{"name": 5}]},
        {"openmsmq_definitions": 1, "alarms": [{"name": "a", "threshold": "high"}]},
    ],
)  # fmt: skip
def test_what_is_no_document(document: Any) -> None:
    with pytest.raises(DefinitionsError):
        checked(document)


def test_what_is_no_document_changes_nothing(here: Live, admin: httpx.Client) -> None:
    wrong = {
        "openmsmq_definitions": 1,
        "queues": [
            {"path": ".\\private$\\defined-new"},
            {"path": ".\\private$\\defined-a", "quota_kb": "many"},
        ],
    }
    answer = admin.post("/api/definitions", json=wrong)
    assert (answer.status_code, "queues[1].quota_kb" in answer.json()["detail"]) == (400, True)
    assert admin.get("/api/queues?search=defined-new").json()["total"] == 0


def test_names_are_written_without_the_computer() -> None:
    assert local("HOST\\private$\\a", "host") == ".\\private$\\a"
    assert local(".\\private$\\a", "host") == ".\\private$\\a"
    assert local("OTHER\\private$\\a", "host") == "OTHER\\private$\\a"

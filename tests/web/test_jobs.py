"""Jobs: many messages are resubmitted, moved or deleted, each exactly once."""

from __future__ import annotations

import time
from urllib.parse import quote

import httpx

import msmq
from msmq.client.connection import Connection
from tests.server.support import PATIENCE_S
from tests.web.support import Live, finished

DEAD = ".\\xactdeadletter$"


def _labels(admin: httpx.Client, queue: str) -> list[str]:
    found = admin.get(f"/api/queues/{quote(queue, safe='')}/messages?limit=1000").json()
    return [each["label"] for each in found["items"]]


def _dead(live: Live, name: str, count: int) -> str:
    """Dead letters for a queue that is made afterwards; gives its format name."""
    target = f"DIRECT=OS:HOST\\private$\\{name}"

    async def send(mq: Connection) -> None:
        await mq.create_queue(f".\\private$\\{name}", transactional=True)
        queue = mq.queue(f".\\private$\\{name}")
        for number in range(count):
            await queue.send(
                "x", label=f"{name} {number}", delivery=msmq.Delivery.TRANSACTIONAL, time_to_be_received=1
            )

    live.do(send)
    return target


def _when_dead(admin: httpx.Client, name: str, count: int) -> list[str]:
    give_up_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up_s:
        labels = [label for label in _labels(admin, DEAD) if label.startswith(name)]
        if len(labels) == count:
            return labels
        time.sleep(0.05)
    raise AssertionError(f"{name}: only {len(labels)} of {count} died")


def test_a_group_is_resubmitted_each_once_and_nothing_else(live: Live, admin: httpx.Client) -> None:
    _dead(live, "mended", 7)
    _dead(live, "left", 2)
    _when_dead(admin, "mended", 7)
    _when_dead(admin, "left", 2)
    groups = admin.get("/api/failures?search=mended").json()["items"]
    assert [each["messages"] for each in groups] == ["7"]
    group = {name: groups[0][name] for name in ("reason", "destination", "exception")}
    assert group["reason"]
    order = {
        "action": "resubmit",
        "queue": DEAD,
        "group": group,
        "batch": 3,
        "edit": {"time_to_be_received": 4_000_000},
    }
    dry = finished(admin, admin.post("/api/jobs", json=order | {"dry_run": True}).json())
    assert (dry["done"], dry["failed"]) == (7, 0)
    assert len(_when_dead(admin, "mended", 7)) == 7, "a dry run changes nothing"
    done = finished(admin, admin.post("/api/jobs", json=order).json())
    assert (done["done"], done["gone"], done["failed"], done["state"]) == (7, 0, 0, "done"), done
    assert sorted(_labels(admin, ".\\private$\\mended")) == [f"mended {number}" for number in range(7)]
    assert len(_when_dead(admin, "left", 2)) == 2
    again = finished(admin, admin.post("/api/jobs", json=order).json())
    assert again["done"] == 0
    noted = admin.get("/api/audit?search=resubmit_messages").json()["items"]
    assert noted[1]["done"] == 7
    assert noted[1]["who"] == "S-1-5-32-544"


def test_chosen_messages_move_between_queues_of_different_kinds(live: Live, admin: httpx.Client) -> None:
    source = live.queue("from", *[msmq.Message("x", label=str(number)) for number in range(6)])
    live.queue("to", transactional=True)
    rows = admin.get(f"/api/queues/{source}/messages").json()["items"]
    order = {
        "action": "move", "queue": ".\\private$\\from", "target": ".\\private$\\to",
        "lookup_ids": [*(each["lookup_id"] for each in rows[:4]), rows[0]["lookup_id"], "99"],
    }  # fmt: skip
    job = finished(admin, admin.post("/api/jobs", json=order).json())
    assert (job["done"], job["gone"], job["failed"]) == (4, 2, 0), job
    assert sorted(_labels(admin, ".\\private$\\to")) == ["0", "1", "2", "3"]
    assert _labels(admin, ".\\private$\\from") == ["4", "5"]


def test_a_message_is_edited_and_resubmitted(live: Live, admin: httpx.Client) -> None:
    queue = live.queue("edited", msmq.Message("wrong", label="old"))
    row = admin.get(f"/api/queues/{queue}/messages").json()["items"][0]
    order = {
        "action": "resubmit", "queue": ".\\private$\\edited", "lookup_ids": [row["lookup_id"]],
        "edit": {"body": "right", "label": "new"},
    }  # fmt: skip
    job = finished(admin, admin.post("/api/jobs", json=order).json())
    assert job["done"] == 1, job
    (after,) = admin.get(f"/api/queues/{queue}/messages").json()["items"]
    assert (after["label"], after["body"]) == ("new", "right")
    assert after["lookup_id"] != row["lookup_id"]


def test_what_suits_a_filter_is_deleted(live: Live, admin: httpx.Client) -> None:
    queue = live.queue(
        "weeded", *[msmq.Message("x", label=f"{'bad' if at % 2 else 'good'} {at}") for at in range(10)]
    )
    order = {
        "action": "delete",
        "queue": ".\\private$\\weeded",
        "filters": {"label": "bad"},
        "batch": 2,
        "rate": 1000,
    }
    job = finished(admin, admin.post("/api/jobs", json=order).json())
    assert job["done"] == 5, job
    assert all(label.startswith("good") for label in _labels(admin, ".\\private$\\weeded"))
    assert queue


def test_what_comes_while_a_job_runs_is_not_meant(live: Live, admin: httpx.Client) -> None:
    count = 1_100  # more than are read at a time
    live.queue("circle", *[msmq.Message("x", label=str(number)) for number in range(count)])
    order = {
        "action": "move", "queue": ".\\private$\\circle", "target": ".\\private$\\circle", "batch": 1000,
        "filters": {"arrived_to": "2100-01-01"},
    }  # fmt: skip
    job = finished(admin, admin.post("/api/jobs", json=order).json())
    assert (job["done"], job["gone"], job["total"], job["looked_at"]) == (count, 0, count, count)
    found = admin.get("/api/queues/.%5Cprivate$%5Ccircle/messages?limit=1").json()
    assert (found["items"][0]["label"], found["total"]) == ("0", str(count))


def test_a_job_can_be_stopped(live: Live, admin: httpx.Client) -> None:
    live.queue("slow", *["x"] * 50)
    order = {"action": "delete", "queue": ".\\private$\\slow", "everything": True, "batch": 1, "rate": 1}
    job = admin.post("/api/jobs", json=order).json()
    stopped = admin.delete(f"/api/jobs/{job['job']}").json()
    assert stopped["state"] == "cancelled"
    assert stopped["done"] < 50
    assert admin.get("/api/jobs/nonsense").status_code == 404

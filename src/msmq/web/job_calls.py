"""Operations on failed messages: groups of them, and jobs that repair them."""

from __future__ import annotations

from typing import Any, Final

from msmq.web.application import Call, ProblemError
from msmq.web.failures import DEAD_LETTERS, Tallies
from msmq.web.jobs import Job, Jobs, Order
from msmq.web.lists import PAGING, page, page_of
from msmq.web.messages import FILTERS, MESSAGE
from msmq.web.operations import BOOLEAN, HOST, NUMBER64, TEXT, MisuseError, Parameter, Schema, Table, check
from msmq.web.people import Role

TABLE: Final = Table()
_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 1024}
_GROUP: Final[Schema] = {
    "type": "object",
    "properties": {
        "queue": TEXT, "reason": TEXT, "destination": TEXT, "exception": TEXT, "class_name": TEXT,
        "messages": NUMBER64, "bytes": NUMBER64, "oldest": TEXT, "newest": TEXT,
        "labels": {"type": "array", "items": TEXT},
    },
}  # fmt: skip
_SEARCHED: Final = ("reason", "destination", "exception", "queue", "labels")
_GROUPS: Final = page_of(_GROUP)
_GROUPS["properties"] |= {
    "whole": BOOLEAN | {"description": "Whether all messages were counted; if not, ask again."},
    "counted": NUMBER64,
    "messages": NUMBER64,
}
_JOB: Final[Schema] = {
    "type": "object",
    "properties": {
        "job": TEXT, "action": TEXT, "queue": TEXT, "state": {"enum": ["running", "done", "failed", "cancelled"]},
        "total": {"type": "integer"}, "looked_at": {"type": "integer"},
        "done": {"type": "integer"}, "gone": {"type": "integer"}, "failed": {"type": "integer"},
        "errors": {"type": "array", "items": TEXT}, "dry_run": BOOLEAN,
    },
}  # fmt: skip
_ORDER: Final[Schema] = {
    "type": "object",
    "required": ["action", "queue"],
    "additionalProperties": False,
    "properties": {
        "action": {"enum": ["resubmit", "move", "delete"]},
        "queue": _NAME,
        "target": {"type": "string", "maxLength": 1024},
        "lookup_ids": {"type": "array", "items": NUMBER64, "minItems": 1, "maxItems": 100_000},
        "filters": {
            "type": "object",
            "additionalProperties": False,
            "properties": {each.name: each.schema for each in FILTERS},
        },
        "group": {
            "type": "object",
            "required": ["reason", "destination", "exception"],
            "additionalProperties": False,
            "properties": {"reason": TEXT, "destination": TEXT, "exception": TEXT},
        },
        "everything": BOOLEAN,
        "edit": {"type": "object", "additionalProperties": False, "properties": MESSAGE["properties"]},
        "batch": {"type": "integer", "minimum": 1, "maximum": 10_000},
        "rate": {"type": "number", "minimum": 0, "maximum": 1_000_000},
        "dry_run": BOOLEAN,
    },
}


@TABLE.add(
    "GET", "/api/failures", "What failed, in groups by reason, destination and exception.", role=Role.LOOK,
    parameters=(
        Parameter("queue", {"type": "string", "maxLength": 1024}, "An error queue or journal instead of dead letters."),
        *PAGING, HOST,
    ),
    reply=_GROUPS,
)  # fmt: skip
async def list_failures(call: Call) -> Any:
    queues = (call.given["queue"],) if call.given.get("queue") else DEAD_LETTERS
    mq, tallies = await call.mq(), tallies_of(call)
    found = [await tallies.of(mq, call.host, call.who.credential, queue) for queue in queues]
    groups = [group for tally in found for group in tally.groups.values()]
    groups.sort(key=lambda group: -group.messages)
    shown = page((group.shown() for group in groups), call.given, _SEARCHED)
    return shown | {
        "whole": all(tally.whole for tally in found),
        "counted": str(sum(tally.counted for tally in found)),
        "messages": str(sum(tally.messages for tally in found)),
    }


def tallies_of(call: Call) -> Tallies:
    tallies: Tallies = call.around.parts["tallies"]
    return tallies


@TABLE.add(
    "POST", "/api/jobs", "Resubmit, move or delete messages, each exactly once.", role=Role.OPERATE,
    parameters=(HOST,), body=_ORDER, reply=_JOB, status=202,
)  # fmt: skip
async def begin_job(call: Call) -> Any:
    order, who = _order(call.body), call.who
    mq = await call.mq()
    await mq.queue_info(order.queue)
    job = _jobs(call).begin(order, mq, (who.sid, who.name, call.whence), call.host)
    return job.shown()


def _order(given: dict[str, Any]) -> Order:
    chosen = [name for name in ("lookup_ids", "filters", "group", "everything") if given.get(name)]
    if len(chosen) != 1:
        raise MisuseError("Say which messages: one of lookup_ids, filters, group or everything.")
    if given["action"] == "move" and not given.get("target"):
        raise MisuseError("To move messages, say where to: target.")
    for name, value in given.get("filters", {}).items():
        check(value, next(each.schema for each in FILTERS if each.name == name), f"filters.{name}")
    ids = tuple(map(int, given.get("lookup_ids", ())))
    if any(each >> 64 for each in ids):
        raise MisuseError("A place has 64 bits.")
    group = given.get("group")
    return Order(
        given["action"], given["queue"], given.get("target", ""), ids, given.get("filters", {}),
        None if group is None else (group["reason"], group["destination"], group["exception"]),
        given.get("edit", {}), given.get("batch", 100), given.get("rate", 0.0), given.get("dry_run", False),
    )  # fmt: skip


def _jobs(call: Call) -> Jobs:
    jobs: Jobs = call.around.parts["jobs"]
    return jobs


def _found(call: Call) -> Job:
    job = _jobs(call).get(call.given["job"])
    if job is None:
        raise ProblemError(404, "There is no such job")
    return job


@TABLE.add(
    "GET", "/api/jobs", "Jobs, the newest first.", role=Role.LOOK, parameters=PAGING, reply=page_of(_JOB)
)
async def list_jobs(call: Call) -> Any:
    return page((job.shown() for job in _jobs(call).all()), call.given, ("queue", "action", "name", "state"))


@TABLE.add("GET", "/api/jobs/{job}", "How far a job is.", role=Role.LOOK, reply=_JOB)
async def get_job(call: Call) -> Any:
    return _found(call).shown()


@TABLE.add(
    "DELETE", "/api/jobs/{job}", "Stop a job; what it has done stays done.", role=Role.OPERATE, reply=_JOB
)
async def cancel_job(call: Call) -> Any:
    job = _found(call)
    _jobs(call).cancel(job.job)
    await _jobs(call).finished(job.job)
    return job.shown()

"""Operations on queue managers themselves: the caller's identity, the state of hosts, and figures as they change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from itertools import islice
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.connection import Connection
from msmq.errors import MsmqError
from msmq.web.application import COOKIE, Call, ProblemError, address_of, known
from msmq.web.definitions import settings_of
from msmq.web.lists import PAGING, page, page_of
from msmq.web.messages import find
from msmq.web.operations import BOOLEAN, HOST, TEXT, Parameter, Schema, Table
from msmq.web.people import Credential, Person, Role
from msmq.web.queues import outgoing_row
from msmq.web.shapes import plain
from msmq.web.streams import event, stream

TABLE: Final = Table()
_U32: Final[Schema] = {"type": ["integer", "null"], "minimum": 0, "maximum": 0xFFFFFFFF}
_ME: Final[Schema] = {
    "type": "object",
    "required": ["sid", "name", "role"],
    "properties": {
        "sid": TEXT, "name": TEXT, "role": {"enum": ["look", "operate", "administer"]}, "csrf": TEXT,
        "hosts": {"type": "array", "items": TEXT},
    },
}  # fmt: skip
_MANAGER: Final[Schema] = {
    "type": "object",
    "properties": {"computer_name": TEXT, "identifier": TEXT, "online": BOOLEAN},
}
_OLDEST_OF: Final = 20
"""The number of queues for which the age of the first message is asked."""
_DEAD: Final = (";deadletter", ";deadxact")
_OF_HOSTS: Final = ("computer_name", "product", "online", "messages", "bytes", "losses", "quota_kb")
_OF_ALL: Final = (
    "time_ms", "started_ms", "messages", "bytes", "express_bytes", "arrived_total", "removed_total", "transactions",
)  # fmt: skip
_OF_WORK: Final = ("store_bytes", "store_live_bytes", "commits_total", "memory_bytes", "disk_free_bytes")
_OF_QUEUES: Final = (
    "path", "messages", "bytes", "journal_messages", "arrived_total", "removed_total", "waiting_readers", "grown",
)  # fmt: skip
_CHANGED: Final = 8
"""The number of last changes on the overview."""
_EVENTS_S: Final = 3_600.0
_ANSWER_S: Final = 5.0
"""How long a host may take to report its state before it counts as down."""


# --- who ----------------------------------------------------------------------------------------------------------


@TABLE.add(
    "POST", "/api/login", "Begin a session with a token; the answer sets a cookie.", role=None, reply=_ME,
    body={
        "type": "object", "required": ["token"], "additionalProperties": False,
        "properties": {"token": {"type": "string", "minLength": 1, "maxLength": 4096}},
    },
)  # fmt: skip
async def log_in(call: Call) -> Any:
    person = await known(call.around, Credential(call.body["token"].strip()), address_of(call.request))
    return begin_session(call, person)


def begin_session(call: Call, person: Person) -> Response:
    csrf, admit = open_session(call, person)
    answer = JSONResponse(_me(call, person) | {"csrf": csrf}, headers={"cache-control": "no-store"})
    admit(answer)
    return answer


def open_session(call: Call, person: Person) -> tuple[str, Callable[[Response], None]]:
    """Begin a session. Returns its secret against forged requests, and the function that sets its cookie."""
    secret, session = call.around.people.log_in(person)
    call.around.audit.note(person.sid, call.whence, "log_in", "done", name=person.name)

    def admit(answer: Response) -> None:
        answer.set_cookie(COOKIE, secret, httponly=True, samesite="strict", secure=call.around.tls, path="/")

    return session.csrf, admit


def _me(call: Call, person: Person) -> dict[str, Any]:
    return {
        "sid": person.sid,
        "name": person.name,
        "role": person.role.name.lower(),
        "hosts": list(call.around.people.hosts),
    }


@TABLE.add("POST", "/api/logout", "End the session.", role=None, status=204)
async def log_out(call: Call) -> Any:
    if call.session_secret:
        call.around.people.log_out(call.session_secret)
    answer = Response(status_code=204)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=call.around.tls)
    return answer


@TABLE.add("GET", "/api/me", "Who is logged in.", role=Role.LOOK, reply=_ME)
async def who_am_i(call: Call) -> Any:
    shown = _me(call, call.who)
    return shown | ({"csrf": call.session.csrf} if call.session is not None else {})


# --- what a host is -----------------------------------------------------------------------------------------------


@TABLE.add("GET", "/api/manager", "The queue manager.", role=Role.LOOK, parameters=(HOST,), reply=_MANAGER)
async def get_manager(call: Call) -> Any:
    return plain(await (await call.mq()).manager())


@TABLE.add(
    "PATCH", "/api/manager", "Change quotas of the queue manager, or take it off the network.", role=Role.ADMINISTER,
    parameters=(HOST,), reply=_MANAGER,
    body={
        "type": "object", "additionalProperties": False,
        "properties": {"quota_kb": _U32, "journal_quota_kb": _U32, "online": BOOLEAN},
    },
)  # fmt: skip
async def set_manager(call: Call) -> Any:
    mq, given = await call.mq(), dict(call.body)
    online = given.pop("online", None)
    if given:
        await mq.set_manager(**settings_of(given))
    return plain(await mq.manager() if online is None else await mq.set_online(online))


@TABLE.add(
    "GET", "/api/hosts", "The queue managers that this console looks at, and how they are.", role=Role.LOOK,
    parameters=PAGING, reply=page_of({"type": "object", "properties": {"host": TEXT, "up": BOOLEAN}}),
)  # fmt: skip
async def list_hosts(call: Call) -> Any:
    found = await asyncio.gather(*(_state_of(call, host) for host in call.around.people.hosts))
    return page(found, call.given, ("host", "product", "error"))


async def _state_of(call: Call, host: str) -> dict[str, Any]:
    try:
        async with asyncio.timeout(_ANSWER_S):
            manager = await (await call.around.people.connection(host, call.who.credential)).manager()
    except (MsmqError, TimeoutError) as error:
        nothing: dict[str, Any] = dict.fromkeys(_OF_HOSTS)
        return nothing | {"host": host, "up": False, "error": str(error) or "It does not answer."}
    shown = plain(manager)
    return {"host": host, "up": True, "error": "", **{name: shown[name] for name in _OF_HOSTS}}


# --- figures ------------------------------------------------------------------------------------------------------


def is_dead(path: str) -> bool:
    """True for dead-letter queues."""
    return path.lower().endswith(_DEAD)


def figures(given: pb.Statistics) -> dict[str, Any]:
    """Return the figures of one moment."""
    return {
        **_named(_OF_ALL, given),
        **_named(_OF_WORK, given.work),
        "sessions": [_named(("peer", "incoming"), each) for each in given.sessions],
        "queues": [_named(_OF_QUEUES, each) for each in given.queues],
    }


def _named(names: Iterable[str], given: Any) -> dict[str, Any]:
    return {name: plain(getattr(given, name), name) for name in names}


async def statistics(mq: Connection) -> pb.Statistics:
    async with aclosing(mq.server_stream("WatchStatistics", pb.WatchStatisticsRequest(count=1))) as replies:  # type: ignore[type-var]
        async for reply in replies:
            found: pb.Statistics = reply
            return found
    raise ProblemError(503, "The queue manager does not answer")


@TABLE.add(
    "GET",
    "/api/statistics",
    "Figures of this moment.",
    role=Role.LOOK,
    parameters=(HOST,),
    reply={"type": "object"},
)
async def get_statistics(call: Call) -> Any:
    return figures(await statistics(await call.mq()))


@TABLE.add(
    "GET", "/api/overview", "What an operator wants to know first.", role=Role.LOOK, parameters=(HOST,),
    reply={"type": "object", "properties": {"manager": _MANAGER, "statistics": {"type": "object"}}},
)  # fmt: skip
async def overview(call: Call) -> Any:
    mq = await call.mq()
    manager, given, outgoing = await asyncio.gather(mq.manager(), statistics(mq), mq.outgoing_queues())
    shown = figures(given)
    fullest = sorted(shown["queues"], key=lambda each: -int(each["messages"]))[:_OLDEST_OF]
    shown["queues"] = fullest
    filled = [each["path"] for each in fullest if int(each["messages"])]
    ages = await asyncio.gather(*(_oldest(mq, path) for path in filled))
    return {
        "manager": plain(manager),
        "statistics": shown,
        "oldest": {path: age for path, age in zip(filled, ages, strict=True) if age is not None},
        "dead_letters": str(sum(each.messages for each in given.queues if is_dead(each.path))),
        "outgoing": [outgoing_row(each) for each in outgoing],
        "changed": _changed(call),
    }


def _changed(call: Call) -> list[dict[str, Any]]:
    """Return the last changes made through this console, for callers who may read their record."""
    if call.who.role < Role.ADMINISTER:
        return []
    made = (line for line in call.around.audit.newest_first() if line["what"] not in ("log_in", "log_out"))
    return [
        {name: line.get(name, "") for name in ("time", "name", "what", "outcome", "whence")} | _of_what(line)
        for line in islice(made, _CHANGED)
    ]


def _of_what(line: dict[str, Any]) -> dict[str, str]:
    given = line.get("given", {})
    named = (line.get("queue"), given.get("queue"), given.get("path"), given.get("name"))
    return {"thing": next((str(each) for each in named if each), "")}


async def _oldest(mq: Connection, queue: str) -> str | None:
    try:
        found = await find(mq, queue, {}, 1, looked_at=1)
    except MsmqError:
        return None  # the caller may not read it
    return found["items"][0]["arrived_time"] if found["items"] else None


@TABLE.add(
    "GET", "/api/events", "Figures as they change, as server-sent events.", role=Role.LOOK,
    parameters=(
        Parameter("interval_ms", {"type": "integer", "minimum": 500, "maximum": 60_000}, "1000 when not given."),
        Parameter(
            "queues", {"type": "integer", "minimum": 1, "maximum": 10_000},
            "Only so many of the fullest queues, and of those that have grown most; all when not given.",
        ),
        HOST,
    ),
    kind="text/event-stream",
)  # fmt: skip
async def events(call: Call) -> Any:
    mq = await call.mq()
    request = pb.WatchStatisticsRequest(
        interval_ms=call.given.get("interval_ms", 0), queues=call.given.get("queues", 0)
    )

    async def told() -> AsyncIterator[bytes]:
        end_s = asyncio.get_running_loop().time() + _EVENTS_S
        try:
            async with aclosing(mq.server_stream("WatchStatistics", request)) as replies:  # type: ignore[type-var]
                async for reply in replies:
                    yield event("statistics", figures(reply))
                    if asyncio.get_running_loop().time() > end_s:
                        return
        except MsmqError as error:
            yield event("problem", {"detail": str(error)})

    return stream(told())


@TABLE.add("GET", "/api/health", "Whether the console runs.", role=None, reply={"type": "object"})
async def health(call: Call) -> Any:
    return {"status": "up"}

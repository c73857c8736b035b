"""Definitions: what an operator has configured, as a document that can be kept, compared and imported again.

It holds queues with their properties and access lists, the access list and quotas of the queue manager, local accounts,
the names of tokens (never a password or another secret), and the rules of alarms. Messages and owners are not part of
it. Names are written without the computer's, so that a document of one host can be imported on another. Importing
merges: what the document does not name stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

from msmq.api import alarm_rules as limits
from msmq.client.connection import Connection
from msmq.client.info import UNLIMITED, AlarmRule, QueueInfo, QueueKind
from msmq.errors import MsmqError
from msmq.web.operations import BOOLEAN, MisuseError, Schema, check

_T = TypeVar("_T")
VERSION: Final = 1
_U32: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 0xFFFFFFFF}
_QUOTA: Final[Schema] = {"type": ["integer", "null"], "minimum": 0, "maximum": UNLIMITED}
_NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 1024}
_SID: Final[Schema] = {"type": "string", "maxLength": 200}
SDDL: Final[Schema] = {"type": "string", "maxLength": 100_000}
SETTINGS: Final[dict[str, Schema]] = {
    "label": {"type": "string", "maxLength": 124},
    "type": {"type": "string", "maxLength": 64},
    "journaling": BOOLEAN,
    "quota_kb": _QUOTA,
    "journal_quota_kb": _QUOTA,
    "authenticated_only": BOOLEAN,
    "privacy_level": {"type": "integer", "minimum": 0, "maximum": 2},
    "base_priority": {"type": "integer", "minimum": -32768, "maximum": 32767},
    "multicast_address": {"type": "string", "maxLength": 64},
    "retry_delay_ms": _U32,
    "max_deliveries": _U32,
    "poison_subqueue": {"type": "string", "maxLength": 64},
}
"""The settings of a queue."""
_QUOTAS: Final = {"quota_kb": _QUOTA, "journal_quota_kb": _QUOTA}
RULE: Final[dict[str, Schema]] = {
    "name": {"type": "string", "minLength": 1, "maxLength": limits.LONGEST_NAME},
    "kind": {"enum": list(limits.KINDS)},
    "threshold": {"type": "number", "minimum": 0},
    "queue": {"type": "string", "minLength": 1, "maxLength": limits.LONGEST_QUEUE},
    "for_s": {"type": "number", "minimum": 0, "maximum": limits.LONGEST_WAIT_S},
    "webhooks": {
        "type": "array",
        "maxItems": limits.MOST_TOLD,
        "items": {"type": "string", "maxLength": limits.LONGEST_WEBHOOK, "pattern": limits.WEBHOOK},
    },
    "mail_to": {
        "type": "array",
        "maxItems": limits.MOST_TOLD,
        "items": {"type": "string", "maxLength": limits.LONGEST_MAIL, "pattern": limits.MAIL},
    },
}
"""The properties of an alarm rule."""


def _each(name: str, properties: dict[str, Schema]) -> Schema:
    """Make the schema of a part of a document, whose members are identified by one of their properties."""
    member = {"type": "object", "required": [name], "additionalProperties": False, "properties": properties}
    return {"type": "array", "items": member}


DOCUMENT: Final[Schema] = {
    "type": "object",
    "required": ["openmsmq_definitions"],
    "additionalProperties": False,
    "properties": {
        "openmsmq_definitions": {"type": "integer"},
        "manager": {"type": "object", "additionalProperties": False, "properties": {**_QUOTAS, "sddl": SDDL}},
        "queues": _each("path", {"path": _NAME, "transactional": BOOLEAN, **SETTINGS, "sddl": SDDL}),
        "users": _each("name", {"name": _NAME, "sid": _SID, "groups": {"type": "array", "items": _SID}}),
        "tokens": _each("name", {"name": _NAME, "sid": _SID}),
        "alarms": _each("name", RULE),
    },
}
_SINGULAR: Final = {"users": "user", "tokens": "token", "alarms": "alarm"}
_KINDS: Final = (QueueKind.PRIVATE, QueueKind.PUBLIC)


class DefinitionsError(MsmqError):
    """A document that contains no definitions."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that differs, or was changed."""

    what: str
    """``create``, ``change``, or ``extra`` for what is here and not in the document."""
    thing: str
    name: str
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        if self.what == "create":
            return f"+ {self.thing} {self.name}"
        if self.what == "extra":
            return f"  {self.thing} {self.name} is not in the document and stays"
        return f"~ {self.thing} {self.name}: {self.before!r} -> {self.after!r}"


async def export(mq: Connection) -> dict[str, Any]:
    """Export the definitions of a queue manager."""
    manager = await mq.manager()
    queues = [each for each in await mq.queues() if each.kind in _KINDS]
    users = [
        {"name": each.name, "sid": each.sid, "groups": list(each.groups)}
        for each in await _if_allowed(mq.accounts())
    ]
    tokens = [{"name": each.name, "sid": each.sid} for each in await _if_allowed(mq.tokens())]
    return {
        "openmsmq_definitions": VERSION,
        "manager": {
            "quota_kb": _limit(manager.quota_kb),
            "journal_quota_kb": _limit(manager.journal_quota_kb),
            "sddl": access_list((await mq.security()).sddl),
        },
        "queues": [
            await _queue(mq, each, manager.computer_name)
            for each in sorted(queues, key=lambda each: each.path.lower())
        ],
        "users": sorted(users, key=lambda each: str(each["name"]).casefold()),
        "tokens": sorted(tokens, key=lambda each: each["name"]),
        "alarms": [_alarm(rule) for rule in sorted(await mq.alarms(), key=lambda rule: rule.name)],
    }


async def _if_allowed(asked: Awaitable[list[_T]]) -> list[_T]:
    """Return what only administrators may see; nothing for other callers."""
    try:
        return await asked
    except MsmqError:
        return []


def _alarm(rule: AlarmRule) -> dict[str, Any]:
    """Return a rule as a document has it, with lists."""
    return asdict(rule) | {"webhooks": list(rule.webhooks), "mail_to": list(rule.mail_to)}


def _limit(value: int) -> int | None:
    return None if value == UNLIMITED else value


async def _queue(mq: Connection, info: QueueInfo, computer: str) -> dict[str, Any]:
    shown: dict[str, Any] = {"path": local(info.path, computer), "transactional": info.transactional}
    for name in SETTINGS:
        value = getattr(info, name)
        shown[name] = _limit(value) if name in _QUOTAS else value
    shown["sddl"] = access_list((await mq.security(info.path)).sddl)
    return shown


def access_list(sddl: str) -> str:
    """Return the access list without an owner: whoever imports a document owns what is created, and cannot give it to
    somebody else."""
    return sddl[max(sddl.find("D:"), 0) :]


def local(path: str, computer: str) -> str:
    """Return a path without the computer's name."""
    host, separator, rest = path.partition("\\")
    return f".\\{rest}" if separator and host.casefold() in (computer.casefold(), ".") else path


def checked(document: Any) -> dict[str, Any]:
    """Return a document that was checked for import."""
    if not isinstance(document, dict) or document.get("openmsmq_definitions") != VERSION:
        raise DefinitionsError(f"This is no document of definitions: openmsmq_definitions is not {VERSION}.")
    try:
        check(document, DOCUMENT, "document")
    except MisuseError as error:
        raise DefinitionsError(str(error)) from error
    for part, key in (("queues", "path"), ("users", "name"), ("tokens", "name"), ("alarms", "name")):
        seen = set()
        for each in document.get(part, ()):
            name = each[key].casefold() if part == "queues" else each[key]
            if name in seen:
                raise DefinitionsError(f"{each[key]} stands twice in {part}.")
            seen.add(name)
    return document


async def diff(mq: Connection, document: Any) -> list[Change]:
    """Return what importing the document would change, and what it does not name."""
    wanted, there = checked(document), await export(mq)
    changes = [
        Change("change", "manager", name, there["manager"].get(name), value)
        for name, value in wanted.get("manager", {}).items()
        if there["manager"].get(name) != value
    ]
    computer = (await mq.manager()).computer_name
    known = {queue["path"].casefold(): queue for queue in there["queues"]}
    named = set()
    for queue in wanted.get("queues", ()):
        path = local(queue["path"], computer)
        named.add(path.casefold())
        before = known.get(path.casefold())
        if before is None:
            changes.append(Change("create", "queue", path, None, queue))
            continue
        changes += [
            Change("change", "queue", f"{path} {name}", before.get(name), value)
            for name, value in queue.items()
            if name != "path" and before.get(name) != value
        ]
    changes += [Change("extra", "queue", queue["path"]) for path, queue in known.items() if path not in named]
    for part, thing in _SINGULAR.items():
        have = {each["name"]: each for each in there[part]}
        for each in wanted.get(part, ()):
            before = have.pop(each["name"], None)
            if before is None:
                changes.append(Change("create", thing, each["name"], None, each))
            elif thing == "alarm":  # an account keeps its SID and a token its owner for ever
                changes += [
                    Change("change", thing, f"{each['name']} {name}", before[name], value)
                    for name, value in each.items()
                    if before[name] != value
                ]
        changes += [Change("extra", thing, name) for name in have]
    return changes


async def bring(mq: Connection, document: Any) -> tuple[list[Change], dict[str, str]]:
    """Import a document: create what is missing, change what differs. Returns the changes, and the secrets of new
    tokens."""
    changes = await diff(mq, document)
    for change in changes:
        if change.thing == "queue" and change.name.endswith(" transactional"):
            raise DefinitionsError(f"{change.name}: a queue never changes that; delete it first.")
    settings: dict[str, dict[str, Any]] = {}
    secrets: dict[str, str] = {}
    for change in changes:
        if change.thing == "queue" and change.what == "create":
            await _create(mq, change.name, change.after)
        elif change.thing == "queue" and change.what == "change":
            path, _, name = change.name.rpartition(" ")
            settings.setdefault(path, {})[name] = change.after
        elif change.thing == "token" and change.what == "create":
            _, secrets[f"token {change.name}"] = await mq.create_token(
                change.name, change.after.get("sid", "")
            )
        elif change.thing == "user" and change.what == "create":
            given = change.after
            _, secrets[f"user {change.name}"] = await mq.create_account(
                change.name, given.get("groups", ()), sid=given.get("sid", "")
            )
        elif change.thing == "manager":
            settings.setdefault("", {})[change.name] = change.after
    for path, given in settings.items():
        await _set(mq, path, given)
    if any(change.thing == "alarm" and change.what != "extra" for change in changes):
        await _set_alarms(mq, document["alarms"])
    return [change for change in changes if change.what != "extra"], secrets


async def _set_alarms(mq: Connection, wanted: list[dict[str, Any]]) -> None:
    """Change the rules that a document names, and add new ones."""
    rules = {rule.name: _alarm(rule) for rule in await mq.alarms()}
    for given in wanted:
        rules[given["name"]] = rules.get(given["name"], {}) | given
    try:
        made = [
            AlarmRule(**(each | {name: tuple(each.get(name, ())) for name in ("webhooks", "mail_to")}))
            for each in rules.values()
        ]
        await mq.set_alarms(made)
    except (TypeError, ValueError) as error:
        raise DefinitionsError(f"An alarm in the document is none: {error}.") from error


def read(content: bytes | str) -> Any:
    """Parse a document, which is JSON or YAML. Raises ValueError if it is neither."""
    try:
        return json.loads(content)
    except ValueError:
        pass
    return read_yaml(content)


def read_yaml(content: bytes | str) -> Any:
    """Parse YAML as far as JSON could hold it: without dates, and without aliases, which can grow endlessly."""
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise ValueError("A document has no aliases.")
            return super().compose_node(parent, index)

    try:
        return json.loads(json.dumps(yaml.load(content, Loader)))
    except (yaml.YAMLError, TypeError, RecursionError) as error:
        raise ValueError(str(error).replace("\n", " ")) from error


def write_yaml(document: dict[str, Any]) -> str:
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return text


def settings_of(given: dict[str, Any]) -> dict[str, Any]:
    """Return settings as the channel takes them, where "no limit" is a number."""
    return {
        name: UNLIMITED if name in _QUOTAS and value is None else value
        for name, value in given.items()
        if name in SETTINGS
    }


async def _create(mq: Connection, path: str, given: dict[str, Any]) -> None:
    await mq.create_queue(
        path,
        transactional=given.get("transactional", False),
        **settings_of(given),
    )
    if given.get("sddl"):
        await mq.set_security(path, sddl=given["sddl"])


async def _set(mq: Connection, path: str, given: dict[str, Any]) -> None:
    sddl = given.pop("sddl", "")
    if path and given:
        await mq.set_queue(path, **settings_of(given))
    elif given:
        await mq.set_manager(**settings_of(given))
    if sddl:
        await mq.set_security(path or None, sddl=sddl)

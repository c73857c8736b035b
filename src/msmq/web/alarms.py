"""Alarms: rules that are checked every few seconds, with news when one begins to hold and when it no longer does.

The first of the console's queue managers keeps the rules. They are checked for all hosts, with the console's own
rights. News goes to webhooks, as JSON, and by mail if a server for it is configured.
"""

from __future__ import annotations

import asyncio
import fnmatch
import json
import logging
import smtplib
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from email.message import EmailMessage
from typing import Any, Final

from msmq.api.generated import msmq_pb2 as pb
from msmq.client.connection import Connection
from msmq.client.info import AlarmRule
from msmq.errors import MsmqError
from msmq.web.application import ProblemError
from msmq.web.hosts import is_dead, statistics
from msmq.web.messages import find

_LOOK_S: Final = 5.0
_POST_S: Final = 10.0
_MOST_AGED: Final = 50
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Alarm:
    """A rule that holds now."""

    rule: str
    host: str
    thing: str
    value: float
    since: float
    told: bool = False

    def shown(self) -> dict[str, Any]:
        return asdict(self) | {"since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.since))}


@dataclass(slots=True)
class Alarms:
    """All rules, and which of them hold."""

    connect: Callable[[str], Any]
    """Returns the connection to a host in the console's own name."""
    hosts: tuple[str, ...]
    smtp: str = ""
    mail_from: str = "msmq@localhost"
    rules: Sequence[AlarmRule] = ()
    on: dict[tuple[str, str, str], Alarm] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    def go_by(self, rules: Sequence[AlarmRule]) -> None:
        """Replace the rules."""
        self.rules = tuple(rules)
        names = {rule.name for rule in rules}
        self.on = {key: alarm for key, alarm in self.on.items() if key[0] in names}

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            # A queue manager that is away is watched by the rules that it had.
            with suppress(MsmqError, OSError):
                self.go_by(await (await self.connect(self.hosts[0])).alarms())
            if self.rules:
                await asyncio.gather(*map(self.look, self.hosts))
            await asyncio.sleep(_LOOK_S)

    async def look(self, host: str) -> None:
        """Check which rules hold for a host now, and send news. A slow recipient does not delay the others of the same
        check."""
        try:
            mq = await self.connect(host)
            given, down = await statistics(mq), ""
            ages = await self._ages(mq, given)
        except (MsmqError, ProblemError, OSError) as error:
            given, ages, down = pb.Statistics(), {}, str(error) or "no answer"
        now_s, holding, news = time.time(), set(), []
        for rule in self.rules:
            for thing, value in self._holding(rule, given, ages, down):
                key = rule.name, host, thing
                holding.add(key)
                alarm = self.on.setdefault(key, Alarm(rule.name, host, thing, value, now_s))
                alarm.value = value
                if not alarm.told and now_s - alarm.since >= rule.for_s:
                    alarm.told = True
                    news.append(self._tell(rule, alarm, "on"))
        for key in [key for key in self.on if key[1] == host and key not in holding]:
            alarm = self.on.pop(key)
            rule_there = next((rule for rule in self.rules if rule.name == alarm.rule), None)
            if alarm.told and rule_there is not None:
                news.append(self._tell(rule_there, alarm, "off"))
        await asyncio.gather(*news)

    async def _ages(self, mq: Connection, given: pb.Statistics) -> dict[str, float]:
        """Return how old the first message is of each queue for which a rule needs it."""
        patterns = [rule.queue for rule in self.rules if rule.kind == "age"]
        wanted = [
            each for each in given.queues if each.messages and any(_suits(each.path, one) for one in patterns)
        ]
        ages = {}
        for each in wanted[:_MOST_AGED]:
            with suppress(MsmqError):
                found = (await find(mq, each.path, {}, 1, looked_at=1))["items"]
                if found:
                    ages[each.path] = (
                        time.time() - datetime.fromisoformat(found[0]["arrived_time"]).timestamp()
                    )
        return ages

    @staticmethod
    def _holding(
        rule: AlarmRule, given: pb.Statistics, ages: dict[str, float], down: str
    ) -> Iterator[tuple[str, float]]:
        """Yield what a rule holds for, such as a queue, with the value that is too large."""
        if down:
            if rule.kind == "down":
                yield down, 1.0
            return
        if rule.kind == "store_bytes" and given.work.store_bytes > rule.threshold:
            yield "store", float(given.work.store_bytes)
        elif rule.kind == "disk_free" and 0 < given.work.disk_free_bytes < rule.threshold:
            yield "disk", float(given.work.disk_free_bytes)
        elif rule.kind == "dead_letters":
            dead = sum(each.messages for each in given.queues if is_dead(each.path))
            if dead > rule.threshold:
                yield "dead letters", float(dead)
        elif rule.kind == "outgoing":
            for out in given.outgoing:
                failed = bool(out.attempts) and bool(out.attempts[-1].error)
                if _suits(out.format_name, rule.queue) and failed and out.messages > rule.threshold:
                    yield out.format_name, float(out.messages)
        elif rule.kind == "age":
            yield from (
                (path, age) for path, age in ages.items() if _suits(path, rule.queue) and age > rule.threshold
            )
        elif rule.kind in ("depth", "no_reader"):
            for each in given.queues:
                unread = rule.kind == "depth" or not each.waiting_readers
                if _suits(each.path, rule.queue) and unread and each.messages > rule.threshold:
                    yield each.path, float(each.messages)

    async def _tell(self, rule: AlarmRule, alarm: Alarm, state: str) -> None:
        news = alarm.shown() | {"state": state, "kind": rule.kind, "threshold": rule.threshold}
        _log.warning("alarm %s: %s", state, json.dumps(news))
        telling = [asyncio.to_thread(_post, url, news) for url in rule.webhooks]
        if rule.mail_to and self.smtp:
            telling.append(asyncio.to_thread(self._mail, rule, news))
        await asyncio.gather(*telling)

    def _mail(self, rule: AlarmRule, news: dict[str, Any]) -> None:
        message = EmailMessage()
        message["From"], message["To"] = self.mail_from, ", ".join(rule.mail_to)
        message["Subject"] = f"OpenMSMQ alarm {news['state']}: {rule.name} on {news['host']}"
        message.set_content(json.dumps(news, indent=2))
        host, _, port = self.smtp.rpartition(":")
        try:
            with smtplib.SMTP(host, int(port), timeout=_POST_S) as server:
                server.send_message(message)
        except (OSError, smtplib.SMTPException, ValueError) as error:
            _log.error("an alarm could not be mailed by %s: %s", self.smtp, error)


def _suits(path: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(path.lower(), pattern.lower().replace("[", "[[]"))


def _post(url: str, news: dict[str, Any]) -> None:
    request = urllib.request.Request(
        url, json.dumps(news).encode(), {"content-type": "application/json", "user-agent": "OpenMSMQ"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_POST_S):
            pass
    except OSError as error:
        _log.error("an alarm could not be told to %s: %s", url, error)


def rule_of(given: dict[str, Any]) -> AlarmRule:
    """Make a rule of JSON."""
    return AlarmRule(**(given | {name: tuple(given.get(name, ())) for name in ("webhooks", "mail_to")}))

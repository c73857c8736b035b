"""The limits of an alarm rule, for the queue manager that keeps rules and the console that edits them."""

from __future__ import annotations

import re
from typing import Final

from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import InvalidParameterError

KINDS: Final = ("depth", "age", "dead_letters", "store_bytes", "disk_free", "no_reader", "outgoing", "down")
WEBHOOK: Final = r"^https?://[^\s]+$"
MAIL: Final = r"^[^\s@,]+@[^\s@,]+$"
LONGEST_NAME: Final = 100
LONGEST_QUEUE: Final = 256
LONGEST_WEBHOOK: Final = 2_000
LONGEST_MAIL: Final = 200
MOST_RULES: Final = 200
MOST_TOLD: Final = 10
LONGEST_WAIT_S: Final = 86_400


def check(rule: pb.AlarmRule) -> None:
    """Raise InvalidParameterError unless a rule is valid: the console relies on that wherever a rule comes from."""
    wrong = ""
    if not 0 < len(rule.name) <= LONGEST_NAME:
        wrong = f"The name of an alarm has 1 to {LONGEST_NAME} characters."
    elif rule.kind not in KINDS:
        wrong = f"{rule.name}: {rule.kind!r} is none of {', '.join(KINDS)}."
    elif len(rule.queue) > LONGEST_QUEUE:
        wrong = f"{rule.name}: a pattern has {LONGEST_QUEUE} characters at most."
    elif not rule.threshold >= 0 or not 0 <= rule.for_s <= LONGEST_WAIT_S:
        wrong = f"{rule.name}: a threshold is not negative, and for_s goes from 0 to {LONGEST_WAIT_S}."
    for told, pattern, longest in (
        (rule.webhooks, WEBHOOK, LONGEST_WEBHOOK),
        (rule.mail_to, MAIL, LONGEST_MAIL),
    ):
        if len(told) > MOST_TOLD:
            wrong = f"{rule.name}: {MOST_TOLD} are told at most."
        for each in told:
            if len(each) > longest or re.fullmatch(pattern.strip("^$"), each) is None:
                wrong = f"{rule.name}: {each[:100]!r} is no address to tell."
    if wrong:
        raise InvalidParameterError(wrong)

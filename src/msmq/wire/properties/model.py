"""The model of a property: the columns of the tables in this package (MS-MQMQ 2.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, Flag, auto

from msmq.errors import IllegalPropertyValueError
from msmq.wire.names import MsmqVersion
from msmq.wire.variant import Value, Variant


class ObjectType(Enum):
    """The type of object that a property belongs to. Identifiers need it: 1 to 6 are used twice."""

    QUEUE = "queue"
    MACHINE = "machine"
    SITE = "site"
    CONNECTED_NETWORK = "connected network"
    ENTERPRISE = "enterprise"
    USER = "user"
    ROUTING_LINK = "routing link"
    SETTINGS = "settings"
    MQUSER = "migrated user"
    COMPUTER = "computer"
    MANAGEMENT_MACHINE = "managed computer"
    MANAGEMENT_QUEUE = "managed queue"
    DELETION = "deletion notification"


class Use(Flag):
    """What may be done with a property, or what a call does with properties."""

    CREATE = auto()
    """Given when the object is created."""
    SET = auto()
    """Changed by a caller afterwards."""
    GET = auto()
    SYSTEM = auto()
    """Written by the queue manager, the directory or the installer itself."""

    ANY = CREATE | SET | GET | SYSTEM
    AT_CREATION = CREATE | GET | SYSTEM
    READ_ONLY = GET | SYSTEM


class Content(Enum):
    """The content of a blob."""

    SECURITY_DESCRIPTOR = "SECURITY_DESCRIPTOR (MS-DTYP 2.4.6)"
    SID = "SID (MS-DTYP 2.4.2.2)"
    CERTIFICATE = "X.509 certificate"
    PUBLIC_KEYS = "MQDSPUBLICKEYS (2.2.2)"
    USER_CERTIFICATES = "MQUSERSIGNCERTS (2.2.21)"
    ADDRESSES = "array of TA_ADDRESS (2.2.4)"
    SEQUENCE_INFO = "SEQUENCE_INFO (2.2.5)"


@dataclass(frozen=True, slots=True)
class Rule:
    """The values that a property accepts. ``allows`` may itself raise a more specific status."""

    text: str
    allows: Callable[[object, MsmqVersion], bool]
    choices: type[Enum] | None = None
    """The named values, if there is a fixed set of them."""

    def check(self, value: object, version: MsmqVersion) -> None:
        if not self.allows(value, version):
            raise IllegalPropertyValueError(f"The value must be {self.text}.")


@dataclass(frozen=True, slots=True)
class Property:
    """One property of one object type."""

    id: int
    name: str
    vt: int
    doc: str
    since: MsmqVersion = MsmqVersion.V1
    rule: Rule | None = None
    default: Value = None
    """The value that is read when none was written; None means that the property is then absent."""
    uses: Use = Use.ANY
    content: Content | None = None
    required: bool = False
    """True if an object cannot be created without it."""
    public_only: bool = False
    """True if it is ignored for private queues."""

    @property
    def default_variant(self) -> Variant | None:
        return None if self.default is None else Variant(self.vt, self.default)


def parses(text: str, parse: Callable[[str], object]) -> Rule:
    """Make a rule for texts that ``parse`` accepts; a status that it raises goes to the caller."""

    def allows(value: object, _version: MsmqVersion) -> bool:
        assert isinstance(value, str)
        parse(value)
        return True

    return Rule(text, allows)


def one_of(choices: type[Enum]) -> Rule:
    """Make a rule for the values of an enumeration."""
    values = frozenset(member.value for member in choices)
    listed = ", ".join(repr(member.value) for member in choices)
    return Rule(f"one of {listed}", lambda value, _version: value in values, choices)


def between(low: int, high: int) -> Rule:
    return Rule(
        f"between {low} and {high}", lambda value, _version: isinstance(value, int) and low <= value <= high
    )


def at_most(count: int) -> Rule:
    """Make a rule for texts of at most ``count`` WCHARs."""

    def allows(value: object, _version: MsmqVersion) -> bool:
        return isinstance(value, str) and len(value.encode("utf-16-le", "surrogatepass")) <= 2 * count

    return Rule(f"a text of at most {count} characters", allows)


def each(rule: Rule) -> Rule:
    """Make a rule for vectors whose every element obeys ``rule``."""

    def allows(value: object, version: MsmqVersion) -> bool:
        return isinstance(value, tuple) and all(rule.allows(item, version) for item in value)

    return Rule(f"a list, each element {rule.text}", allows)

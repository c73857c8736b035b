"""The tables from which drafts are drawn: for each attribute its options and their frequencies.

An option belongs to the doors that can carry it. Each attribute of a draft has one menu of the same name, except those
that depend on two menus or on none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeAlias

from msmq.security.sid import Sid
from msmq.testing.traffic.draft import Delivery, Door, Security, Surroundings
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm
from msmq.wire.guid import guid_text
from msmq.wire.headers import INFINITE, MAX_HOP_COUNT, MAX_LABEL_LENGTH, NULL_GUID

Make: TypeAlias = Callable[[Random, Surroundings], Any]
ANY: Final = Door.MANAGER | Door.CLIENT | Door.WIRE | Door.FORWARDED
APPLICATION: Final = Door.MANAGER | Door.CLIENT
PACKET: Final = Door.WIRE | Door.FORWARDED
NOT_CLIENT: Final = Door.MANAGER | PACKET
_DAY_S: Final = 86_400
_U32: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a menu."""

    weight: float
    """Its frequency, compared with the other options of its menu."""
    make: Make
    doors: Door = ANY
    offered: Callable[[Surroundings], bool] = lambda _: True


Menu: TypeAlias = Mapping[str, Option]


def _is(value: Any) -> Make:
    return lambda rng, world: value


def _guid(rng: Random, world: Surroundings | None = None) -> bytes:
    return rng.randbytes(16)


# --- the body and what goes with it ----------------------------------------------------------------------------


def _bytes(smallest: int, largest: int) -> Make:
    return lambda rng, world: rng.randbytes(rng.randint(smallest, min(largest, world.largest_body)))


def _fits(size: int) -> Callable[[Surroundings], bool]:
    return lambda world: world.largest_body >= size


_BODIES: Final = {
    "empty": Option(6, _is(b"")),
    "small": Option(60, _bytes(1, 200)),
    "page": Option(28, _bytes(800, 5_000), offered=_fits(5_000)),
    "zeros": Option(2, lambda rng, world: bytes(rng.randint(1, min(2_000, world.largest_body)))),
    "large": Option(3, _bytes(20_000, 200_000), offered=_fits(200_000)),
    "huge": Option(0.2, _bytes(900_000, 1_200_000), offered=_fits(1_200_000)),
    "largest": Option(0.05, lambda rng, world: rng.randbytes(world.largest_body), offered=_fits(4_000_000)),
}
_BODY_TYPES: Final = {
    "none": Option(60, _is(0)),
    "text": Option(20, _is(31)),
    "bstr": Option(10, _is(8)),
    "integer": Option(3, _is(3)),
    "bytes": Option(5, _is(0x1011)),
    "unknown": Option(1, lambda rng, world: rng.randint(0x2000, _U32)),
}


def _half_surrogates(rng: Random, world: Surroundings) -> str:
    return "".join(
        rng.choice(("a", "\ud83d", "\ude00", "\ud800", "z")) + "-" for _ in range(rng.randint(1, 8))
    )


_LABELS: Final = {
    "none": Option(30, _is("")),
    "plain": Option(55, lambda rng, world: f"order {rng.randint(1, 99_999)}"),
    "other letters": Option(8, lambda rng, world: rng.choice(("Grüße", "注文", "заказ", "😀 ok", "a\u0301"))),
    "controls": Option(1, _is("line\none\ttab\x01\x7f\u2028")),
    "longest": Option(2, lambda rng, world: "L" * (MAX_LABEL_LENGTH - 1)),
    "half surrogates": Option(1, _half_surrogates, NOT_CLIENT),
}
_EXTENSIONS: Final = {
    "none": Option(85, _is(b"")),
    "some": Option(13, lambda rng, world: rng.randbytes(rng.randint(1, 300))),
    "much": Option(0.5, lambda rng, world: rng.randbytes(min(3_000, world.largest_body))),
}
_TAGS: Final = {
    "none": Option(80, _is(0)),
    "some": Option(18, lambda rng, world: rng.randint(1, 1_000)),
    "greatest": Option(1, _is(_U32)),
}
_CORRELATIONS: Final = {
    "none": Option(75, _is(bytes(20))),
    "a message": Option(22, lambda rng, world: world.source + rng.randint(1, 1_000).to_bytes(4, "little")),
    "anything": Option(3, lambda rng, world: rng.randbytes(20)),
}
_CLASSES: Final = {
    "normal": Option(98, _is(0)),
    "the application's own": Option(1, lambda rng, world: rng.choice((0x0100, 0x01FE, 0x2001, 0x6100))),
}

# --- how it travels --------------------------------------------------------------------------------------------

_PRIORITIES: Final = {str(each): Option(70 if each == 3 else 4, _is(each)) for each in range(8)}
_DELIVERIES: Final = {
    "express": Option(25, _is(Delivery.EXPRESS)),
    "recoverable": Option(50, _is(Delivery.RECOVERABLE)),
    "transactional": Option(25, _is(Delivery.TRANSACTIONAL)),
}
_TIMES: Final = {
    "unsaid": Option(70, _is(None)),
    "infinite": Option(8, _is(INFINITE)),
    "days": Option(12, lambda rng, world: rng.randint(1, 30) * _DAY_S),
    "short": Option(9, lambda rng, world: rng.randint(1, 60)),
    "zero": Option(1, _is(0)),
}
_ORDINARY_REQUESTS: Final = {0x0: 70, 0x5: 10, 0xE: 8, 0x4: 4, 0xC: 4, 0xF: 2}
_ACKNOWLEDGEMENTS: Final = {
    f"{bits:#x}": Option(_ORDINARY_REQUESTS.get(bits, 0.3), _is(bits)) for bits in range(16)
}


def _flag(weight: float, doors: Door = ANY) -> Menu:
    return {"no": Option(100 - weight, _is(False)), "yes": Option(weight, _is(True), doors)}


# --- names -----------------------------------------------------------------------------------------------------


def _private(host: bytes, number: int) -> str:
    return f"PRIVATE={guid_text(host)}\\{number:08X}"


def _number(rng: Random) -> int:
    return rng.randint(0x100, 0xFFFF)


def _listening(rng: Random, world: Surroundings) -> str:
    return rng.choice(world.listeners)


_NAMES: Final = {
    "known": Option(70, _listening, offered=lambda world: bool(world.listeners)),
    "unknown": Option(
        5, lambda rng, world: f"DIRECT=OS:{world.computer}\\private$\\nobody-{rng.randint(1, 9)}"
    ),
    "unknown number": Option(2, lambda rng, world: _private(world.host, _number(rng))),
    "unreachable": Option(
        5, lambda rng, world: f"DIRECT=TCP:{world.unreachable}\\private$\\q-{rng.randint(1, 9)}"
    ),
    "on the source": Option(5, lambda rng, world: _private(world.source, _number(rng))),
    "on a stranger": Option(2, lambda rng, world: _private(_guid(rng), _number(rng))),
    "public": Option(4, lambda rng, world: f"PUBLIC={guid_text(_guid(rng))}"),
    "null public": Option(0.5, _is(f"PUBLIC={guid_text(NULL_GUID)}")),
    "null private": Option(0.5, lambda rng, world: _private(NULL_GUID, _number(rng))),
    "http": Option(1, lambda rng, world: f"DIRECT=HTTP://{world.unreachable}/MSMQ\\q", PACKET),
    "half surrogate": Option(
        0.3, lambda rng, world: f"DIRECT=OS:{world.computer}\\private$\\odd\ud800", PACKET
    ),
}
_ADMIN_QUEUES: Final = {"none": Option(20, _is("")), **_NAMES}
_RESPONSE_QUEUES: Final = {
    "none": Option(150, _is("")),
    **_NAMES,
    # The generator replaces these two, because they depend on the administration queue.
    "the admin queue": Option(20, _is("")),
    "on the host of the admin queue": Option(2, _is("")),
}
_DESTINATIONS: Final = {
    "known": Option(
        92,
        lambda rng, world: rng.choice(world.destinations),
        offered=lambda world: bool(world.destinations),
    ),
    "unknown": _NAMES["unknown"],
    "unknown number": _NAMES["unknown number"],
    "unreachable": _NAMES["unreachable"],
    "public": _NAMES["public"],
}
_DEAD_LETTER_QUEUES: Final = {
    "the system's": Option(90, _is("")),
    "known": Option(
        9,
        lambda rng, world: rng.choice(world.dead_letter_queues),
        APPLICATION,
        lambda world: bool(world.dead_letter_queues),
    ),
    "unknown": Option(1, _is(".\\private$\\no-such-grave"), APPLICATION),
}


def _element(rng: Random, world: Surroundings) -> str:
    kinds = (
        lambda: f"DIRECT=OS:{world.computer}\\private$\\q-{rng.randint(1, 9)}",
        lambda: _private(world.host, _number(rng)),
        lambda: f"PUBLIC={guid_text(_guid(rng))}",
        lambda: f"DL={guid_text(_guid(rng))}",
    )
    return rng.choice(kinds)()


def _elements(smallest: int, largest: int) -> Make:
    return lambda rng, world: tuple(_element(rng, world) for _ in range(rng.randint(smallest, largest)))


def _list(weight: float) -> Menu:
    return {
        "none": Option(100 - weight, _is(())),
        "one": Option(weight / 2, _elements(1, 1), NOT_CLIENT),
        "several": Option(weight / 2, _elements(2, 5), NOT_CLIENT),
    }


# --- who sends -------------------------------------------------------------------------------------------------


def _sid(rng: Random) -> bytes:
    return Sid(5, (21, *(rng.getrandbits(32) for _ in range(3)), rng.randint(500, 2_000))).encode()


_SECURITIES: Final = {
    "none": Option(25, _is(Security())),
    "sender": Option(65, lambda rng, world: Security(_sid(rng)), NOT_CLIENT),
    "queue manager": Option(
        2, lambda rng, world: Security(world.source, sender_is_queue_manager=True), NOT_CLIENT
    ),
    "certificate": Option(2, lambda rng, world: Security(_sid(rng), certificate=rng.randbytes(90)), PACKET),
    "certificate alone": Option(2, lambda rng, world: Security(certificate=rng.randbytes(91)), ANY),
    "signed": Option(
        4,
        lambda rng, world: Security(_sid(rng), signed=True),
        PACKET,
        lambda world: world.signer is not None,
    ),
}


def _other_algorithms(rng: Random, world: Surroundings) -> tuple[int, int]:
    return rng.choice(list(HashAlgorithm)), rng.choice(list(EncryptionAlgorithm))


def _or_a_guid(weight: float, doors: Door = ANY) -> Menu:
    return {"none": Option(100 - weight, _is(NULL_GUID)), "some": Option(weight, _guid, doors)}


MENUS: Final[Mapping[str, Menu]] = {
    "destination": _DESTINATIONS,
    "body": _BODIES,
    "body_type": _BODY_TYPES,
    "label": _LABELS,
    "extension": _EXTENSIONS,
    "application_tag": _TAGS,
    "correlation_id": _CORRELATIONS,
    "message_class": _CLASSES,
    "priority": _PRIORITIES,
    "delivery": _DELIVERIES,
    "time_to_reach_queue_s": _TIMES,
    "time_to_be_received_s": _TIMES,
    "acknowledgements": _ACKNOWLEDGEMENTS,
    "admin_queue": _ADMIN_QUEUES,
    "response_queue": _RESPONSE_QUEUES,
    "journal": _flag(10),
    "dead_letter": _flag(45),
    "dead_letter_queue": _DEAD_LETTER_QUEUES,
    "peekable_when_locked": _flag(3, APPLICATION),
    "connector_type": _or_a_guid(2),
    "trace": _flag(2),
    "tracing_queue": _or_a_guid(1, NOT_CLIENT),
    "security": _SECURITIES,
    "algorithms": {"usual": Option(95, _is(None)), "others": Option(5, _other_algorithms, NOT_CLIENT)},
    "soap": {"none": Option(99, _is(("", ""))), "some": Option(1, _is(("<head/>", "<body/>")), NOT_CLIENT)},
    "destination_list": _list(2),
    "admin_list": _list(1),
    "response_list": _list(1),
    "hops": {
        "none": Option(10, _is(0), ANY & ~Door.FORWARDED),
        "some": Option(10, lambda rng, world: rng.randint(1, 5), Door.FORWARDED),
        "most": Option(1, _is(MAX_HOP_COUNT), Door.FORWARDED),
    },
    "spelled_out": _flag(10, PACKET),
    "numbers": {
        "none": Option(95, _is((0, 0))),
        "admin": Option(2, lambda rng, world: (_number(rng), 0), PACKET),
        "response": Option(2, lambda rng, world: (0, _number(rng)), PACKET),
        "both": Option(1, lambda rng, world: (_number(rng), _number(rng)), PACKET),
    },
    "spare_room": {
        "none": Option(90, _is(0)),
        "some": Option(10, lambda rng, world: rng.randint(1, 40), PACKET),
    },
    "final_ack_required": _flag(30, PACKET),
    "connector_queue_manager": _or_a_guid(1, PACKET),
}
"""All menus, in the order of drawing."""

"""What the declared structures cost against hand-written ``struct`` code that does the same job.

Run: ``python bench/wire.py`` (or ``make bench``). One line per case: time per packet and the ratio to the baseline of
the same run. The packet has five headers (Base, User, Transaction, Security, MessageProperties), a direct
destination, a SID, a label and a 1 KB body.

The baseline is what one writes for exactly this packet and no other: precompiled ``struct`` layouts, slotted
dataclasses, the same fields and texts, and only the bounds checks without which it could not read the packet at all.
Ours checks everything a hostile packet can get wrong.
"""

from __future__ import annotations

import struct
import sys
import timeit
from dataclasses import dataclass

from msmq.errors import DecodeError
from msmq.wire.headers import BaseHeader, MessagePropertiesHeader, QueueReference, UserHeader
from msmq.wire.message import UserMessage, encode_user_message
from msmq.wire.optional_headers import SecurityHeader, TransactionHeader

GOALS = {"decode": 1.3, "encode": 1.3, "routing decode": 0.6}
ROUNDS = 60
CALLS = 1000

SID = bytes.fromhex("010500000000000515000000ad4a9ebd36d9fa3d63a656dae8030000")
BODY = bytes(range(256)) * 4


# --- the baseline -------------------------------------------------------------------------------------------------

BASE = struct.Struct("<BBHIII")
USER = struct.Struct("<16s16sIIII")
TRANSACTION = struct.Struct("<IQII")
SECURITY = struct.Struct("<HHHHII")
PROPERTIES = struct.Struct("<BBH20sIIIIIIII")
COUNT = struct.Struct("<H")


@dataclass(slots=True)
class Base:
    version: int
    reserved: int
    flags: int
    signature: int
    packet_size: int
    time_to_reach_queue: int


@dataclass(slots=True)
class User:
    source: bytes
    address: bytes
    time_to_be_received: int
    sent_time: int
    message_id: int
    flags: int
    destination: str


@dataclass(slots=True)
class Transaction:
    flags: int
    sequence_id: int
    number: int
    previous: int


@dataclass(slots=True)
class Security:
    flags: int
    sender_id: bytes
    key: bytes
    signature: bytes
    certificate: bytes
    provider: bytes


@dataclass(slots=True)
class Properties:
    flags: int
    message_class: int
    correlation: bytes
    body_type: int
    tag: int
    privacy: int
    hash: int
    encryption: int
    label: str
    extension: bytes
    body: bytes


def hand_decode(data: bytes) -> tuple[Base, User, Transaction, Security, Properties]:
    base = Base(*BASE.unpack_from(data, 0))
    if base.version != 0x10 or base.signature != 0x524F494C or base.packet_size != len(data):
        raise DecodeError("not a packet")
    source, address, ttbr, sent, number, flags = USER.unpack_from(data, 16)
    (count,) = COUNT.unpack_from(data, 64)
    end = 66 + count
    user = User(source, address, ttbr, sent, number, flags, data[66 : end - 2].decode("utf-16-le"))
    cursor = (end + 3) & ~3
    transaction = Transaction(*TRANSACTION.unpack_from(data, cursor))
    cursor += 20
    sflags, *sizes = SECURITY.unpack_from(data, cursor)
    cursor += 16
    items = []
    for size in sizes:
        items.append(data[cursor : cursor + size])
        cursor += (size + 3) & ~3
    security = Security(sflags, *items)
    (
        pflags,
        label_length,
        klass,
        correlation,
        body_type,
        tag,
        size,
        allocated,
        privacy,
        hashing,
        encryption,
        extra,
    ) = PROPERTIES.unpack_from(data, cursor)
    cursor += 56
    label = data[cursor : cursor + 2 * label_length - 2].decode("utf-16-le")
    cursor += 2 * label_length
    extension = data[cursor : cursor + extra]
    cursor += extra
    if cursor + allocated > len(data):
        raise DecodeError("the body does not fit")
    properties = Properties(
        pflags, klass, correlation, body_type, tag, privacy, hashing, encryption,
        label, extension, data[cursor : cursor + size],
    )  # fmt: skip
    return base, user, transaction, security, properties


def hand_encode(
    base: Base, user: User, transaction: Transaction, security: Security, properties: Properties
) -> bytes:
    name = (user.destination + "\0").encode("utf-16-le")
    name = COUNT.pack(len(name)) + name
    items = (security.sender_id, security.key, security.signature, security.certificate, security.provider)
    label = (properties.label + "\0").encode("utf-16-le")
    body = properties.body
    tail = (
        PROPERTIES.pack(
            properties.flags, len(label) // 2, properties.message_class, properties.correlation, properties.body_type,
            properties.tag, len(body), len(body), properties.privacy, properties.hash, properties.encryption,
            len(properties.extension),
        )
        + label + properties.extension + body
    )  # fmt: skip
    packet = b"".join(
        (
            USER.pack(
                user.source,
                user.address,
                user.time_to_be_received,
                user.sent_time,
                user.message_id,
                user.flags,
            ),
            name + bytes(-len(name) % 4),
            TRANSACTION.pack(
                transaction.flags, transaction.sequence_id, transaction.number, transaction.previous
            ),
            SECURITY.pack(security.flags, *map(len, items)),
            *[item + bytes(-len(item) % 4) for item in items],
            tail + bytes(-len(tail) % 4),
        )
    )
    return BASE.pack(0x10, 0, base.flags, 0x524F494C, 16 + len(packet), base.time_to_reach_queue) + packet


# --- ours ---------------------------------------------------------------------------------------------------------


def our_headers() -> tuple[
    BaseHeader, UserHeader, TransactionHeader, SecurityHeader, MessagePropertiesHeader
]:
    user = UserHeader(
        bytes(range(16)), sent_time=1_141_966_310, message_id=2286, destination_queue="OS:a04bm02\\q"
    )
    user.destination_reference = QueueReference.DIRECT
    user.delivery_mode = 1
    transaction = TransactionHeader(0x1C, 1 << 32 | 7, 42, 41)
    security = SecurityHeader(flags=1, security_id=SID)
    return BaseHeader(flags=0), user, transaction, security, MessagePropertiesHeader(correlation_id=bytes(20))


def our_decode(data: bytes) -> tuple[UserMessage, str, bytes, bytes]:
    """Every header and every text, as the baseline gives them."""
    message = UserMessage.decode(data)
    return message, message.label, message.extension, message.body


def best_of_each(cases: dict[str, tuple[object, tuple[object, ...]]]) -> dict[str, float]:
    """The best time of each case; rounds are interleaved so that a busy moment of the machine hits all alike."""
    timers = {
        name: timeit.Timer("function(*args)", globals={"function": function, "args": args})
        for name, (function, args) in cases.items()
    }
    times = dict.fromkeys(cases, float("inf"))
    for _ in range(ROUNDS):
        for name, timer in timers.items():
            times[name] = min(times[name], timer.timeit(CALLS) / CALLS)
    return times


def main() -> int:
    base, user, transaction, security, properties = our_headers()
    ours = (base, user, properties, "an order", b"", BODY, transaction, security)
    data = encode_user_message(*ours)
    hand = hand_decode(data)
    assert hand_encode(*hand) == data, "the baseline writes another packet"
    decoded, label, _, body = our_decode(data)
    assert (label, body) == (hand[4].label, hand[4].body)
    assert decoded.transaction is not None
    assert decoded.transaction.tx_sequence_number == hand[2].number

    times = best_of_each(
        {
            "hand decode": (hand_decode, (data,)),
            "decode": (our_decode, (data,)),
            "routing decode": (UserMessage.route, (data,)),
            "hand encode": (hand_encode, hand),
            "encode": (encode_user_message, ours),
        }
    )
    baselines = {"decode": "hand decode", "encode": "hand encode", "routing decode": "hand decode"}
    print(f"five headers, {len(data)} bytes, Python {sys.version.split()[0]}; best of {ROUNDS} x {CALLS}")
    for case, name in baselines.items():
        time, baseline = times[case], times[name]
        ratio = time / baseline
        verdict = "ok" if ratio <= GOALS[case] else "ABOVE GOAL"
        print(
            f"wire {case:15} {time * 1e9:7.0f} ns   baseline {baseline * 1e9:7.0f} ns   "
            f"ratio {ratio:.2f}   goal <= {GOALS[case]}   {verdict}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What an application's send becomes, and what its sender is told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from msmq.errors import InsufficientResourcesError, MQError, TransactionUsageError
from msmq.manager.initialization import Settings
from msmq.manager.mailbox.stored import StoredMessage
from msmq.manager.messages.message import AcknowledgementsRequested as Ack
from msmq.manager.messages.message import DeliveryGuarantee, Message
from msmq.manager.messages.serialize import deserialize
from msmq.manager.messages.transactions import Transaction
from msmq.manager.model import Enterprise
from msmq.manager.queues.queue import OpenQueueDescriptor, Queue
from msmq.security.access import Token
from msmq.security.descriptor import Acl, SecurityDescriptor
from msmq.security.sid import ADMINISTRATORS
from msmq.wire.classes import MessageClass
from msmq.wire.message import UserMessage
from tests.manager.support import SEND, Host, message, position_of

ADMIN = "DIRECT=OS:HOST\\PRIVATE$\\admin"
OTHER_ADMIN = "DIRECT=OS:HOST\\PRIVATE$\\other_admin"


@pytest.fixture
def host() -> Host:
    host = Host(settings=Settings(send_insecure_nacks=True))
    host.queue("admin")
    return host


@pytest.fixture
def stocked(host: Host) -> Host:
    """With a queue of each kind."""
    host.queue()
    host.queue("tx", transactional=True)
    return host


def opened(host: Host, *names: str) -> OpenQueueDescriptor:
    names = names or ("orders",)
    return host.manager.queues.open(",".join(f"DIRECT=OS:HOST\\private$\\{name}" for name in names), SEND)


def post(
    host: Host,
    *names: str,
    transaction: Transaction | None = None,
    caller: Token | None = None,
    **attributes: Any,
) -> list[StoredMessage]:
    message = Message(body=attributes.pop("body", b"body"), **attributes)
    return host.manager.posting.send(opened(host, *names), message, transaction, caller)


def told(host: Host, name: str = "admin") -> list[UserMessage]:
    """The acknowledgments in an administration queue."""
    queue = host.find(name)
    return [host.manager.mailbox.load(queue, entry.lookup_id).packet for entry in queue.positions]


def classes(host: Host) -> list[int]:
    return [packet.properties.message_class for packet in told(host)]


def wanting(wanted: Ack) -> dict[str, Any]:
    return {"administration_queue_format_name": ADMIN, "acknowledgements_requested": wanted}


def packets_in(host: Host, queue: Queue) -> list[UserMessage]:
    return [host.manager.mailbox.load(queue, entry.lookup_id).packet for entry in queue.positions]


# --- what the queue manager completes ----------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.18.1.3-c", "MQMQ-2.2.19.2-h", "MQMQ-2.3.2.2-a", "DMPR-3.1.1.12-b")
def test_every_message_has_a_number_of_its_own_even_after_a_restart(host: Host) -> None:
    host.queue()
    first, second = post(host)[0].packet, post(host)[0].packet
    assert first.user.message_id != second.user.message_id
    assert first.identifier.ordinal == first.user.message_id
    assert first.user.source_queue_manager == host.manager.core.record.identifier
    host.kill()
    third = post(host)[0].packet
    numbers = {packet.identifier.encode() for packet in (first, second, third)}
    assert len(numbers) == 3


@pytest.mark.spec("DMPR-3.1.7.1.27-a", "DMPR-3.1.7.1.27-b")
def test_a_send_on_a_single_handle_enqueues_once_and_passes_the_refusal_on(host: Host) -> None:
    queue = host.queue()
    post(host)
    assert host.contents(queue) == [b"body"]
    queue.quota_kb = 1
    with pytest.raises(InsufficientResourcesError, match="The quota of"):
        post(host, body=bytes(2000))
    assert host.contents(queue) == [b"body"]


@pytest.mark.spec("DMPR-3.1.1.6-d", "DMPR-6-c", "MQMQ-2.3.5.15-a")
def test_the_enterprise_says_how_long_a_message_may_travel(host: Host) -> None:
    host.queue()
    assert post(host)[0].packet.base.time_to_reach_queue_s == 345_600
    host.manager.core.enterprise = Enterprise(default_time_to_live_s=100)
    assert post(host)[0].packet.base.time_to_reach_queue_s == 100
    longest = host.manager.core.longest_time_to_reach_queue_s
    assert post(host, time_to_reach_queue_s=longest + 1)[0].packet.base.time_to_reach_queue_s == longest
    assert post(host, time_to_reach_queue_s=50)[0].packet.base.time_to_reach_queue_s == 50


# --- several destinations ----------------------------------------------------------------------------------


@pytest.mark.spec(
    "MQMQ-2.2.20.1-b", "MQMQ-2.2.20.1-e", "DMPR-3.1.7.1.27-d", "DMPR-3.1.1.12-s", "DMPR-3.1.1.12-r"
)
def test_each_destination_gets_its_own_packet_that_lists_them_all(host: Host) -> None:
    names = ("a", "b", "c")
    queues = [host.queue(name) for name in names]
    response = "DIRECT=OS:HOST\\PRIVATE$\\admin"
    post(host, *names, response_queue_format_name=response)
    packets = [packets_in(host, queue) for queue in queues]
    assert [len(found) for found in packets] == [1, 1, 1]
    expected = tuple(f"DIRECT=OS:HOST\\PRIVATE$\\{name}" for name in names)
    assert [packet.user.destination_queue for (packet,) in packets] == [name[7:] for name in expected]
    for (packet,) in packets:
        message = deserialize(packet)
        assert message.destination_multi_queue_format_name == expected
        assert message.destination_queue_format_name in expected
        assert message.response_queue_format_name == response
    assert len({packet.user.message_id for (packet,) in packets}) == 3


@pytest.mark.spec("DMPR-3.1.7.1.27-e")
def test_the_first_refusal_ends_a_send_and_earlier_copies_stay(host: Host) -> None:
    first, second, third = host.queue("a"), host.queue("b", quota_kb=0), host.queue("c")
    with pytest.raises(InsufficientResourcesError):
        post(host, "a", "b", "c")
    assert [len(queue.positions) for queue in (first, second, third)] == [1, 0, 0]


@pytest.mark.spec("MQMQ-2.2.20.1-c")
def test_an_acknowledgment_goes_to_every_administration_queue_that_is_listed(host: Host) -> None:
    host.queue("other_admin")
    host.queue()
    post(
        host,
        **wanting(Ack.ACK_POS_ARRIVAL),
        administration_multi_queue_format_name=(ADMIN, OTHER_ADMIN),
    )
    assert classes(host) == [0x0002]
    assert [packet.properties.message_class for packet in told(host, "other_admin")] == [0x0002]


# --- fates -------------------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.18.1.6-d", "DMPR-3.1.1.12-y", "DMPR-3.1.7.1.27-c")
@pytest.mark.parametrize("wanted", [Ack.ACK_POS_ARRIVAL, Ack.ACK_FULL_REACH_QUEUE])
def test_arrival_is_acknowledged_when_the_message_is_in_its_queue(host: Host, wanted: Ack) -> None:
    host.queue()
    host.queue("tx", transactional=True)
    (sent,) = post(host, **wanting(wanted))
    (ack,) = told(host)
    assert ack.properties.message_class == MessageClass.ACK_REACH_QUEUE == 0x0002
    assert ack.properties.correlation_id == sent.packet.identifier.encode()
    with pytest.raises(TransactionUsageError):
        post(host, "tx")


@pytest.mark.spec("MQMQ-2.2.18.1.6-f", "DMPR-3.1.1.12-aa", "DMPR-3.1.1.12-g")
@pytest.mark.parametrize("wanted", [Ack.ACK_POS_RECEIVE, Ack.ACK_FULL_RECEIVE])
def test_a_receive_is_acknowledged_once(host: Host, wanted: Ack) -> None:
    queue = host.queue()
    post(host, **wanting(wanted))
    assert classes(host) == []
    host.reader(queue).receive()
    assert classes(host) == [0x4000]


NEGATIVE_ARRIVAL = [
    Ack.ACK_NEG_ARRIVAL, Ack.ACK_NACK_REACH_QUEUE, Ack.ACK_FULL_REACH_QUEUE, Ack.ACK_NACK_RECEIVE, Ack.ACK_FULL_RECEIVE,
]  # fmt: skip
NEGATIVE_RECEIVE = [Ack.ACK_NEG_RECEIVE, Ack.ACK_NACK_RECEIVE, Ack.ACK_FULL_RECEIVE]


def refused(host: Host, *names: str, **attributes: Any) -> None:
    with pytest.raises(MQError):
        post(host, *names, **attributes)


@pytest.mark.spec("MQMQ-2.2.18.1.6-j", "MQMQ-2.3.1.5-a")
@pytest.mark.parametrize("wanted", NEGATIVE_ARRIVAL)
def test_a_full_queue_is_told_as_such(host: Host, wanted: Ack) -> None:
    host.queue(quota_kb=1)
    refused(host, body=bytes(2000), **wanting(wanted))
    assert classes(host) == [0x8003]


@pytest.mark.spec("MQMQ-2.2.18.1.6-k")
def test_a_sender_without_the_right_to_write_is_told_so(host: Host) -> None:
    descriptor = SecurityDescriptor(owner=ADMINISTRATORS, group=ADMINISTRATORS, dacl=Acl.of())
    queue = host.queue()
    handle = opened(host)
    queue.security = descriptor.encode()
    message = Message(body=b"no", **wanting(Ack.ACK_NEG_ARRIVAL))
    with pytest.raises(MQError):
        host.manager.posting.send(handle, message, caller=Token.anonymous())
    assert classes(host) == [MessageClass.NACK_ACCESS_DENIED]
    assert MessageClass.NACK_ACCESS_DENIED == 0x8004


@pytest.mark.spec("MQMQ-2.2.18.1.6-o", "MQMQ-2.2.20.5-m")
def test_a_transactional_message_is_not_for_a_plain_queue(host: Host) -> None:
    plain, transactional = host.queue(), host.queue("tx", transactional=True)
    transaction = host.transactions.create()
    refused(host, transaction=transaction, **wanting(Ack.ACK_NEG_ARRIVAL))
    assert classes(host) == [0x8009]
    post(host, "tx", transaction=transaction)
    host.transactions.commit(transaction.identifier)
    assert (host.contents(plain), host.contents(transactional)) == ([], [b"body"])


@pytest.mark.spec("MQMQ-2.2.18.1.6-p", "MQMQ-2.3.1.13-a")
def test_a_plain_message_is_not_for_a_transactional_queue(host: Host) -> None:
    host.queue("tx", transactional=True)
    refused(host, "tx", **wanting(Ack.ACK_NEG_ARRIVAL))
    assert classes(host) == [0x800A]


@pytest.mark.spec("MQMQ-2.2.18.1.6-r")
@pytest.mark.parametrize("wanted", NEGATIVE_RECEIVE)
def test_the_queue_was_deleted(host: Host, wanted: Ack) -> None:
    queue = host.queue()
    post(host, **wanting(wanted))
    host.manager.queues.delete(queue)
    assert classes(host) == [0xC000]


@pytest.mark.spec("MQMQ-2.2.18.1.6-s", "DMPR-3.1.1.12-ab")
@pytest.mark.parametrize("wanted", NEGATIVE_RECEIVE)
def test_the_queue_was_purged(host: Host, wanted: Ack) -> None:
    queue = host.queue()
    post(host, **wanting(wanted))
    host.manager.queues.purge(queue)
    assert classes(host) == [0xC001]


@pytest.mark.spec("MQMQ-2.2.18.1.6-t", "MQMQ-2.2.19.2-f")
@pytest.mark.parametrize("wanted", NEGATIVE_RECEIVE)
def test_nobody_received_it_in_time(host: Host, wanted: Ack) -> None:
    queue = host.queue()
    post(host, time_to_be_received_s=1, **wanting(wanted))
    assert host.contents(queue) == [b"body"]
    host.advance(2)
    assert host.contents(queue) == []
    assert classes(host) == [0xC002]


@pytest.mark.spec("MQMQ-2.2.18.1.6-u", "DMPR-3.1.1.12-i")
def test_the_reader_rejected_it_and_each_way_of_not_being_received_has_its_own_class(host: Host) -> None:
    queue = host.queue("tx", transactional=True)
    transaction = host.transactions.create()
    post(host, "tx", transaction=transaction, **wanting(Ack.ACK_NEG_RECEIVE))
    host.transactions.commit(transaction.identifier)
    reading = host.transactions.create()
    lookup_id = position_of(host.reader(queue).receive(transaction=reading)).lookup_id
    reading.operations[0].reasons[lookup_id] = MessageClass.NACK_RECEIVE_REJECTED
    host.transactions.commit(reading.identifier)
    plain = host.queue()
    post(host, **wanting(Ack.ACK_NEG_RECEIVE))
    host.manager.queues.purge(plain)
    post(host, time_to_be_received_s=1, **wanting(Ack.ACK_NEG_RECEIVE))
    host.advance(2)
    post(host, **wanting(Ack.ACK_NEG_RECEIVE))
    host.manager.queues.delete(plain)
    assert classes(host) == [0xC004, 0xC001, 0xC002, 0xC000]


# --- source journaling -------------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.19.2-n", "MQMQ-6-d", "DMPR-3.1.1.12-p")
def test_a_delivered_message_is_journaled_when_its_sender_asked_for_it(host: Host) -> None:
    journal = host.manager.core.journal_queue
    assert journal is not None
    host.queue()
    post(host)
    assert host.contents(journal) == []
    post(host, body=b"kept", positive_journaling_requested=True)
    assert host.contents(journal) == [b"kept"]
    host.manager.core.record.journal_quota_kb = 0
    post(host, body=b"not kept", positive_journaling_requested=True)
    assert host.contents(journal) == [b"kept"]
    assert len(host.find().positions) == 3


def test_a_transactional_message_is_journaled_with_the_commit(stocked: Host) -> None:
    host = stocked
    journal, _, _ = system_queues(host)
    for end, left in ((host.transactions.abort, []), (host.transactions.commit, [b"committed"])):
        transaction = host.transactions.create()
        body = b"committed" if left else b"aborted"
        post(host, "tx", body=body, positive_journaling_requested=True, transaction=transaction)
        post(host, "tx", body=b"nobody asked", transaction=transaction)
        assert host.contents(journal) == []
        end(transaction.identifier)
        assert host.contents(journal) == left
    host.kill()
    journal, _, _ = system_queues(host)
    assert host.contents(journal) == [b"committed"]
    assert host.contents(host.find("tx")) == [b"committed", b"nobody asked"]


def test_a_promised_transaction_is_journaled_when_it_is_committed_after_a_restart(stocked: Host) -> None:
    host = stocked
    transaction = host.transactions.create(single_phase=False)
    post(host, "tx", body=b"promised", positive_journaling_requested=True, transaction=transaction)
    host.transactions.prepare(transaction.identifier, single_phase=False)
    host.kill()
    host.transactions.commit(transaction.identifier)
    journal, _, _ = system_queues(host)
    assert host.contents(journal) == host.contents(host.find("tx")) == [b"promised"]


def system_queues(host: Host) -> tuple[Queue, Queue, Queue]:
    """The journal and the two dead-letter queues."""
    core = host.manager.core
    queues = core.journal_queue, core.dead_letter_queue, core.transactional_dead_letter_queue
    journal, plain, transactional = queues
    assert journal is not None
    assert plain is not None
    assert transactional is not None
    return journal, plain, transactional


def expire(host: Host) -> None:
    host.advance(61)


def purge(host: Host) -> None:
    for name in ("orders", "tx"):
        host.manager.queues.purge(host.find(name))


def delete(host: Host) -> None:
    for name in ("orders", "tx"):
        host.manager.queues.delete(host.find(name))


ENDS = pytest.mark.parametrize(
    ("end", "reason"),
    [
        (expire, MessageClass.NACK_RECEIVE_TIMEOUT),
        (purge, MessageClass.NACK_Q_PURGED),
        (delete, MessageClass.NACK_Q_DELETED),
    ],
    ids=["expired", "purged", "deleted"],
)
KEPT: dict[str, Any] = {"time_to_be_received_s": 60, "negative_journaling_requested": True}


def post_in_transaction(host: Host, *posts: dict[str, Any]) -> None:
    transaction = host.transactions.create()
    for each in posts:
        post(host, "tx", transaction=transaction, **each)
    host.transactions.commit(transaction.identifier)


@ENDS
@pytest.mark.parametrize("killed", [False, True], ids=["at once", "killed"])
def test_what_nobody_read_is_a_dead_letter_when_its_sender_asked_for_it(
    stocked: Host, end: Callable[[Host], None], reason: int, killed: bool
) -> None:
    host = stocked
    own = host.queue("own", transactional=True)
    post_in_transaction(
        host,
        {"body": b"gone", "time_to_be_received_s": 60},
        {"body": b"kept", **KEPT},
        {"body": b"in a queue of its own", **KEPT, "application_deadletter_queue": own.pathname},
    )
    end(host)
    if killed:
        host.kill()
    _, plain, transactional = system_queues(host)
    assert [host.contents(each) for each in (plain, transactional)] == [[], [b"kept"]]
    assert host.contents(host.find("own")) == [b"in a queue of its own"]
    for queue in (transactional, host.find("own")):
        (entry,) = queue.positions
        assert host.manager.mailbox.load(queue, entry.lookup_id).local.dead_letter_class == reason
    assert end is delete or not len(host.find("tx").positions)
    host.advance(1_000)
    assert host.contents(host.find("own")) == [b"in a queue of its own"], "its time is behind it"


@ENDS
@pytest.mark.parametrize("recoverable", [True, False], ids=["recoverable", "express"])
def test_without_a_transaction_a_message_was_delivered_when_it_reached_its_queue(
    stocked: Host, end: Callable[[Host], None], reason: int, recoverable: bool
) -> None:
    host = stocked
    guarantee = DeliveryGuarantee.RECOVERABLE if recoverable else DeliveryGuarantee.EXPRESS
    post(host, body=b"delivered", delivery_guarantee=guarantee, **KEPT)
    end(host)
    assert [host.contents(each) for each in system_queues(host)] == [[], [], []]
    assert host.manager.core.total_bytes == 0


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "given back"])
def test_what_was_purged_while_it_was_held_is_a_dead_letter_too(stocked: Host, kept: bool) -> None:
    host = stocked
    post_in_transaction(host, {"body": b"held", **KEPT})
    queue = host.find("tx")
    reader = host.reader(queue)
    held = position_of(reader.begin())
    host.manager.queues.purge(queue)
    reader.end(held, keep=kept)
    _, _, transactional = system_queues(host)
    (entry,) = transactional.positions
    letter = host.manager.mailbox.load(transactional, entry.lookup_id)
    assert (letter.packet.body, letter.local.dead_letter_class) == (b"held", MessageClass.NACK_Q_PURGED)


def test_what_expires_while_it_is_sent_is_a_dead_letter_with_the_commit(stocked: Host) -> None:
    host = stocked
    transaction = host.transactions.create()
    post(host, "tx", body=b"slow", transaction=transaction, **KEPT)
    host.advance(61)
    _, _, transactional = system_queues(host)
    assert host.contents(transactional) == []
    host.transactions.commit(transaction.identifier)
    (entry,) = transactional.positions
    letter = host.manager.mailbox.load(transactional, entry.lookup_id)
    assert (letter.packet.body, letter.local.dead_letter_class) == (
        b"slow",
        MessageClass.NACK_RECEIVE_TIMEOUT,
    )


def test_a_full_dead_letter_queue_takes_no_more(stocked: Host) -> None:
    host = stocked
    host.manager.core.record.journal_quota_kb = 1
    post_in_transaction(host, *({"body": bytes(400), **KEPT} for _ in range(3)))
    host.advance(61)
    assert not len(host.find("tx").positions)
    _, _, transactional = system_queues(host)
    assert len(transactional.positions) == 1
    assert host.manager.core.total_bytes == transactional.total_bytes <= 1024


def test_a_message_of_somebody_else_that_nobody_read_is_not_ours_to_keep(stocked: Host) -> None:
    host = stocked
    strange = message(b"from afar", transactional=True, time_to_be_received_s=60)
    strange.packet.user.flags |= 0x100
    host.deliver(host.find("tx"), strange)
    host.advance(61)
    assert not len(host.find("tx").positions)
    assert [host.contents(each) for each in system_queues(host)] == [[], [], []]


def test_a_message_that_was_held_when_its_time_ran_out(stocked: Host) -> None:
    """It is a dead letter when its reader gives it back."""
    host = stocked
    _, _, transactional = system_queues(host)
    transaction = host.transactions.create()
    wanted = {"time_to_be_received_s": 60, "negative_journaling_requested": True}
    post(host, "tx", body=b"late", transaction=transaction, **wanted)
    host.transactions.commit(transaction.identifier)
    taking = host.transactions.create()
    host.reader(host.find("tx")).receive(transaction=taking)
    host.advance(61)
    assert host.contents(transactional) == []
    host.transactions.abort(taking.identifier)
    assert host.contents(transactional) == [b"late"]
    assert not len(host.find("tx").positions)


def test_a_message_whose_time_runs_out_before_the_commit_that_sends_it(stocked: Host) -> None:
    """Inside the commit there is no room for a second record: it is moved as it is."""
    host = stocked
    transaction = host.transactions.create()
    wanted = {"time_to_be_received_s": 60, "negative_journaling_requested": True}
    post(host, "tx", body=b"late", transaction=transaction, **wanted)
    host.advance(61)
    host.transactions.commit(transaction.identifier)
    host.kill()
    assert host.contents(system_queues(host)[2]) == [b"late"]
    assert not len(host.find("tx").positions)


@pytest.mark.spec("MQMQ-2.2.19.2-m", "MQMQ-6-c")
def test_a_failed_message_is_a_dead_letter_of_its_kind_when_its_sender_asked_for_it(host: Host) -> None:
    core = host.manager.core
    assert core.dead_letter_queue is not None
    assert core.transactional_dead_letter_queue is not None
    host.queue()
    host.queue("tx", transactional=True)
    refused(host, "tx", body=b"dropped")
    refused(host, "tx", body=b"plain", negative_journaling_requested=True)
    transaction = host.transactions.create()
    refused(host, body=b"transactional", negative_journaling_requested=True, transaction=transaction)
    assert host.contents(core.dead_letter_queue) == [b"plain"]
    assert host.contents(core.transactional_dead_letter_queue) == [b"transactional"]


# --- transactions on the wire ------------------------------------------------------------------------------


@pytest.mark.spec("MQMQ-2.2.20.5-g", "DMPR-3.1.1.12-at")
def test_messages_of_one_transaction_share_a_number_and_others_have_another(host: Host) -> None:
    host.queue("tx", transactional=True)
    numbers = []
    for _ in range(2):
        transaction = host.transactions.create()
        sent = post(host, "tx", transaction=transaction) + post(host, "tx", transaction=transaction)
        headers = [copy.packet.transaction for copy in sent]
        assert all(header is not None for header in headers)
        shared = {header.transaction_id for header in headers if header is not None}
        assert len(shared) == 1
        numbers += shared
        host.transactions.commit(transaction.identifier)
    assert len(set(numbers)) == 2
    assert 0 not in numbers
    host.transactions._number = (1 << 20) - 1  # the twenty bits are used up
    assert host.transactions.create().number == 1
    known = set(host.transactions.collection)
    arriving = host.transactions.collection[next(iter(known))]
    foreign = post(host, "tx", transaction=arriving)[0].packet
    assert foreign.transaction is not None
    assert set(host.transactions.collection) == known, "a number on the wire names no transaction here"


@pytest.mark.spec("MQMQ-2.2.19.2-k", "DMPR-3.1.1.12-m")
def test_recoverable_messages_survive_and_express_ones_do_not(host: Host) -> None:
    host.queue()
    post(host, body=b"express")
    post(host, body=b"recoverable", delivery_guarantee=DeliveryGuarantee.RECOVERABLE)
    host.kill()
    assert host.contents(host.find()) == [b"recoverable"]


def test_transactions_used_wrongly_have_their_own_errors(host: Host) -> None:
    host.queue()
    with pytest.raises(TransactionUsageError) as refusal:
        post(host, transaction=host.transactions.create())
    assert refusal.value.code == 0xC00E0050

"""Hypothesis strategies for messages, and for packets that are written the way ours are."""

from __future__ import annotations

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from msmq.manager.messages.message import (
    AcknowledgementsRequested,
    DeliveryGuarantee,
    Message,
    SenderIdentifierType,
)
from msmq.wire.algorithms import EncryptionAlgorithm, HashAlgorithm, PrivacyLevel
from msmq.wire.guid import guid_text
from msmq.wire.headers import NULL_GUID, PrivateQueueFormatName, UserHeader
from msmq.wire.identifiers import MessageIdentifier, TxSequenceID
from tests.wire.builders import (
    DESTINATION,
    OTHER,
    QUEUE,
    SOURCE,
    guids,
    message_parts,
    real_guids,
    sids,
    texts,
    u32s,
    u64s,
)


def private(host: bytes, number: int) -> str:
    return f"PRIVATE={guid_text(host)}\\{number:08X}"


hosts = st.sampled_from([SOURCE, DESTINATION, OTHER, QUEUE]) | real_guids
privates = st.builds(private, hosts, u32s)
publics = guids.map(lambda guid: f"PUBLIC={guid_text(guid)}")
directs = texts().map(lambda text: f"DIRECT={text}")
lists = st.lists(
    st.one_of(privates, publics, directs, guids.map(lambda guid: f"DL={guid_text(guid)}")), max_size=4
).map(tuple)
blobs = st.binary(max_size=40)


def known(enumeration: Any) -> st.SearchStrategy[int]:
    """A member, or a number that is none."""
    return st.sampled_from(list(enumeration)) | u32s


@st.composite
def single_names(draw: st.DrawFn) -> dict[str, Any]:
    admin = draw(st.just("") | privates | publics | directs)
    kind = draw(st.sampled_from(["private", "public", "direct", "none"]))
    host = draw(hosts)
    return {
        "destination_queue_format_name": {
            "private": private(host, draw(u32s)),
            "public": draw(publics),
            "direct": draw(directs),
            "none": "",
        }[kind],
        "destination_queue_manager_identifier": host if kind in ("private", "public") else NULL_GUID,
        "administration_queue_format_name": admin,
        "response_queue_format_name": draw(st.just("") | st.just(admin) | privates | publics | directs),
    }


@st.composite
def securities(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(SenderIdentifierType))
    level = draw(known(PrivacyLevel))
    return {
        "sender_identifier_type": kind,
        "sender_identifier": draw((st.just(b""), sids(), guids)[kind]),
        "sender_certificate": draw(blobs),
        "signature": draw(blobs.filter(bool)),
        "privacy_level": level,
        "symmetric_key": draw(blobs) if level else b"",
        "authentication_provider_type": draw(u32s),
        "authentication_provider_name": draw(texts()),
    }


transactions = st.fixed_dictionaries(
    {
        "priority": st.just(0),
        "delivery_guarantee": st.just(DeliveryGuarantee.RECOVERABLE),
        "transaction_identifier": st.integers(0, 0xFFFFF),
        "transactional_message_sequence_identifier": u64s.map(TxSequenceID.from_number),
        "transaction_sequence_number": st.integers(1, 0xFFFFFFFF),
        "transaction_previous_sequence_number": st.integers(0, 0xFFFFFFFE),
        "first_in_transaction": st.booleans(),
        "last_in_transaction": st.booleans(),
        "final_ack_required": st.booleans(),
        "connector_queue_manager_identifier": guids,
    }
)
common = st.fixed_dictionaries(
    {
        "body": blobs,
        "body_type": u32s,
        "label": texts(),
        "extension": blobs,
        "application_tag": u32s,
        "correlation_identifier": st.binary(min_size=20, max_size=20),
        "message_class": st.integers(0, 0xFFFF).map(lambda number: number & 0xE1FF),
        "priority": st.integers(0, 7),
        "delivery_guarantee": st.sampled_from(DeliveryGuarantee),
        "time_to_reach_queue_s": u32s,
        "time_to_be_received_s": u32s,
        "acknowledgements_requested": st.integers(0, 15).map(AcknowledgementsRequested),
        "positive_journaling_requested": st.booleans(),
        "negative_journaling_requested": st.booleans(),
        "tracing_requested": st.booleans(),
        "tracing_queue_identifier": st.just(NULL_GUID) | guids,
        "hash_algorithm": known(HashAlgorithm),
        "encryption_algorithm": known(EncryptionAlgorithm),
        "connector_type_identifier": st.just(NULL_GUID) | guids,
        "identifier": st.builds(MessageIdentifier, hosts, u32s),
        "sent_time": u32s,
    }
)
seldom = st.fixed_dictionaries(
    {
        "destination_multi_queue_format_name": lists,
        "administration_multi_queue_format_name": lists,
        "response_multi_queue_format_name": lists,
        "multiple_destination_signature": blobs,
        "soap_header": texts(),
        "soap_body": texts(),
    }
)
nothing: st.SearchStrategy[dict[str, Any]] = st.just({})


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Every attribute that travels, with any value it can travel with."""
    parts = (common, single_names(), securities() | nothing, transactions | nothing, seldom | nothing)
    attributes: dict[str, Any] = {}
    for part in parts:
        attributes |= draw(part)
    return Message(**attributes)


@st.composite
def canonical_parts(draw: st.DrawFn) -> dict[str, Any]:
    """The arguments of a packet that says everything the way ours do, and nothing Message leaves out."""
    parts = draw(message_parts())
    base, user, security, debug = parts["base"], parts["user"], parts["security"], parts["debug"]
    parts["session"] = None
    base.reserved = user.hop_count = 0
    if debug is not None:
        debug.reserved = 0
        assume(base.traced if debug.queue_identifier is None else any(debug.queue_identifier))
    if parts["soap"] is not None:
        parts["soap"].reserved = parts["soap"].reserved1 = 0
        assume(parts["soap"].header or parts["soap"].body)
    if parts["multi_queue"] is not None:
        lists = parts["multi_queue"]
        assume(lists.destination.elements or lists.signature.signature)
    assume(user.connector_type != NULL_GUID)
    assume(parts["transaction"] is None or parts["transaction"].connector_qm_guid != NULL_GUID)
    _make_names_canonical(user)
    if security is None:
        parts["properties"].privacy_level = 0
        return parts
    signed = security.signature or (parts["multi_queue"] and parts["multi_queue"].signature.signature)
    security.body_encrypted = int(bool(security.encryption_key))
    security.default_provider = int(bool(signed) and not security.provider_info)
    items = (security.encryption_key, security.signature, security.sender_cert, security.provider_info)
    security.has_security_data = int(any(items))
    return parts


def _make_names_canonical(user: UserHeader) -> None:
    user.source_queue_manager = SOURCE
    if user.queue_manager_address != NULL_GUID:
        user.queue_manager_address = DESTINATION
    if user.destination_reference == 7:  # which does not say whose numbers these are
        assume(user.admin_reference != 3 and user.response_reference != 3)
    if user.admin_reference == 6:
        assert isinstance(user.admin_queue, PrivateQueueFormatName)
        user.admin_queue = user.admin_queue._replace(source_queue_manager=OTHER)
    if user.response_reference == 6:
        assert isinstance(user.response_queue, PrivateQueueFormatName)
        user.response_queue = user.response_queue._replace(source_queue_manager=QUEUE)
    if user.response_reference == 4:
        assume(user.admin_reference == 6)
        assert isinstance(user.admin_queue, PrivateQueueFormatName)
        assume(user.admin_queue.private_queue_identifier != user.response_queue)
    if user.response_reference == 1:
        assume(user.admin_reference)
    elif user.response_reference:
        same = user.admin_reference == user.response_reference and user.admin_queue == user.response_queue
        assume(not same)

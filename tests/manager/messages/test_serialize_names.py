"""Names of queues in packets."""

from __future__ import annotations

from msmq.manager.messages.message import Message
from msmq.manager.messages.serialize import deserialize, serialize
from msmq.wire.guid import guid_text
from msmq.wire.headers import NULL_GUID


def test_a_number_beside_a_direct_name_keeps_its_host() -> None:
    """A direct name has a null address, and so may the host of a private queue; they are not the same host."""
    nowhere = f"PRIVATE={guid_text(NULL_GUID)}\\00000007"
    message = Message(
        body=b"x",
        destination_queue_format_name="DIRECT=OS:host\\private$\\q",
        administration_queue_format_name=nowhere,
        response_queue_format_name=nowhere.replace("7", "8"),
    )
    again = deserialize(serialize(message))
    assert again.administration_queue_format_name == nowhere
    assert again.response_queue_format_name == nowhere.replace("7", "8")

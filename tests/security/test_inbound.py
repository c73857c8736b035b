"""The judgement of one message, with a directory that answers from a dictionary."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmq.errors import DecodeError
from msmq.manager.access.keys import KEY_BITS, KeyRing
from msmq.manager.messages.message import AuthenticationLevel, Message, SenderIdentifierType
from msmq.manager.messages.serialize import serialize
from msmq.security.inbound import Credentials, Examiner
from msmq.security.policy import CryptoPolicy
from msmq.security.rejections import AuthenticationError, MessageRejectedError
from msmq.security.signatures import sign
from msmq.wire.algorithms import HashAlgorithm, PrivacyLevel
from msmq.wire.headers import USER_SH
from msmq.wire.identifiers import MessageIdentifier
from msmq.wire.message import UserMessage
from msmq.wire.signature import SignatureType, signature_input
from tests.security.correspondent import PEER, SID, Correspondent, lenient, user
from tests.security.samples import private_key

QUEUE = "PRIVATE=11111111-2222-3333-4444-555555555555\\00000001"
RING = KeyRing({provider: private_key(bits) for provider, bits in KEY_BITS.items()})
PUBLIC = RING.public_encryption_key_list()
SIG10, SIG20, SIG30 = AuthenticationLevel.SIG10, AuthenticationLevel.SIG20, AuthenticationLevel.SIG30


class Known:
    """A directory with one user; it counts what it is asked."""

    def __init__(self, certificates: bytes | None = None, keys: bytes | None = None) -> None:
        self.certificates = user().certificates if certificates is None else certificates
        self.keys = keys
        self.asked = 0

    def user_certificates(self, security_id: bytes) -> bytes | None:
        self.asked += 1
        return self.certificates if security_id == SID else None

    def signing_keys(self, queue_manager: bytes) -> bytes | None:
        self.asked += 1
        return self.keys if queue_manager == PEER else None


def message(**attributes: Any) -> UserMessage:
    return Correspondent().message(QUEUE, public_keys=PUBLIC, **attributes)


def examined(
    packet: UserMessage, known: Known | None = None, policy: CryptoPolicy | None = None
) -> Credentials:
    examiner = Examiner(policy or lenient(), RING.decryption_keys())
    return examiner.examine(UserMessage.decode(packet.data), known or Known(), 0)


def test_what_is_found_out() -> None:
    found = examined(message(level=SIG20, privacy=PrivacyLevel.ADVANCED))
    assert (found.signature_type, found.proven, found.encrypted) == (SignatureType.MSMQ_2_0, True, True)
    assert found.packet.body == b"secret"
    found = examined(message())
    assert (found.signature_type, found.proven, found.encrypted) == (None, False, False)


def test_a_signature_for_one_queue_comes_before_that_for_several() -> None:
    """A wrong SecurityData.Signature is wrong, however good the other one is."""
    assert examined(message(level=SIG30)).signature_type is SignatureType.MSMQ_3_0
    both = message(level=SIG20, destination_multi_queue_format_name=(QUEUE,))
    assert both.multi_queue is not None
    assert examined(both).signature_type is SignatureType.MSMQ_2_0
    wrong = message(level=SIG30, signature=b"wrong")
    assert wrong.multi_queue is not None
    assert wrong.multi_queue.signature.signature
    with pytest.raises(AuthenticationError):
        examined(wrong)


@pytest.mark.parametrize("certificates", [b"", b"\xff" * 9], ids=["none", "damaged"])
def test_a_directory_that_says_nothing_good(certificates: bytes) -> None:
    with pytest.raises(AuthenticationError, match="directory"):
        examined(message(level=SIG20), Known(certificates))


@pytest.mark.parametrize("keys", [None, b"", b"\xff" * 9], ids=["none", "empty", "damaged"])
def test_a_queue_manager_without_good_keys(keys: bytes | None) -> None:
    kind = SenderIdentifierType.QUEUE_MANAGER_IDENTIFIER
    with pytest.raises(AuthenticationError, match="directory"):
        examined(message(level=SIG20, sender=PEER, sender_type=kind), Known(keys=keys))


def test_a_level_that_is_none_is_told_by_whether_the_body_is_encrypted() -> None:
    data = bytearray(message(level=SIG20).data)
    packet = UserMessage.decode(bytes(data))
    data[packet.properties_offset + 40] = 2
    with pytest.raises(AuthenticationError, match="2 is no privacy level"):
        examined(UserMessage.decode(bytes(data)))


@pytest.mark.spec("MQQB-3.1.5.8.3-h")
def test_the_encoding_of_signatures_is_fixed_and_can_be_turned_in_one_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RSASSA-PKCS1-v1_5 over the fields as they lie in the packet, least significant byte first."""
    key = private_key(512)
    packet = UserMessage.decode(_PLAIN.data)
    text = signature_input(packet, SignatureType.MSMQ_2_0)
    made = sign(text, key, HashAlgorithm.SHA1)
    assert made.hex() == _SIGNATURE
    padded = pow(int.from_bytes(made, "little"), 65537, key.public_key().public_numbers().n)
    encoded = padded.to_bytes(64, "big")
    digest_info = bytes.fromhex("3021300906052b0e03021a05000414") + hashlib.sha1(text).digest()
    assert encoded == b"\0\1" + b"\xff" * (61 - len(digest_info)) + b"\0" + digest_info
    # Another reading of queue names is one function, for both sides.
    monkeypatch.setattr("msmq.wire.signature.queue_bytes", lambda name: b"another reading")
    assert signature_input(packet, SignatureType.MSMQ_2_0) != text
    assert examined(message(level=SIG20)).signature_type is SignatureType.MSMQ_2_0
    with pytest.raises(AuthenticationError):
        examined(_GOOD)


@given(st.data())
def test_no_damage_raises_anything_else(data: st.DataObject) -> None:
    """Whatever is changed, a message is taken, refused or malformed; and what is taken is what was signed."""
    packet = _GOOD
    damaged = bytearray(packet.data)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = UserMessage.decode(bytes(damaged))
        if not read.user.flags & USER_SH:
            return
        found = examined(read)
    except (DecodeError, MessageRejectedError):
        return
    if found.signature_type is not None:
        assert found.packet.body == b"secret"


_GOOD = message(level=SIG20, privacy=PrivacyLevel.ADVANCED, label="label")
_PLAIN = serialize(
    Message(
        body=b"body",
        label="label",
        application_tag=7,
        destination_queue_format_name=QUEUE,
        response_queue_format_name="DIRECT=OS:host\\private$\\answers",
        identifier=MessageIdentifier(PEER, 1),
    )
)
_SIGNATURE = (
    "8f9a3615c603b81c4a9d088d33ba669a3b614e13d010f560810f1e732d1fae68"
    "68375f44782b24ada8817725d5a42465ae9ce5f42e3f01e5de3594cfa411f396"
)

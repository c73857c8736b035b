"""The transfer syntaxes and how one of them is agreed on (MS-RPCE 2.2.4.12, 2.2.2.14, 3.3.1.5.3).

A client offers contexts, each an interface with one or several transfer syntaxes. Exactly one syntax is chosen for
each. A transfer syntax that begins with `FEATURES_PREFIX` is no syntax: its last eight bytes are a mask of features,
which is answered with those that both sides have.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntFlag
from typing import Final

from msmq.rpc.pdu import ContextAnswer, ContextElement, ContextReason, ContextResult, Syntax
from msmq.wire.guid import guid_from_text

NDR: Final = Syntax(guid_from_text("8a885d04-1ceb-11c9-9fe8-08002b104860"), 2, 0)
NDR64: Final = Syntax(guid_from_text("71710533-beba-4937-8319-b5dbef9ccc36"), 1, 0)
FEATURES_PREFIX: Final = guid_from_text("6cb71c2c-9812-4540-0000-000000000000")[:8]


class BindTimeFeatures(IntFlag):
    """Bits of bind-time feature negotiation (MS-RPCE 2.2.2.14)."""

    SECURITY_CONTEXT_MULTIPLEXING = 0x01
    KEEP_CONNECTION_ON_ORPHAN = 0x02


OUR_FEATURES: Final = (
    BindTimeFeatures.SECURITY_CONTEXT_MULTIPLEXING | BindTimeFeatures.KEEP_CONNECTION_ON_ORPHAN
)


def feature_syntax(features: int) -> Syntax:
    """The pseudo transfer syntax that carries ``features``."""
    return Syntax(FEATURES_PREFIX + features.to_bytes(8, "little"), 1, 0)


def is_feature_offer(element: ContextElement) -> bool:
    return bool(element.transfers) and element.transfers[0].uuid.startswith(FEATURES_PREFIX)


def answer_context(element: ContextElement, knows: Callable[[Syntax], bool]) -> ContextAnswer:
    """Choose a transfer syntax for an offered context: the first one that we know, in the client's order of
    preference."""
    if is_feature_offer(element):
        wanted = int.from_bytes(element.transfers[0].uuid[8:], "little")
        return ContextAnswer(ContextResult.NEGOTIATE_ACK, int(wanted & OUR_FEATURES))
    if not knows(element.abstract):
        return ContextAnswer(ContextResult.PROVIDER_REJECTION, ContextReason.ABSTRACT_SYNTAX_NOT_SUPPORTED)
    for transfer in element.transfers:
        if transfer in (NDR, NDR64):
            return ContextAnswer(ContextResult.ACCEPTANCE, 0, transfer)
    return ContextAnswer(
        ContextResult.PROVIDER_REJECTION, ContextReason.PROPOSED_TRANSFER_SYNTAXES_NOT_SUPPORTED
    )

"""Transfer syntaxes and features."""

from __future__ import annotations

import pytest

from msmq.rpc.pdu import ContextAnswer, ContextElement, ContextReason, ContextResult, Syntax
from msmq.rpc.syntaxes import NDR, NDR64, answer_context, feature_syntax
from msmq.wire.guid import guid_text

KNOWN = Syntax(bytes(16), 1)


def test_the_identifiers() -> None:
    assert (guid_text(NDR.uuid), NDR.major) == ("8A885D04-1CEB-11C9-9FE8-08002B104860", 2)
    assert (guid_text(NDR64.uuid), NDR64.major) == ("71710533-BEBA-4937-8319-B5DBEF9CCC36", 1)
    assert guid_text(feature_syntax(3).uuid) == "6CB71C2C-9812-4540-0300-000000000000"


@pytest.mark.parametrize(
    ("offered", "answer"),
    [
        ((NDR,), ContextAnswer(ContextResult.ACCEPTANCE, 0, NDR)),
        ((NDR64,), ContextAnswer(ContextResult.ACCEPTANCE, 0, NDR64)),
        ((NDR64, NDR), ContextAnswer(ContextResult.ACCEPTANCE, 0, NDR64)),
        ((Syntax(bytes(16), 9), NDR), ContextAnswer(ContextResult.ACCEPTANCE, 0, NDR)),
        ((), ContextAnswer(ContextResult.PROVIDER_REJECTION, 2)),
        ((feature_syntax(1),), ContextAnswer(ContextResult.NEGOTIATE_ACK, 1)),
        ((feature_syntax(0xFC),), ContextAnswer(ContextResult.NEGOTIATE_ACK, 0)),
    ],
    ids=["ndr", "ndr64", "both", "unknown first", "none", "a feature", "features we lack"],
)
def test_one_is_chosen(offered: tuple[Syntax, ...], answer: ContextAnswer) -> None:
    assert answer_context(ContextElement(0, KNOWN, offered), lambda syntax: syntax == KNOWN) == answer


def test_an_unknown_interface() -> None:
    answer = answer_context(ContextElement(0, KNOWN, (NDR,)), lambda _: False)
    assert answer.reason == ContextReason.ABSTRACT_SYNTAX_NOT_SUPPORTED

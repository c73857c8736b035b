"""Runs of members, as one ``struct`` reads and writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from msmq.errors import DecodeError, EncodeError
from msmq.rpc.ndr import Octets, Range, Silent, Unique, u32
from msmq.rpc.ndr_runs import Member, Run, steps_of
from msmq.rpc.ndr_scalars import U8, U16, U64, Decoder
from msmq.wire.ndr import NdrWriter


@dataclass
class Values:
    small: int = 1
    large: int = 2
    checked: int = 3


RUN = Run(("small", "large", "checked"), (U8, U64, Range(u32, 1, 9)))
BYTES = bytes.fromhex("01" + "00" * 7 + "02" + "00" * 7 + "03000000")


@pytest.mark.parametrize("ndr64", [False, True])
def test_members_are_aligned_and_filled_together(ndr64: bool) -> None:
    values = Values(0, 0, 0)
    assert RUN.read_only(BYTES + b"more", values, ndr64) == len(BYTES)
    assert values == Values()
    assert RUN.write_only(values, ndr64) == BYTES


@pytest.mark.parametrize("front", range(9))
def test_a_run_may_begin_anywhere(front: int) -> None:
    writer = NdrWriter()
    writer.raw(bytes(front))
    RUN.write(writer, Values())
    reader = Decoder(writer.getvalue())
    reader.raw(front)
    values = Values(0, 0, 0)
    RUN.read(reader, values)
    assert values == Values()
    assert reader.remaining == 0


@pytest.mark.parametrize("length", range(len(BYTES)))
def test_one_that_is_cut_off(length: int) -> None:
    with pytest.raises(DecodeError):
        RUN.read_only(BYTES[:length], Values(), False)
    with pytest.raises(DecodeError):
        RUN.read(Decoder(BYTES[:length]), Values())


@pytest.mark.parametrize("wrong", [0, 10])
def test_values_that_are_out_of_range(wrong: int) -> None:
    data = BYTES[:-4] + wrong.to_bytes(4, "little")
    with pytest.raises(DecodeError):
        RUN.read_only(data, Values(), False)
    with pytest.raises(DecodeError):
        RUN.read(Decoder(data), Values())
    with pytest.raises(EncodeError):
        RUN.write_only(Values(checked=wrong), False)
    with pytest.raises(EncodeError):
        RUN.write(NdrWriter(), Values(checked=wrong))


def test_what_struct_cannot_write() -> None:
    with pytest.raises(EncodeError):
        RUN.write_only(Values(small=256), False)


def test_a_pointer_ends_a_run_of_parameters_and_none_of_a_structure() -> None:
    members: list[tuple[str, Any]] = [("a", U16), ("b", Unique(Octets())), ("c", U16), ("d", Silent())]
    apart = steps_of(members, apart=True)
    assert [type(step) for step in apart] == [Run, Run, Member]
    together = steps_of(members, apart=False)
    assert [type(step) for step in together] == [Run, Member]
    assert isinstance(together[0], Run)
    assert [name for _, name, _ in together[0].pointers] == ["b"]

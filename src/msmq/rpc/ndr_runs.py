"""Consecutive members of a fixed size, read and written by one ``struct`` (C706 14.3).

A `Run` generates its functions once for each declaration: one assignment fills all of its members, as in
`msmq.wire.declare`. A pointer is a member like any other, of which the run reads the referent id; the pointee is read
when its turn comes. A member that does not fit into a run is a `Member`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msmq.errors import DecodeError, EncodeError
from msmq.rpc.ndr_scalars import Assign, Decoder, NdrType, Scalar, forms
from msmq.wire.ndr import NdrWriter


class Pointer(NdrType):
    """A type that stands in its place as a referent id."""

    def code(self, ndr64: bool) -> str:
        """The ``struct`` code of the referent id."""
        return "Q" if ndr64 else "I"

    def alignment(self, ndr64: bool) -> int:
        return 8 if ndr64 else 4

    def minimum(self, ndr64: bool) -> int:
        return self.alignment(ndr64)

    def follow(self, reader: Decoder, scope: Any, assign: Assign, referent_id: int) -> None:
        """Schedule the reading of the pointee."""
        raise NotImplementedError

    def refer(self, writer: NdrWriter, value: Any, scope: Any) -> int:
        """Schedule the writing of the pointee. Returns its referent id."""
        raise NotImplementedError


_READ = """
def read(reader, scope):
    ndr64, offset, data = reader.ndr64, reader.offset, reader.data
    form = forms[ndr64][offset & 7]
    reader.offset = end = offset + form.size
    if end > len(data):
        raise DecodeError(f"{{form.size}} bytes expected, {{len(data) - offset}} left", offset)
    {targets}= values = form.unpack_from(data, offset)
    for place, objection in read_checks[ndr64]:
        if (wrong := objection(values[place])) is not None:
            raise DecodeError(wrong, end)
"""
_FOLLOW = """
    follow_{name}(reader, scope, partial(setattr, scope, {name!r}), scope.{name})
"""
_READ_ONLY = """
def read_only(stub, scope, ndr64):
    form = forms[ndr64][0]
    size = form.size
    if size > len(stub):
        raise DecodeError(f"{{size}} bytes expected, {{len(stub)}} left", 0)
    {targets}= values = form.unpack_from(stub)
    for place, objection in read_checks[ndr64]:
        if (wrong := objection(values[place])) is not None:
            raise DecodeError(wrong, size)
    return size
"""
_GET = """
def get(scope):
    return ({targets})
"""


class Run:
    """Consecutive members of a fixed size, pointers included."""

    read: Callable[[Decoder, Any], None]
    """Read the members of a structure."""
    read_only: Callable[[bytes, Any, bool], int]
    """Read a stub that holds nothing else. Returns the end of the members."""

    def __init__(
        self, names: Sequence[str], kinds: Sequence[Scalar | Pointer], alignments: Sequence[int] = (1, 1)
    ) -> None:
        """``alignments`` are those of the structure, in NDR and NDR64, if the members are all of it."""
        self._forms = tuple(forms(tuple(kinds), ndr64, alignments[ndr64]) for ndr64 in (False, True))
        self._first = tuple(each[0] for each in self._forms)
        scalars = [(place, kind) for place, kind in enumerate(kinds) if isinstance(kind, Scalar)]
        read_checks, self._write_checks = (
            tuple(
                tuple((place, kind.objection) for place, kind in scalars if kind.doubtful(ndr64, reading))
                for ndr64 in (False, True)
            )
            for reading in (True, False)
        )
        self.pointers = tuple(
            (place, names[place], kind) for place, kind in enumerate(kinds) if isinstance(kind, Pointer)
        )
        namespace: dict[str, Any] = {
            "DecodeError": DecodeError,
            "forms": self._forms,
            "partial": partial,
            "read_checks": read_checks,
            **{f"follow_{name}": kind.follow for _, name, kind in self.pointers},
        }
        source = _READ + "".join(_FOLLOW.format(name=name) for _, name, _ in self.pointers)
        exec(
            (source + _READ_ONLY + _GET).replace("{targets}", "".join(f"scope.{name}, " for name in names))
            .replace("{{", "{").replace("}}", "}"),
            namespace,
        )  # fmt: skip
        self.read, self.read_only, self._get = (namespace[each] for each in ("read", "read_only", "get"))

    def write(self, writer: NdrWriter, scope: Any) -> None:
        values, ndr64 = self._get(scope), writer.ndr64
        for place, objection in self._write_checks[ndr64]:
            if (wrong := objection(values[place])) is not None:
                raise EncodeError(wrong)
        if self.pointers:
            values = [*values]
            for place, _, kind in self.pointers:
                values[place] = kind.refer(writer, values[place], scope)
        writer.values(self._forms[ndr64], values)

    def write_only(self, scope: Any, ndr64: bool) -> bytes:
        """Write a stub that holds nothing else."""
        values = self._get(scope)
        for place, objection in self._write_checks[ndr64]:
            if (wrong := objection(values[place])) is not None:
                raise EncodeError(wrong)
        try:
            return self._first[ndr64].pack(*values)
        except struct.error as error:
            raise EncodeError(f"{values!r} cannot be written: {error}") from error


class Member:
    """A member that does not fit into a run."""

    def __init__(self, name: str, kind: NdrType) -> None:
        self.name, self.kind = name, kind

    def read(self, reader: Decoder, scope: Any) -> None:
        self.kind.read(reader, scope, partial(setattr, scope, self.name))

    def write(self, writer: NdrWriter, scope: Any) -> None:
        self.kind.write(writer, getattr(scope, self.name), scope)


def steps_of(members: Sequence[tuple[str, NdrType]], *, apart: bool) -> tuple[Run | Member, ...]:
    """Divide members into runs and single members. With ``apart``, the pointee of a pointer comes directly behind it
    instead of behind all members."""
    steps: list[Run | Member] = []
    names: list[str] = []
    kinds: list[Scalar | Pointer] = []
    for name, kind in members:
        if isinstance(kind, Scalar | Pointer):
            names.append(name)
            kinds.append(kind)
            if not apart or isinstance(kind, Scalar):
                continue
        if names:
            steps.append(Run(names, kinds))
            names, kinds = [], []
        if not isinstance(kind, Scalar | Pointer):
            steps.append(Member(name, kind))
    if names:
        steps.append(Run(names, kinds))
    return tuple(steps)

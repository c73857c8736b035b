"""The generated code is what the contract gives, and the contract explains itself."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from scripts import proto


@pytest.mark.parametrize("name", ["msmq_pb2.py", "msmq_pb2.pyi"])
def test_the_generated_code_is_up_to_date(name: str, tmp_path: Path) -> None:
    proto.generate(tmp_path)
    assert (proto.TARGET / name).read_text() == (tmp_path / name).read_text(), "run `make proto`"


def test_every_service_method_and_message_of_substance_is_commented() -> None:
    lines = (proto.SOURCE / "msmq.proto").read_text().splitlines()
    silent = [
        line.strip()
        for before, line in pairwise(lines)
        if re.match(r"\s*(rpc|service) ", line) and not before.strip().startswith("//")
    ]
    assert not silent

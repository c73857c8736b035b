"""Generate the message classes of the application channel from its .proto (``make proto``)."""

from __future__ import annotations

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "msmq" / "api"
TARGET = SOURCE / "generated"


def generate(target: Path) -> None:
    """Write the generated modules into ``target``."""
    arguments = [
        "protoc",
        f"-I{SOURCE}",
        f"--python_out={target}",
        f"--pyi_out={target}",
        str(SOURCE / "msmq.proto"),
    ]
    if protoc.main(arguments) != 0:
        sys.exit("protoc failed")


if __name__ == "__main__":
    generate(TARGET)

"""Samba's RPC client, and Samba's own protocol tests, against our server.

Its modules are for the system's Python, so they run as programs of their own; ``scripts/samba.sh`` installs them where
they are missing.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Annotated

import pytest

from msmq.rpc.channel import Limits
from msmq.rpc.epm import EPM, Endpoint
from msmq.rpc.interface import Call, Interface, Operation
from msmq.rpc.mgmt import MGMT, Nothing
from msmq.rpc.ndr import FixedOctets, Parameters, declare, u32
from msmq.rpc.pdu import Syntax
from msmq.rpc.server import ServerConfig
from msmq.wire.guid import guid_from_text
from tests.rpc.support import HOST, PASSWORD, Running, serving_in_a_thread

HERE = Path(__file__).parent
PASSED = (HERE / "samba_protocol.txt").read_text(encoding="utf-8").split()
"""The tests of Samba that our server passes. Those it does not: Kerberos and named pipes, which are not there;
anonymous NTLM, which we refuse; and what becomes of further fragments when one is not believed, where we close
sooner."""
MEANT_PORT = 135


@pytest.fixture(scope="module", autouse=True)
def samba() -> None:
    subprocess.run([HERE.parent.parent / "scripts" / "samba.sh"], check=True, timeout=600)


def python(script: str, *arguments: object, directory: Path) -> str:
    """Run a script with the system's Python; gives what it told."""
    configuration = directory / "smb.conf"
    configuration.write_text("[global]\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "SMB_CONF_PATH": str(configuration),
        "SERVER": HOST,
        "TARGET_HOSTNAME": "localhost",
        "DOMAIN": "WORKGROUP",
        "REALM": "WORKGROUP",
        "USERNAME": "alice",
        "PASSWORD": PASSWORD,
        "IGNORE_RANDOM_PAD": "1",
    }
    command = ["/usr/bin/python3", str(HERE / script), *map(str, arguments)]
    done = subprocess.run(
        command, env=environment, cwd=directory, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("level", "option"),
    [
        ("none", ""),
        ("none", "ndr64"),
        ("connect", "ntlm"),
        ("packet", "ntlm"),
        ("packet", "spnego"),
        ("sign", "ntlm"),
        ("sign", "spnego"),
        ("sign", "ndr64"),
        ("seal", "ntlm"),
        ("seal", "spnego"),
        ("seal", "ndr64"),
    ],
)
def test_a_client_connection(level: str, option: str, tmp_path: Path) -> None:
    with serving_in_a_thread() as running:
        told = python(
            "samba_client.py", running.port, level, PASSWORD, *filter(None, [option]), directory=tmp_path
        )
    assert told.strip() == "ok"


# --- what the protocol tests need beside mgmt: netr_ServerReqChallenge, which takes anything --------------


@declare
class ChallengeReply(Parameters):
    credentials: Annotated[bytes, FixedOctets(8)]
    status: u32


NETLOGON = Interface(
    "netlogon",
    Syntax(guid_from_text("12345678-1234-abcd-ef00-01234567cffb"), 1, 0),
    (Operation(4, "NetrServerReqChallenge", Nothing, ChallengeReply),),
)


async def challenge(call: Call, request: Nothing) -> ChallengeReply:
    return ChallengeReply(bytes(8), 0)


def prepare(running: Running) -> None:
    running.server.register(NETLOGON, {4: challenge})
    running.endpoints.endpoints.clear()
    for interface in (MGMT, EPM, NETLOGON):
        running.endpoints.add(Endpoint(interface.syntax, MEANT_PORT, HOST))


def test_the_protocol_as_samba_tests_it(tmp_path: Path) -> None:
    config = ServerConfig(Limits(max_unknown_stub=0x400000, max_partial=16 << 20), announced_port=MEANT_PORT)
    with serving_in_a_thread(config) as running:
        prepare(running)
        told = python("samba_protocol.py", running.port, *PASSED, directory=tmp_path)
    assert f"Ran {len(PASSED)} tests" in told
    assert len(PASSED) >= 100

"""impacket's RPC client, which we did not write, against our server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from impacket.dcerpc.v5 import epm, mgmt, transport
from impacket.dcerpc.v5.dtypes import ULONG
from impacket.dcerpc.v5.ndr import NDRCALL, NDRUniConformantArray
from impacket.dcerpc.v5.rpcrt import (
    RPC_C_AUTHN_LEVEL_CONNECT,
    RPC_C_AUTHN_LEVEL_NONE,
    RPC_C_AUTHN_LEVEL_PKT_INTEGRITY,
    RPC_C_AUTHN_LEVEL_PKT_PRIVACY,
    DCERPCException,
)
from impacket.uuid import bin_to_uuidtup, uuidtup_to_bin

from msmq.rpc.epm import NOT_REGISTERED
from msmq.rpc.pdu import AuthLevel, Syntax
from msmq.rpc.syntaxes import NDR, NDR64
from msmq.wire.guid import guid_text
from tests.rpc.echo import ECHOES, OTHER
from tests.rpc.support import ALICE, HOST, PASSWORD, Running, eventually_here, serving_in_a_thread

LEVELS = {
    "none": RPC_C_AUTHN_LEVEL_NONE,
    "connect": RPC_C_AUTHN_LEVEL_CONNECT,
    "integrity": RPC_C_AUTHN_LEVEL_PKT_INTEGRITY,
    "privacy": RPC_C_AUTHN_LEVEL_PKT_PRIVACY,
}


class Bytes(NDRUniConformantArray):  # type: ignore[misc]
    item = "c"


class Echo(NDRCALL):  # type: ignore[misc]
    opnum = 0
    structure = (("length", ULONG), ("data", Bytes))


class EchoResponse(NDRCALL):  # type: ignore[misc]
    structure = (("length", ULONG), ("data", Bytes))


def as_uuid(syntax: Syntax) -> Any:
    return uuidtup_to_bin((guid_text(syntax.uuid), f"{syntax.major}.{syntax.minor}"))


opened: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    yield
    while opened:
        opened.pop().disconnect()


def connected(port: int, user: str = "alice", password: str = PASSWORD, level: int = 1) -> Any:
    rpc = transport.DCERPCTransportFactory(f"ncacn_ip_tcp:{HOST}[{port}]")
    rpc.set_credentials(user, password)
    rpc.set_connect_timeout(60)
    dce = rpc.get_dce_rpc()
    dce.set_auth_level(level)
    dce.connect()
    opened.append(dce)
    return dce


def bound(port: int, level: str = "none", transfer: Syntax = NDR, **who: str) -> Any:
    dce = connected(port, level=LEVELS[level], **who)
    dce.bind(as_uuid(ECHOES.syntax), transfer_syntax=bin_to_uuidtup(as_uuid(transfer)))
    return dce


def echo(dce: Any, data: bytes) -> bytes:
    request = Echo(isNDR64=dce.transfer_syntax == as_uuid(NDR64)) if dce.transfer_syntax else Echo()
    request["length"] = len(data)
    request["data"] = [bytes((byte,)) for byte in data]
    answer = dce.request(request, checkError=False)
    assert answer["length"] == len(data)
    return b"".join(answer["data"])


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving_in_a_thread() as running:
        yield running


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_by_ntlm(running: Running, level: str) -> None:
    dce = bound(running.port, level)
    assert echo(dce, b"one") == b"one"
    assert echo(dce, b"two and more") == b"two and more"
    dce.call(1, b"")
    answer = dce.recv()
    expected = "S-1-5-7" if level == "none" else str(ALICE)
    assert expected.encode("utf-16-le") in answer


@pytest.mark.parametrize("level", ["connect", "integrity", "privacy"])
@pytest.mark.parametrize("fragment", [0, 300], ids=["as agreed", "small"])
def test_calls_in_many_fragments(running: Running, level: str, fragment: int) -> None:
    dce = bound(running.port, level)
    if fragment:
        dce.set_max_fragment_size(fragment)
    data = bytes(range(256)) * (5 if fragment else 60)
    assert echo(dce, data) == data


@pytest.mark.parametrize("user", ["alice", "nobody"], ids=["wrong password", "unknown user"])
@pytest.mark.parametrize("level", ["connect", "integrity", "privacy"])
def test_a_wrong_password_opens_nothing(running: Running, level: str, user: str) -> None:
    dce = bound(running.port, level, user=user, password="wrong")
    with pytest.raises(DCERPCException, match="access_denied"):
        echo(dce, b"x")


def test_an_interface_may_ask_for_a_level() -> None:
    with serving_in_a_thread(minimum=AuthLevel.INTEGRITY) as running:
        for level in ("none", "connect"):
            with pytest.raises(DCERPCException, match="access_denied"):
                echo(bound(running.port, level), b"x")
        for level in ("integrity", "privacy"):
            assert echo(bound(running.port, level), b"x") == b"x"


def test_an_unknown_interface_is_refused(running: Running) -> None:
    for syntax in (
        Syntax(bytes(range(16)), 1),
        Syntax(ECHOES.syntax.uuid, 2),
        Syntax(ECHOES.syntax.uuid, 1, 3),
    ):
        with pytest.raises(DCERPCException, match="abstract_syntax_not_supported"):
            connected(running.port).bind(as_uuid(syntax))


def test_an_unknown_operation_is_out_of_range(running: Running) -> None:
    dce = bound(running.port)
    for opnum in (8, 99):
        dce.call(opnum, b"")
        with pytest.raises(DCERPCException, match="nca_s_op_rng_error"):
            dce.recv()
    assert echo(dce, b"still there") == b"still there"


def test_a_status_of_ours_is_the_status_of_the_fault(running: Running) -> None:
    dce = bound(running.port)
    dce.call(7, b"")
    with pytest.raises(DCERPCException, match="c00e0003"):
        dce.recv()


def test_a_bad_stub_is_a_fault(running: Running) -> None:
    dce = bound(running.port, "integrity")
    dce.call(0, b"\xff\xff\xff\xff")
    with pytest.raises(DCERPCException, match="rpc_x_bad_stub_data"):
        dce.recv()


def test_another_context_on_the_same_connection(running: Running) -> None:
    dce = bound(running.port, "integrity")
    other = dce.alter_ctx(as_uuid(mgmt_syntax()))
    answer = mgmt.his_server_listening(other)
    assert answer["status"] == 0


def mgmt_syntax() -> Syntax:
    from msmq.rpc.mgmt import MGMT

    return MGMT.syntax


@pytest.mark.parametrize("level", LEVELS)
def test_management(running: Running, level: str) -> None:
    dce = connected(running.port, level=LEVELS[level])
    dce.bind(mgmt.MSRPC_UUID_MGMT)
    told = mgmt.hinq_if_ids(dce)
    uuids = {vector["Data"]["Uuid"] for vector in told["if_id_vector"]["if_id"]}
    assert {ECHOES.syntax.uuid, OTHER.syntax.uuid} <= uuids
    assert told["if_id_vector"]["count"] == len(told["if_id_vector"]["if_id"])
    stats = mgmt.hinq_stats(dce)
    assert stats["count"] == 4
    assert stats["statistics"][0] >= 2
    assert mgmt.his_server_listening(dce)["status"] == 0
    with pytest.raises(DCERPCException, match="access_denied"):
        mgmt.hstop_server_listening(dce)


def test_the_endpoint_mapper_lists_what_is_served(running: Running) -> None:
    dce = connected(running.port)
    entries = epm.hept_lookup(None, dce=dce)
    found = {}
    for entry in entries:
        tower = entry["tower"]["Floors"]
        interface = bin_to_uuidtup(tower[0]["InterfaceUUID"] + b"\1\0\0\0")[0]
        found[interface.upper()] = (epm.PrintStringBinding(tower), entry["annotation"].rstrip(b"\0").decode())
    assert found == {
        guid_text(interface.syntax.uuid): (f"ncacn_ip_tcp:{HOST}[{running.port}]", interface.name)
        for interface in (ECHOES, OTHER)
    }


def test_the_endpoint_mapper_finds_the_port(running: Running) -> None:
    dce = connected(running.port)
    binding = epm.hept_map(HOST, as_uuid(ECHOES.syntax), protocol="ncacn_ip_tcp", dce=dce)
    assert binding == f"ncacn_ip_tcp:{HOST}[{running.port}]"
    assert echo(bound(int(binding.partition("[")[2][:-1])), b"found") == b"found"


def test_the_endpoint_mapper_knows_no_pipe_and_no_stranger(running: Running) -> None:
    for interface, protocol in (
        (as_uuid(Syntax(bytes(range(16)), 1)), "ncacn_ip_tcp"),
        (as_uuid(ECHOES.syntax), "ncacn_np"),
    ):
        with pytest.raises(DCERPCException) as refused:
            epm.hept_map(HOST, interface, protocol=protocol, dce=connected(running.port))
        assert refused.value.get_error_code() == NOT_REGISTERED


def test_a_connection_that_goes_leaves_nothing_behind(running: Running) -> None:
    dce = bound(running.port, "integrity")
    dce.call(4, (77).to_bytes(4, "little"))
    dce.recv()
    assert 77 not in running.echoes.run_down
    opened.pop().disconnect()
    eventually_here(lambda: 77 in running.echoes.run_down)

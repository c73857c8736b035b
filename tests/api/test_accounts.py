"""Local accounts by way of the channel."""

from __future__ import annotations

from pathlib import Path

import pytest

from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import AccessDeniedError, InvalidParameterError
from msmq.rpc.accounts import AccountFile
from msmq.rpc.ntlm import nt_hash_of
from tests.api.support import address, calling, daemon

GROUP = "S-1-5-32-544"


async def test_an_account_from_beginning_to_end(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        made = await call("CreateAccount", pb.CreateAccountRequest(name="Alice", groups=[GROUP]))
        file = AccountFile(tmp_path / "data" / "accounts")
        found = file.find("alice")
        assert found is not None
        assert found.nt_hash == nt_hash_of(made.password)
        await call("SetAccountPassword", pb.SetAccountPasswordRequest(name="alice", password="another"))
        found = file.find("alice")
        assert found is not None
        assert found.nt_hash == nt_hash_of("another")
        (listed,) = (await call("ListAccounts", pb.ListAccountsRequest())).accounts
        assert (listed.name, listed.sid, list(listed.groups)) == ("Alice", made.account.sid, [GROUP])
        await call("RemoveAccount", pb.RemoveAccountRequest(name="ALICE"))
        assert file.find("alice") is None
        same = pb.CreateAccountRequest(name="Alice", password="x", sid=made.account.sid)
        again = await call("CreateAccount", same)
        assert (again.account.sid, again.password) == (made.account.sid, "")
        for wrong in (
            pb.CreateAccountRequest(name="alice"),
            pb.CreateAccountRequest(name="a/b"),
            pb.CreateAccountRequest(name="bob", groups=["nobody"]),
            pb.CreateAccountRequest(name="bob", sid=made.account.sid),
            pb.CreateAccountRequest(name="bob", password="x" * 1000),
        ):
            with pytest.raises(InvalidParameterError):
                await call("CreateAccount", wrong)
        for name, request in (
            ("RemoveAccount", pb.RemoveAccountRequest(name="bob")),
            ("SetAccountPassword", pb.SetAccountPasswordRequest(name="bob", password="x")),
            ("SetAccountPassword", pb.SetAccountPasswordRequest(name="alice")),
        ):
            with pytest.raises(InvalidParameterError):
                await call(name, request)


async def test_accounts_are_for_those_who_may_change_permissions(tmp_path: Path) -> None:
    async with daemon(tmp_path) as running, calling(address(running)) as call:
        made = await call("CreateToken", pb.CreateTokenRequest(name="stranger"))
        async with calling(address(running, "127"), made.secret) as stranger:
            for name, request in (
                ("ListAccounts", pb.ListAccountsRequest()),
                ("CreateAccount", pb.CreateAccountRequest(name="eve", groups=[GROUP])),
                ("SetAccountPassword", pb.SetAccountPasswordRequest(name="eve", password="x")),
                ("RemoveAccount", pb.RemoveAccountRequest(name="eve")),
            ):
                with pytest.raises(AccessDeniedError):
                    await stranger(name, request)

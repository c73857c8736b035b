"""Calls about local accounts: `msmq user` uses them to edit the file of accounts."""

from __future__ import annotations

import secrets
from typing import Final

from msmq.api.desk import Desk
from msmq.api.generated import msmq_pb2 as pb
from msmq.errors import DecodeError, EncodeError, InvalidParameterError
from msmq.rpc.accounts import AccountFile, AccountsError, LocalAccount
from msmq.security.access import QueueManagerOperation, Token
from msmq.security.sid import Sid

_LONGEST_PASSWORD: Final = 256
_MOST_GROUPS: Final = 100
_MOST_ACCOUNTS: Final = 10_000


class AccountCalls:
    """The calls about local accounts, for callers who may change permissions of the queue manager."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        file = desk.host.account_file
        self._file = AccountFile(file) if file is not None else None

    def _accounts(self, caller: Token) -> AccountFile:
        self._desk.manager.guard.check_manager(caller, QueueManagerOperation.CHANGE_PERMISSIONS)
        if self._file is None:
            raise InvalidParameterError("This queue manager has no local accounts.")
        return self._file

    async def list_accounts(self, request: pb.ListAccountsRequest, caller: Token) -> pb.ListAccountsReply:
        file = self._accounts(caller)
        try:
            return pb.ListAccountsReply(accounts=map(_described, file.accounts()))
        except AccountsError as error:
            raise InvalidParameterError(str(error)) from error

    async def create_account(self, request: pb.CreateAccountRequest, caller: Token) -> pb.NewAccount:
        file = self._accounts(caller)
        if len(request.groups) > _MOST_GROUPS or len(file.accounts()) >= _MOST_ACCOUNTS:
            raise InvalidParameterError(
                f"There are {_MOST_ACCOUNTS} accounts and {_MOST_GROUPS} groups at most."
            )
        groups, sid = list(map(_sid, request.groups)), _sid(request.sid) if request.sid else None
        made_up = "" if request.password else secrets.token_urlsafe(18)
        _check_password(request.password or made_up)
        try:
            account = file.add(request.name, request.password or made_up, groups, sid)
        except AccountsError as error:
            raise InvalidParameterError(str(error)) from error
        return pb.NewAccount(account=_described(account), password=made_up)

    async def set_account_password(self, request: pb.SetAccountPasswordRequest, caller: Token) -> pb.Done:
        file = self._accounts(caller)
        _check_password(request.password)
        try:
            file.set_password(request.name, request.password)
        except AccountsError as error:
            raise InvalidParameterError(str(error)) from error
        return pb.Done()

    async def remove_account(self, request: pb.RemoveAccountRequest, caller: Token) -> pb.Done:
        file = self._accounts(caller)
        try:
            file.remove(request.name)
        except AccountsError as error:
            raise InvalidParameterError(str(error)) from error
        return pb.Done()


def _check_password(password: str) -> None:
    if not 0 < len(password) <= _LONGEST_PASSWORD:
        raise InvalidParameterError(f"A password has 1 to {_LONGEST_PASSWORD} characters.")


def _sid(text: str) -> Sid:
    try:
        return Sid.parse(text)
    except (DecodeError, EncodeError, ValueError):
        raise InvalidParameterError(f"{text[:80]!r} is no SID, which looks like S-1-5-32-544.") from None


def _described(account: LocalAccount) -> pb.Account:
    return pb.Account(name=account.name, sid=str(account.sid), groups=map(str, account.groups))

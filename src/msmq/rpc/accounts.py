"""Local accounts for hosts without a domain: a file that the operator manages with ``msmq user``.

What is kept, and why not less. NTLM proves a password by a keyed hash of a challenge, and the key is the NT hash of
the password. A server that checks the proof needs that very hash: it cannot be salted the way a login password is,
and whoever has it can log in with it. So it is kept encrypted (AES-256-GCM, a fresh nonce for each account, name and
SID authenticated with it) under a random key in a second file. Two accounts with the same password look different, a
line cannot be moved to another account, and a copy of the account file alone, in a backup or a configuration
repository, opens nothing. Whoever reads both files has the hashes; both are therefore refused unless only their owner
can read them. See ruling R2.

The files are read again when they change. They are written aside, synced and renamed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from msmq.errors import DecodeError, MsmqError
from msmq.rpc.ntlm import Account, nt_hash_of
from msmq.security.access import Token
from msmq.security.sid import Sid

FORMAT: Final = 1
FIRST_RELATIVE_IDENTIFIER: Final = 1001
_KEY_SIZE: Final = 32
_NONCE_SIZE: Final = 12
_NAME: Final = re.compile(r'[^\x00-\x1f"/\\\[\]:;|=,+*?<>@]{1,64}')


class AccountsError(MsmqError):
    """The account file cannot be used, or does not allow the operation."""


@dataclass(frozen=True, slots=True)
class LocalAccount:
    """One line of the file."""

    name: str
    sid: Sid
    groups: tuple[Sid, ...]
    secret: bytes = field(repr=False)
    """Nonce and encrypted NT hash."""


class AccountFile:
    """The accounts of this host; an `msmq.rpc.ntlm.AccountSource`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key_path = path.with_name(path.name + ".key")
        self._stamp: tuple[int, int] | None = None
        self._machine_sid: Sid | None = None
        self._accounts: dict[str, LocalAccount] = {}

    # --- reading ----------------------------------------------------------------------------------------

    def find(self, name: str) -> Account | None:
        """The account of this name in either case, or None. Raises AccountsError if the files cannot be used."""
        self._refresh()
        known = self._accounts.get(name.casefold())
        if known is None:
            return None
        return Account(known.name, self._open(known), Token.authenticated(known.sid, known.groups))

    def accounts(self) -> list[LocalAccount]:
        self._refresh()
        return sorted(self._accounts.values(), key=lambda account: account.name.casefold())

    def _refresh(self) -> None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self._stamp, self._accounts = None, {}
            return
        stamp = (found.st_mtime_ns, found.st_ino)
        if stamp == self._stamp:
            return
        _check_private(self.path)
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise AccountsError(f"{self.path} has format {content['format']}; {FORMAT} is known")
            machine_sid = Sid.parse(content["machine_sid"])
            accounts = {entry["name"].casefold(): _read(entry) for entry in content["accounts"]}
        except (ValueError, KeyError, TypeError, AttributeError, DecodeError) as error:
            raise AccountsError(f"{self.path} cannot be read: {error}") from error
        self._machine_sid, self._accounts, self._stamp = machine_sid, accounts, stamp

    def _open(self, account: LocalAccount) -> bytes:
        _check_private(self.key_path)
        nonce, sealed = account.secret[:_NONCE_SIZE], account.secret[_NONCE_SIZE:]
        try:
            return AESGCM(self.key_path.read_bytes()).decrypt(
                nonce, sealed, _bound_to(account.name, account.sid)
            )
        except (InvalidTag, ValueError) as error:
            raise AccountsError(f"{self.key_path} does not open the account {account.name}") from error

    # --- changing ---------------------------------------------------------------------------------------

    def add(
        self, name: str, password: str, groups: Iterable[Sid] = (), sid: Sid | None = None
    ) -> LocalAccount:
        """Add an account under its former SID, or under a new one of this machine."""
        self._refresh()
        if not _NAME.fullmatch(name) or name != name.strip():
            raise AccountsError(f"{name!r} is no name for an account")
        if name.casefold() in self._accounts:
            raise AccountsError(f"{name} is there already")
        if self._machine_sid is None:
            self._machine_sid = Sid(5, (21, *(secrets.randbits(32) for _ in range(3))))
        machine, others = self._machine_sid, {account.sid for account in self._accounts.values()}
        if sid is None:
            taken = [each.sub_authorities[-1] for each in others if machine.is_parent_of(each)]
            sid = machine.child(max(taken, default=FIRST_RELATIVE_IDENTIFIER - 1) + 1)
        elif sid in others:
            raise AccountsError(f"another account has the SID {sid}")
        account = LocalAccount(name, sid, tuple(groups), self._seal(name, sid, password))
        self._accounts[name.casefold()] = account
        self._write()
        return account

    def set_password(self, name: str, password: str) -> None:
        old = self._existing(name)
        secret = self._seal(old.name, old.sid, password)
        self._accounts[name.casefold()] = LocalAccount(old.name, old.sid, old.groups, secret)
        self._write()

    def remove(self, name: str) -> None:
        self._existing(name)
        del self._accounts[name.casefold()]
        self._write()

    def _existing(self, name: str) -> LocalAccount:
        self._refresh()
        try:
            return self._accounts[name.casefold()]
        except KeyError:
            raise AccountsError(f"{name} is not there") from None

    def _seal(self, name: str, sid: Sid, password: str) -> bytes:
        if not password:
            raise AccountsError("a password may not be empty")
        if not self.key_path.exists():
            _write_private(self.key_path, secrets.token_bytes(_KEY_SIZE))
        _check_private(self.key_path)
        nonce = secrets.token_bytes(_NONCE_SIZE)
        key = AESGCM(self.key_path.read_bytes())
        return nonce + key.encrypt(nonce, nt_hash_of(password), _bound_to(name, sid))

    def _write(self) -> None:
        content = {
            "format": FORMAT,
            "machine_sid": str(self._machine_sid),
            "accounts": [
                {
                    "name": account.name,
                    "sid": str(account.sid),
                    "groups": [str(group) for group in account.groups],
                    "secret": account.secret.hex(),
                }
                for account in self._accounts.values()
            ],
        }
        _write_private(self.path, (json.dumps(content, indent=1) + "\n").encode())
        self._stamp = None


def _read(entry: dict[str, Any]) -> LocalAccount:
    groups = tuple(Sid.parse(group) for group in entry["groups"])
    return LocalAccount(entry["name"], Sid.parse(entry["sid"]), groups, bytes.fromhex(entry["secret"]))


def _bound_to(name: str, sid: Sid) -> bytes:
    return f"{name.casefold()}\0{sid}".encode()


def _check_private(path: Path) -> None:
    try:
        found = path.stat()
    except FileNotFoundError:
        raise AccountsError(f"{path} is missing") from None
    if found.st_mode & 0o077:
        raise AccountsError(f"{path} can be read by others than its owner; chmod 600 it")


def _write_private(path: Path, content: bytes) -> None:
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if sys.platform != "win32" and os.geteuid() == 0:  # the queue manager owns the directory
                owner = path.parent.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

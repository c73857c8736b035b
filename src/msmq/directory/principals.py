"""The users of Kerberos principals: their SIDs and groups, looked up in the directory.

A ticket proves a name. Access checks need SIDs, which are read from the directory with our own rights: the account's
``objectSid`` and its ``tokenGroups``, which the domain controller computes from all memberships, nested ones included
(MS-ADTS 3.1.1.4.5.19). So a new membership counts from the next look-up on, not from the next ticket.

Only accounts of one realm are known: a name of another realm, which a trust may let in, would be mistaken for somebody
else. Look-ups block; their results are kept for a while.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from msmq.directory.connection import CachedConnection
from msmq.directory.filters import condition, conjunction
from msmq.directory.results import DirectoryFailure
from msmq.directory.settings import Settings
from msmq.errors import DecodeError
from msmq.manager.directory import Relation
from msmq.security.access import Token
from msmq.security.sid import Sid

KEEP_S: Final = 300.0
"""How long a token is kept, and so how long a change of groups may go unnoticed."""
MAX_KEPT: Final = 10_000
_ACCOUNT_DISABLED: Final = 0x2
_log = logging.getLogger(__name__)


class DirectoryPrincipals:
    """The accounts of one realm, as a source of tokens for `msmq.rpc.security.Authentication`."""

    def __init__(
        self,
        settings: Settings,
        realm: str,
        keep_s: float = KEEP_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.realm = realm
        self._connection = CachedConnection(settings)
        self._base = ",".join(f"DC={label}" for label in realm.split("."))
        self._keep_s = keep_s
        self._clock = clock
        self._kept: dict[str, tuple[float, Token]] = {}

    def identify(self, principal: str) -> Token | None:
        """The token of ``name@REALM``. None for another realm, for missing or disabled accounts, and for accounts not
        yet known while the directory cannot be asked."""
        name, _, realm = principal.rpartition("@")
        if not name or realm.casefold() != self.realm.casefold():
            return None
        now, key = self._clock(), name.casefold()
        kept = self._kept.get(key)
        if kept is not None and now < kept[0]:
            return kept[1]
        self._kept.pop(key, None)
        try:
            with self._connection.use():
                token = self._look_up(name)
        except (DirectoryFailure, DecodeError) as error:
            _log.warning("the directory does not say who %s is: %s", principal, error)
            return None
        if token is not None:
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            self._kept[key] = (now + self._keep_s, token)
        return token

    def _look_up(self, name: str) -> Token | None:
        found = self._connection.search(
            self._base,
            attributes=("objectSid", "userAccountControl"),
            subtree=True,
            conditions=conjunction(
                (
                    "(objectClass=user)",
                    condition("sAMAccountName", Relation.EQUALS, name.encode()),
                )
            ),
        )
        if len(found) != 1:
            return None
        (account,) = found
        sids, controls = account.get("objectSid"), account.get("userAccountControl")
        if not sids or not controls or int(controls[0]) & _ACCOUNT_DISABLED:
            return None
        # A constructed attribute, given only to a search of the object itself.
        (itself,) = self._connection.search(account.dn, attributes=("tokenGroups",))
        groups = [Sid.decode(value) for value in itself.get("tokenGroups")]
        return Token.authenticated(Sid.decode(sids[0]), groups)

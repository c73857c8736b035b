"""Access lists by name, for ``msmq queue acl`` and ``msmq manager acl``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from msmq.cli.calls import perform

if TYPE_CHECKING:
    import msmq
    from msmq.client import AccessEntry, Security

_QUEUE_SHORT: Final = {
    "receive": "RECEIVE_MESSAGE",
    "peek": "PEEK_MESSAGE",
    "send": "WRITE_MESSAGE",
    "full": "QUEUE_GENERIC_ALL",
}
_MANAGER_SHORT: Final = {"full": "MACHINE_GENERIC_ALL"}

RIGHTS_HELP: Final = (
    "WHO is a SID, a well-known name such as EVERYONE or AUTHENTICATED_USERS, user:NAME or group:NAME for a user or "
    "group of this computer, or token:NAME for whoever has a token of 'msmq token'. RIGHTS are names of MS-MQMQ "
    "2.2.23 and 2.2.24 in any case, with hyphens or underscores, joined by commas: for a queue also receive, peek, "
    "send and full."
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A change of an access list."""

    allow: list[str]
    deny: list[str]
    remove: list[str]
    owner: str
    sddl: str


def wanted(
    ctx: typer.Context,
    allow: Annotated[
        list[str] | None, typer.Option(metavar="WHO=RIGHTS", help="Allow this; may be repeated.")
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option(metavar="WHO=RIGHTS", help="Deny this; may be repeated.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(metavar="WHO", help="Remove what is said about WHO; may be repeated.")
    ] = None,
    owner: Annotated[str, typer.Option(metavar="WHO", help="Make WHO the owner.", show_default=False)] = "",
    sddl: Annotated[str, typer.Option(help="Everything at once, in SDDL.", show_default=False)] = "",
) -> Wanted:
    """The change that the options describe."""
    return Wanted(allow or [], deny or [], remove or [], owner, sddl)


class AccessError(ValueError):
    """An unknown name of a user, group, token or right."""


async def with_tokens(mq: msmq.Connection, *texts: str) -> dict[str, str]:
    """The SIDs of tokens by name, if one of these texts names a token."""
    wanted = any(text.startswith("token:") for text in texts)
    return {token.name: token.sid for token in await mq.tokens()} if wanted else {}


def sid_of(who: str, tokens: Mapping[str, str] | None = None) -> str:
    """The SID of a user, group or token."""
    from msmq.errors import MsmqError
    from msmq.security.sid import WELL_KNOWN, Sid

    if who.startswith("user:"):
        from msmq.api.callers import UNIX_USER
        from msmq.api.processes import uid_of

        try:
            return str(UNIX_USER.child(uid_of(who.removeprefix("user:"))))
        except KeyError:
            raise AccessError(
                f"This computer has no user {who.removeprefix('user:')}; see `getent passwd`."
            ) from None
    if who.startswith("group:"):
        from msmq.api.callers import UNIX_GROUP
        from msmq.api.processes import gid_of

        try:
            return str(UNIX_GROUP.child(gid_of(who.removeprefix("group:"))))
        except KeyError:
            raise AccessError(
                f"This computer has no group {who.removeprefix('group:')}; see `getent group`."
            ) from None
    if who.startswith("token:"):
        name = who.removeprefix("token:")
        if name not in (tokens or {}):
            raise AccessError(f"There is no token {name}; make one with `msmq token create {name}`.")
        return (tokens or {})[name]
    known = WELL_KNOWN.get(who.upper().replace(" ", "_").replace("-", "_"))
    if known is not None:
        return str(known)
    try:
        return str(Sid.parse(who))
    except (MsmqError, ValueError):
        raise AccessError(
            f"{who!r} is nobody: give a SID such as S-1-5-21-1-2-3-1000, a well-known name such as EVERYONE, "
            "user:NAME, group:NAME or token:NAME."
        ) from None


def _masks(manager: bool) -> tuple[Any, dict[str, str]]:
    from msmq.wire.access_masks import QueueAccessMask, QueueManagerAccessMask

    return (QueueManagerAccessMask, _MANAGER_SHORT) if manager else (QueueAccessMask, _QUEUE_SHORT)


def rights_of(text: str, *, manager: bool) -> int:
    """The access mask of a list of rights."""
    masks, short = _masks(manager)
    rights = 0
    for word in text.split(","):
        name = short.get(word.strip().lower(), word.strip().upper().replace("-", "_"))
        if name.startswith("0X") or name.isdecimal():
            rights |= int(name, 0)
        elif name in masks.__members__:
            rights |= int(masks[name])
        else:
            known = ", ".join((*short, *(member.lower().replace("_", "-") for member in masks.__members__)))
            raise AccessError(f"There is no right {word.strip()!r}. These are known: {known}.")
    return rights


def names_of(rights: int, *, manager: bool) -> list[str]:
    """The names of the rights in a mask; all of them are ``full``."""
    masks, short = _masks(manager)
    if rights == int(masks[short["full"]]):
        return ["full"]
    found = [member for member in masks if int(member) & rights == int(member)]
    names = [str(member.name).lower().replace("_", "-") for member in found]
    rest = rights & ~sum({int(member) for member in found})
    return [*names, f"{rest:#x}"] if rest else names


def show(ctx: typer.Context, queue: str | None, as_json: bool) -> None:
    """Print an access list."""
    print_security(perform(ctx, lambda mq: mq.security(queue)), manager=queue is None, as_json=as_json)


def print_security(security: Security, *, manager: bool, as_json: bool) -> None:
    from msmq.cli.output import plain, print_json, print_sheet, print_table

    if as_json:
        entries = [
            {**plain(entry), "right_names": names_of(entry.rights, manager=manager)}
            for entry in security.entries
        ]
        print_json({"owner": security.owner, "entries": entries, "sddl": security.sddl})
        return
    print_sheet([("owner", security.owner), ("SDDL", security.sddl)])
    print_table(
        ("who", "", "rights"),
        [
            (
                f"{entry.name} ({entry.sid})" if entry.name else entry.sid,
                "may" if entry.allow else "may not",
                ", ".join(names_of(entry.rights, manager=manager)),
            )
            for entry in security.entries
        ],
    )


def change(ctx: typer.Context, queue: str | None, wanted: Wanted, as_json: bool) -> None:
    """Change an access list. A new entry replaces the one that allows, or denies, the same trustee."""

    async def action(mq: msmq.Connection) -> Security:
        if wanted.sddl:
            return await mq.set_security(queue, sddl=wanted.sddl)
        named = [*wanted.allow, *wanted.deny, *wanted.remove]
        tokens = await with_tokens(mq, wanted.owner, *named)
        owner = sid_of(wanted.owner, tokens) if wanted.owner else ""
        if not named:
            if not owner:
                raise AccessError("Say what to change: --allow, --deny, --remove, --owner or --sddl.")
            return await mq.set_security(queue, owner=owner)
        entries = _changed((await mq.security(queue)).entries, tokens, wanted, manager=queue is None)
        return await mq.set_security(queue, owner=owner, entries=entries)

    print_security(perform(ctx, action), manager=queue is None, as_json=as_json)


def _changed(
    entries: tuple[AccessEntry, ...], tokens: Mapping[str, str], wanted: Wanted, *, manager: bool
) -> list[AccessEntry]:
    from msmq.client import AccessEntry

    gone = {sid_of(who, tokens) for who in wanted.remove}
    kept = [entry for entry in entries if entry.sid not in gone]
    for text, allowing in [
        *((text, True) for text in wanted.allow),
        *((text, False) for text in wanted.deny),
    ]:
        who, separator, rights = text.partition("=")
        if not separator:
            raise AccessError(
                f"{text!r} does not say which rights: write WHO=RIGHTS, for example EVERYONE=send."
            )
        sid = sid_of(who, tokens)
        kept = [entry for entry in kept if (entry.sid, entry.allow) != (sid, allowing)]
        kept.append(AccessEntry(sid, rights_of(rights, manager=manager), allowing))
    return sorted(kept, key=lambda entry: entry.allow)  # denials come first, or they have no effect

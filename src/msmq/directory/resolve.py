"""Resolve Queue Alias and Resolve Distribution List (MS-MQDSSM 3.1.6.8, 3.1.6.9)."""

from __future__ import annotations

from typing import Final

from msmq.directory import values
from msmq.directory.objects import Objects
from msmq.directory.results import DirectoryFailure, generic
from msmq.manager.directory import DirectoryResult
from msmq.wire.guid import guid_text

_FORMAT_NAME: Final = "msMQ-Recipient-FormatName"
_MAX_MEMBERS: Final = 10_000
"""The most members, as many as a message may have destinations."""


class Resolving:
    """The events that resolve aliases and distribution lists."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    def alias(self, path: str) -> str:
        """Resolve Queue Alias: the format name of an alias. Only members of distribution lists are resolved this way,
        since names that applications open are no directory paths."""
        found = self.objects.get(path, b"", [_FORMAT_NAME])[_FORMAT_NAME]
        if not found:
            raise DirectoryFailure(
                DirectoryResult.ATTRIBUTE_NOT_FOUND, f"the alias {path} has no format name"
            )
        return str(values.TEXT.decode(found))

    def distribution_list(self, guid: bytes) -> list[str]:
        """Resolve Distribution List: the format names of all members, including those of nested lists, each once. A
        list that contains itself, directly or not, adds nothing."""
        names: dict[str, None] = {}
        self._expand(guid, names, set())
        return list(names)

    def _expand(self, guid: bytes, names: dict[str, None], seen: set[bytes]) -> None:
        seen.add(guid)
        members = values.TEXTS.decode(self.objects.get("", guid, ["member"])["member"])
        for member in members:
            found = self.objects.get(member, b"", ["objectClass", "objectGUID"])
            classes = {name.decode(errors="replace").lower() for name in found["objectClass"]}
            identifier = found["objectGUID"][0]
            if "msmqqueue" in classes:
                names[f"PUBLIC={guid_text(identifier)}"] = None
            elif "msmq-custom-recipient" in classes:
                names[self._member_alias(member)] = None
            elif "group" in classes:
                if identifier not in seen:
                    self._expand(identifier, names, seen)
            else:
                raise generic(f"the distribution list has a member that is no queue: {member}")
            if len(names) > _MAX_MEMBERS:
                raise generic(f"the distribution list has more than {_MAX_MEMBERS} members")

    def _member_alias(self, path: str) -> str:
        try:
            return self.alias(path)
        except DirectoryFailure as failure:
            if failure.result is DirectoryResult.DIRECTORY_NOT_CONNECTED:
                raise
            raise generic(failure.reason) from failure

"""mSMQSettings (MS-MQDSSM 3.1.6.1.1.3, 3.1.6.2.1.3, 3.1.6.7.1.9), the objects by which the servers of a site are
found.

A queue manager that is a routing, directory or supporting server has such an object below the server object of its
computer in each of its sites. It repeats some attributes of the queue manager, and is created and deleted with the
roles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msmq.directory import values
from msmq.directory.objects import Objects
from msmq.directory.results import DirectoryFailure, generic
from msmq.directory.schema import SETTINGS_OF_CONFIGURATION
from msmq.manager.directory import DirectoryResult

_NAME: Final = "MSMQ Settings"


class SettingsObjects:
    """The settings objects of queue managers."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    def create(
        self,
        computer: str,
        site: bytes,
        configuration: Mapping[str, Sequence[bytes]],
        *,
        replace_old: bool = False,
    ) -> None:
        """Create a settings object. One that already exists is an error, unless it may be replaced."""
        name = self._site_name(site)
        if name is None:
            return
        places = self.objects.names
        parent = places.server(computer, name)
        attributes = repeated(configuration)
        try:
            self.objects.create(parent, _NAME, "mSMQSettings", attributes)
        except DirectoryFailure as failure:
            if failure.result is DirectoryResult.OBJECT_NOT_FOUND:
                why = f"a routing server needs its server object, and there is no {parent}"
                raise DirectoryFailure(failure.result, why) from failure
            if failure.result is not DirectoryResult.OBJECT_ALREADY_EXISTS or not replace_old:
                raise
            self.objects.delete(places.settings(computer, name))
            self.objects.create(parent, _NAME, "mSMQSettings", attributes)

    def update(self, computer: str, site: bytes, configuration: Mapping[str, Sequence[bytes]]) -> None:
        """Make a settings object agree with the configuration. One that already agrees is not written, since an
        account that may write the configuration need not have rights to it."""
        name = self._site_name(site)
        if name is None:
            return
        path, wanted = self.objects.names.settings(computer, name), repeated(configuration)
        try:
            found = self.objects.get(path, b"", list(wanted))
        except DirectoryFailure as failure:
            if failure.result is not DirectoryResult.OBJECT_NOT_FOUND:
                raise
            self.create(computer, site, configuration)
            return
        differing = {setting: values for setting, values in wanted.items() if list(values) != found[setting]}
        if differing:
            self.objects.set(path, b"", differing)

    def delete(self, computer: str, site: bytes) -> None:
        name = self._site_name(site)
        if name is not None:
            self.objects.delete(self.objects.names.settings(computer, name))

    def _site_name(self, site: bytes) -> str | None:
        """The name of a site, or None if it does not exist."""
        try:
            return str(values.TEXT.decode(self.objects.get("", site, ["cn"])["cn"]))
        except DirectoryFailure as failure:
            if failure.result is DirectoryResult.OBJECT_NOT_FOUND:
                return None
            if failure.result is DirectoryResult.DIRECTORY_NOT_CONNECTED:
                raise
            raise generic(failure.reason) from failure


def repeated(configuration: Mapping[str, Sequence[bytes]]) -> dict[str, Sequence[bytes]]:
    """The known values of a settings object's attributes."""
    return {
        setting: configuration[attribute]
        for setting, attribute in SETTINGS_OF_CONFIGURATION.items()
        if attribute in configuration
    }
